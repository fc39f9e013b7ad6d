// Trained heads: tiny seeded checkpoints (tests/tools/heads.py) are read, damaged ones are named, and what they draft
// is what the published forwards give, which that script computes. Needs python3; to run them, the compute library.
#include "drafters.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decode/draft_model.h"
#include "engine/trained.h"
#include "spec/drafter.h"
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

static char folder[64], missing[600];
static json_t *vectors;

static char *path_of(const char *name, const char *file) {
    return ls_format("%s/%s%s%s", folder, name, file ? "/" : "", file ? file : "");
}

static ls_head *open_head(const char *name) {
    ls_err err = {0};
    ls_head *h;
    char *path = path_of(name, NULL);
    if (ls_head_open(&h, path, &err)) fail_msg("%s", err.msg);
    free(path);
    return h;
}

static ls_checkpoint *open_target(void) {
    ls_err err = {0};
    ls_checkpoint *c;
    char *path = path_of("target", NULL);
    if (ls_checkpoint_open(&c, path, &err)) fail_msg("%s", err.msg);
    free(path);
    return c;
}

static void heads_say_what_they_are(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_head_kind kind;
        int32_t n_embd, n_draft, takes[3];
        bool mapped, own_embedding, own_output;
    } cases[] = {{"eagle3", LS_HEAD_EAGLE3, 64, 96, {2, 4, 5}, true, false, true},
                 {"eagle3.gguf", LS_HEAD_EAGLE3, 64, 96, {2, 4, 5}, true, false, true},
                 {"eagle3-own", LS_HEAD_EAGLE3, 96, 128, {1, 4, 7}, false, true, true}, // outputs of layers 0, 3, 6
                 {"eagle3-own.gguf", LS_HEAD_EAGLE3, 96, 128, {1, 4, 7}, false, true, true},
                 {"eagle", LS_HEAD_EAGLE, 64, 128, {9}, false, false, false},
                 {"medusa", LS_HEAD_MEDUSA, 64, 128, {9}, false, false, false},
                 {"medusa2", LS_HEAD_MEDUSA, 64, 128, {9}, false, false, false}};
    ls_checkpoint *target = open_target();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_err err = {0};
        int32_t takes[LS_HEAD_TAKES], n;
        ls_head *h = open_head(cases[i].name);
        assert_int_equal(h->kind, cases[i].kind);
        assert_int_equal(h->hparams.n_embd, cases[i].n_embd);
        assert_int_equal(h->hparams.n_vocab, 128);
        assert_int_equal(h->target_embd, 64);
        assert_int_equal(h->n_draft, cases[i].n_draft);
        assert_int_equal(h->d2t != NULL, cases[i].mapped);
        assert_int_equal(h->own_embedding, cases[i].own_embedding);
        assert_int_equal(h->own_output, cases[i].own_output);
        assert_int_equal(ls_head_fits(h, &target->hparams, takes, &n, &err), LS_OK);
        assert_int_equal(n, cases[i].kind == LS_HEAD_EAGLE3 ? 3 : 1);
        assert_memory_equal(takes, cases[i].takes, (size_t)n * sizeof *takes);
        if (h->kind == LS_HEAD_MEDUSA) {
            const bool first = !strcmp(cases[i].name, "medusa");
            assert_int_equal(h->n_heads, first ? 4 : 3);
            assert_int_equal(h->n_blocks, first ? 1 : 2);
        }
        for (int32_t t = 0; h->d2t && t < h->n_draft; t++) assert_int_equal(h->d2t[t], t * 128 / 96);
        ls_head_close(h);
    }
    ls_checkpoint_close(target);
}

static void refused(const char *name, ls_code code, const char *why) {
    ls_err err = {0};
    ls_head *h = NULL;
    char *path = path_of(name, NULL);
    const ls_code got = ls_head_open(&h, path, &err);
    if (!got) fail_msg("%s is taken, expected '%s'", path, why);
    if (got != code || !strstr(err.msg, why) || !strstr(err.msg, path))
        fail_msg("'%s' (%d), expected '%s'", err.msg, got, why);
    assert_null(h);
    free(path);
}

