// Every architecture: tiny seeded checkpoints (tests/tools/tiny.py), from a Hugging Face folder and from GGUF, give the
// logits and the greedy tokens of the reference (tests/vectors/models.json), and logitspec gives those of plain
// decoding. Needs the compute library and python3.
#include "base/mem.h"
#include "model/checkpoint_internal.h"
#include "engine/engine.h"
#include "compute/kernels/kernels.h"
#include "base/rng.h"
#include "decode/session_state.h"
#include "tiny.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char missing[600];
static json_t *vectors;
static ls_step *step;
static void (*before_step)(ls_session *s); // NULL: nothing

static void need(void) {
    if (!missing[0]) return;
    print_message("needs:libtorch: %s\n", missing);
    skip();
}

static ls_engine *open_for(int32_t context, const char *device, const char *path, const char *weights,
                           const char *dtype) {
    ls_err err = {0};
    ls_checkpoint *c;
    ls_engine *b = NULL;
    if (ls_checkpoint_open(&c, path, &err)) fail_msg("%s", err.msg);
    if (!context && c->hparams.n_context < 260) context = ls_longest_context(&c->hparams);
    const ls_engine_options o = {
        .device = device, .dtype = dtype, .weights = weights, .threads = 2, .context = context};
    if (ls_engine_open(&b, c, &o, &err)) fail_msg("%s", err.msg);
    ls_checkpoint_close(c);
    return b;
}

// With room for a prompt and 200 tokens: longrope takes its long factors if that is more than the original context.
static ls_engine *open_on(const char *device, const char *path, const char *weights, const char *dtype) {
    return open_for(0, device, path, weights, dtype);
}

static ls_engine *open_engine(const char *path, const char *weights, const char *dtype) {
    return open_on("cpu", path, weights, dtype);
}

static ls_ids ids_of(const json_t *array) {
    ls_ids out = {0};
    for (size_t i = 0; i < json_array_size(array); i++)
        ls_ids_push(&out, (int32_t)json_integer_value(json_array_get(array, i)));
    return out;
}

