// Why paths end. Why a token was not drafted: what each method says of its sources, against a second drafter that is
// fed the same history anew and asked for the largest tree.
#include "base/mem.h"
#include "base/rng.h"
#include "decode/drafting.h"
#include "decode/stats.h"
#include "drafters.h"
#include "recorded.h"
#include "spec/corpus.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { STEPS = 80, VOCAB = 200, LOGITS = 64, MAX_TEXT = 4000 };

// A target that follows from the last two tokens, with exceptions: at some places another token, at some one that is
// usually less likely.
static const struct {
    int32_t kinds;
    double other, swapped;
} worlds[] = {{40, 0.1, 0}, {12, 0, 0.15}, {90, 0.02, 0.05}, {3, 0.1, 0.1}, {30, 0, 0.04}};
static int world;

static int32_t said(const int32_t *text, size_t n, int rank) {
    const double u = ls_uniform_at(3, n), other = worlds[world].other;
    const int32_t kinds = worlds[world].kinds, with = 1 + (int32_t)(n % 7);
    const uint64_t pair = (uint64_t)text[n - 2] * VOCAB + (uint64_t)text[n - 1] + (u < other ? 7919 * n : 0);
    if (u >= other && u < other + worlds[world].swapped && (rank == 0 || rank == with)) rank = with - rank;
    return (int32_t)((uint64_t)(ls_uniform_at(11, pair) * kinds) + (uint64_t)rank * (1 + pair % 3 * 2)) % VOCAB;
}

typedef struct {
    size_t n_context;
    ls_tree *tree; // as it was verified
    int32_t n_path;
    int32_t top[LOGITS];
} past_step;

typedef struct {
    int32_t text[MAX_TEXT];
    size_t n_prompt;
    past_step steps[STEPS];
    int n;
} history;

static ls_draft_state state_of(const history *h, const past_step *s) {
    static float p[LOGITS];
    for (int i = 0; i < LOGITS; i++) p[i] = 0.5f / (float)(1 + i);
    return (ls_draft_state){h->text, s->n_context, s->tree->nodes[0].token, s->top, p, LOGITS, NULL};
}

static void fill(const history *h, past_step *s) {
    int32_t text[MAX_TEXT + LS_MAX_ROWS], way[LS_MAX_ROWS], chosen[LS_MAX_ROWS];
    memcpy(text, h->text, s->n_context * sizeof *text);
    for (int32_t i = 0; i < s->tree->n; i++) {
        const int32_t n = ls_tree_path(s->tree, i, way);
        for (int32_t k = 0; k < n; k++) text[s->n_context + (size_t)k] = s->tree->nodes[way[k]].token;
        for (int j = 0; j < LS_ROW_TOP; j++)
            test_say(&s->tree->nodes[i], j, said(text, s->n_context + (size_t)n, j), 0.5f / (float)(1 + j));
        chosen[i] = s->tree->nodes[i].top[0].id;
    }
    s->n_path = test_verify(s->tree, chosen, way);
}

static char corpus[64];

static ls_drafter *make(const ls_method *m) {
    static ls_knob_value knobs[64];
    ls_drafter *d = NULL;
    ls_err err = {0};
    ls_knob_defaults(knobs);
    for (size_t i = 0; i < ls_knob_count(); i++)
        if (!strcmp(ls_knob_at(i)->key, "rest.corpus")) knobs[i].text = corpus;
    const ls_draft_setup setup = {.knobs = knobs + ls_knob_offset(m), .tokenizer = "test", .n_vocab = VOCAB};
    if (ls_drafter_make(&d, m, &setup, &err)) fail_msg("%s: %s", m->name, err.msg);
    return d;
}