static void damaged_heads_are_named(void **state) {
    (void)state;
    static const struct {
        const char *head, *file, *old, *new;
        ls_code code;
        const char *why;
    } cases[] = {
        {"eagle3", "model.safetensors", "midlayer.hidden_norm.weight", "midlayer.hidden_norm.wEight", LS_E_PARSE,
         "no tensor 'hidden_norm.weight', which EAGLE-3 needs"},
        {"eagle", "model.safetensors", "layers.0.mlp.up_proj", "layers.1.mlp.up_proj", LS_E_PARSE,
         "no tensor 'mlp.up_proj.weight', which EAGLE needs"},
        {"eagle", "model.safetensors", "\"fc.bias", "\"fc.gain", LS_E_UNSUPPORTED, "EAGLE has no tensor 'fc.gain'"},
        {"eagle3", "model.safetensors", "\"norm.weight", "\"borm.weight", LS_E_PARSE,
         "no tensor 'norm.weight', which EAGLE-3 needs"},
        {"eagle3", "model.safetensors", "midlayer.mlp.up_proj.weight", "midlayer.mlp.up_prod.weight", LS_E_PARSE,
         "no tensor 'mlp.up_proj.weight', which EAGLE-3 needs"},
        {"eagle3", "model.safetensors", "[160, 64]", "[64, 160]", LS_E_RANGE,
         "tensor 'mlp.gate_proj.weight' is 64 x 160, expected 160 x 64"},
        {"eagle3", "model.safetensors", "\"dtype\": \"F32\", \"shape\": [64, 192]",
         "\"dtype\": \"I32\", \"shape\": [64, 192]", LS_E_UNSUPPORTED,
         "tensor 'fc.weight' has type 'I32'; supported: F32, F16, BF16"},
        {"eagle3", "model.safetensors", "\"d2t\"", "\"d2x\"", LS_E_UNSUPPORTED, "tensor 'd2x' has type 'I64'"},
        {"eagle3", "model.safetensors", "\"dtype\": \"BOOL\"", "\"dtype\": \"U8\"  ", LS_E_UNSUPPORTED,
         "'t2d' must be a vector of flags (BOOL); its type is 'U8'"},
        {"eagle3", "config.json", "\"draft_vocab_size\": 96", "\"draft_vocab_size\": 95", LS_E_RANGE,
         "tensor 'lm_head.weight' is 96 x 64, expected 95 x 64"},
        {"eagle3", "config.json", "\"draft_vocab_size\"", "\"craft_vocab_size\"", LS_E_RANGE,
         "tensor 'lm_head.weight' is 96 x 64, expected 128 x 64"},
        {"eagle3", "config.json", "\"vocab_size\": 128, ", "                   ", LS_E_PARSE, "no 'vocab_size'"},
        {"eagle3", "config.json", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2", LS_E_UNSUPPORTED,
         "'num_hidden_layers' is 2; only heads of one layer are supported"},
        {"eagle3", "config.json", "\"hidden_size\": 64", "\"hidden_size\": 32", LS_E_RANGE,
         "tensor 'fc.weight' is 64 x 192, expected 32 x 96"},
        {"eagle3", "config.json", "\"llama\"", "\"lamma\"", LS_E_UNSUPPORTED, "model_type 'lamma' is not supported"},
        {"eagle3-own", "config.json", "[0, 3, 6]", "[0, 6, 3]", LS_E_UNSUPPORTED, "must be in ascending order"},
        {"eagle3-own", "config.json", "[0, 3, 6]", "[0, 3]   ", LS_E_RANGE, "must have 3 numbers"},
        {"eagle", "model.safetensors", "\"fc.weight", "\"fd.weight", LS_E_UNSUPPORTED, "not a supported head"},
        {"medusa", "model.safetensors", "\"2.0.linear.weight", "\"2.2.linear.weight", LS_E_PARSE,
         "no tensor '2.0.linear.weight', which Medusa needs"},
        {"medusa", "model.safetensors", "\"3.1.weight", "\"3.q.weight", LS_E_UNSUPPORTED,
         "Medusa has no tensor '3.q.weight'"},
        {"medusa", "config.json", "\"medusa_num_heads\": 4", "\"medusa_num_heads\": 5", LS_E_RANGE,
         "'medusa_num_heads' is 5, but there are tensors of 4 heads"},
        {"medusa2", "config.json", "\"medusa_num_layers\": 2", "\"medusa_num_layers\": 1", LS_E_PARSE,
         "no tensor '0.1.weight', which Medusa needs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = path_of(cases[i].head, cases[i].file);
        tiny_rewrite(path, cases[i].old, cases[i].new);
        refused(cases[i].head, cases[i].code, cases[i].why);
        tiny_rewrite(path, cases[i].new, cases[i].old);
        ls_head_close(open_head(cases[i].head)); // it was that
        free(path);
    }
}

// d2t gives each drafted token one id of the target, and t2d knows the same ones.
static void a_mapping_that_cannot_be_is_refused(void **state) {
    (void)state;
    ls_err err = {0};
    ls_buf text = {0};
    char *path = path_of("eagle3", "model.safetensors");
    FILE *f = fopen(path, "r");
    assert_int_equal(ls_read_all(&text, f, path, 1 << 24, &err), LS_OK);
    fclose(f);
    unsigned char *t2d = (unsigned char *)text.p + text.n - 128, *d2t = t2d - 8 * 96; // as heads.py writes them
    assert_true(d2t[8 * 95] == 31 && t2d[0] == 1);
    static const struct {
        bool flag;
        int at, value;
        const char *why;
    } cases[] = {
        {false, 8 * 95, 33, "'d2t' maps drafted token 95 outside the 128 tokens, or to an id that is already used"},
        {false, 8 * 95, 30, "'d2t' maps drafted token 95 outside"},
        {false, 7, 128, "'d2t' maps drafted token 0 outside"},
        {true, 0, 0, "'t2d' and 'd2t' contradict each other"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *at = (cases[i].flag ? t2d : d2t) + cases[i].at, old = *at;
        *at = (unsigned char)cases[i].value;
        assert_int_equal(ls_write_file(path, &text, &err), LS_OK);
        refused("eagle3", cases[i].flag ? LS_E_PARSE : LS_E_RANGE, cases[i].why);
        *at = old;
    }
    assert_int_equal(ls_write_file(path, &text, &err), LS_OK);
    ls_head_close(open_head("eagle3"));
    ls_buf_free(&text);
    free(path);
}

static void a_pickle_says_how_to_convert_it(void **state) {
    (void)state;
    static const struct {
        const char *head, *pickle;
    } cases[] = {{"eagle", "pytorch_model.bin"}, {"medusa", "medusa_lm_head.pt"}};
    for (int i = 0; i < 2; i++) {
        char *file = path_of(cases[i].head, "model.safetensors"), *pickle = path_of(cases[i].head, cases[i].pickle),
             *config = path_of(cases[i].head, "config.json"), *gone = ls_format("%s.gone", config);
        assert_int_equal(rename(file, pickle), 0);
        refused(cases[i].head, LS_E_UNSUPPORTED, "the weights are a pickle");
        refused(cases[i].head, LS_E_UNSUPPORTED, cases[i].pickle);
        refused(cases[i].head, LS_E_UNSUPPORTED, "save_file(");
        refused(cases[i].head, LS_E_UNSUPPORTED, "'model.safetensors')\""); // the message is whole
        assert_int_equal(rename(pickle, gone), 0);
        refused(cases[i].head, LS_E_IO, "no model.safetensors");
        assert_int_equal(rename(gone, file), 0);
        assert_int_equal(rename(config, gone), 0);
        refused(cases[i].head, LS_E_IO, "no config.json");
        assert_int_equal(rename(gone, config), 0);
        free(file), free(pickle), free(config), free(gone);
    }
    // the name that Medusa's authors give their file, converted
    char *file = path_of("medusa", "model.safetensors"), *other = path_of("medusa", "medusa_lm_head.safetensors");
    assert_int_equal(rename(file, other), 0);
    ls_head_close(open_head("medusa"));
    assert_int_equal(rename(other, file), 0);
    free(file), free(other);
}

static void a_head_of_another_model_names_both(void **state) {
    (void)state;
    ls_checkpoint *target = open_target();
    static const struct {
        const char *head;
        int32_t n_embd, n_vocab, n_layers;
        const char *why;
    } cases[] = {
        {"eagle3", 128, 128, 8,
         "this EAGLE-3 head is for a model of width 64 with 128 tokens, but the model has width 128 and 128 tokens"},
        {"eagle", 64, 130, 8,
         "this EAGLE head is for a model of width 64 with 128 tokens, but the model has width 64 and 130 tokens"},
        {"medusa", 64, 127, 8, "this Medusa head is for a model of width 64 with 128 tokens"},
        {"eagle3", 64, 128, 6, "needs the inputs of layers 2, 3 and 3 (the first is 0), but the model has 6 layers"},
        {"eagle3-own", 64, 128, 6,
         "needs the inputs of layers 1, 4 and 7 (the first is 0), but the model has 6 layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_err err = {0};
        int32_t takes[LS_HEAD_TAKES], n;
        ls_head *h = open_head(cases[i].head);
        ls_hparams other = target->hparams;
        other.n_embd = cases[i].n_embd;
        other.n_vocab = cases[i].n_vocab;
        other.n_layers = cases[i].n_layers;
        assert_int_equal(ls_head_fits(h, &other, takes, &n, &err), LS_E_RANGE);
        if (!strstr(err.msg, cases[i].why)) fail_msg("'%s', expected '%s'", err.msg, cases[i].why);
        ls_head_close(h);
    }
    ls_checkpoint_close(target);
}

// ---- what they draft

enum { LONGEST = 200, WIDEST = 192 };

static void need(void) {
    if (!missing[0]) return;
    print_message("needs:libtorch: %s\n", missing);
    skip();
}

// A model on the CPU; on the emulated GPU, with heads on the CPU (libtorch here is for CPUs); on it, with heads there.
typedef enum { ON_CPU, BESIDE_GPU, ON_GPU, PLACES } place;

// Chooses the library with the heads.
static void use_torch(place at) {
    static char *usual;
    const char *set = getenv("LOGITSPEC_LSTORCH"), *emulated = getenv("LOGITSPEC_EMULATED");
    if (!usual) usual = set ? ls_strdup(set) : ls_strdup("build/liblstorch.so");
    char *folder_of = emulated ? ls_strdup(emulated) : ls_strdup("build/tests/"), *slash = strrchr(folder_of, '/');
    slash[1] = 0;
    char *path = ls_format("%sliblstorch_emulated_torch.so", folder_of);
    setenv("LOGITSPEC_LSTORCH", at == ON_GPU ? path : usual, 1);
    free(path), free(folder_of);
}

static ls_engine *open_engine(const char *device, const ls_checkpoint *target) {
    ls_err err = {0};
    ls_engine *e = NULL;
    tiny_use_gpu();
    const bool cpu = !strcmp(device, "cpu");
    if (ls_engine_open(
            &e, target,
            &(ls_engine_options){
                .device = device, .dtype = cpu ? "f32" : "auto", .weights = "auto", .threads = 2, .context = LONGEST},
            &err))
        fail_msg("%s", err.msg);
    unsetenv("LOGITSPEC_LSTORCH_CUDA");
    return e;
}

static ls_trained *open_trained(ls_engine *e, const ls_checkpoint *target, const char *name) {
    ls_err err = {0};
    ls_trained *t;
    char *path = path_of(name, NULL);
    if (ls_trained_open(&t, e, target, path, &(ls_engine_options){0}, &err)) fail_msg("%s", err.msg);
    free(path);
    return t;
}

static int32_t *ints_of(const json_t *array) {
    int32_t *out = ls_calloc(json_array_size(array) + 1, sizeof *out);
    for (size_t i = 0; i < json_array_size(array); i++) out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return out;
}

static size_t floats_of(const json_t *array, float *out) {
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);
        if (json_is_array(v)) n += floats_of(v, out + n);
        else out[n++] = (float)json_number_value(v);
    }
    return n;
}

static void equal_to(const char *what, size_t at, const lst_row *row, const json_t *said) {
    const json_t *ids = json_object_get(said, "id"), *p = json_object_get(said, "p");
    assert_int_equal(row->chosen, row->top_id[0]);
    for (size_t i = 0; i < LST_ROW_TOP; i++) {
        const double got = exp((double)(row->top_logit[i] - row->lse)), want = json_number_value(json_array_get(p, i));
        if (row->top_id[i] != json_integer_value(json_array_get(ids, i)) || fabs(got - want) > 1e-4)
            fail_msg("%s, row %zu: rank %zu is %d with %g, expected %d with %g", what, at, i, row->top_id[i], got,
                     (int)json_integer_value(json_array_get(ids, i)), want);
    }
    assert_true(fabs((double)row->entropy - json_number_value(json_object_get(said, "entropy"))) < 1e-4);
}

static void check_eagle(ls_trained *t, const char *name) {
    static float values[64 * 192];
    const json_t *v = json_object_get(vectors, name);
    const json_t *round, *level;
    size_t i, k;
    assert_int_equal(t->n_values, json_integer_value(json_object_get(v, "width")));
    json_array_foreach(json_object_get(v, "rounds"), i, round) {
        ls_err err = {0};
        lst_row rows[16], whole[16];
        const int32_t keep = (int32_t)json_integer_value(json_object_get(round, "keep"));
        int32_t *tokens = ints_of(json_object_get(round, "tokens")), all_tokens[16], all_parents[16], n_all = 0;
        const int32_t n = (int32_t)json_array_size(json_object_get(round, "tokens"));
        floats_of(json_object_get(round, "values"), values);
        if (ls_trained_begin(t, keep, keep, tokens, values, n, NULL, rows, &err)) fail_msg("%s", err.msg);
        equal_to(name, 0, rows, json_object_get(round, "said"));
        json_array_foreach(json_object_get(round, "levels"), k, level) {
            const json_t *said = json_object_get(level, "said");
            const int32_t many = (int32_t)json_array_size(said);
            int32_t *drafted = ints_of(json_object_get(level, "tokens")),
                    *parents = ints_of(json_object_get(level, "parents"));
            if (ls_trained_grow(t, drafted, parents, many, NULL, rows, &err)) fail_msg("%s", err.msg);
            for (int32_t r = 0; r < many; r++) {
                equal_to(name, (size_t)(1 + n_all), &rows[r], json_array_get(said, (size_t)r));
                all_tokens[n_all] = drafted[r];
                all_parents[n_all] = parents[r];
                whole[n_all++] = rows[r];
            }
            free(drafted), free(parents);
        }
        // The last pair read again, the tree in one call: parents within it.
        assert_int_equal(ls_trained_begin(t, keep + n - 1, keep + n - 1, tokens + n - 1, values + (n - 1) * t->n_values,
                                          1, NULL, rows, &err),
                         LS_OK);
        equal_to(name, 0, rows, json_object_get(round, "said"));
        assert_int_equal(ls_trained_grow(t, all_tokens, all_parents, n_all, NULL, rows, &err), LS_OK);
        for (int32_t r = 0; r < n_all; r++) {
            assert_memory_equal(rows[r].top_id, whole[r].top_id, sizeof whole[r].top_id);
            assert_true(fabsf(rows[r].lse - whole[r].lse) < 1e-4f);
        }
        free(tokens);
    }
    assert_true(t->weight_bytes > 0);
}

static void check_medusa(ls_trained *t, const char *name) {
    enum { K = 10 };
    const json_t *v = json_object_get(vectors, name), *head;
    ls_err err = {0};
    float value[64], p[4][K];
    int32_t ids[4][K];
    size_t i;
    floats_of(json_object_get(v, "value"), value);
    assert_int_equal(t->n_guesses, json_array_size(json_object_get(v, "heads")));
    assert_int_equal(t->n_values, 64);
    assert_int_equal(ls_trained_guess(t, value, K, ids[0], p[0], &err), LS_OK);
    json_array_foreach(json_object_get(v, "heads"), i, head) for (size_t k = 0; k < K; k++) {
        assert_int_equal(ids[i][k], json_integer_value(json_array_get(json_object_get(head, "id"), k)));
        assert_true(fabs((double)p[i][k] - json_number_value(json_array_get(json_object_get(head, "p"), k))) < 1e-4);
    }
}

static void each_head_equals_the_published_forward(void **state) {
    (void)state;
    need();
    ls_checkpoint *target = open_target();
    for (place at = ON_CPU; at < PLACES; at++) {
        ls_engine *e = open_engine(at ? "cuda" : "cpu", target);
        use_torch(at);
        const char *name;
        json_t *v;
        json_object_foreach(vectors, name, v) {
            ls_trained *t = open_trained(e, target, name);
            assert_non_null(strstr(t->name, name));
            assert_int_equal(t->on_device, at == ON_GPU);
            assert_int_equal(!*t->note, at != BESIDE_GPU);
            if (at == BESIDE_GPU && (!strstr(t->note, "runs on the CPU, beside the GPU") || strchr(t->note, '\n')))
                fail_msg("%s", t->note);
            (t->n_guesses ? check_medusa : check_eagle)(t, name);
            ls_trained_free(t);
        }
        e->close(e);
        use_torch(ON_CPU);
    }
    ls_checkpoint_close(target);
}

static void open_at(place at, const ls_checkpoint *target, const char *name, ls_engine **e, ls_trained **t) {
    *e = open_engine(at ? "cuda" : "cpu", target);
    use_torch(at);
    *t = open_trained(*e, target, name);
    use_torch(ON_CPU);
}

// The same values on both devices: the same drafts, greedy and sampled.
static void a_head_drafts_the_same_on_a_gpu(void **state) {
    (void)state;
    need();
    static const char *const names[] = {"eagle3", "eagle3-own", "eagle", "medusa", "medusa2"};
    enum { N = 150, LEVEL = 6, DEPTH = 3, K = 12 };
    ls_checkpoint *target = open_target();
    uint64_t drawn = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        ls_engine *e[2];
        ls_trained *t[2];
        ls_err err = {0};
        open_at(ON_CPU, target, names[k], &e[0], &t[0]);
        open_at(ON_GPU, target, names[k], &e[1], &t[1]);
        assert_true(!t[0]->on_device && t[1]->on_device && t[0]->weight_bytes == t[1]->weight_bytes);
        const size_t width = (size_t)t[0]->n_values;
        float *values = ls_calloc(N * width, sizeof *values);
        for (size_t i = 0; i < N * width; i++) values[i] = (float)(4 * ls_uniform_at(3, drawn++) - 2);
        for (int round = 0; round < 4 && t[0]->n_guesses; round++) {
            int32_t ids[2][4][K];
            float p[2][4][K];
            for (int d = 0; d < 2; d++)
                assert_int_equal(ls_trained_guess(t[d], values + (size_t)round * width, K, ids[d][0], p[d][0], &err),
                                 LS_OK);
            assert_memory_equal(ids[0], ids[1], (size_t)t[0]->n_guesses * sizeof ids[0][0]);
            for (int i = 0; i < t[0]->n_guesses * K; i++) assert_true(fabsf(p[0][0][i] - p[1][0][i]) < 1e-5f);
        }
        for (int round = 0; round < 4 && !t[0]->n_guesses; round++) {
            const lst_sampling how = {.temperature = round % 2 ? 0.8 : 0, .top_k = 0, .top_p = 1, .seed = 11};
            int32_t tokens[N], parents[DEPTH][LEVEL];
            lst_row rows[2][1 + DEPTH * LEVEL];
            for (int i = 0; i < N; i++) tokens[i] = (int32_t)(128 * ls_uniform_at(4, drawn++));
            for (int d = 0; d < 2; d++) { // the second round and later ones: some pairs more
                const int32_t from = round ? N - 5 + round : 0;
                assert_int_equal(
                    ls_trained_begin(t[d], from, from, tokens, values, round ? 4 : N - 4, &how, rows[d], &err), LS_OK);
                for (int l = 0; l < DEPTH; l++) {
                    for (int i = 0; i < LEVEL; i++)
                        parents[l][i] = l ? 1 + (l - 1) * LEVEL + (i * 5 + round) % LEVEL : 0;
                    assert_int_equal(ls_trained_grow(t[d], tokens + l * LEVEL, parents[l], LEVEL, &how,
                                                     rows[d] + 1 + l * LEVEL, &err),
                                     LS_OK);
                }
            }
            for (int32_t r = 0; r < 1 + DEPTH * LEVEL; r++) {
                int32_t ids[2][K];
                float logits[2][K], all[2][128];
                for (int d = 0; d < 2; d++) {
                    assert_int_equal(ls_trained_row_top(t[d], r, K, ids[d], logits[d], &err), LS_OK);
                    assert_int_equal(ls_trained_row_logits(t[d], r, all[d], &err), LS_OK);
                    assert_memory_equal(ids[d], rows[d][r].top_id, sizeof rows[d][r].top_id);
                    for (int i = 0; i < K; i++) assert_true(fabsf(all[d][ids[d][i]] - logits[d][i]) < 1e-6f);
                    for (int i = 1; i < K; i++) assert_true(logits[d][i] <= logits[d][i - 1]);
                }
                assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
                assert_int_equal(rows[0][r].chosen, rows[1][r].chosen);
                assert_true(fabsf(rows[0][r].lse - rows[1][r].lse) < 1e-5f);
                assert_true(fabsf(rows[0][r].entropy - rows[1][r].entropy) < 1e-4f);
                assert_true(fabsf(rows[0][r].chosen_logit - rows[1][r].chosen_logit) < 1e-5f);
            }
        }
        free(values);
        for (int d = 0; d < 2; d++) ls_trained_free(t[d]), e[d]->close(e[d]);
    }
    ls_checkpoint_close(target);
}