// How far the logits of the row after ids[0 .. n) are from those wanted; *largest of these. *squares (NULL: nowhere)
// grows by the mean of the squared distances.
static double row_error(ls_engine *b, const ls_ids *prompt, size_t n, const json_t *want, double *largest,
                        double *squares) {
    ls_err err = {0};
    lst_row last;
    float *logits = ls_malloc((size_t)b->n_vocab * sizeof *logits);
    double worst = 0, sum = 0;
    *largest = 0;
    ls_kv_cache *t;
    if (b->kv_cache(b, 0, &t, &err) ||
        t->prefill(t, prompt->p, (int32_t)n, &(lst_sampling){0}, &last, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(t->row_logits(t, -1, logits, &err), LS_OK);
    t->free(t);
    assert_int_equal(json_array_size(want), b->n_vocab);
    for (int i = 0; i < b->n_vocab; i++) {
        const double w = json_number_value(json_array_get(want, (size_t)i));
        worst = fmax(worst, fabs((double)logits[i] - w));
        sum += ((double)logits[i] - w) * ((double)logits[i] - w);
        *largest = fmax(*largest, fabs(w));
    }
    if (squares) *squares += sum / b->n_vocab;
    free(logits);
    return worst;
}

static void check_row(ls_engine *b, const char *what, const ls_ids *prompt, size_t n, const json_t *want) {
    double largest;
    const double worst = row_error(b, prompt, n, want, &largest, NULL);
    if (worst > 1e-4 * fmin(1, largest))
        fail_msg("%s, row %zu: logits differ by %g of %g", what, n - 1, worst, largest);
}

static ls_ids decode_some(ls_engine *b, const ls_ids *prompt, const char *method, int max_rows, int tokens,
                          double temperature) {
    ls_err err = {0};
    ls_session *s;
    ls_ids out = {0};
    ls_str names[128];
    int32_t types[128];
    char text[128][8];
    for (int i = 0; i < 128; i++) {
        snprintf(text[i], sizeof text[i], "t%d", i);
        names[i] = (ls_str){text[i], strlen(text[i])};
        types[i] = 1;
    }
    ls_model m = {.engine = b};
    const ls_vocab_source source = {
        .tokens = names, .n_tokens = 128, .types = types, .pre = "gpt-2", .bos = -1, .eos = -1};
    if (ls_vocab_new(&m.vocab, &source, &err)) fail_msg("%s", err.msg);
    const ls_decode_options o = {.method = method,
                                 .max_rows = max_rows,
                                 .max_tokens = tokens,
                                 .sampling = {.temperature = temperature, .top_p = 1, .seed = 3}};
    if (ls_session_new(&s, &m, &o, &err)) fail_msg("%s", err.msg);
    if (ls_session_begin(s, prompt->p, (int32_t)prompt->n, NULL, NULL, NULL, &err)) fail_msg("%s", err.msg);
    do {
        if (before_step) before_step(s);
        if (ls_session_step(s, step, &err)) fail_msg("%s", err.msg);
    } while (!step->finish);
    ls_ids_add(&out, ls_session_output(s)->p, ls_session_output(s)->n);
    ls_session_free(s);
    ls_vocab_free(m.vocab);
    return out;
}

static ls_ids decode(ls_engine *b, const ls_ids *prompt, const char *method, int max_rows) {
    return decode_some(b, prompt, method, max_rows, 200, 0);
}

static void check_text(const char *what, const ls_ids *got, const ls_ids *want) {
    for (size_t i = 0; i < want->n; i++)
        if (i >= got->n || got->p[i] != want->p[i])
            fail_msg("%s: token %zu is %d, expected %d", what, i, i < got->n ? got->p[i] : -1, want->p[i]);
    assert_int_equal(got->n, want->n);
}

// Windows of Mistral and StarCoder 2 are in config.json alone: llama.cpp has none in these architectures.
static bool has_gguf(const char *name) {
    return strcmp(name, "mistral") != 0 && strcmp(name, "starcoder2-window") != 0;
}

static void each_model_equals_the_reference(void **state) {
    (void)state;
    need();
    const char *name, *row;
    json_t *v, *want;
    json_object_foreach(vectors, name, v) {
        ls_ids prompt = ids_of(json_object_get(v, "prompt")), greedy = ids_of(json_object_get(v, "greedy"));
        for (int gguf = 0; gguf < 1 + has_gguf(name); gguf++) {
            char *path = tiny_path(name, gguf);
            ls_engine *b = open_engine(path, "auto", "f32");
            json_object_foreach(json_object_get(v, "rows"), row, want)
                check_row(b, path, &prompt, strtoul(row, NULL, 10) + 1, want);
            ls_ids plain = decode(b, &prompt, "plain", 1), spec = decode(b, &prompt, "logitspec", 16);
            check_text(path, &plain, &greedy);
            check_text(path, &spec, &plain);
            ls_ids_free(&plain), ls_ids_free(&spec);
            b->close(b);
            free(path);
        }
        ls_ids_free(&prompt), ls_ids_free(&greedy);
    }
}

// The share of a prompt's rows and mixtures in which two engines choose the same experts; 1: it has no mixtures.
static double same_experts(ls_engine *a, ls_engine *b, const ls_ids *prompt) {
    ls_engine *const engines[] = {a, b};
    ls_kv_cache *t[2];
    lst_experts_seen x[2];
    lst_row row;
    int all = 0, same = 0;
    assert_int_equal(a->n_mixtures, b->n_mixtures);
    if (!a->n_mixtures) return 1;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(engines[k]->kv_cache(engines[k], 0, &t[k], NULL), LS_OK);
        assert_int_equal(
            t[k]->prefill(t[k], prompt->p, (int32_t)prompt->n, &(lst_sampling){.top_p = 1}, &row, NULL, NULL, NULL),
            LS_OK);
        assert_int_equal(t[k]->experts(t[k], &x[k], NULL), LS_OK);
        assert_int_equal(x[k].n_rows, prompt->n);
    }
    for (int32_t i = 0; i < x[0].n_rows * x[0].n_layers; i++, all++) {
        uint64_t set[2] = {0, 0}; // tiny models have few experts
        for (int k = 0; k < 2; k++)
            for (int32_t j = 0; j < x[k].n_used; j++) set[k] |= 1ull << x[k].expert[i * x[k].n_used + j];
        same += set[0] == set[1];
    }
    for (int k = 0; k < 2; k++) t[k]->free(t[k]);
    return (double)same / all;
}

// The same on a GPU, which is emulated: its kernels round what they multiply to bf16, so logits are as near as the
// CPU's are in bf16, and speculative decoding equals plain decoding, greedy and sampled.
static void each_model_on_a_gpu(void **state) {
    (void)state;
    need();
    enum { TOKENS = 10 };
    const char *name, *row;
    json_t *v, *want;
    int turn = 0;
    tiny_use_gpu();
    json_object_foreach(vectors, name, v) {
        ls_ids prompt = ids_of(json_object_get(v, "prompt"));
        char *path = tiny_path(name, has_gguf(name));
        ls_engine *b = open_on("cuda", path, "auto", "auto"), *cpu = open_on("cpu", path, "auto", "bf16");
        assert_string_equal(b->device, "cuda");
        double worst = 0, squares = 0, squares_cpu = 0, largest;
        json_object_foreach(json_object_get(v, "rows"), row, want) {
            worst = fmax(worst, row_error(b, &prompt, strtoul(row, NULL, 10) + 1, want, &largest, &squares));
            row_error(cpu, &prompt, strtoul(row, NULL, 10) + 1, want, &largest, &squares_cpu);
        }
        const double ratio = sqrt(squares / squares_cpu); // of the typical errors: the largest are chance
        // of experts that are nearly as good another one may be taken, and the rows that see this row differ by more
        const double experts = same_experts(b, cpu, &prompt);
        assert_true(experts > 0.95);
        if (experts < 1 ? worst > 0.1 * largest : ratio > 1.5 || worst > 0.05 * largest)
            fail_msg("%s: logits differ by %g of %g, typically %.2f times as much as the CPU's in bf16", path, worst,
                     largest, ratio);
        print_message("%s: logits differ by %.4f of %.1f, typically %.2f times as much as the CPU's in bf16\n", name,
                      worst, largest, ratio);
        cpu->close(cpu);
        const bool both = getenv("LOGITSPEC_TEST_WHOLE") != NULL; // else models take turns
        for (int sampled = both ? 0 : turn++ % 2, end = both ? 2 : sampled + 1; sampled < end; sampled++) {
            ls_ids plain = decode_some(b, &prompt, "plain", 1, TOKENS, sampled),
                   spec = decode_some(b, &prompt, "logitspec", 16, TOKENS, sampled);
            check_text(path, &spec, &plain);
            ls_ids_free(&plain), ls_ids_free(&spec);
        }
        b->close(b);
        free(path);
        ls_ids_free(&prompt);
    }
    unsetenv("LOGITSPEC_LSTORCH_CUDA");
}

// However the weights are kept, speculative decoding equals plain decoding.
static void kept_in_fewer_bits(void **state) {
    (void)state;
    need();
    static const char *const kept[] = {"f32", "f16", "bf16", "q8", "q4"};
    static const char *const models[] = {"qwen3", "qwen2_moe", "qwen3_moe"};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        ls_ids prompt = ids_of(json_object_get(json_object_get(vectors, models[k]), "prompt"));
        char *path = tiny_path(models[k], false);
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            for (int integers = 0; integers < 2; integers++) {
                ls_engine *b = open_engine(path, kept[i], integers ? "auto" : "f32");
                ls_ids plain = decode(b, &prompt, "plain", 1), spec = decode(b, &prompt, "logitspec", 16);
                assert_int_equal(plain.n, 200);
                check_text(kept[i], &spec, &plain);
                ls_ids_free(&plain), ls_ids_free(&spec);
                b->close(b);
            }
        free(path);
        ls_ids_free(&prompt);
    }
}

static uint64_t drawn;
static double expected_experts; // of all steps
static int by_rows[LS_MAX_ROWS + 1];

