// The kernels beside libtorch's operators: tiny seeded models of every architecture (tests/tools/tiny.py) give the
// reference engine's logits and hidden states within TOLERANCE, for prompts, trees and kept branches. Needs
// liblstorch.so and python3.
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "model/checkpoint.h"
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Of a value, relative to the largest of its row, or to 1 if that is smaller.
#define TOLERANCE 2e-5
enum { PROMPT = 150, ROWS = 100, FIRST = 60, KEPT = 5, STAGES = 16 };

static char missing[600];
static const lst_sampling greedy = {.top_p = 1};
static int32_t n_embd;   // of the model opened last
static int32_t n_stages; // of its hidden states: embedding, layers, output norm

// Of [0, n), the same in each run.
static int32_t pick(int at, int32_t n) {
    return (int32_t)(ls_uniform_at(7, (uint64_t)at) * n);
}

static void need(void) {
    if (!missing[0]) return;
    print_message("needs:libtorch: %s\n", missing);
    skip();
}

static ls_code try_open(ls_engine **out, const char *path, ls_engine_options o, ls_err *err) {
    ls_checkpoint *c;
    if (!o.device) o.device = "cpu";
    if (!o.dtype) o.dtype = "f32";
    if (!o.weights) o.weights = "auto";
    if (!o.threads) o.threads = 2;
    if (ls_checkpoint_open(&c, path, err)) fail_msg("%s", err->msg);
    n_embd = c->hparams.n_embd;
    if (!o.context && c->hparams.n_context < 260) o.context = ls_longest_context(&c->hparams); // longrope's
    const ls_code code = ls_engine_open(out, c, &o, err);
    ls_checkpoint_close(c);
    return code;
}

static ls_engine *open_engine(const char *path, ls_engine_options o) {
    ls_err err = {0};
    ls_engine *e;
    if (try_open(&e, path, o, &err)) fail_msg("%s: %s", path, err.msg);
    assert_int_equal(e->exact, !o.reference);
    return e;
}

static void ok(ls_code code, const ls_err *err) {
    if (code) fail_msg("%s", err->msg);
}

// All that one engine says of the same work.
typedef struct {
    float *logits; // [1 + ROWS + 1][n_vocab]: after the prompt, of the tree, after the kept branch
    float *hidden; // of the tree: [ROWS][n_stages][n_embd]
    lst_row rows[ROWS];
    int32_t seen, n_choices; // of experts: [ROWS][mixtures][used], each of a row and layer in ascending order of ids
    struct choice {
        int32_t expert;
        float weight;
    } * choices;
} said;

static void take(void *ud, const lst_rows_seen *rows) {
    said *s = ud;
    if (!rows->tree) return;
    const size_t each = (size_t)n_stages * (size_t)n_embd;
    memcpy(s->hidden + (size_t)rows->first * each, rows->values, (size_t)rows->n_rows * each * sizeof(float));
    s->seen += rows->n_rows;
}

static int by_expert(const void *a, const void *b) {
    return ((const struct choice *)a)->expert - ((const struct choice *)b)->expert;
}

static bool biased; // the model's experts are chosen with biases, so their weights are in no order

// The experts of the tree's rows.
static void take_choices(said *s, ls_kv_cache *t) {
    ls_err err = {0};
    lst_experts_seen x;
    if (!t->experts) {
        assert_int_equal(t->engine->n_mixtures, 0);
        return;
    }
    ok(t->experts(t, &x, &err), &err);
    assert_int_equal(x.n_rows, ROWS);
    assert_int_equal(x.n_layers, t->engine->n_mixtures);
    assert_int_equal(x.n_used, t->engine->n_experts_used);
    s->n_choices = ROWS * x.n_layers * x.n_used;
    s->choices = ls_calloc((size_t)s->n_choices, sizeof *s->choices);
    for (int32_t i = 0; i < s->n_choices; i++) {
        s->choices[i] = (struct choice){x.expert[i], x.weight[i]};
        if (i % x.n_used && !biased) assert_true(x.weight[i] <= x.weight[i - 1]);
    }
    for (int32_t i = 0; i < s->n_choices; i += x.n_used)
        qsort(s->choices + i, (size_t)x.n_used, sizeof *s->choices, by_expert);
}