// A value that is no number, and a GPU without room for the weights.
static void a_gpu_that_cannot_is_said(void **state) {
    (void)state;
    need();
    ls_checkpoint *target = open_target();
    ls_engine *e;
    ls_trained *t;
    ls_err err = {0};
    lst_row row;
    float values[64] = {0};
    const int32_t token = 1;
    open_at(ON_GPU, target, "eagle", &e, &t);
    values[5] = NAN;
    assert_int_equal(ls_trained_begin(t, 0, 0, &token, values, 1, NULL, &row, &err), LS_E_BACKEND);
    assert_non_null(strstr(err.msg, "not finite"));
    assert_int_equal(ls_trained_grow(t, &token, (int32_t[]){0}, 1, NULL, &row, &err), LS_E_RANGE); // there is no tree
    values[5] = 0;
    assert_int_equal(ls_trained_begin(t, 0, 0, &token, values, 1, NULL, &row, &err), LS_OK);
    float *some = ls_trained_memory(t, 64), *more = ls_trained_memory(t, 0);
    assert_true(some && more && ls_trained_copy(t, some, values, 64) && ls_trained_copy(t, more, some, 0));
    ls_trained_memory_free(t, some), ls_trained_memory_free(t, more), ls_trained_memory_free(t, NULL);
    ls_trained_free(t), e->close(e);
    setenv("LOGITSPEC_EMULATED_FULL", "1", 1);
    open_at(ON_GPU, target, "eagle", &e, &t);
    unsetenv("LOGITSPEC_EMULATED_FULL");
    assert_false(t->on_device);
    assert_non_null(strstr(t->note, "beside the GPU: the emulated device is full"));
    assert_int_equal(ls_trained_begin(t, 0, 0, &token, values, 1, NULL, &row, &err), LS_OK);
    ls_trained_free(t), e->close(e);
    ls_checkpoint_close(target);
}