static void predict_anything(ls_session *s) {
    enum { ROWS = 3, MOST = 3 * 64 };
    int32_t experts[ROWS * MOST], tokens[ROWS];
    const int32_t layers = s->e->n_mixtures, used = s->e->n_experts_used;
    assert_non_null(s->routing);
    assert_true(layers > 0 && layers * used <= MOST);
    s->costs = (ls_cost_curve){.expert_ms = pow(10, 3 * ls_uniform_at(9, drawn++) - 3)};
    for (int i = 0; i < LS_COST_SIZES; i++) {
        s->costs.awake[i] = 8 + i;
        s->costs.base_ms[i] = 1 + 0.002 * ls_cost_rows[i];
    }
    for (int i = 0; i < ROWS; i++) tokens[i] = (int32_t)(ls_uniform_at(9, drawn++) * s->e->n_vocab);
    for (int32_t i = 0; i < ROWS * layers; i++)
        for (int32_t j = 0, first = (int32_t)(ls_uniform_at(9, drawn++) * s->e->n_experts); j < used; j++)
            experts[i * used + j] = (first + j) % s->e->n_experts;
    ls_routing_read(s->routing, tokens, ROWS, ROWS, experts);
    if (step->rows) {
        expected_experts += step->expected_experts;
        by_rows[step->rows]++;
    }
}

// Costs and predictions of experts choose the rows of a step, never its tokens. Here they are drawn anew in each step,
// so trees of any size are chosen, and the text is that of plain decoding.
static void whatever_experts_are_predicted(void **state) {
    (void)state;
    static const char *const models[] = {"mixtral",    "olmoe",   "qwen2_moe", "qwen3_moe",
                                         "granitemoe", "gpt_oss", "glm4_moe",  "ernie4_5_moe"};
    int sizes = 0;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        ls_ids prompt = ids_of(json_object_get(json_object_get(vectors, models[k]), "prompt"));
        char *path = tiny_path(models[k], false);
        ls_engine *b = open_engine(path, "auto", "f32");
        const ls_ids plain = decode(b, &prompt, "plain", 1);
        before_step = predict_anything;
        ls_ids spec = decode(b, &prompt, "logitspec", 0);
        before_step = NULL;
        check_text(models[k], &spec, &plain);
        ls_ids_free(&spec);
        free(plain.p);
        b->close(b);
        free(path);
        ls_ids_free(&prompt);
    }
    for (int i = 1; i <= LS_MAX_ROWS; i++) sizes += by_rows[i] > 0;
    assert_true(sizes > 8 && expected_experts > 100);
}

// Measured costs know the experts that their own forwards woke, also those of the first answer and those kept in a
// file.
static void measured_costs_know_experts(void **state) {
    (void)state;
    char dir[] = "/tmp/logitspec-experts-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *old = getenv("XDG_CACHE_HOME") ? ls_strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("XDG_CACHE_HOME", dir, 1);
    for (int mixture = 0; mixture < 2; mixture++) {
        ls_err err = {0};
        char *path = tiny_path(mixture ? "olmoe" : "llama2", false);
        ls_engine *b = open_engine(path, "auto", "f32");
        ls_model m = {.engine = b}, later = m;
        snprintf(m.file, sizeof m.file, "some.gguf");
        snprintf(m.sha256, sizeof m.sha256, "%064d", mixture);
        const double one = b->n_mixtures * b->n_experts_used, all = b->n_mixtures * b->n_experts;
        for (ls_costs_wish wish = LS_COSTS_AT_ONCE; wish <= LS_COSTS_ANEW; wish++) {
            ls_cost_curve z, again;
            ls_costs_noise noise;
            if (ls_costs_get(&z, &m, wish, 2, &noise, NULL, NULL, &err)) fail_msg("%s", err.msg);
            assert_float_equal(z.awake[0], one, 1e-9);
            assert_true(z.expert_ms >= 0 && z.expert_ms <= ls_cost_most_expert_ms(&z));
            for (int i = 1; i < LS_COST_SIZES; i++)
                assert_true(z.awake[i] >= one && z.awake[i] <= fmin(all, one * ls_cost_rows[i]));
            assert_true(mixture ? z.awake[5] > 1.5 * one : !z.expert_ms && !z.awake[5]);
            later = m;
            later.costs = NULL; // another process reads the file
            assert_int_equal(ls_costs_get(&again, &later, LS_COSTS_AT_ONCE, 2, &noise, NULL, NULL, &err), LS_OK);
            for (int i = 0; i < LS_COST_SIZES; i++) assert_float_equal(again.awake[i], z.awake[i], 1e-3);
            assert_float_equal(again.expert_ms, z.expert_ms, 1e-6 + 1e-6 * z.expert_ms);
            free(later.costs);
        }
        free(m.costs);
        b->close(b);
        free(path);
    }
    if (old) setenv("XDG_CACHE_HOME", old, 1);
    else unsetenv("XDG_CACHE_HOME");
    free(old);
    char *remove = ls_format("rm -r '%s'", dir);
    assert_int_equal(system(remove), 0);
    free(remove);
}

// Logits are near the reference's, at most `most` of the largest away, and speculative decoding equals plain decoding.
// Returns how far they are away.
static double check_engine(ls_engine *b, const char *path, const json_t *v, double most) {
    enum { TOKENS = 6 };
    ls_ids prompt = ids_of(json_object_get(v, "prompt"));
    double largest;
    const double error =
        row_error(b, &prompt, 60, json_object_get(json_object_get(v, "rows"), "59"), &largest, NULL) / largest;
    if (!(error <= most))
        fail_msg("%s, %s on %s, %s: logits differ by %g of the largest", path, b->dtype, b->device, b->kernel, error);
    ls_ids plain = decode_some(b, &prompt, "plain", 1, TOKENS, 0),
           spec = decode_some(b, &prompt, "logitspec", 16, TOKENS, 0);
    check_text(path, &spec, &plain);
    ls_ids_free(&plain), ls_ids_free(&spec), ls_ids_free(&prompt);
    return error;
}