static void work(said *s, ls_engine *e, const lst_sampling *sampling) {
    ls_err err = {0};
    ls_kv_cache *t;
    lst_row row, grown[ROWS - 1];
    const size_t vocab = (size_t)e->n_vocab;
    int32_t prompt[PROMPT], ids[ROWS], parents[ROWS], path[KEPT];
    int32_t stages[STAGES];
    n_stages = e->n_layers + 2;
    assert_in_range(n_stages, 3, STAGES);
    for (int32_t i = 0; i < n_stages; i++) stages[i] = i;
    *s = (said){0};
    s->logits = ls_calloc((ROWS + 2) * vocab, sizeof(float));
    s->hidden = ls_calloc((size_t)ROWS * (size_t)n_stages * (size_t)n_embd, sizeof(float));
    for (int i = 0; i < PROMPT; i++) prompt[i] = pick(i, e->n_vocab);
    for (int i = 0; i < ROWS; i++) {
        ids[i] = pick(1000 + i, e->n_vocab);
        parents[i] = i < KEPT ? i - 1 : pick(2000 + i, i);
    }
    for (int i = 0; i < KEPT; i++) path[i] = i;
    parents[ROWS - 2] = path[KEPT - 2]; // a kept branch that leaves columns to be moved
    path[KEPT - 1] = ROWS - 2;
    ok(e->kv_cache(e, 0, &t, &err), &err);
    ok(t->prefill(t, prompt, PROMPT, sampling, &row, NULL, NULL, &err), &err); // two pieces
    ok(t->row_logits(t, -1, s->logits, &err), &err);
    ok(t->hidden(t, stages, n_stages, false, take, s, &err), &err);
    ok(t->forward_tree(t, ids, parents, FIRST, sampling, s->rows, &err), &err);
    ok(t->grow_tree(t, ids + FIRST, parents + FIRST, ROWS - FIRST, sampling, s->rows + FIRST, &err), &err);
    assert_int_equal(s->seen, ROWS);
    take_choices(s, t);
    for (int i = 0; i < ROWS; i++) ok(t->row_logits(t, i, s->logits + (size_t)(1 + i) * vocab, &err), &err);
    ok(t->keep_path(t, path, KEPT, &err), &err);
    assert_int_equal(t->length(t), PROMPT + KEPT);
    ok(t->hidden(t, NULL, 0, false, NULL, NULL, &err), &err);
    ok(t->forward_tree(t, ids, (int32_t[]){-1}, 1, sampling, &row, &err), &err);
    ok(t->row_logits(t, 0, s->logits + (ROWS + 1) * vocab, &err), &err);
    // the last committed row stays as it is behind any number of rows of later forwards
    const float *kept = s->logits + (size_t)(1 + path[KEPT - 1]) * vocab;
    float *last = ls_calloc(vocab, sizeof(float));
    for (int more = 0; more < 2; more++) {
        ok(t->row_logits(t, -1, last, &err), &err);
        assert_memory_equal(last, kept, vocab * sizeof(float));
        if (!more) ok(t->grow_tree(t, ids + 1, parents + 1, ROWS - 1, sampling, grown, &err), &err);
    }
    free(last);
    t->free(t);
}

static void forget(said *s) {
    free(s->logits), free(s->hidden), free(s->choices);
}

static double most_apart = TOLERANCE;

static double apart(const char *what, const float *a, const float *b, size_t rows, size_t n) {
    double worst = 0;
    for (size_t r = 0; r < rows; r++, a += n, b += n) {
        double most = 1, error = 0;
        for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i]));
        for (size_t i = 0; i < n; i++) error = fmax(error, fabs((double)a[i] - (double)b[i]) / most);
        if (!(error <= most_apart)) fail_msg("%s, row %zu: %g of %g apart", what, r, error * most, most);
        worst = fmax(worst, error);
    }
    return worst;
}

static void same_rows(const char *what, const said *a, const said *b) {
    for (int i = 0; i < ROWS; i++) {
        const lst_row *x = &a->rows[i], *y = &b->rows[i];
        const float p[] = {x->chosen_logit, x->parent_logit, x->parent_lse, x->lse, x->entropy, x->top_logit[7]},
                    q[] = {y->chosen_logit, y->parent_logit, y->parent_lse, y->lse, y->entropy, y->top_logit[7]};
        apart(what, p, q, 1, 6);
        if ((double)(x->top_logit[0] - x->top_logit[1]) > 2 * most_apart * fmax(1, fabs((double)x->top_logit[0])))
            assert_int_equal(x->top_id[0], y->top_id[0]);
    }
}