static void what_a_head_cannot_do_is_an_error_that_leaves_it(void **state) {
    (void)state;
    need();
    ls_err err = {0};
    ls_checkpoint *target = open_target();
    ls_engine *e = open_engine("cpu", target);
    ls_trained *t = open_trained(e, target, "eagle");
    static float values[LONGEST * 64];
    lst_row row, again, rows[2];
    int32_t tokens[LONGEST] = {1, 2, 3}, parents[2] = {0, 1}, wrong[2] = {0, 2}, far[1] = {1000};
    for (int i = 0; i < LONGEST * 64; i++) values[i] = (float)(i % 13) / 7 - 1;
    const lst_sampling how = {.temperature = 1, .top_p = 1, .seed = 5};
    assert_int_equal(ls_trained_grow(t, tokens, parents, 1, NULL, rows, &err), LS_E_RANGE);
    assert_non_null(strstr(err.msg, "there is no tree"));
    assert_int_equal(ls_trained_begin(t, 0, 0, tokens, values, 3, NULL, &row, &err), LS_OK);
    assert_int_equal(ls_trained_grow(t, tokens, parents, 2, NULL, rows, &err), LS_OK);
    const lst_row before = rows[1];
    assert_int_equal(ls_trained_begin(t, 2, 2, tokens + 2, values + 128, 1, NULL, &again, &err), LS_OK);
    assert_memory_equal(again.top_id, row.top_id, sizeof row.top_id);
    assert_int_equal(ls_trained_grow(t, tokens, wrong, 2, NULL, rows, &err), LS_E_RANGE); // row 2 follows itself
    assert_int_equal(ls_trained_grow(t, far, parents, 1, NULL, rows, &err), LS_E_RANGE);
    assert_non_null(strstr(err.msg, "outside the vocabulary"));
    assert_int_equal(ls_trained_grow(t, tokens, parents, 2, NULL, rows, &err), LS_OK);
    assert_memory_equal(rows[1].top_id, before.top_id, sizeof before.top_id);
    // a full context
    assert_int_equal(ls_trained_begin(t, 0, 1, tokens, values, LONGEST, NULL, &row, &err), LS_E_RANGE);
    assert_int_equal(ls_trained_begin(t, 0, 0, tokens, values, LONGEST, NULL, &row, &err), LS_OK);
    assert_int_equal(ls_trained_grow(t, tokens, parents, 1, NULL, rows, &err), LS_E_RANGE);
    assert_non_null(strstr(err.msg, "beyond the context of 200"));
    // sampled: the choice follows from seed and position, whatever was drafted before
    assert_int_equal(ls_trained_begin(t, 0, 0, tokens, values, 3, &how, &row, &err), LS_OK);
    assert_int_equal(ls_trained_begin(t, 0, 0, tokens, values, 3, &how, &again, &err), LS_OK);
    assert_int_equal(row.chosen, again.chosen);
    bool other = false; // than the most likely one, at some seed
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(ls_trained_begin(t, 0, 0, tokens, values, 3, &(lst_sampling){1, 0, 1, seed}, &row, &err),
                         LS_OK);
        other |= row.chosen != row.top_id[0];
    }
    assert_true(other);
    ls_trained_free(t);
    // for another model, and one that is cut while it is read
    char *path = path_of("eagle", NULL);
    target->hparams.n_layers = 7; // EAGLE does not mind
    assert_int_equal(ls_trained_open(&t, e, target, path, &(ls_engine_options){0}, &err), LS_OK);
    assert_int_equal(t->takes[0], 8);
    ls_trained_free(t);
    target->hparams.n_vocab = 127;
    assert_int_equal(ls_trained_open(&t, e, target, path, &(ls_engine_options){0}, &err), LS_E_RANGE);
    assert_null(t);
    free(path);
    e->close(e);
    ls_checkpoint_close(target);
}