// Every family in every format in memory and on every device: logits are as near to the reference as that format's
// steps, and speculative decoding equals plain decoding. The emulated GPU is slow: there each family takes one format,
// and all of them if LOGITSPEC_TEST_WHOLE is set.
static void each_family_in_each_format(void **state) {
    (void)state;
    need();
    static const struct {
        const char *kept;
        double most; // of the largest logit
    } formats[] = {{"bf16", 0.05}, {"f16", 0.05}, {"q8", 0.08}, {"q4", 0.6}};
    enum { N = sizeof formats / sizeof *formats };
    const bool whole = getenv("LOGITSPEC_TEST_WHOLE") != NULL;
    double worst[2][N] = {{0}};
    const char *name;
    json_t *v;
    int turn = 0;
    tiny_use_gpu();
    json_object_foreach(vectors, name, v) {
        char *path = tiny_path(name, false);
        for (int gpu = 0; gpu < 2; gpu++)
            for (int i = 0; i < N; i++) {
                if (gpu && !whole && i != turn % N) continue;
                ls_engine *b = open_on(gpu ? "cuda" : "cpu", path, formats[i].kept, "auto");
                worst[gpu][i] = fmax(worst[gpu][i], check_engine(b, path, v, formats[i].most));
                b->close(b);
            }
        turn++;
        free(path);
    }
    for (int i = 0; i < N; i++)
        print_message("%s: logits differ by at most %.3f of the largest on the CPU, %.3f on a GPU\n", formats[i].kept,
                      worst[0][i], worst[1][i]);
    unsetenv("LOGITSPEC_LSTORCH_CUDA");
}

// Levels of CPU kernels differ in what a matmul reads. On each level that this CPU has, models take arithmetics in
// turn, and all of them if LOGITSPEC_TEST_WHOLE is set.
static void each_arithmetic_on_each_level(void **state) {
    (void)state;
    need();
    static const struct {
        const char *kept, *dtype;
        double most; // of the largest logit
    } ways[] = {{"f32", "f32", 0.002}, {"auto", "bf16", 0.05}, {"q8", "bf16", 0.08}, {"q8", "auto", 0.08}};
    enum { N = sizeof ways / sizeof *ways };
    const bool whole = getenv("LOGITSPEC_TEST_WHOLE") != NULL;
    const char *name, *level;
    json_t *v;
    int turn = 0;
    for (int l = 0; (level = lsk_level_name(l)); l++, turn++) {
        if (!lsk_level(level)) continue;
        double worst = 0;
        setenv("LOGITSPEC_CPU", level, 1);
        json_object_foreach(vectors, name, v) {
            char *path = tiny_path(name, false);
            for (int i = 0; i < N; i++) {
                if (!whole && i != turn % N) continue;
                ls_engine *b = open_engine(path, ways[i].kept, ways[i].dtype);
                worst = fmax(worst, check_engine(b, path, v, ways[i].most));
                b->close(b);
            }
            turn++;
            free(path);
        }
        print_message("level %s: logits differ by at most %.3f of the largest\n", level, worst);
        unsetenv("LOGITSPEC_CPU");
    }
}

static void weights_in_several_files(void **state) {
    (void)state;
    need();
    static const char *const of[][2] = {
        {"sharded", "qwen3"}, {"split-00001-of-00003.gguf", "llama3"}, {"split-00003-of-00003.gguf", "llama3"}};
    for (int i = 0; i < 3; i++) {
        const json_t *v = json_object_get(vectors, of[i][1]);
        ls_ids prompt = ids_of(json_object_get(v, "prompt"));
        char *path = tiny_path(of[i][0], false);
        ls_engine *b = open_engine(path, "auto", "f32");
        check_row(b, path, &prompt, 60, json_object_get(json_object_get(v, "rows"), "59"));
        b->close(b);
        free(path);
        ls_ids_free(&prompt);
    }
    char *part = tiny_path("split-00002-of-00003.gguf", false), *whole = tiny_path("split-00001-of-00003.gguf", false);
    assert_int_equal(unlink(part), 0);
    ls_err err = {0};
    ls_checkpoint *c;
    assert_int_equal(ls_checkpoint_open(&c, whole, &err), LS_E_IO);
    assert_non_null(strstr(err.msg, "split-00002-of-00003.gguf: No such file"));
    free(part), free(whole);
}

static void refused(const char *path, ls_code code, const char *why) {
    ls_err err = {0};
    ls_checkpoint *c = NULL;
    const ls_code got = ls_checkpoint_open(&c, path, &err);
    if (!got) fail_msg("%s is taken", path);
    if (got != code || !strstr(err.msg, why) || !strstr(err.msg, tiny_folder()))
        fail_msg("'%s' (%d), expected '%s'", err.msg, got, why);
    assert_null(c);
}

static void damaged_checkpoints_are_named(void **state) {
    (void)state;
    char *path = tiny_path("llama2", false), *config = ls_format("%s/config.json", path),
         *weights = ls_format("%s/model.safetensors", path), *gone = ls_format("%s.gone", weights);
    const char *const changes[][3] = {
        {"\"llama\"", "\"lamma\"", "model_type 'lamma' is not supported; the nearest is llama, but"},
        {"\"silu\"", "\"relu\"", "activation 'relu'"},
        {"\"hidden_size\"", "\"hidden_sizf\"", "no 'hidden_size'"},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "num_attention_heads"},
        {"\"rope_theta\": 10000.0", "\"rope_theta\": \"10000\"", "'rope_theta' is not a number"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "4 attention heads cannot share 3"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        tiny_rewrite(config, changes[i][0], changes[i][1]);
        ls_err err = {0};
        ls_checkpoint *c = NULL;
        assert_int_not_equal(ls_checkpoint_open(&c, path, &err), LS_OK);
        if (!strstr(err.msg, changes[i][2])) fail_msg("'%s', expected '%s'", err.msg, changes[i][2]);
        tiny_rewrite(config, changes[i][1], changes[i][0]);
    }
    tiny_rewrite(weights, "layers.1.mlp.up_proj", "layers.1.mlp.up_proy");
    refused(path, LS_E_UNSUPPORTED, "the architecture llama has no tensor 'model.layers.1.mlp.up_proy.weight'");
    tiny_rewrite(weights, "layers.1.mlp.up_proy", "layers.1.mlp.up_proj");
    tiny_rewrite(weights, "\"dtype\": \"F32\"", "\"dtype\": \"I32\"");
    refused(path, LS_E_UNSUPPORTED, "has type 'I32'; supported: F32, F16, BF16");
    tiny_rewrite(weights, "\"dtype\": \"I32\"", "\"dtype\": \"F32\"");
    assert_int_equal(rename(weights, gone), 0);
    refused(path, LS_E_IO, "no model.safetensors");
    assert_int_equal(rename(gone, weights), 0);
    assert_int_equal(truncate(weights, 5000), 0);
    refused(path, LS_E_RANGE, "is empty or larger than its file");
    free(path), free(config), free(weights), free(gone);
}

