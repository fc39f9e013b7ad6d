// Shadows: what a method would have done is what it does.
#include "decode/shadows.h"
#include "base/system.h"
#include "base/mem.h"
#include "drafters.h"
#include "recorded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TURNS = 2, BUDGET = 12, TOKENS = 90, MOST_WAYS = 16 };
static const char prompt[] = "One fish, two fish, red fish. One dog, two dogs. ";

static ls_decode_options way(const char *method) {
    ls_decode_options o = options(method, BUDGET, TOKENS);
    if (!strcmp(method, "rest") || !strcmp(method, "racer"))
        o.knobs = test_knobs(model.engine->n_vocab, ls_vocab_id(model.vocab));
    return o;
}

typedef struct {
    uint64_t steps[TURNS], emitted[TURNS], drafted[TURNS];
} counts;

static counts real_counts(const char *method) {
    counts c = {0};
    record(prompt, way(method), TURNS);
    for (int i = 0; i < n_steps; i++) {
        c.steps[steps[i]->turn]++;
        c.emitted[steps[i]->turn] += (uint64_t)steps[i]->n_emitted;
        c.drafted[steps[i]->turn] += (uint64_t)(steps[i]->forward ? steps[i]->rows - 1 : 0);
    }
    return c;
}

static void work_off(ls_shadows *s) {
    while (!ls_shadows_work(s, 0)) {
    } // one step of one method a call
}

// Watches the recorded conversation as it grows, with shadows that work whenever a step has come.
static void watch(ls_shadows *s, counts *out) {
    ls_trace_reader *r;
    ls_trace_line line;
    size_t turn = 0;
    assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
    while (!ls_trace_read_next(r, &line, NULL) && line != LS_TRACE_NONE) {
        if (line == LS_TRACE_HEADER) {
            const ls_trace_header *h = ls_trace_read_header(r);
            turn = h->turn;
            ls_shadows_begin(s, h->prompt.p, h->prompt.n);
        }
        if (line == LS_TRACE_STEP) {
            ls_shadows_add(s, ls_trace_read_step(r));
            if (ls_trace_read_step(r)->index % 3) work_off(s);
        }
        if (line != LS_TRACE_END) continue;
        ls_shadows_end(s);
        work_off(s);
        int n;
        const ls_shadow *all = ls_shadows_all(s, &n);
        for (int i = 0; i < n; i++) {
            out[i].steps[turn] = all[i].total.steps;
            out[i].emitted[turn] = all[i].total.emitted;
            out[i].drafted[turn] = all[i].total.drafted;
        }
    }
    ls_trace_read_close(r);
}

static ls_run run_of_model(void) {
    ls_run run = {.model = "script",
                  .n_vocab = model.engine->n_vocab,
                  .n_context = model.engine->n_context,
                  .ends = ls_vocab_ends(model.vocab)};
    for (int i = 0; i < LS_COST_SIZES; i++) run.costs.base_ms[i] = 2 + 0.1 * ls_cost_rows[i];
    return run;
}

static void a_shadow_of_whoever_decodes_does_the_same(void **state) {
    (void)state;
    const ls_run run = run_of_model();
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if ((*m)->asks_model) continue; // its draft model runs in a real session only
        const counts real = real_counts((*m)->name);
        const ls_shadow_variant ways[] = {{(*m)->name, way((*m)->name)}};
        ls_shadows *s = ls_shadows_new(ways, 1, &run);
        counts seen = {0};
        watch(s, &seen);
        if (memcmp(&seen, &real, sizeof seen))
            fail_msg("%s: %llu and %llu steps, as a shadow %llu and %llu", (*m)->name,
                     (unsigned long long)real.steps[0], (unsigned long long)real.steps[1],
                     (unsigned long long)seen.steps[0], (unsigned long long)seen.steps[1]);
        assert_true(ls_simulated_is_exact(&ls_shadows_all(s, NULL)[0].total, *m));
        assert_int_equal(ls_shadows_all(s, NULL)[0].total.lasts,
                         ls_shadows_all(s, NULL)[0].total.forwards); // a tree is proposed once
        ls_shadows_free(s);
    }
}