// The values of every token that a KV cache has read, by position.
static float all_values[LONGEST][WIDEST];

static void note_values(void *ud, const lst_rows_seen *r) {
    const int32_t width = *(const int32_t *)ud;
    assert_int_equal(r->tree, 0);
    for (int32_t i = 0; i < r->n_rows; i++)
        memcpy(all_values[0] + (size_t)(r->length + i) * (size_t)width, r->values + (size_t)i * (size_t)width,
               (size_t)width * sizeof(float));
}

typedef struct {
    ls_engine *e;
    ls_kv_cache *t, *fresh;
    ls_trained *head; // another one, which is given everything anew each time
    ls_draft_model *draft_model;
    ls_ids text;
    uint64_t state;
    int32_t root;
} walk;

static int32_t below(walk *w, int32_t n) {
    return (int32_t)(ls_uniform_at(7, w->state++) * n);
}

static void check_said(const ls_prediction *said, const lst_row *row) {
    assert_int_equal(said->chosen, row->chosen);
    for (int i = LST_ROW_TOP; i < LS_PREDICTION_TOP; i++) // by the row's logits
        assert_true(said->id[i] >= 0 && said->p[i] > 0 && said->p[i] <= said->p[i - 1]);
    for (int i = 0; i < LST_ROW_TOP; i++) {
        assert_int_equal(said->id[i], row->top_id[i]);
        assert_true(fabs((double)said->p[i] - exp((double)(row->top_logit[i] - row->lse))) < 1e-4);
    }
    assert_true(fabsf(said->entropy - row->entropy) < 1e-4f);
}