static void write_text(const char *dir, const char *name, const char *text) {
    ls_err err;
    ls_buf b = {0};
    char *path = ls_format("%s/%s", dir, name);
    ls_buf_str(&b, text);
    assert_int_equal(ls_write_file(path, &b, &err), LS_OK);
    ls_buf_free(&b);
    free(path);
}

// What real folders hold besides, and what they leave out.
static void folders_as_they_are_published(void **state) {
    (void)state;
    ls_err err = {0};
    ls_checkpoint *c;
    char *gemma = tiny_path("gemma3", false), *qwen = tiny_path("qwen3", false), *sharded = tiny_path("sharded", false),
         *weights = ls_format("%s/model.safetensors", gemma), *index = ls_format("%s/model.safetensors", qwen);
    // a model that sees: its text part in text_config, most of it by default
    write_text(gemma, "config.json",
               "{\"model_type\":\"gemma3\",\"vision_config\":{},\"text_config\":{\"model_type\":\"gemma3_text\","
               "\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":7,\"head_dim\":32,"
               "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rope_scaling\":{\"factor\":8.0,"
               "\"rope_type\":\"linear\"}}}");
    tiny_rewrite(weights, "\"model.layers.6.mlp.up_proj.weight\": {\"dtype\": \"F32\"",
                 "\"vision_tower.6.mlp.up_proj.weight\": {\"dtype\": \"I32\"");
    assert_int_equal(ls_checkpoint_open(&c, gemma, &err), LS_OK); // (the decoder itself would miss that matrix)
    assert_int_equal(c->hparams.n_context, 131072);
    assert_int_equal(c->hparams.window, 4096);
    assert_true(c->hparams.local[0] && !c->hparams.local[5] && c->hparams.attn_scale == 1 / 16.f);
    assert_true(fabsf(c->hparams.rope_freq[0][0] - 1 / 8.f) < 1e-6f && c->hparams.rope_freq[1][0] == 1);
    ls_checkpoint_close(c);
    tiny_rewrite(index, "model.layers.1.self_attn.k_norm.weight", "model.layers.9.self_attn.k_norm.weight");
    refused(qwen, LS_E_UNSUPPORTED, "has no tensor 'blk.9.attn_k_norm.weight'");
    tiny_rewrite(index, "model.layers.9.self_attn.k_norm.weight\":", "rotary_emb.inv_freq.yers.1.norm.weight\":");
    refused(qwen, LS_E_PARSE, "no tensor 'blk.1.attn_k_norm.weight'");
    write_text(sharded, "model.safetensors.index.json", "{\"weight_map\":{}}");
    refused(sharded, LS_E_PARSE, "names no file");
    write_text(sharded, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"../model.safetensors\"}}");
    refused(sharded, LS_E_PARSE, "must be a plain file name");
    free(gemma), free(qwen), free(sharded), free(weights), free(index);
}

// longrope has one rotation up to the original context, which is 32 tokens here, and another one beyond: each equals
// the reference, and neither the other.
static void the_context_chooses_longropes_factors(void **state) {
    (void)state;
    need();
    json_t *v = json_object_get(vectors, "phi4-long"), *within = json_object_get(json_object_get(v, "short"), "30"),
           *beyond = json_object_get(json_object_get(v, "rows"), "30");
    ls_ids prompt = ids_of(json_object_get(v, "prompt"));
    for (int gguf = 0; gguf < 2; gguf++)
        for (int longer = 0; longer < 2; longer++) {
            char *path = tiny_path("phi4-long", gguf);
            ls_engine *b = open_for(longer ? 33 : 32, "cpu", path, "auto", "f32");
            double largest;
            check_row(b, path, &prompt, 31, longer ? beyond : within);
            assert_true(row_error(b, &prompt, 31, longer ? within : beyond, &largest, NULL) > 0.01);
            b->close(b);
            free(path);
        }
    ls_ids_free(&prompt);
}