// The same steps again, then the largest tree for step `until`.
static void largest_tree(const ls_method *m, const history *h, int until, int32_t max_rows, ls_tree *out) {
    ls_drafter *d = make(m);
    d->observe(d, h->text, 0, true);
    for (int i = 0; i <= until; i++) {
        const past_step *s = &h->steps[i];
        const ls_draft_state state = state_of(h, s);
        d->observe(d, h->text, s->n_context, false);
        d->propose(d, &state, i < until ? max_rows : LS_MAX_ROWS, out);
        if (i < until && d->learn) d->learn(d, &(ls_draft_result){&state, s->tree, s->n_path});
    }
    d->free(d);
}

// Whether the token stands behind that path in the tree, in a branch of a rank that a tree of `max_rows` rows looks at.
static bool holds(const ls_tree *t, const ls_tree *of, int32_t row, int32_t token, int32_t ranks) {
    int32_t way[LS_MAX_ROWS], mine[LS_MAX_ROWS];
    const int32_t n = ls_tree_path(of, row, way);
    for (int32_t i = 1; i < t->n; i++) {
        if (t->nodes[i].depth != n || t->nodes[i].token != token || t->nodes[i].rank >= ranks) continue;
        ls_tree_path(t, i, mine);
        bool same = true;
        for (int32_t k = 0; k < n; k++) same &= t->nodes[mine[k]].token == of->nodes[way[k]].token;
        if (same) return true;
    }
    return false;
}

// One run; returns how often a token was missed that was known.
static int run(const ls_method *m, int32_t max_rows, int *seen, ls_tree *large) {
    static history h;
    // the published rule looks at as many ranks as the tree has rows
    const int32_t ranks = !strncmp(m->name, "logit", 5) && m != ls_methods[1] ? max_rows : LS_MAX_ROWS;
    ls_drafter *d = make(m);
    int known = 0;
    size_t n = 120;
    for (size_t i = 0; i < n; i++)
        h.text[i] = i < 2   ? (int32_t)i
                    : i % 9 ? said(h.text, i, 0)
                            : (int32_t)(ls_uniform_at(5, i) * worlds[world].kinds);
    d->observe(d, h.text, 0, true);
    for (h.n = 0; h.n < STEPS; h.n++) {
        past_step *s = &h.steps[h.n];
        s->n_context = n;
        s->tree = ls_tree_new();
        for (int j = 0; j < LOGITS; j++) s->top[j] = said(h.text, n, j);
        ls_tree_start(s->tree, s->top[0]);
        const ls_draft_state state = state_of(&h, s);
        d->observe(d, h.text, n, false);
        d->propose(d, &state, max_rows, s->tree);
        fill(&h, s);
        int32_t end = 0, way[LS_MAX_ROWS];
        for (int32_t i = 0; i < s->tree->n; i++)
            if (s->tree->nodes[i].state == LS_NODE_ACCEPTED) end = i;
        const ls_draft_question q = {&state, s->tree, end, s->tree->nodes[end].target, max_rows};
        const ls_miss k = ls_drafter_miss(d, &q);
        assert_int_equal(ls_drafter_miss(d, &q), k); // asking changes nothing
        seen[k]++;
        known += k == LS_MISS_NO_ROW;
        largest_tree(m, &h, h.n, max_rows, large);
        const bool drafted = holds(large, s->tree, end, q.token, ranks);
        if (drafted != (k == LS_MISS_NO_ROW) && !(k == LS_MISS_NO_ROW && large->n == LS_MAX_ROWS))
            fail_msg("%s, world %d, %d rows, step %d: it says %d, the largest tree %s the token", m->name, world,
                     max_rows, h.n, k, drafted ? "has" : "lacks");
        if (d->learn) d->learn(d, &(ls_draft_result){&state, s->tree, s->n_path});
        const int32_t taken = ls_tree_path(s->tree, end, way);
        for (int32_t i = 0; i < taken; i++) h.text[n++] = s->tree->nodes[way[i]].token;
    }
    while (h.n) free(h.steps[--h.n].tree);
    d->free(d);
    return known;
}