// What the draft model says equals what a head says that has just read the whole text.
static void check_draft(walk *w) {
    ls_err err = {0};
    ls_prediction said[6];
    lst_row rows[6], last;
    const int32_t n = (int32_t)w->text.n, parents[5] = {0, 0, 1, 3, 2};
    int32_t tokens[5], *pairs = ls_malloc((size_t)n * sizeof *pairs);
    for (int i = 0; i < 5; i++) tokens[i] = below(w, 128);
    assert_int_equal(w->fresh->rewind(w->fresh, 0, &err), LS_OK);
    assert_int_equal(w->fresh->prefill(w->fresh, w->text.p, n, &(lst_sampling){0}, &last, NULL, NULL, &err), LS_OK);
    for (int32_t i = 0; i < n; i++) pairs[i] = i + 1 < n ? w->text.p[i + 1] : w->root;
    assert_int_equal(ls_trained_begin(w->head, 0, 0, pairs, all_values[0], n, NULL, rows, &err), LS_OK);
    assert_int_equal(ls_trained_grow(w->head, tokens, parents, 5, NULL, rows + 1, &err), LS_OK);
    const int32_t unread = w->draft_model->unread(w->draft_model, w->text.p, w->text.n);
    assert_true(unread >= 0 && unread < n);
    w->draft_model->forwards = 0;
    if (w->draft_model->begin(w->draft_model, w->text.p, w->text.n, w->root, said, &err)) fail_msg("%s", err.msg);
    assert_int_equal(w->draft_model->more(w->draft_model, tokens, parents, 2, said + 1, &err), LS_OK);
    assert_int_equal(w->draft_model->more(w->draft_model, tokens + 2, parents + 2, 3, said + 3, &err), LS_OK);
    for (int i = 0; i < 6; i++) check_said(&said[i], &rows[i]);
    assert_int_equal(w->draft_model->forwards, 3);
    assert_true(w->draft_model->forward_us > 0 && ls_cost_ms(&w->draft_model->costs, 3, (int32_t)w->text.n) > 0);
    assert_int_equal(w->draft_model->unread(w->draft_model, w->text.p, w->text.n), 0);
    free(pairs);
}