// Tensors of a vision part are counted, whatever their shape is; the same tensors are an error in a model without one.
static void vision_tensors_are_skipped(void **state) {
    (void)state;
    static const struct {
        const char *name, *skipped;
        int n;
    } cases[] = {{"qwen2vl", "visual.", 1},
                 {"qwen2_5_vl", "visual.", 2},
                 {"qwen3vl", "visual.", 1},
                 {"gemma3-vision", "multi_modal_projector.", 1},
                 {"mistral3-vision", "vision_tower.", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_err err = {0};
        ls_checkpoint *c;
        char *path = tiny_path(cases[i].name, false), *config = ls_format("%s/config.json", path);
        if (ls_checkpoint_open(&c, path, &err)) fail_msg("%s", err.msg);
        assert_int_equal(c->hparams.n_skipped, cases[i].n);
        assert_string_equal(c->hparams.skipped, cases[i].skipped);
        ls_checkpoint_close(c);
        if (!i) { // without a text_config
            tiny_rewrite(config, "\"vision_config\"", "\"vision_confit\"");
            refused(path, LS_E_UNSUPPORTED, "has no tensor 'visual.patch_embed.proj.weight'");
            tiny_rewrite(config, "\"vision_confit\"", "\"vision_config\"");
        }
        free(path), free(config);
    }
}

// A file that is cut after it was opened is an error, not a signal.
static void a_file_that_is_cut_while_it_is_read(void **state) {
    (void)state;
    ls_err err = {0};
    ls_checkpoint *c;
    char *path = tiny_path("olmo2", true);
    assert_int_equal(ls_checkpoint_open(&c, path, &err), LS_OK);
    assert_int_equal(truncate(path, 100000), 0);
    if (!missing[0]) {
        ls_engine *b = NULL;
        assert_int_equal(ls_engine_open(&b, c, &(ls_engine_options){"cpu", "f32", "auto", .threads = 2}, &err),
                         LS_E_IO);
        assert_non_null(strstr(err.msg, "was truncated while it was open"));
    }
    assert_int_equal(ls_checkpoint_unchanged(c, &err), LS_E_IO);
    ls_checkpoint_close(c);
    free(path);
}

// The costs of a model with a sliding window know what of a context its layers see.
static void costs_know_the_window(void **state) {
    (void)state;
    need();
    static const struct {
        const char *name;
        int32_t window;
        double local;
    } cases[] = {{"gemma3", 12, 6.0 / 7}, {"llama3", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_err err = {0};
        char *path = tiny_path(cases[i].name, false);
        ls_model m = {.engine = open_on("cpu", path, "auto", "auto")};
        ls_cost_curve z;
        ls_costs_noise noise;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
            assert_int_equal(z.window, cases[i].window);
            assert_true(fabs(z.local - cases[i].local) < 1e-9);
            assert_true(fabs(ls_cost_seen(&z, 262) - (262 - 250 * cases[i].local)) < 1e-9);
        }
        m.engine->close(m.engine);
        free(m.costs), free(path);
    }
}

// Two conversations on one model: each goes on as if it were alone. One that took over the other's first tokens has the
// bits of one that read them.
static void kv_caches_live_side_by_side(void **state) {
    (void)state;
    need();
    static const char *const devices[] = {"cpu", "cuda"};
    for (int on = 0; on < 2; on++) {
        enum { N = 40, COMMON = 27 };
        char *path = tiny_path("llama3", true);
        tiny_use_gpu();
        ls_engine *e = open_on(devices[on], path, "auto", "auto");
        ls_ids prompt = ids_of(json_object_get(json_object_get(vectors, "llama3"), "prompt"));
        ls_err err = {0};
        ls_kv_cache *a, *read, *copied;
        lst_row row, want;
        const lst_sampling greedy = {.top_p = 1};
        const int32_t chain[] = {-1, 0, 0, 1}, branch[] = {0, 2}, ids[] = {1, 2, 3, 4};
        float *logits = ls_malloc((size_t)e->n_vocab * sizeof *logits),
              *other = ls_malloc((size_t)e->n_vocab * sizeof *other);
        assert_true(prompt.n >= N);
        assert_int_equal(e->kv_cache(e, 0, &a, &err), LS_OK);
        assert_int_equal(e->kv_cache(e, 0, &read, &err), LS_OK);
        assert_int_equal(e->kv_cache(e, 0, &copied, &err), LS_OK);
        assert_int_equal(a->prefill(a, prompt.p, COMMON - 2, &greedy, &row, NULL, NULL, &err), LS_OK);
        lst_row rows[4]; // a kept branch leaves columns to be moved
        assert_int_equal(a->forward_tree(a, ids, chain, 4, &greedy, rows, &err), LS_OK);
        assert_int_equal(a->keep_path(a, branch, 2, &err), LS_OK);
        const int32_t kept[] = {ids[0], ids[2]};
        assert_int_equal(read->prefill(read, prompt.p, COMMON - 2, &greedy, &row, NULL, NULL, &err), LS_OK);
        assert_int_equal(read->prefill(read, kept, 2, &greedy, &row, NULL, NULL, &err), LS_OK);
        assert_int_equal(copied->prefill(copied, ids, 3, &greedy, &row, NULL, NULL, &err), LS_OK); // to be replaced
        assert_int_equal(copied->copy(copied, a, COMMON, &err), LS_OK);
        assert_int_equal(copied->length(copied), COMMON);
        assert_int_equal(copied->row_top(copied, -1, 1, (int32_t[1]){0}, (float[1]){0}, &err), LS_E_RANGE);
        for (int32_t i = COMMON; i < N; i++) { // by turns, and the first one goes its own way
            assert_int_equal(a->prefill(a, ids + i % 4, 1, &greedy, &row, NULL, NULL, &err), LS_OK);
            assert_int_equal(copied->prefill(copied, prompt.p + i, 1, &greedy, &row, NULL, NULL, &err), LS_OK);
            assert_int_equal(read->prefill(read, prompt.p + i, 1, &greedy, &want, NULL, NULL, &err), LS_OK);
            assert_int_equal(row.chosen, want.chosen);
            assert_int_equal(copied->row_logits(copied, -1, logits, &err), LS_OK);
            assert_int_equal(read->row_logits(read, -1, other, &err), LS_OK);
            assert_memory_equal(logits, other, (size_t)e->n_vocab * sizeof *logits);
        }
        assert_int_equal(copied->copy(copied, a, N + 1, &err), LS_E_RANGE);
        free(logits), free(other), free(path), ls_ids_free(&prompt);
        a->free(a), read->free(read), copied->free(copied);
        e->close(e);
    }
}

// Rows of quantised weights whose groups are no whole blocks are read as f32, and in pieces of any size.
static void padded_rows_of_quantised_weights(void **state) {
    (void)state;
    enum { GROUPS = 16, FROM = 8, TO = 16, N = GROUPS * FROM };
    json_t *all = json_load_file("tests/vectors/quants.json", 0, NULL), *one;
    const char *type;
    int converted = 0;
    json_object_foreach(all, type, one) {
        const char *hex = json_string_value(json_object_get(one, "raw"));
        const json_t *values = json_object_get(one, "values");
        char path[] = "/tmp/logitspec-padded-XXXXXX";
        const size_t n_raw = strlen(hex) / 2;
        unsigned char *raw = ls_malloc(n_raw);
        for (size_t i = 0; i < n_raw; i++) assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &raw[i]), 1);
        const int fd = mkstemp(path);
        assert_int_equal(write(fd, raw, n_raw), n_raw);
        close(fd);
        ls_err err = {0};
        ls_file f;
        assert_int_equal(ls_file_open(&f, path, &err), LS_OK);
        ls_tensor t = {.name = "blk.0.attn_output.weight",
                       .type = (int)json_integer_value(json_object_get(one, "type")),
                       .n_in = N,
                       .n_out = 1};
        t.source = t.type;
        ls_checkpoint c = {.tensors = &t, .n_tensors = 1, .files = &f, .n_files = 1};
        c.hparams =
            (ls_hparams){.arch = ls_archs, .n_heads = GROUPS, .n_kv_heads = GROUPS, .head_dim = FROM, .n_ff = 32};
        const ls_code code = ls_pad_checkpoint(&c, &err);
        assert_true(code == LS_OK || code == LS_E_UNSUPPORTED);
        if (!code) {
            float got[GROUPS * TO];
            assert_int_equal(t.n_bytes, sizeof got);
            for (size_t at = 0; at < sizeof got; at += 100)
                assert_int_equal(ls_checkpoint_read(&c, 0, at, sizeof got - at < 100 ? sizeof got - at : 100,
                                                    (char *)got + at, &err),
                                 LS_OK);
            for (int i = 0; i < GROUPS * TO; i++) {
                const int in = i / TO * FROM + i % TO;
                const double want = i % TO < FROM ? json_number_value(json_array_get(values, (size_t)in)) : 0;
                assert_float_equal((double)got[i], want, 1e-6 * fmax(1, fabs(want)));
            }
            converted++;
        }
        ls_file_close(&f);
        unlink(path);
        free(raw);
    }
    assert_int_equal(converted, 5);
    json_decref(all);
}