static void a_method_knows_what_its_largest_tree_holds(void **unused) {
    (void)unused;
    ls_tree *large = ls_tree_new();
    int seen[LS_MISS_NO_ROW + 1] = {0};
    for (const ls_method *const *at = ls_methods; *at; at++) {
        int known = 0;
        if ((*at)->asks_model) continue; // what it sees depends on how many rows it drafts: unit/test_draft_model.c
        for (world = 0; (*at)->drafter && world < (int)(sizeof worlds / sizeof *worlds); world++)
            for (int32_t max_rows = 2; max_rows <= 32; max_rows *= 2) known += run(*at, max_rows, seen, large);
        world = 0;
        // guesses alone, as many ranks as rows: all of them fit
        if ((*at)->drafter && !known && strcmp((*at)->name, "logit-only"))
            fail_msg("%s: no step missed a token that was known", (*at)->name);
    }
    for (int k = LS_MISS_UNKNOWN; k <= LS_MISS_NO_ROW; k++) // cost is for the sizing rule to tell
        assert_int_equal(seen[k] > 0, k != LS_MISS_COST);
    free(large);
}

static const char prompt[] = "One fish, two fish, red fish, blue fish. One dog, two dogs, red dogs. ";

static void a_step_has_the_reason_of_its_end(void **unused) {
    (void)unused;
    int seen[LS_MISS_COUNT] = {0};
    for (int kind = 0; kind < 3; kind++) {
        ls_decode_options o = options("logitspec", kind == 1 ? 4 : 0, 150);
        if (kind == 2) o.sampling.temperature = 4;
        record(prompt, o, 1);
        for (int i = 0; i < n_steps; i++) {
            const ls_step *s = steps[i];
            const ls_node *end = &s->tree.nodes[s->path[s->n_path - 1]];
            seen[s->miss]++;
            assert_int_equal(s->miss == LS_MISS_NONE, !s->forward || s->finish);
            if (s->miss == LS_MISS_NONE) continue;
            assert_int_equal(s->miss == LS_MISS_SAMPLED, end->target != end->top[0].id);
            if (s->miss == LS_MISS_COST) assert_true(kind != 1 && s->rows < 64);
            if (s->miss == LS_MISS_NO_ROW) assert_int_equal(s->rows, kind == 1 ? 4 : 64);
        }
    }
    assert_true(seen[LS_MISS_COST] && seen[LS_MISS_NO_ROW] && seen[LS_MISS_SAMPLED]);
    record(prompt, options("plain", 0, 20), 1);
    for (int i = 0; i < n_steps; i++) assert_int_equal(steps[i]->miss, LS_MISS_NONE); // nothing drafts
}

static void misses_are_counted_with_what_they_cost(void **unused) {
    (void)unused;
    record(prompt, options("logitspec", 4, 60), 2); // the second turn begins anew
    ls_stats st = {0};
    uint64_t n[LS_MISS_COUNT] = {0}, alone[LS_MISS_COUNT] = {0}, all = 0, cost = 0;
    double us[LS_MISS_COUNT] = {0};
    for (int i = 0; i < n_steps; i++) {
        ls_stats_add(&st, steps[i]);
        if (!steps[i]->miss) continue;
        n[steps[i]->miss]++;
        all++;
        assert_true(i + 1 < n_steps && steps[i + 1]->turn == steps[i]->turn); // a turn does not end so
        if (steps[i + 1]->n_emitted > 1 || !steps[i + 1]->forward) continue;
        alone[steps[i]->miss]++;
        us[steps[i]->miss] += steps[i + 1]->t_total_us;
        cost++;
    }
    assert_int_equal(ls_stats_misses(&st), all);
    assert_true(cost > 0 && cost < all);
    for (int m = 0; m < LS_MISS_COUNT; m++) {
        assert_int_equal(st.misses[m], n[m]);
        assert_int_equal(st.miss_steps[m], alone[m]);
        assert_true(fabs(st.miss_us[m] - us[m]) < 1e-6);
    }
}

