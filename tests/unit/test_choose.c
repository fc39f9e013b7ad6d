// Acceptance that chooses the target's token together with the drafts: the chances of each token stay the target's.
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "chances.h"
#include "decode/choose.h"
#include "scripted.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TOKENS = 7, SEEDS = 20000 };

static ls_accept rule(const char *text) {
    ls_accept a;
    assert_int_equal(ls_accept_read(&a, "", text, NULL), LS_OK);
    return a;
}

// A distribution in which some tokens may have no chance.
static void distribution(float *p, uint64_t seed) {
    float sum = 0;
    for (int i = 0; i < TOKENS; i++) {
        const float x = (float)ls_uniform_at(seed, (uint64_t)i);
        sum += p[i] = x < 0.25f ? 0 : x * x;
    }
    if (!(sum > 0)) sum = p[0] = 1;
    for (int i = 0; i < TOKENS; i++) p[i] /= sum;
}

// How often each token is chosen, drafts drawn from q and tokens beside them.
static void choices(const ls_accept *a, const float *p, const float *q, int32_t draws, int32_t n_others, uint64_t first,
                    int *seen) {
    memset(seen, 0, TOKENS * sizeof *seen);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        float target[TOKENS], from[TOKENS], left[TOKENS];
        ls_prediction said = {0};
        int32_t others[TOKENS], n = 0;
        memcpy(target, p, sizeof target);
        memcpy(from, q, sizeof from);
        memcpy(left, q, sizeof left);
        for (; said.n_draws < draws; said.n_draws++) {
            const int32_t x = ls_draw(left, TOKENS, seed, 5, said.n_draws, !a->rule->replaces);
            if (x < 0) break;
            assert_true(q[x] > 0);
            said.draw[said.n_draws] = x;
        }
        for (int32_t i = 0; i < TOKENS && n < n_others; i++) { // those that were not drawn, as a tree has them
            bool drawn = false;
            for (int32_t k = 0; k < said.n_draws; k++) drawn |= said.draw[k] == (i * 3) % TOKENS;
            if (!drawn) others[n++] = (i * 3) % TOKENS;
        }
        const int32_t x = ls_choose_token(a, draws ? &said : NULL, from, others, n, target, TOKENS, seed, 5);
        assert_in_range(x, 0, TOKENS - 1);
        seen[x]++;
    }
}

static void chosen_tokens_have_the_targets_chances(void **state) {
    (void)state;
    static const struct {
        const char *rule;
        int32_t draws;
    } ways[] = {{"speculative", 1}, {"mcsd:2", 2}, {"mcsd:4", 4},     {"mcsd-wor:2", 2},
                {"mcsd-wor:4", 4},  {"mcsd:8", 8}, {"mcsd-wor:8", 8}, {"mcsd", 0}};
    double worst = 1;
    int tests = 0;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (uint64_t round = 0; round < 5; round++)
            for (int32_t n_others = 0; n_others < 3; n_others += 2) {
                const ls_accept a = rule(ways[w].rule);
                float p[TOKENS], q[TOKENS];
                double chances[TOKENS];
                int seen[TOKENS];
                distribution(p, 100 + 2 * round);
                distribution(q, 101 + 2 * round);
                for (int i = 0; i < TOKENS; i++) chances[i] = (double)p[i];
                choices(&a, p, q, ways[w].draws, n_others, 1 + round * SEEDS, seen);
                for (int i = 0; i < TOKENS; i++)
                    if (seen[i] && p[i] <= 0) fail_msg("%s: token %d has no chance", ways[w].rule, i);
                const double fit = test_agreement(seen, chances, TOKENS, SEEDS);
                if (fit < worst) worst = fit;
                if (fit < 1e-4)
                    fail_msg("%s, %d draws, %d others, round %d: p = %g", ways[w].rule, ways[w].draws, n_others,
                             (int)round, fit);
                tests++;
                // as likely as the draft model would have it: the test sees that this is something else
                for (int i = 0; i < TOKENS; i++) chances[i] = 0.9 * (double)p[i] + 0.1 * (double)q[i];
                assert_true(test_agreement(seen, chances, TOKENS, SEEDS) < 1e-4);
            }
    print_message("%d tests of %d seeds, the least p = %.3g\n", tests, SEEDS, worst);
}

enum { LENGTH = 4, RUNS = 1500 };