// gemma-3-270m, Q4_K_M: the largest logits of transformers on its weights in f32, recorded by `make check-files`, which
// also fetches the file.
static void a_second_real_model(void **state) {
    (void)state;
    need();
    const char *path = getenv("LOGITSPEC_GEMMA");
    if (!path) path = "build/peers/gemma-3-270m-Q4_K_M.gguf";
    if (access(path, R_OK)) {
        print_message("needs:gemma: no %s (make check-files fetches it)\n", path);
        skip();
    }
    json_t *record = json_load_file("tests/files/gemma.json", 0, NULL), *rows = json_object_get(record, "rows");
    ls_ids ids = ids_of(json_array_get(json_object_get(record, "raw"), 0));
    const size_t n_rows = json_array_size(rows);
    ls_engine *e = open_engine(path, "auto", "f32");
    float *logits = ls_malloc((size_t)e->n_vocab * sizeof *logits);
    double worst = 0, largest = 0;
    assert_true(n_rows >= 5 && ids.n > n_rows);
    for (size_t r = 0; r < n_rows; r++) {
        ls_err err = {0};
        ls_kv_cache *t;
        lst_row last;
        size_t k;
        json_t *pair;
        if (e->kv_cache(e, 0, &t, &err) ||
            t->prefill(t, ids.p, (int32_t)(ids.n - n_rows + r + 1), &(lst_sampling){0}, &last, NULL, NULL, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(t->row_logits(t, -1, logits, &err), LS_OK);
        t->free(t);
        json_array_foreach(json_array_get(rows, r), k, pair) {
            const json_int_t id = json_integer_value(json_array_get(pair, 0));
            const double want = json_number_value(json_array_get(pair, 1));
            if (!k) assert_int_equal(last.chosen, id);
            worst = fmax(worst, fabs((double)logits[id] - want));
            largest = fmax(largest, fabs(want));
        }
    }
    print_message("gemma-3-270m: logits differ by %.6f of %.2f\n", worst, largest);
    assert_true(worst < 1e-4 * largest);
    e->close(e);
    free(logits);
    ls_ids_free(&ids);
    json_decref(record);
}

// Each row of the table of architectures is opened as a folder and, except Mistral, as GGUF.
static void every_architecture_has_a_checkpoint(void **state) {
    (void)state;
    const char *name;
    json_t *v;
    for (const ls_arch *a = ls_archs; a->gguf; a++) {
        bool found[2] = {false, false};
        json_object_foreach(vectors, name, v) for (int gguf = 0; gguf < 2; gguf++) {
            ls_err err = {0};
            ls_checkpoint *c;
            char *path = tiny_path(name, gguf);
            if (ls_checkpoint_open(&c, path, &err)) fail_msg("%s", err.msg);
            found[gguf] |= gguf ? !strcmp(c->hparams.arch->gguf, a->gguf) && has_gguf(name) : c->hparams.arch == a;
            ls_checkpoint_close(c);
            free(path);
        }
        if (!found[0]) fail_msg("no tiny folder has the model_type %s", a->hf);
        if (!found[1]) fail_msg("no tiny GGUF file has the architecture %s", a->gguf);
    }
}

// The message for an unknown architecture has the nearest known one and what differs.
static void unknown_architectures_name_the_nearest(void **state) {
    (void)state;
    static const char *const same[][4] = {// a folder, its model_type, another one, the nearest
                                          {"phi3", "\"phi3\"", "\"phx3\"", "phi3"},
                                          {"olmo2", "\"olmo2\"", "\"olmx2\"", "olmo2"},
                                          {"gemma3", "\"gemma3_text\"", "\"gxmma3_text\"", "gemma3_text"},
                                          {"glm4", "\"glm4\"", "\"glx4\"", "glm4"},
                                          {"apertus", "\"apertus\"", "\"xpertus\"", "apertus"},
                                          {"arcee", "\"arcee\"", "\"arxee\"", "arcee"},
                                          {"starcoder2", "\"starcoder2\"", "\"stxrcoder2\"", "starcoder2"},
                                          {"qwen2_5_vl", "\"qwen2_5_vl_text\"", "\"qwen2_5_xl_text\"", "qwen2_5_vl"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *path = tiny_path(same[i][0], false), *config = ls_format("%s/config.json", path),
             *why = ls_format("the nearest is %s, but this model may compute otherwise, although it has the same "
                              "tensors; 'logitspec models list --architectures' lists",
                              same[i][3]);
        tiny_rewrite(config, same[i][1], same[i][2]);
        refused(path, LS_E_UNSUPPORTED, why);
        tiny_rewrite(config, same[i][2], same[i][1]);
        free(path), free(config), free(why);
    }
    static const struct {
        const char *arch, *tensors[16], *why;
    } others[] = {
        {"qwen9moe",
         {"blk.0.attn_norm.weight", "blk.7.attn_norm.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight",
          "blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight", "blk.0.attn_q_norm.weight",
          "blk.0.attn_k_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.0.ffn_up_exps.weight",
          "blk.0.ffn_down_exps.weight", "blk.0.ffn_gate_exps.weight", "blk.0.a.weight", "blk.11.a.weight"},
         "x; the nearest is qwen3moe, but this model has a; '"},
        {"clip", {"v.blk.0.attn_q.weight"}, "x; the file is the part of a model that sees pictures: name the file of"},
        {"eagle3", {"fc.weight"}, "x; the file is a draft head: name it by --draft-head"},
        {"", {NULL}, "x; 'logitspec models list --architectures' lists"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ls_err err = {.code = LS_E_UNSUPPORTED, .msg = "x"};
        ls_tensor_kinds kinds = {0};
        for (int k = 0; k < 16 && others[i].tensors[k]; k++)
            ls_tensor_kinds_add(&kinds, (ls_str){others[i].tensors[k], strlen(others[i].tensors[k])});
        ls_nearest_say(&kinds, (ls_str){others[i].arch, strlen(others[i].arch)}, false, &err);
        if (strncmp(err.msg, others[i].why, strlen(others[i].why)))
            fail_msg("'%s', expected '%s'", err.msg, others[i].why);
        ls_tensor_kinds_free(&kinds);
    }
}

// One line names the key that is wrong.
static void damaged_configurations_are_named(void **state) {
    (void)state;
    static const char *const cases[][4] = {
        {"smollm3", "\"no_rope_layer_interval\": 4", "\"no_rope_layer_interval\": 0",
         "'no_rope_layer_interval' is not"},
        {"smollm3", "no_rope_layers\": [\n  1,", "no_rope_layers\": [\n {},",
         "'no_rope_layers' must have only integers"},
        {"ministral3", "\"rope_parameters\"", "\"rope_parameterz\"", "no 'rope_parameters' or 'rope_scaling'"},
        {"ministral3", "\"factor\": 8.0", "\"factor\": -8 ", "'yarn' has a factor"},
        {"ministral3", "\"beta_fast\": 4.0", "\"beta_fast\": -4 ", "'yarn' has a factor"},
        {"ministral3", "original_max_position_embeddings\": 32", "original_max_position_embeddings\": -2",
         "'yarn' has a factor"},
        {"ministral3", "\"llama_4_scaling_beta\": 0.3", "\"llama_4_scaling_beta\": -3 ", "is out of range"},
        {"yarn", "\"beta_slow\": 1.0", "\"beta_slow\": \"1\"", "'beta_slow' is not a number"},
        {"yarn", "\"yarn\"", "\"yarm\"", "rotary scaling 'yarm' is not supported"},
        {"granite4", "\"num_local_experts\": 0", "\"num_local_experts\": 4", "experts or Mamba layers"},
        {"granite4", "\"attention\"", "\"mamba1234\"", "experts or Mamba layers"},
        {"granite4", "\"shared_intermediate_size\"", "\"shared_intermediate_sizf\"", "no 'shared_intermediate_size'"},
        {"hunyuan", "\"alpha\": 1000.0", "\"alpha\": -100.0", "'alpha' must be a positive number"},
        {"glm4", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.5", "rotary embedding over 0 of"},
        {"exaone4", "\"sliding_window\": 12", "\"sliding_window\": -1", "'sliding_window' is not an integer"},
        {"apertus", "\"xielu\"", "\"xiely\"", "activation 'xiely' is not supported"},
        {"apertus", "\"xielu\"", "\"relu2\"", "the activation does not fit the architecture apertus"},
        {"apertus", "\"rope_scaling\"", "\"rope_scalinf\"", "no 'rope_parameters' or 'rope_scaling'"},
        {"arcee", "\"relu2\"", "\"relu3\"", "activation 'relu3' is not supported"},
        {"olmo3", "\"factor\": 8.0", "\"factor\": 0.0", "'yarn' has a factor"},
        {"glm4_moe", "\"n_group\": 4", "\"n_group\": 5", "3 of 12 experts of 2 of 5 groups are not supported"},
        {"glm4_moe", "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 2",
         "'blk.1.ffn_gate_inp.weight' is of a mixture, but the configuration states a dense layer"},
        {"glm4_moe", "\"topk_group\": 2", "\"topk_group\": 5", "3 of 12 experts of 5 of 4 groups are not supported"},
        {"glm4_moe", "\"num_nextn_predict_layers\": 1", "\"scoring_func\": \"softmax\"    ",
         "'scoring_func' is not supported: only sigmoid is"},
        {"glm4_moe", "\"routed_scaling_factor\": 1.5", "\"routed_scaling_factor\": -15", "the experts' weights is -15"},
        {"glm4_moe", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0",
         "has no tensor 'model.layers.3.eh_proj.weight'"},
        {"ernie4_5_moe", "\"moe_k\": 3", "\"moe_k\": 9", "9 of 8 experts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = tiny_path(cases[i][0], false), *config = ls_format("%s/config.json", path);
        tiny_rewrite(config, cases[i][1], cases[i][2]);
        ls_err err = {0};
        ls_checkpoint *c = NULL;
        const ls_code got = ls_checkpoint_open(&c, path, &err);
        if (!got) fail_msg("%s is taken with %s", path, cases[i][2]);
        if (!strstr(err.msg, cases[i][3]) || strchr(err.msg, '\n'))
            fail_msg("'%s', expected '%s'", err.msg, cases[i][3]);
        tiny_rewrite(config, cases[i][2], cases[i][1]);
        free(path), free(config);
    }
}

static int set_up(void **state) {
    (void)state;
    ls_err err = {0};
    ls_compute_facts facts;
    step = ls_step_new();
    if (ls_compute_look(&facts, &err)) snprintf(missing, sizeof missing, "%s", err.msg);
    const int failed = tiny_make();
    vectors = tiny_vectors();
    return failed;
}

static int tear_down(void **state) {
    (void)state;
    ls_step_free(step);
    return tiny_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_model_equals_the_reference),
        cmocka_unit_test(each_model_on_a_gpu),
        cmocka_unit_test(each_family_in_each_format),
        cmocka_unit_test(each_arithmetic_on_each_level),
        cmocka_unit_test(kept_in_fewer_bits),
        cmocka_unit_test(padded_rows_of_quantised_weights),
        cmocka_unit_test(a_second_real_model),
        cmocka_unit_test(costs_know_the_window),
        cmocka_unit_test(kv_caches_live_side_by_side),
        cmocka_unit_test(weights_in_several_files),
        cmocka_unit_test(whatever_experts_are_predicted),
        cmocka_unit_test(measured_costs_know_experts),
        cmocka_unit_test(every_architecture_has_a_checkpoint),
        cmocka_unit_test(damaged_configurations_are_named),
        cmocka_unit_test(unknown_architectures_name_the_nearest),
        cmocka_unit_test(damaged_checkpoints_are_named),
        cmocka_unit_test(folders_as_they_are_published),
        cmocka_unit_test(vision_tensors_are_skipped),
        cmocka_unit_test(the_context_chooses_longropes_factors),
        cmocka_unit_test(a_file_that_is_cut_while_it_is_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
