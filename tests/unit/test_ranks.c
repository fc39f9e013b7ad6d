// Ranks that share a model, on this machine over loopback: every bit is that of one process, at 2, 3 and 4 ranks, in
// every architecture, arithmetic and kind of weights, whatever is called; a rank that is lost, or has another file, is
// named. Needs the compute library and python3.
#include "base/mem.h"
#include "engine/device.h"
#include "engine/ranks.h"
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char missing[600], no_gpu[600];

static void need(void) {
    if (!missing[0]) return;
    print_message("needs:libtorch: %s\n", missing);
    skip();
}

static const char *const devices[] = {NULL, "", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu"},
                         *const gpus[] = {NULL, "", "0,0", "0,cuda:0,0",
                                          "0,0,0,0"}; // one GPU, the emulated one, for all
static bool on_gpus;

static ls_code try_open(ls_engine **out, const char *path, const char *weights, const char *dtype, int ranks,
                        ls_err *err) {
    ls_checkpoint *c;
    if (ls_checkpoint_open(&c, path, err)) fail_msg("%s", err->msg);
    const bool short_one = c->hparams.n_context < 260; // longrope's original context
    const int32_t longest = ls_longest_context(&c->hparams);
    const ls_code code = ls_engine_open(out, c,
                                        &(ls_engine_options){.device = ranks > 1 ? "auto"
                                                                       : on_gpus ? "cuda"
                                                                                 : "cpu",
                                                             .devices = on_gpus ? gpus[ranks] : devices[ranks],
                                                             .dtype = dtype,
                                                             .weights = weights,
                                                             .threads = ranks == 1 ? 2 : 1,
                                                             .context = short_one ? longest : 0},
                                        err);
    ls_checkpoint_close(c);
    return code;
}

static ls_engine *open_at(const char *path, const char *weights, const char *dtype, int ranks) {
    ls_err err = {0};
    ls_engine *e = NULL;
    if (try_open(&e, path, weights, dtype, ranks, &err)) fail_msg("%s (%s, %d ranks): %s", path, dtype, ranks, err.msg);
    assert_int_equal(e->ranks, ranks);
    return e;
}

// ---- everything that a KV cache can be asked, and what it said

typedef struct {
    ls_buf bits;          // of tokens and logits: they must be equal
    float *lse, *entropy; // near
    size_t n, cap;
} answers;

static void say_row(answers *a, const lst_row *r) {
    ls_buf_add(&a->bits, &r->chosen, sizeof r->chosen);
    ls_buf_add(&a->bits, &r->chosen_logit, sizeof r->chosen_logit);
    ls_buf_add(&a->bits, r->top_id, sizeof r->top_id);
    ls_buf_add(&a->bits, r->top_logit, sizeof r->top_logit);
    if (!isnan(r->parent_logit)) ls_buf_add(&a->bits, &r->parent_logit, sizeof r->parent_logit);
    if (a->n == a->cap) {
        a->cap = a->cap ? 2 * a->cap : 64;
        a->lse = ls_realloc(a->lse, a->cap * sizeof *a->lse);
        a->entropy = ls_realloc(a->entropy, a->cap * sizeof *a->entropy);
    }
    a->lse[a->n] = r->lse;
    a->entropy[a->n++] = r->entropy;
}

static void say_logits(answers *a, ls_kv_cache *t, int32_t row) {
    ls_err err = {0};
    const size_t n = (size_t)t->engine->n_vocab;
    float *logits = ls_malloc(n * sizeof *logits), top[100];
    int32_t ids[100];
    if (t->row_logits(t, row, logits, &err) || t->row_top(t, row, 100, ids, top, &err)) fail_msg("%s", err.msg);
    ls_buf_add(&a->bits, logits, n * sizeof *logits);
    ls_buf_add(&a->bits, ids, sizeof ids);
    ls_buf_add(&a->bits, top, sizeof top);
    free(logits);
}

static void forward(answers *a, ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n, bool more,
                    const lst_sampling *s) {
    ls_err err = {0};
    lst_row rows[16];
    if ((more ? t->grow_tree : t->forward_tree)(t, ids, parents, n, s, rows, &err)) fail_msg("%s", err.msg);
    for (int32_t i = 0; i < n; i++) say_row(a, &rows[i]);
}

static void read_prompt(answers *a, ls_kv_cache *t, const int32_t *ids, int32_t n, const lst_sampling *s) {
    ls_err err = {0};
    lst_row last;
    if (t->prefill(t, ids, n, s, &last, NULL, NULL, &err)) fail_msg("%s", err.msg);
    say_row(a, &last);
}

// all_ways: of sampling, and a prompt of more than a block; else one way, for the emulated GPU is slow, and ranks merge
// what is sampled there as on CPUs.
static void call_everything(answers *a, ls_engine *e, bool all_ways) {
    ls_err err = {0};
    ls_kv_cache *t, *other;
    int32_t prompt[150];
    static const lst_sampling how[] = {
        {0, 0, 1, 0}, {0.8, 0, 1, 7}, {1.1, 5, 1, 7}, {1.3, 0, 0.9, 7}, {0.7, 50, 0.6, 9}};
    static const int32_t ids[] = {5, 17, 99, 3, 60, 127, 64, 31}, tree[] = {-1, 0, 0, 1, 1, 2, 4, 0},
                         more[] = {7, 8, 3}, path[] = {0, 2, 5}, long_path[] = {0, 1, 4, 6}, one[] = {-1};
    for (int i = 0; i < 150; i++) prompt[i] = (i * 37 + i * i % 11) % e->n_vocab;
    assert_int_equal(e->kv_cache(e, 0, &t, &err), LS_OK);
    assert_int_equal(e->kv_cache(e, e->n_layers > 1 ? 1 : 0, &other, &err), LS_OK);
    const size_t n_how = all_ways ? sizeof how / sizeof *how : 2;
    for (size_t s = all_ways ? 0 : 1; s < n_how; s++) {
        assert_int_equal(t->rewind(t, 0, &err), LS_OK);
        read_prompt(a, t, prompt, s ? 20 : 150, &how[s]); // 150: more than a block
        say_logits(a, t, -1);
        forward(a, t, ids, tree, 8, false, &how[s]);
        for (int i = 0; i < 8; i++) say_logits(a, t, i);
        forward(a, t, ids, more, 3, true, &how[s]);
        assert_int_equal(t->keep_path(t, path, 3, &err), LS_OK);
        say_logits(a, t, -1);
        forward(a, t, ids + 1, one, 1, false, &how[s]);
        assert_int_equal(t->keep_path(t, one + 0, 0, &err), LS_E_RANGE); // refused before it reaches other ranks
        assert_int_equal(t->keep_path(t, path, 1, &err), LS_OK);
        read_prompt(a, other, prompt + s, 3, &how[s]); // between the other's steps
        forward(a, t, ids, tree, 8, false, &how[s]);
        assert_int_equal(t->keep_path(t, long_path, 4, &err), LS_OK);
        assert_int_equal(t->rewind(t, 15, &err), LS_OK);
        forward(a, t, ids, tree, 5, false, &how[s]);
        forward(a, other, ids, tree, 8, false, &how[s]);
    }
    other->free(other);
    assert_int_equal(e->kv_cache(e, 0, &other, &err), LS_OK);
    assert_int_equal(other->copy(other, t, 11, &err), LS_OK);
    t->free(t);
    forward(a, other, ids, tree, 8, false, &how[0]);
    other->free(other);
}

static void check(const char *what, const answers *got, const answers *want) {
    assert_int_equal(got->bits.n, want->bits.n);
    if (memcmp(got->bits.p, want->bits.p, want->bits.n)) fail_msg("%s: other bits than in one process", what);
    for (size_t i = 0; i < want->n; i++) // sums over the vocabulary are of the ranks' sums
        if (!(fabsf(got->lse[i] - want->lse[i]) < 1e-5f) || !(fabsf(got->entropy[i] - want->entropy[i]) < 1e-5f))
            fail_msg("%s, row %zu: lse %g and entropy %g, expected %g and %g", what, i, (double)got->lse[i],
                     (double)got->entropy[i], (double)want->lse[i], (double)want->entropy[i]);
}

static void answers_free(answers *a) {
    ls_buf_free(&a->bits);
    free(a->lse), free(a->entropy);
}

static void same_bits_in(const char *path, const char *weights, const char *dtype, int ranks, bool all_ways) {
    answers one = {0}, all = {0};
    ls_engine *e = open_at(path, weights, dtype, 1);
    call_everything(&one, e, all_ways);
    e->close(e);
    e = open_at(path, weights, dtype, ranks);
    call_everything(&all, e, all_ways);
    e->close(e);
    char *what = ls_format("%s, weights %s, %s, %d ranks", path, weights, dtype, ranks);
    check(what, &all, &one);
    free(what);
    answers_free(&one), answers_free(&all);
}

static void same_bits(const char *path, const char *weights, const char *dtype, int ranks) {
    same_bits_in(path, weights, dtype, ranks, true);
}

// Cases take turns; with LOGITSPEC_TEST_WHOLE each one runs with 2, 3 and 4 ranks.
static bool has_turn(int ranks, size_t i) {
    return getenv("LOGITSPEC_TEST_WHOLE") || (int)(i % 3) == ranks - 2;
}

static void every_architecture(void **state) {
    (void)state;
    need();
    const char *name;
    json_t *v;
    for (int ranks = 2; ranks <= 4; ranks++) {
        size_t i = 0;
        json_object_foreach(tiny_vectors(), name, v) {
            if (!has_turn(ranks, i++)) continue;
            char *path = tiny_path(name, ranks != 3);
            same_bits(path, "auto", "f32", ranks);
            free(path);
        }
    }
}

static void every_arithmetic_and_weight(void **state) {
    (void)state;
    need();
    static const char *const kept[][2] = {{"f32", "f32"}, {"f16", "f32"}, {"bf16", "bf16"}, {"q8", "f32"},
                                          {"q8", "i8"},   {"q8", "i16"},  {"q4", "i8"},     {"q4", "bf16"}};
    for (int mixture = 0; mixture < 2; mixture++) {
        char *path = tiny_path(mixture ? "qwen2_moe" : "qwen3", false);
        for (int ranks = 2; ranks <= 4; ranks++)
            for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
                if (has_turn(ranks, i + (size_t)mixture)) same_bits(path, kept[i][0], kept[i][1], ranks);
        free(path);
    }
}

static void every_architecture_on_gpus(void **state) {
    (void)state;
    need();
    if (*no_gpu) {
        print_message("needs:emulated GPU library: %s\n", no_gpu);
        skip();
    }
    const char *name;
    json_t *v;
    on_gpus = true;
    for (int ranks = 2; ranks <= 4; ranks++) {
        size_t i = 0;
        json_object_foreach(tiny_vectors(), name, v) {
            if (!has_turn(ranks, i++)) continue;
            char *path = tiny_path(name, ranks != 3);
            same_bits_in(path, i % 2 ? "auto" : "q8", "bf16", ranks, i <= 3 || getenv("LOGITSPEC_TEST_WHOLE"));
            free(path);
        }
    }
    on_gpus = false;
}

// A rank that dies is named, and the next model finds new ones.
static void a_rank_that_is_lost(void **state) {
    (void)state;
    need();
    ls_err err = {0};
    char *path = tiny_path("llama3", true);
    ls_engine *e = open_at(path, "auto", "f32", 3);
    ls_kv_cache *t;
    lst_row row;
    const int32_t ids[] = {1, 2, 3};
    const lst_sampling greedy = {.top_p = 1};
    assert_int_equal(e->kv_cache(e, 0, &t, &err), LS_OK);
    assert_int_equal(t->prefill(t, ids, 3, &greedy, &row, NULL, NULL, &err), LS_OK);
    char *command = ls_format("pgrep -P %d -f '^logitspec rank' | sed -n 2p | xargs kill -9", (int)getpid());
    assert_int_equal(system(command), 0);
    free(command);
    assert_int_equal(t->prefill(t, ids, 3, &greedy, &row, NULL, NULL, &err), LS_E_BACKEND);
    if (!strstr(err.msg, "rank 2 of 3 ended by signal 9 (Killed)")) fail_msg("%s", err.msg);
    assert_int_equal(t->prefill(t, ids, 3, &greedy, &row, NULL, NULL, &err), LS_E_BACKEND);
    t->free(t);
    e->close(e);
    same_bits(path, "auto", "f32", 3);
    free(path);
}

static void what_cannot_be_shared(void **state) {
    (void)state;
    need();
    ls_err err = {0};
    ls_engine *e = NULL;
    ls_devices d;
    static const struct {
        const char *list, *device;
        int32_t n, last;
    } right[] = {{"cpu,cpu", "auto", 2, -1}, {"3", "cpu", 3, -1},      {"2", "cuda", 2, 1},
                 {"0,1", "auto", 2, 1},      {"cuda:3,2", NULL, 2, 2}, {"", "cuda", 1, -1}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_int_equal(ls_devices_read(&d, right[i].list, right[i].device, &err), LS_OK);
        assert_true(d.n == right[i].n && d.gpu[d.n - 1] == right[i].last);
    }
    static const char *const wrong[] = {"cpu,",  "cpu,cuda", ",cpu",   "gpu",   "cpu cpu",
                                        "cpu,0", "0",        "cuda:0", "1,100", "cuda:,1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ls_devices_read(&d, wrong[i], "auto", &err), LS_E_USAGE);
    assert_int_equal(ls_devices_read(&d, "cpu,cpu", "cuda", &err), LS_E_USAGE);
    assert_int_equal(ls_devices_read(&d, "0,1", "cpu", &err), LS_E_USAGE);
    char *path = tiny_path("qwen3", false);
    assert_int_not_equal(try_open(&e, path, "auto", "i8", 2, &err), LS_OK); // rank 0 says so, and no rank is lost by it
    assert_non_null(strstr(err.msg, "needs weights of 2 to 8 bits"));
    same_bits(path, "auto", "f32", 2);
    free(path);
}

static int set_up(void **state) {
    (void)state;
    ls_err err = {0};
    ls_compute_facts facts;
    if (ls_compute_look(&facts, &err)) snprintf(missing, sizeof missing, "%s", err.msg);
    tiny_use_gpu();
    ls_gpus seen;
    ls_gpus_look(&seen);
    snprintf(no_gpu, sizeof no_gpu, "%s", seen.problem);
    return tiny_make();
}

static int tear_down(void **state) {
    (void)state;
    return tiny_remove();
}

int main(int argc, char **argv) {
    ls_err err = {0};
    if (argc > 1 && !strcmp(argv[1], "rank")) { // this program, started again as one of the others
        if (!ls_follow(&err)) return 0;
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture),         cmocka_unit_test(every_arithmetic_and_weight),
        cmocka_unit_test(every_architecture_on_gpus), cmocka_unit_test(a_rank_that_is_lost),
        cmocka_unit_test(what_cannot_be_shared),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