// Reads tokens behind the first `at` of the text.
static void read_text(walk *w, size_t at, int32_t n) {
    ls_err err = {0};
    lst_row last = {0};
    w->text.n = at;
    assert_int_equal(w->t->rewind(w->t, (int32_t)at, &err), LS_OK);
    while (n > 0) {
        const int32_t piece = 1 + below(w, n);
        for (int32_t i = 0; i < piece; i++) ls_ids_push(&w->text, below(w, 128));
        assert_int_equal(
            w->t->prefill(w->t, w->text.p + w->text.n - piece, piece, &(lst_sampling){0}, &last, NULL, NULL, &err),
            LS_OK);
        n -= piece;
    }
    w->root = last.chosen;
}

// A tree of which some path is kept; drafts of the same token stand side by side in it.
static void take_a_step(walk *w) {
    enum { ROWS = 14, DEEPEST = 5 };
    ls_err err = {0};
    lst_row rows[ROWS];
    int32_t tokens[ROWS], parents[ROWS], depth[ROWS], kept[ROWS];
    const int32_t first = 1 + below(w, ROWS - 1);
    if (!below(w, 3)) { // a forward that is only timed
        const int32_t root = -1;
        assert_int_equal(w->t->forward_tree(w->t, &w->root, &root, 1, &(lst_sampling){0}, rows, &err), LS_OK);
    }
    for (int32_t i = 0; i < ROWS; i++) {
        parents[i] = i ? below(w, i) : -1;
        tokens[i] = i ? 40 + below(w, 3) : w->root;
        depth[i] = i ? depth[parents[i]] + 1 : 0;
        if (depth[i] >= DEEPEST) i--;
    }
    assert_int_equal(w->t->forward_tree(w->t, tokens, parents, first, &(lst_sampling){0}, rows, &err), LS_OK);
    assert_int_equal(
        w->t->grow_tree(w->t, tokens + first, parents + first, ROWS - first, &(lst_sampling){0}, rows + first, &err),
        LS_OK);
    const int32_t end = below(w, ROWS), n = depth[end] + 1;
    for (int32_t at = end, k = n; k-- > 0; at = parents[at]) kept[k] = at;
    assert_int_equal(w->t->keep_path(w->t, kept, n, &err), LS_OK);
    for (int32_t k = 0; k < n; k++) ls_ids_push(&w->text, tokens[kept[k]]);
    w->root = rows[end].chosen;
}

// Whatever happens to the KV cache, the head reads the target's values of the text as it is.
static void eagle_follows_the_target(void **state) {
    (void)state;
    need();
    static const lst_sampling greedy = {.top_p = 1};
    static const ls_accept exact;
    ls_checkpoint *target = open_target();
    ls_err err = {0};
    for (int k = 0; k < 4; k++) {
        const char *name = k % 2 ? "eagle" : "eagle3";
        walk w = {.e = open_engine(k / 2 ? "cuda" : "cpu", target), .state = (uint64_t)k * 10000};
        use_torch(k / 2 ? ON_GPU : ON_CPU);
        assert_int_equal(w.e->kv_cache(w.e, 0, &w.t, &err), LS_OK);
        assert_int_equal(w.e->kv_cache(w.e, 0, &w.fresh, &err), LS_OK);
        w.head = open_trained(w.e, target, name);
        assert_int_equal(w.fresh->hidden(w.fresh, w.head->takes, w.head->n_takes, w.head->on_device, note_values,
                                         &w.head->n_values, &err),
                         LS_OK);
        assert_int_equal(ls_draft_model_eagle(&w.draft_model, open_trained(w.e, target, name), w.t, &greedy, &exact,
                                              LS_PREDICTION_TOP, &err),
                         LS_OK);
        assert_non_null(strstr(w.draft_model->name, name));
        read_text(&w, 0, 20);
        check_draft(&w);
        check_draft(&w); // asked again, nothing new
        for (int step = 0; step < 60; step++) {
            const int what = below(&w, 10);
            if (w.text.n > LONGEST - 40) read_text(&w, 10, 8);
            else if (what == 0) read_text(&w, w.text.n, 1 + below(&w, 9));                  // the next turn
            else if (what == 1) read_text(&w, 1 + (size_t)below(&w, (int32_t)w.text.n), 3); // another text
            else take_a_step(&w);
            if (below(&w, 4)) check_draft(&w);
        }
        read_text(&w, 0, 5);
        check_draft(&w);
        float q[128], p[128], logits[128];
        ls_prediction said;
        double sum = 0;
        assert_int_equal(w.draft_model->begin(w.draft_model, w.text.p, w.text.n, w.root, &said, &err), LS_OK);
        check_draft(&w);
        assert_int_equal(w.draft_model->distribution(w.draft_model, 0, q, 128, &err), LS_OK);
        assert_int_equal(ls_trained_row_logits(w.head, 0, logits, &err), LS_OK);
        ls_sample_shape(logits, 128, greedy.temperature, 0, 1, p);
        for (int i = 0; i < 128; i++) assert_true(fabsf(p[i] - q[i]) < 1e-4f), sum += (double)q[i];
        assert_true(fabs(sum - 1) < 1e-4 && q[said.id[0]] > 0);
        assert_int_equal(w.draft_model->distribution(w.draft_model, 0, q, 127, &err), LS_E_RANGE);
        // a text that it was not shown: nothing is drafted until there are values of its last token
        const int32_t other[] = {5, 6, 7};
        assert_int_equal(w.draft_model->begin(w.draft_model, other, 3, 8, &said, &err), LS_E_RANGE);
        read_text(&w, 0, 7);
        check_draft(&w);
        w.draft_model->free(w.draft_model);
        ls_trained_free(w.head), w.t->free(w.t), w.fresh->free(w.fresh);
        ls_ids_free(&w.text);
        w.e->close(w.e);
        use_torch(ON_CPU);
    }
    ls_checkpoint_close(target);
}

static ls_code give_multi_head(void *of, const ls_draft_options *o, ls_multi_head **out, ls_err *err) {
    (void)o, (void)err;
    *out = of;
    return LS_OK;
}