// Counts the texts that seeds from `first` on give; returns how many drafts stood.
static uint64_t count_texts(ls_decode_options o, uint64_t first, int runs, ls_map *seen) {
    static const char prompt[] = "One fish, two fish, red fish. One dog, two";
    ls_ids ids = {0};
    ls_err err = {0};
    ls_session *s;
    ls_step *step = ls_step_new();
    uint64_t accepted = 0;
    assert_int_equal(ls_encode(model.vocab, prompt, strlen(prompt), true, &ids, &err), LS_OK);
    if (ls_session_new(&s, &model, &o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
    for (int i = 0; i < runs; i++) {
        o.sampling.seed = first + (uint64_t)i;
        ls_session_reset(s);
        assert_int_equal(ls_session_set(s, &o, &err), LS_OK);
        assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
        do {
            assert_int_equal(ls_session_step(s, step, &err), LS_OK);
            accepted += (uint64_t)ls_step_accepted(step);
        } while (!step->finish);
        const ls_ids *out = ls_session_output(s);
        uint64_t key = 1469598103934665603u;
        for (size_t k = 0; k < out->n; k++) key = (key ^ (uint64_t)out->p[k]) * 1099511628211u;
        ++*ls_map_at(seen, key, 0);
    }
    ls_step_free(step);
    ls_ids_free(&ids);
    ls_session_free(s);
    return accepted;
}

// Whether both are draws from one distribution: texts that are rare in both are one class.
static double same_source(const ls_map *a, const ls_map *b) {
    double x = 0;
    int classes = 0, rare[2] = {0};
    for (size_t i = 0; i < a->cap + b->cap; i++) {
        const ls_map_slot *of = i < a->cap ? &a->slots[i] : &b->slots[i - a->cap];
        int32_t n[2] = {0};
        if (!of->used) continue;
        ls_map_get(a, of->key, &n[0]);
        ls_map_get(b, of->key, &n[1]);
        if (i >= a->cap && n[0]) continue; // counted already
        if (n[0] + n[1] < 20) {
            rare[0] += n[0], rare[1] += n[1];
            continue;
        }
        x += (double)(n[0] - n[1]) * (n[0] - n[1]) / (n[0] + n[1]);
        classes++;
    }
    if (rare[0] + rare[1] >= 20)
        x += (double)(rare[0] - rare[1]) * (rare[0] - rare[1]) / (rare[0] + rare[1]), classes++;
    assert_true(classes > 5);
    return test_chi_square_p(x, classes - 1);
}

static void texts_have_the_chances_of_plain_decoding(void **state) {
    (void)state;
    static const struct {
        const char *method, *accept;
        int32_t max_rows;
        bool same;
    } ways[] = {{"plain", "exact", 0, true},
                {"draft-model", "speculative", 6, true},
                {"draft-model", "mcsd:3", 12, true},
                {"draft-model", "mcsd-wor:3", 12, true},
                {"draft-model", "mcsd-wor:3", 4, true},
                {"hybrid", "mcsd-wor:2", 10, true},
                {"logitspec", "speculative", 8, true},
                {"logitspec-paper", "mcsd", 16, true},
                {"draft-model", "typical:0.05:1", 12, false}};
    ls_decode_options o = {
        .method = "plain", .max_tokens = LENGTH, .sampling = {.temperature = 8, .top_k = 4, .top_p = 1}};
    ls_map plain = {0};
    count_texts(o, 1, RUNS, &plain);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        ls_map seen = {0};
        o.method = ways[w].method;
        o.max_rows = ways[w].max_rows;
        o.accept = rule(ways[w].accept);
        o.draft = (ls_draft_options){.layers = 3, .depth = 3, .width = 3};
        const uint64_t accepted = count_texts(o, 1000001, RUNS, &seen);
        const double fit = same_source(&plain, &seen);
        print_message("%s, %s: %llu drafts accepted, p = %.3g\n", ways[w].method, ways[w].accept,
                      (unsigned long long)accepted, fit);
        assert_true(w == 0 || accepted > RUNS / 20);
        assert_true(ways[w].same ? fit > 1e-4 : fit < 1e-4);
        ls_map_free(&seen);
    }
    ls_map_free(&plain);
}

static void greedy_they_are_exact(void **state) {
    (void)state;
    ls_decode_options o = {.method = "plain", .max_tokens = 60, .sampling = {.top_p = 1}};
    ls_map texts = {0};
    count_texts(o, 1, 2, &texts);
    for (int r = 0; ls_accept_at(r); r++) {
        o.accept = ls_accept_usual(r);
        if (ls_accept_guarantee(&o.accept, 1) == LS_LOSSY) continue;
        assert_int_equal(ls_accept_guarantee(&o.accept, 0), LS_SAME_TEXT);
        assert_int_equal(ls_accept_guarantee(&o.accept, 0.5), r ? LS_SAME_DISTRIBUTION : LS_SAME_TEXT);
        for (int m = 0; m < 2; m++) {
            o.method = m ? "hybrid" : "draft-model";
            count_texts(o, 1, 2, &texts);
        }
    }
    assert_int_equal(texts.n, 1); // one text, whatever the rule
    ls_map_free(&texts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chosen_tokens_have_the_targets_chances),
                                       cmocka_unit_test(texts_have_the_chances_of_plain_decoding),
                                       cmocka_unit_test(greedy_they_are_exact)};
    return cmocka_run_group_tests(tests, load, unload);
}
