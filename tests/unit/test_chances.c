// Sampling on the default model: first tokens over many seeds against the chances that its logits give.
#include "chances.h"
#include "model/registry.h"
#include "engine/load.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static ls_model model;
static char missing[512];

typedef struct {
    double p;
    int32_t id;
} chance;

static int likelier(const void *a, const void *b) {
    const chance *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : (x->id > y->id) - (x->id < y->id);
}

// What a token's chance is to be, from the logits, in double precision.
static void expect(const float *logits, int32_t n, const lst_sampling *way, double *p) {
    chance *c = calloc((size_t)n, sizeof *c);
    double max = -INFINITY, sum = 0, kept = 0;
    for (int32_t i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int32_t i = 0; i < n; i++) c[i] = (chance){exp(((double)logits[i] - max) / (double)way->temperature), i};
    qsort(c, (size_t)n, sizeof *c, likelier);
    const int32_t most = way->top_k > 0 && way->top_k < n ? way->top_k : n;
    for (int32_t i = 0; i < most; i++) sum += c[i].p;
    int32_t last = 0;
    for (; last < most && kept < (double)way->top_p * sum; last++) kept += c[last].p;
    memset(p, 0, (size_t)n * sizeof *p);
    for (int32_t i = 0; i < last; i++) p[c[i].id] = c[i].p / kept;
    free(c);
}

// Seeds 1, 2, ...: the same draws every time. `make exactness` takes 2,000.
static void first_tokens_are_drawn_by_their_chances(void **state) {
    (void)state;
    static const lst_sampling ways[] = {{.temperature = 1, .top_p = 1},
                                        {.temperature = 0.7f, .top_p = 1},
                                        {.temperature = 1.2f, .top_k = 40, .top_p = 0.9f}};
    const int draws = getenv("LOGITSPEC_EXACTNESS") ? 2000 : 200;
    if (missing[0]) {
        print_message("needs:model: %s\n", missing);
        skip();
    }
    assert_true(fabs(test_chi_square_p(3.841459, 1) - 0.05) < 1e-6 &&
                fabs(test_chi_square_p(124.3421, 100) - 0.05) < 1e-6);
    ls_kv_cache *b;
    const char text[] = "Once upon a time there was a";
    ls_ids ids = {0};
    ls_err err;
    lst_row row;
    const int32_t root = -1;
    assert_int_equal(model.engine->kv_cache(model.engine, 0, &b, &err), LS_OK);
    assert_int_equal(ls_encode(model.vocab, text, sizeof text - 1, false, &ids, &err), LS_OK);
    float *logits = malloc((size_t)model.engine->n_vocab * sizeof *logits);
    double *p = malloc((size_t)model.engine->n_vocab * sizeof *p);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        lst_sampling way = ways[w];
        int *seen = calloc((size_t)model.engine->n_vocab, sizeof *seen);
        assert_int_equal(b->rewind(b, 0, &err), LS_OK);
        assert_int_equal(b->prefill(b, ids.p, (int32_t)ids.n - 1, &way, &row, NULL, NULL, &err), LS_OK);
        for (way.seed = 1; way.seed <= (uint64_t)draws; way.seed++) {
            assert_int_equal(b->forward_tree(b, &ids.p[ids.n - 1], &root, 1, &way, &row, &err), LS_OK);
            seen[row.chosen]++;
        }
        assert_int_equal(b->row_logits(b, 0, logits, &err), LS_OK);
        expect(logits, model.engine->n_vocab, &way, p);
        for (int32_t i = 0; i < model.engine->n_vocab; i++)
            if (seen[i] && p[i] <= 0) fail_msg("token %d was drawn, which was cut off", i);
        const double right = test_agreement(seen, p, model.engine->n_vocab, draws);
        way.temperature *= 0.5f; // what draws by other chances would look like
        expect(logits, model.engine->n_vocab, &way, p);
        const double wrong = test_agreement(seen, p, model.engine->n_vocab, draws);
        print_message("temperature %g, top-k %d, top-p %g: %d seeds, p = %.3f; by chances at half the temperature "
                      "p = %.2g\n",
                      (double)ways[w].temperature, ways[w].top_k, (double)ways[w].top_p, draws, right, wrong);
        assert_true(right > 0.001);
        assert_true(wrong < 0.001);
        free(seen);
    }
    free(logits);
    free(p);
    ls_ids_free(&ids);
}

static int load(void **state) {
    (void)state;
    ls_err err = {0};
    char *path = ls_model_path("default");
    const ls_model_options o = {.name = "default", .engine = {.device = "cpu", .dtype = "auto", .weights = "auto"}};
    if (access(path, R_OK)) snprintf(missing, sizeof missing, "no default model; run 'make setup'");
    else if (ls_model_load(&model, &o, &err)) snprintf(missing, sizeof missing, "%s", err.msg);
    free(path);
    return 0;
}

static int unload(void **state) {
    (void)state;
    ls_model_free(&model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_tokens_are_drawn_by_their_chances)};
    return cmocka_run_group_tests_name("chances", tests, load, unload);
}