// Beside plain decoding: whoever learns from the text, or from the last logits, does what a run of its own does; the
// others say that they do not know.
static void shadows_beside_plain_decoding_do_what_their_own_runs_do(void **state) {
    (void)state;
    const ls_run run = run_of_model();
    ls_shadow_variant ways[MOST_WAYS];
    counts real[MOST_WAYS], seen[MOST_WAYS] = {0};
    int n = 0, exact = 0;
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if ((*m)->asks_model) continue;
        assert_true(n < MOST_WAYS);
        ways[n] = (ls_shadow_variant){(*m)->name, way((*m)->name)};
        real[n++] = real_counts((*m)->name);
    }
    real_counts("plain");
    ls_shadows *s = ls_shadows_new(ways, n, &run);
    watch(s, seen);
    for (int i = 0; i < n; i++) {
        const ls_method *m = ls_shadows_all(s, NULL)[i].method;
        const bool guesses = !strcmp(m->name, "logitspec-paper") || !strcmp(m->name, "logit-only");
        assert_non_null(ls_shadows_all(s, NULL)[i].simulator);
        assert_int_equal(ls_shadows_all(s, NULL)[i].total.emitted, seen[i].emitted[1]);
        if (!ls_simulated_is_exact(&ls_shadows_all(s, NULL)[i].total, m) && !guesses) continue;
        exact++;
        assert_memory_equal(&seen[i], &real[i], sizeof seen[i]);
    }
    assert_int_equal(exact, n - 4); // logitspec, recycle, racer and lookahead learn from rows that nobody verified
    assert_true(ls_shadows_us_per_step(s) > 0);
    ls_shadows_free(s);
}

// A chat template may drop what it wrote before: the next turn goes on from another, shorter text.
static void a_turn_that_rewrites_the_one_before_begins_anew(void **state) {
    (void)state;
    const ls_run run = run_of_model();
    const ls_shadow_variant ways[] = {
        {"pld", way("pld")}, {"logitspec", way("logitspec")}, {"retrieval-only", way("retrieval-only")}};
    static int32_t context[3000];
    record(prompt, way("plain"), 1);
    for (int again = 0; again < 2; again++) {
        ls_shadows *s = ls_shadows_new(ways, 3, &run), *alone = ls_shadows_new(ways, 3, &run);
        for (int i = 0; i < 3000; i++) context[i] = 'a' + i % 20;
        ls_shadows_begin(s, context, 3000); // a long turn, whose places are known
        ls_shadows_end(s);
        work_off(s);
        for (int i = 0; i < 40; i++) context[i] = again ? 'a' + i % 20 : 'z' - i % 7; // shorter; the same, or another
        ls_shadows *both[] = {s, alone};
        for (int k = 0; k < 2; k++) {
            ls_shadows_begin(both[k], context, 40);
            for (int i = 0; i < n_steps; i++) ls_shadows_add(both[k], steps[i]);
            ls_shadows_end(both[k]);
            work_off(both[k]);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ls_shadows_all(s, NULL)[i].total.steps, ls_shadows_all(alone, NULL)[i].total.steps);
            assert_int_equal(ls_shadows_all(s, NULL)[i].total.drafted, ls_shadows_all(alone, NULL)[i].total.drafted);
        }
        ls_shadows_free(s);
        ls_shadows_free(alone);
    }
}

static void what_cannot_be_shadowed_says_why(void **state) {
    (void)state;
    const ls_run run = run_of_model();
    ls_shadow_variant ways[] = {{"typical", way("pld")}, {"pld", way("pld")}};
    assert_int_equal(ls_accept_read(&ways[0].decode.accept, "", "typical", NULL), LS_OK);
    ls_shadows *s = ls_shadows_new(ways, 2, &run);
    assert_non_null(strstr(ls_shadows_all(s, NULL)[0].refusal, "changes the text"));
    assert_non_null(ls_shadows_all(s, NULL)[1].simulator);
    assert_true(ls_shadows_work(s, UINT64_MAX)); // nothing has begun
    const counts real = real_counts("pld");
    counts seen[2] = {0};
    watch(s, seen);
    assert_int_equal(ls_shadows_all(s, NULL)[0].total.steps, 0);
    assert_memory_equal(&seen[1], &real, sizeof real);
    ls_shadows_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shadow_of_whoever_decodes_does_the_same),
        cmocka_unit_test(shadows_beside_plain_decoding_do_what_their_own_runs_do),
        cmocka_unit_test(a_turn_that_rewrites_the_one_before_begins_anew),
        cmocka_unit_test(what_cannot_be_shadowed_says_why),
    };
    return cmocka_run_group_tests(tests, recorded_set_up, recorded_tear_down);
}