static double compare(const char *what, ls_engine *a, ls_engine *b, const lst_sampling *sampling) {
    said x, y;
    work(&x, a, sampling);
    work(&y, b, sampling);
    const double worst = apart(what, x.logits, y.logits, ROWS + 2, (size_t)a->n_vocab);
    apart(what, x.hidden, y.hidden, (size_t)ROWS * (size_t)n_stages, (size_t)n_embd);
    same_rows(what, &x, &y);
    assert_int_equal(x.n_choices, y.n_choices);
    for (int32_t i = 0; i < x.n_choices; i++) {
        assert_int_equal(x.choices[i].expert, y.choices[i].expert);
        apart(what, &x.choices[i].weight, &y.choices[i].weight, 1, 1);
    }
    forget(&x), forget(&y);
    return worst;
}

static void each_architecture(void **state) {
    (void)state;
    need();
    const char *name;
    json_t *v;
    json_object_foreach(tiny_vectors(), name, v) {
        char *path = tiny_path(name, strcmp(name, "mistral") != 0); // whose window GGUF files do not have
        ls_engine *kernels = open_engine(path, (ls_engine_options){0}),
                  *reference = open_engine(path, (ls_engine_options){.reference = true});
        assert_non_null(strstr(reference->kernel, "libtorch"));
        biased = !strncmp(name, "glm4_moe", 8) || !strcmp(name, "ernie4_5_moe");
        print_message("%s: at most %.1e apart\n", name, compare(name, kernels, reference, &greedy));
        kernels->close(kernels);
        reference->close(reference);
        free(path);
    }
    biased = false;
}

// Weights that are kept in fewer bits are the same numbers in both, and bf16 is near.
static void other_weights_and_bf16(void **state) {
    (void)state;
    need();
    static const char *const kept[] = {"f16", "bf16", "q8", "q4"};
    char *path = tiny_path("qwen3", true);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        ls_engine *kernels = open_engine(path, (ls_engine_options){.weights = kept[i]}),
                  *reference = open_engine(path, (ls_engine_options){.weights = kept[i], .reference = true});
        compare(kept[i], kernels, reference, &greedy);
        kernels->close(kernels);
        reference->close(reference);
    }
    free(path);
    path = tiny_path("gemma2", true);
    ls_engine *kernels = open_engine(path, (ls_engine_options){0}),
              *reference = open_engine(path, (ls_engine_options){.dtype = "bf16", .reference = true});
    most_apart = 0.05;
    print_message("bf16: at most %.1e apart\n", compare(path, kernels, reference, &greedy));
    most_apart = TOLERANCE;
    kernels->close(kernels);
    reference->close(reference);
    free(path);
}

static void what_it_does_not_support_is_refused(void **state) {
    (void)state;
    need();
    static const struct {
        ls_engine_options o;
        const char *why;
    } refused[] = {
        {{.devices = "cpu,cpu"}, "--engine reference does not share a model between ranks"},
        {{.device = "cuda"}, "--engine reference cannot use 'cuda'"},
        {{.dtype = "i8"}, "dtype 'i8' is not of the reference engine"},
        {{.context = 100000}, "--context 100000 is more than the model's"},
    };
    char *path = tiny_path("llama3", true);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_engine_options o = refused[i].o;
        ls_engine *e;
        ls_err err = {0};
        o.reference = true;
        assert_true(try_open(&e, path, o, &err) != LS_OK);
        if (!strstr(err.msg, refused[i].why)) fail_msg("'%s'", err.msg);
    }
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_architecture),
        cmocka_unit_test(other_weights_and_bf16),
        cmocka_unit_test(what_it_does_not_support_is_refused),
    };
    ls_err err = {0};
    ls_compute_facts facts;
    if (ls_compute_look(&facts, &err) || !*facts.torch)
        snprintf(missing, sizeof missing, "%s", *err.msg ? err.msg : facts.no_torch);
    const int failed = tiny_make() ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    tiny_remove();
    return failed;
}