// Medusa on a KV cache: the published tree over what the heads guess from the last token's values.
static void check_medusa_tree(place at) {
    enum { K = 10 };
    const ls_method *m = ls_method_find("medusa");
    ls_checkpoint *target = open_target();
    ls_err err = {0};
    walk w = {.e = open_engine(at ? "cuda" : "cpu", target)};
    use_torch(at);
    int32_t ids[4][K];
    float p[4][K];
    ls_multi_head *g;
    ls_tree tree = test_tree();
    assert_int_equal(w.e->kv_cache(w.e, 0, &w.t, &err), LS_OK);
    assert_int_equal(w.e->kv_cache(w.e, 0, &w.fresh, &err), LS_OK);
    assert_int_equal(ls_multi_head_medusa(&g, open_trained(w.e, target, "eagle"), w.t, &err), LS_E_USAGE);
    static const ls_accept exact;
    assert_int_equal(
        ls_draft_model_eagle(&w.draft_model, open_trained(w.e, target, "medusa"), w.t, NULL, &exact, 4, &err),
        LS_E_USAGE);
    w.head = open_trained(w.e, target, "medusa");
    assert_int_equal(w.fresh->hidden(w.fresh, w.head->takes, w.head->n_takes, w.head->on_device, note_values,
                                     &w.head->n_values, &err),
                     LS_OK);
    assert_int_equal(ls_multi_head_medusa(&g, open_trained(w.e, target, "medusa"), w.t, &err), LS_OK);
    ls_drafter *d;
    const ls_draft_setup setup = {.knobs = test_knobs(128, 7) + ls_knob_offset(ls_method_find("medusa")),
                                  .draft = {.head = folder},
                                  .multi_head = give_multi_head,
                                  .of = g};
    assert_int_equal(ls_drafter_make(&d, m, &setup, &err), LS_OK);
    read_text(&w, 0, 20);
    for (int step = 0; step < 10; step++) {
        lst_row last;
        const int32_t n = (int32_t)w.text.n;
        const ls_draft_state s = {.context = w.text.p, .n_context = w.text.n, .root = w.root};
        assert_int_equal(w.fresh->rewind(w.fresh, 0, &err), LS_OK);
        assert_int_equal(w.fresh->prefill(w.fresh, w.text.p, n, &(lst_sampling){0}, &last, NULL, NULL, &err), LS_OK);
        assert_int_equal(ls_trained_guess(w.head, all_values[0] + (size_t)(n - 1) * 64, K, ids[0], p[0], &err), LS_OK);
        for (int32_t max_rows = 1; max_rows <= 70; max_rows += 23) {
            d->propose(d, &s, max_rows, &tree);
            assert_int_equal(tree.n, max_rows < m->rows ? max_rows : m->rows);
            assert_int_equal(tree.nodes[0].token, w.root);
            int32_t by_depth[5] = {0};
            for (int32_t i = 1; i < tree.n; i++) { // each row is a guess of its place, and no row is there twice
                const ls_node *node = &tree.nodes[i];
                int rank = 0;
                while (rank < K && ids[node->depth - 1][rank] != node->token) rank++;
                assert_true(rank < K && fabsf(node->est_p - p[node->depth - 1][rank]) < 1e-6f);
                by_depth[node->depth]++;
                for (int32_t j = 1; j < i; j++)
                    assert_true(tree.nodes[j].parent != node->parent || tree.nodes[j].token != node->token);
            }
            if (tree.n == m->rows) { // as it is published
                assert_int_equal(by_depth[1], 10);
                assert_int_equal(by_depth[2], 28);
                assert_int_equal(by_depth[3], 23);
                assert_int_equal(by_depth[4], 2);
            }
        }
        assert_int_equal(ls_drafter_miss(d, &(ls_draft_question){&s, &tree, 0, ids[0][9], 64}), LS_MISS_BEYOND);
        take_a_step(&w);
    }
    // of a text whose last token it did not see nothing is drafted
    const int32_t other[] = {1, 2, 3};
    d->propose(d, &(ls_draft_state){.context = other, .n_context = 3, .root = 4}, 64, &tree);
    assert_int_equal(tree.n, 1);
    d->free(d);
    ls_trained_free(w.head), w.t->free(w.t), w.fresh->free(w.fresh);
    ls_ids_free(&w.text);
    w.e->close(w.e);
    use_torch(ON_CPU);
    ls_checkpoint_close(target);
}

static void medusa_drafts_its_tree(void **state) {
    (void)state;
    need();
    check_medusa_tree(ON_CPU);
    check_medusa_tree(ON_GPU);
}

static int set_up(void **state) {
    (void)state;
    json_error_t e;
    ls_err err = {0};
    ls_compute_facts facts;
    if (ls_compute_look(&facts, &err)) snprintf(missing, sizeof missing, "%s", err.msg);
    else snprintf(missing, sizeof missing, "%s", facts.no_torch);
    snprintf(folder, sizeof folder, "/tmp/logitspec-heads-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    char *command = ls_format("python3 tests/tools/heads.py %s", folder), *path = path_of("heads.json", NULL);
    const int failed = system(command);
    vectors = json_load_file(path, 0, &e);
    free(command), free(path);
    return failed || !vectors;
}

static int tear_down(void **state) {
    (void)state;
    char *command = ls_format("rm -r %s", folder);
    const int failed = system(command);
    free(command);
    json_decref(vectors);
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_say_what_they_are),
        cmocka_unit_test(damaged_heads_are_named),
        cmocka_unit_test(a_mapping_that_cannot_be_is_refused),
        cmocka_unit_test(a_pickle_says_how_to_convert_it),
        cmocka_unit_test(a_head_of_another_model_names_both),
        cmocka_unit_test(each_head_equals_the_published_forward),
        cmocka_unit_test(a_head_drafts_the_same_on_a_gpu),
        cmocka_unit_test(a_gpu_that_cannot_is_said),
        cmocka_unit_test(what_a_head_cannot_do_is_an_error_that_leaves_it),
        cmocka_unit_test(eagle_follows_the_target),
        cmocka_unit_test(medusa_drafts_its_tree),
    };
    return cmocka_run_group_tests_name("heads", tests, set_up, tear_down);
}