// Until a lossy run lets its first draft stand, it is the exact run; there it does what was foreseen.
static void a_preview_is_what_the_rule_then_does(void **unused) {
    (void)unused;
    int stood = 0;
    ls_stats st = {0};
    ls_decode_options o = options("recycle", 16, 120);
    o.sampling.temperature = 4; // an undecided target
    record(prompt, o, 1);
    const int n = n_steps;
    const ls_step *exact[MAX_STEPS];
    uint64_t would[LS_ACCEPT_COUNT] = {0};
    for (int i = 0; i < n; i++) ls_stats_add(&st, exact[i] = ls_step_share(steps[i]));
    for (int r = 1; r < LS_ACCEPT_COUNT; r++) {
        const ls_accept rule = ls_accept_usual(r);
        if (!ls_accept_previews(&rule)) { // it lets nothing stand that the target did not choose
            assert_int_equal(st.would_steps[r], 0);
            continue;
        }
        o.accept = rule;
        record(prompt, o, 1);
        bool same = true;
        for (int i = 0; i < n; i++) {
            int row = -1;
            const int more = ls_step_would(exact[i], &rule, &row);
            if (more) {
                assert_int_equal(exact[i]->tree.nodes[row].parent, exact[i]->path[exact[i]->n_path - 1]);
                would[r] += (uint64_t)more;
            }
            if (!same) continue;
            const ls_step *s = steps[i];
            assert_int_equal(ls_step_lossy(s, NULL) > 0, more > 0);
            assert_int_equal(s->n_path, exact[i]->n_path + more);
            same = more == 0;
            assert_false(ls_step_rejected(s)); // that run is no exact one
            stood += !same;
            if (!same) assert_int_equal(s->path[exact[i]->n_path], row);
        }
        assert_int_equal(st.would_tokens[r], would[r]);
        assert_true(st.would_steps[r] <= st.rejections);
    }
    assert_true(stood >= 3);
    for (int i = 0; i < n; i++) ls_step_free(exact[i]);
}

static void a_turn_that_was_stopped_says_nothing_of_the_next(void **unused) {
    (void)unused;
    ls_stats st = {0};
    ls_step *s = ls_step_new();
    ls_step_start(
        s, (ls_step){.index = 7, .forward = true, .n_emitted = 2, .n_path = 2, .rows = 4, .miss = LS_MISS_NO_ROW});
    ls_stats_add(&st, s);
    ls_step_start(s, (ls_step){.index = 0, .turn = 1, .forward = true, .n_emitted = 1, .n_path = 1, .rows = 4});
    ls_stats_add(&st, s);
    ls_step_free(s);
    assert_int_equal(st.misses[LS_MISS_NO_ROW], 1);
    assert_int_equal(st.miss_steps[LS_MISS_NO_ROW], 0);
}

static int write_corpus(void **state) {
    int32_t text[3000] = {0, 1};
    ls_err err;
    for (size_t i = 2; i < 3000; i++)
        text[i] = i % 50 ? said(text, i, 0) : (int32_t)(ls_uniform_at(5, i) * worlds[world].kinds);
    const ls_corpus_facts facts = {.n = 3000, .n_vocab = VOCAB, .tokenizer = "test"};
    snprintf(corpus, sizeof corpus, "/tmp/logitspec-blame-%d.corpus", (int)getpid());
    return ls_corpus_write(corpus, text, &facts, 1, NULL, NULL, &err) || recorded_set_up(state);
}

static int remove_corpus(void **state) {
    return unlink(corpus) || recorded_tear_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_method_knows_what_its_largest_tree_holds),
        cmocka_unit_test(a_step_has_the_reason_of_its_end),
        cmocka_unit_test(misses_are_counted_with_what_they_cost),
        cmocka_unit_test(a_preview_is_what_the_rule_then_does),
        cmocka_unit_test(a_turn_that_was_stopped_says_nothing_of_the_next),
    };
    return cmocka_run_group_tests(tests, write_corpus, remove_corpus);
}
