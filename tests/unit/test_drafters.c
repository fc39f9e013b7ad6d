// What holds for the drafts of every method, and the rules of those that came after the first (test_spec.c).
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "drafters.h"
#include "spec/automaton.h"
#include "spec/stream.h"
#include "spec/rates.h"
#include "spec/recall.h"
#include "spec/sizing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void check_tree(const ls_tree *t, const ls_draft_state *s, bool repeats_siblings) {
    assert_int_equal(t->nodes[0].token, s->root);
    assert_int_equal(t->nodes[0].parent, -1);
    int32_t listed = 1;
    for (int32_t b = 0; b < t->n_branches; b++) { // branches are runs of rows, in order
        assert_int_equal(t->branches[b].first_node, listed);
        assert_true(t->branches[b].n_nodes > 0);
        listed += t->branches[b].n_nodes;
    }
    assert_int_equal(listed, t->n);
    for (int32_t i = 1; i < t->n; i++) {
        assert_in_range(t->nodes[i].parent, 0, i - 1);
        assert_int_equal(t->nodes[i].depth, t->nodes[t->nodes[i].parent].depth + 1);
        assert_true(t->nodes[i].token >= 0);
        assert_in_range(t->nodes[i].from, LS_SOURCE_ROOT + 1, LS_SOURCE_COUNT - 1);
        const ls_branch *b = &t->branches[t->nodes[i].branch];
        assert_in_range(i, b->first_node, b->first_node + b->n_nodes - 1);
        if (t->nodes[i].match_pos >= 0) assert_int_equal(t->nodes[i].token, s->context[t->nodes[i].match_pos]);
        if (!isnan(t->nodes[i].est_p)) assert_true(t->nodes[i].est_p >= 0 && t->nodes[i].est_p <= 1);
        if (!repeats_siblings)
            for (int32_t k = 1; k < i; k++)
                assert_false(t->nodes[k].parent == t->nodes[i].parent && t->nodes[k].token == t->nodes[i].token);
    }
}

// On texts with much and little repetition: valid, within max_rows, the same each time.
static void trees_of_every_method_are_valid(void **state) {
    (void)state;
    uint64_t counter = 0;
    for (const ls_method *const *at = ls_methods; *at; at++) {
        const ls_method *m = *at;
        if (!m->drafter) continue;
        const bool plenty = !strncmp(m->name, "logit", 5); // 255 guesses: candidates suffice
        int drafted = 0;
        for (int round = 0; round < 40; round++) {
            ls_drafter *d = test_drafter(m), *twin = test_drafter(m);
            const int32_t kinds = round % 2 ? 12 : 400;
            int32_t text[3000], n = 3 + round * 2;
            for (int32_t i = 0; i < n; i++) text[i] = (int32_t)(ls_uniform_at(5, counter++) * kinds);
            d->observe(d, text, (size_t)n, true);
            twin->observe(twin, text, (size_t)n, true);
            for (int step = 0; step < 10; step++) {
                int32_t top[LS_MAX_ROWS];
                float top_p[LS_MAX_ROWS];
                for (int32_t i = 0; i < LS_MAX_ROWS; i++)
                    top[i] = (i * 7 + step % 3) % 500, top_p[i] = 0.5f / (float)(i + 1);
                const int32_t max_rows = 1 + (int32_t)(ls_uniform_at(6, counter++) * (step == 9 ? 256 : 64));
                ls_cost_curve costs = {0};
                for (int i = 0; i < LS_COST_SIZES; i++) costs.base_ms[i] = 10 + 0.5 * ls_cost_rows[i];
                const ls_draft_state s = {text,  (size_t)n,   top[step % 3],           top,
                                          top_p, LS_MAX_ROWS, step % 2 ? &costs : NULL};
                ls_tree t = test_tree(), again = test_tree();
                d->propose(d, &s, max_rows, &t);
                twin->propose(twin, &s, max_rows, &again);
                if (plenty && !s.costs) assert_int_equal(t.n, max_rows);
                else assert_in_range(t.n, 1, max_rows);
                check_tree(&t, &s, m->shares_prefixes);
                assert_int_equal(again.n, t.n);
                for (int32_t i = 0; i < t.n; i++) {
                    assert_int_equal(again.nodes[i].token, t.nodes[i].token);
                    assert_int_equal(again.nodes[i].parent, t.nodes[i].parent);
                }
                drafted += t.n - 1;
                // verify against a target that likes small tokens, teach, go on
                int32_t chosen[LS_MAX_ROWS], path[LS_MAX_ROWS];
                for (int32_t i = 0; i < t.n; i++) {
                    chosen[i] = (t.nodes[i].token * 3 + 1) % kinds;
                    for (int j = 0; j < LS_ROW_TOP; j++)
                        test_say(&t.nodes[i], j, chosen[i] + j, 0.5f / (float)(1 << j));
                    if (i % 5 == 4) t.nodes[i].top[0].id = -1; // nothing is known of this row
                }
                const int32_t n_path = test_verify(&t, chosen, path);
                const ls_draft_result r = {&s, &t, n_path};
                if (d->learn) d->learn(d, &r), twin->learn(twin, &r);
                for (int32_t i = 0; i < n_path; i++) text[n++] = t.nodes[path[i]].token;
                d->observe(d, text, (size_t)n, false);
                twin->observe(twin, text, (size_t)n, false);
            }
            d->free(d);
            twin->free(twin);
        }
        if (drafted <= 100) fail_msg("%s drafted %d rows only", m->name, drafted); // valid for lack of drafts
    }
}

// A text of 8,000 tokens without any repetition, the worst case for tables of what was seen.
static void what_drafters_remember_is_bounded(void **state) {
    (void)state;
    enum { N = 8000 };
    int32_t *text = ls_malloc(N * sizeof *text);
    for (int32_t i = 0; i < N; i++) text[i] = i;
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if (!(*m)->drafter) continue;
        ls_drafter *d = test_drafter(*m);
        d->observe(d, text, 1, true);
        const size_t before = ls_memory_bytes(ls_drafter_memory, d);
        d->observe(d, text, N, false);
        const size_t after = ls_memory_bytes(ls_drafter_memory, d);
        const bool fixed = !strcmp((*m)->name, "lookahead") || !strcmp((*m)->name, "cacheback"); // tables of one size
        if (!fixed && after - before > 200 * N) fail_msg("%s: %zu bytes a token", (*m)->name, (after - before) / N);
        assert_in_range(after, 0, 16 << 20);
        for (int i = 0; i < 60; i++) d->observe(d, text, N, true); // many conversations
        assert_in_range(ls_memory_bytes(ls_drafter_memory, d), 0, 64 << 20);
        assert_true(!d->pool_size || d->pool_size(d) >= 0);
        d->free(d);
    }
    free(text);
}

// ---- suffix automaton

static uint32_t occurrences(const int32_t *text, int32_t n, const int32_t *gram, int32_t len) {
    uint32_t k = 0;
    for (int32_t i = 0; i + len <= n; i++) k += !memcmp(text + i, gram, (size_t)len * sizeof *gram);
    return k;
}

static void the_automaton_counts_every_substring(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        ls_automaton a = {0};
        int32_t text[120];
        const int32_t kinds = 2 + round % 4;
        for (int32_t n = 0; n < 120; n++) {
            text[n] = (int32_t)(ls_uniform_at(11, (uint64_t)(round * 1000 + n)) * kinds);
            ls_automaton_add(&a, text[n]);
        }
        for (int32_t from = 0; from < 120; from += 3) {
            ls_automaton_match m = {0};
            for (int32_t len = 1; len <= 10 && from + len <= 120; len++) {
                ls_automaton_follow(&a, &m, text[from + len - 1]);
                assert_int_equal(m.length, len);
                assert_int_equal(a.states[m.state].count, occurrences(text, 120, text + from, len));
            }
        }
        assert_true(a.n_states <= 2 * 120 && a.n_edges <= 3 * 120);
        ls_automaton_free(&a);
    }
}

// The longest ending that occurred before, kept up while the text grows.
static void matches_follow_a_growing_text(void **state) {
    (void)state;
    ls_automaton a = {0};
    ls_automaton_match m = {0};
    int32_t text[400];
    for (int32_t n = 0; n < 400; n++) {
        text[n] = (int32_t)(ls_uniform_at(12, (uint64_t)n) * 3);
        ls_automaton_follow(&a, &m, text[n]);
        ls_automaton_add(&a, text[n]);
        ls_automaton_settle(&a, &m);
        int32_t longest = 0;
        while (longest < n && occurrences(text, n, text + n - longest, longest + 1)) longest++;
        assert_int_equal(m.length, longest);
        if (longest) // the state holds that ending: it has its count
            assert_int_equal(a.states[m.state].count, occurrences(text, n + 1, text + n + 1 - longest, longest));
    }
    ls_automaton_free(&a);
    assert_null(a.states);
}

static ls_tree draft_after(ls_drafter *d, const int32_t *text, size_t n, int32_t root, int32_t max_rows) {
    ls_tree t = test_tree();
    d->propose(d, &(ls_draft_state){text, n, root, NULL, NULL, 0, NULL}, max_rows, &t);
    return t;
}

// A conversation whose tokens from `from` on are an answer.
static void converse(ls_drafter *d, const int32_t *text, size_t from, size_t n) {
    ls_tree t = test_tree();
    d->observe(d, text, from, true);
    ls_tree_start(&t, text[from]);
    if (d->learn) d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = from}, &t, 1});
    d->observe(d, text, n, false);
}

// Each look-up of the published method can be left out; the other one stays.
static void the_paper_s_look_ups_are_switched_one_by_one(void **state) {
    (void)state;
    static const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2}, top[] = {3, 6};
    static const float p[] = {0.9f, 0.1f};
    enum { N = sizeof text / sizeof *text, ROOT = 3, TAILS = 4 };
    const ls_method *m = ls_method_find("logitspec-paper");
    assert_string_equal(m->knobs[ROOT].key, "logitspec-paper.root");
    assert_string_equal(m->knobs[TAILS].key, "logitspec-paper.tails");
    for (int without = 0; without <= TAILS; without += without ? 1 : ROOT) {
        ls_knob_value knobs[8];
        ls_drafter *d;
        ls_tree t = test_tree();
        for (int i = 0; m->knobs[i].key; i++) knobs[i] = test_knobs(1000, 7)[ls_knob_offset(m) + (size_t)i];
        if (without) knobs[without].number = 0;
        assert_int_equal(ls_drafter_make(&d, m, &(ls_draft_setup){.knobs = knobs, .tokenizer = ""}, NULL), LS_OK);
        d->observe(d, text, N, true);
        d->propose(d, &(ls_draft_state){text, N, 3, top, p, 2, NULL}, 16, &t);
        int copied = 0, guessed = 0;
        for (int i = 1; i < t.n; i++) {
            const bool guess = t.branches[t.nodes[i].branch].rank >= 0;
            const int32_t want = guess ? 6 + guessed++ : 4 + copied++; // what stands behind it in the text
            assert_int_equal(t.nodes[i].token, want <= 8 ? want : want - 8);
        }
        assert_int_equal(copied, without == ROOT ? 0 : 7); // to the end of the text
        assert_int_equal(guessed, without == TAILS ? 1 : 4);
        d->free(d);
    }
}

static ls_drafter *suffix_with(double factor, double depth) {
    const ls_method *m = ls_method_find("suffix");
    ls_knob_value knobs[8];
    ls_drafter *d;
    for (size_t i = 0; m->knobs[i].key; i++) {
        knobs[i] = test_knobs(1000, 7)[ls_knob_offset(m) + i];
        if (!strcmp(m->knobs[i].key, "suffix.factor")) knobs[i].number = factor;
        if (!strcmp(m->knobs[i].key, "suffix.depth")) knobs[i].number = depth;
    }
    assert_int_equal(ls_drafter_make(&d, m, &(ls_draft_setup){.knobs = knobs, .tokenizer = ""}, NULL), LS_OK);
    return d;
}

static void suffix_drafts_by_counts_and_length(void **state) {
    (void)state;
    ls_drafter *d = suffix_with(4, 64);
    // after 1 2: three times 3 4 5, once 6
    const int32_t text[] = {1, 2, 3, 4, 5, 90, 1, 2, 6, 91, 1, 2, 3, 4, 5, 92, 1, 2, 3, 4, 5, 93, 1};
    const size_t n = sizeof text / sizeof *text;
    d->observe(d, text, n, true);
    ls_tree t = draft_after(d, text, n, 2, 64);
    assert_int_equal(t.nodes[1].token, 3);
    assert_float_equal(t.nodes[1].est_p, 0.75, 1e-6);
    assert_int_equal(t.nodes[1].from, LS_SOURCE_HISTORY);
    bool has_six = false;
    for (int32_t i = 1; i < t.n; i++) has_six |= t.nodes[i].token == 6 && t.nodes[i].parent == 0;
    assert_true(has_six);
    assert_int_equal(t.n, 1 + 2 * 4); // two tokens matched, four drafts each
    d->free(d);
    d = suffix_with(1, 64); // as published
    d->observe(d, text, n, true);
    assert_int_equal(draft_after(d, text, n, 2, 64).n, 1 + 2);
    d->free(d);
    d = suffix_with(20, 4); // two tokens of the match, two drafts
    d->observe(d, text, n, true);
    t = draft_after(d, text, n, 2, 64);
    for (int32_t i = 1; i < t.n; i++) assert_in_range(t.nodes[i].depth, 1, 3); // 3: after a match of one token
    int32_t deepest = 0;
    for (int32_t i = 1; i < t.n; i++) deepest = t.nodes[i].depth > deepest ? t.nodes[i].depth : deepest;
    assert_true(deepest >= 2);
    d->free(d);
}

// A long passage that is repeated is drafted on and on: of the endings that match, one that leaves room is taken.
static void suffix_drafts_after_long_matches(void **state) {
    (void)state;
    int32_t text[400];
    for (int32_t i = 0; i < 400; i++) text[i] = i % 200;
    ls_drafter *d = suffix_with(1, 64);
    for (int32_t n = 201; n < 390; n += 7) {
        d->observe(d, text, (size_t)n, true);
        const ls_tree t = draft_after(d, text, (size_t)n, text[n], 64);
        const int32_t matched = n - 199; // tokens of the second time, root included
        assert_int_equal(t.n - 1, matched < 32 ? matched : 32);
        for (int32_t i = 1; i < t.n; i++) assert_int_equal(t.nodes[i].token, text[(n + i) % 200]);
    }
    d->free(d);
    d = suffix_with(4, 64); // a path as likely as 0.1 at least: 1/2, 1/4, 1/8
    int32_t coin[2000];
    for (int32_t i = 0; i < 2000; i++) coin[i] = ls_uniform_at(77, (uint64_t)i) < 0.5;
    d->observe(d, coin, 2000, true);
    const ls_tree t = draft_after(d, coin, 2000, 1, 200);
    for (int32_t i = 1; i < t.n; i++) {
        double path = 1;
        for (int32_t at = i; at > 0; at = t.nodes[at].parent) path *= (double)t.nodes[at].est_p;
        assert_true(path >= 0.1 - 1e-6);
    }
    d->free(d);
}

static void suffix_asks_this_conversation_and_earlier_answers(void **state) {
    (void)state;
    ls_drafter *d = suffix_with(1, 64);
    // prompt: 10 11 12; answer: 20 21 22 10 11 30
    const int32_t first[] = {10, 11, 12, 20, 21, 22, 10, 11, 30};
    converse(d, first, 3, 9);
    const int32_t other[] = {50, 51, 20, 21};
    d->observe(d, other, 3, true);
    assert_int_equal(draft_after(d, other, 3, 21, 64).nodes[1].token, 22); // an earlier answer
    assert_int_equal(draft_after(d, other, 3, 12, 64).n, 1);               // an earlier prompt is forgotten
    const int32_t third[] = {60, 20, 21, 77, 20};
    d->observe(d, third, 5, true); // what this prompt says comes first
    const ls_tree t = draft_after(d, third, 5, 21, 64);
    assert_int_equal(t.nodes[1].token, 77);
    // two answers are not read as one text: 30 ends the first, 40 begins the second
    const int32_t second[] = {13, 14, 40, 41};
    converse(d, second, 2, 4);
    d->observe(d, other, 2, true);
    assert_int_equal(draft_after(d, other, 2, 30, 64).n, 1);
    assert_int_equal(draft_after(d, other, 2, 40, 64).nodes[1].token, 41);
    d->free(d);
}

static void cacheback_asks_again_after_each_follower(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("cacheback");
    const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 30, 31, 32, 33, 1};
    const size_t n = sizeof text / sizeof *text;
    d->observe(d, text, n, true);
    ls_tree t = draft_after(d, text, n, 2, 64);
    assert_int_equal(t.nodes[1].token, 30); // the most recent follower comes first
    assert_int_equal(t.nodes[1].match_n, 2);
    int32_t first = 0;
    for (int32_t i = 1; i < t.n; i++)
        if (t.nodes[i].parent == 0 && t.nodes[i].token == 3) first = i;
    assert_true(first > 0);                        // the older one stands beside it
    int32_t chain[] = {4, 5, 6, 7, 8}, at = first; // and goes on where its follower ended: 3 4 5 | 6 7 8
    for (int k = 0; k < 5; k++) {
        int32_t next = -1;
        for (int32_t i = at + 1; i < t.n; i++)
            if (t.nodes[i].parent == at && t.nodes[i].token == chain[k]) next = i;
        assert_true(next > 0);
        at = next;
    }
    d->free(d);
}

static void cacheback_forgets_the_leader_used_longest_ago(void **state) {
    (void)state;
    ls_knob_value knobs[] = {
        {1, NULL}, {1, NULL}, {16, NULL}, {0, NULL}, {0, NULL}}; // leader, length, leaders, file, frozen
    ls_drafter *d;
    const ls_draft_setup setup = {.knobs = knobs, .tokenizer = "test"};
    assert_int_equal(ls_drafter_make(&d, ls_method_find("cacheback"), &setup, NULL), LS_OK);
    int32_t text[110];
    for (int32_t i = 0; i < 110; i++) text[i] = i;
    text[90] = 80; // 80 is used again
    d->observe(d, text, 100, true);
    assert_int_equal(d->pool_size(d), 16);
    assert_int_equal(draft_after(d, text, 100, 10, 8).n, 1); // forgotten
    assert_true(draft_after(d, text, 100, 95, 8).n > 1);
    assert_int_equal(draft_after(d, text, 100, 80, 8).nodes[1].token, 91);
    // a look-up is a use: ten more leaders push out 86, which nobody asked for, but not 85, though it is older
    assert_int_equal(draft_after(d, text, 100, 85, 2).n, 2);
    d->observe(d, text, 110, false);
    assert_int_equal(draft_after(d, text, 110, 85, 2).n, 2);
    assert_int_equal(draft_after(d, text, 110, 86, 2).n, 1);
    d->free(d);
}

// Lookahead on a target whose next token is a function of the last: the window's guesses become right n-grams.
static void lookahead_harvests_what_its_window_said(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("lookahead");
    int32_t text[2000], n = 0; // nothing to retrieve in the prompt
    size_t late = 0;
    while (n < 60) text[n] = (n * 31) % 97, n++;
    d->observe(d, text, (size_t)n, true);
    for (int step = 0; step < 60; step++) {
        const int32_t root = (text[n - 1] * 5 + 3) % 97;
        ls_tree t = draft_after(d, text, (size_t)n, root, 120);
        // 15 columns of four levels with the root; before, a level a step, in columns that are lost on the way
        static const int32_t window[] = {18, 34, 48, 60};
        assert_true(step < 4 ? t.n == window[step] : t.n >= 45);
        int32_t chosen[LS_MAX_ROWS], path[LS_MAX_ROWS];
        for (int32_t i = 0; i < t.n; i++) {
            chosen[i] = (t.nodes[i].token * 5 + 3) % 97;
            test_say(&t.nodes[i], 0, chosen[i], 0.5f);
        }
        const int32_t n_path = test_verify(&t, chosen, path);
        d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = (size_t)n}, &t, n_path});
        for (int32_t i = 0; i < n_path; i++) text[n++] = t.nodes[path[i]].token;
        d->observe(d, text, (size_t)n, false);
        if (step >= 30) late += (size_t)n_path;
    }
    assert_true(late > 60); // more than two tokens a step
    d->free(d);
}

// The n-grams belong to a conversation, unless `keep` is on; those of the text count only if `text` is.
static void lookahead_forgets_with_the_conversation(void **state) {
    (void)state;
    static ls_knob_value knobs[64];
    const ls_method *m = ls_method_find("lookahead");
    enum { N = 5000, LEADERS = 4096 };
    int32_t *text = ls_malloc(N * sizeof *text);
    for (int32_t i = 0; i < N; i++) text[i] = i;
    ls_knob_defaults(knobs);
    for (int way = 0; way < 3; way++) { // as published; with text; kept, too
        ls_knob_value *own = knobs + ls_knob_offset(m);
        for (int i = 0; m->knobs[i].key; i++)
            if (!strcmp(m->knobs[i].key, "lookahead.text")) own[i].number = way > 0;
            else if (!strcmp(m->knobs[i].key, "lookahead.keep")) own[i].number = way > 1;
        const ls_draft_setup setup = {.knobs = own, .n_vocab = N};
        ls_drafter *d;
        assert_int_equal(ls_drafter_make(&d, m, &setup, NULL), LS_OK);
        d->observe(d, text, N, true);
        assert_int_equal(d->pool_size(d), way ? LEADERS : 0); // one n-gram for each token, the latest ones
        ls_tree tree = test_tree();
        ls_tree_start(&tree, 7);
        const ls_draft_state s = {.context = text, .n_context = N};
        for (int32_t k = 0; k < 2 && way; k++) {
            const int32_t old = N - 5 - LEADERS, token = k ? N - 5 : old;
            tree.nodes[0].token = token;
            assert_int_equal(d->miss(d, &(ls_draft_question){&s, &tree, 0, token + 1, 64}, LS_MISS_UNKNOWN),
                             k ? LS_MISS_TAKEN : LS_MISS_UNKNOWN);
        }
        d->observe(d, text, 3, true);
        assert_int_equal(d->pool_size(d), way > 1 ? LEADERS : 0);
        d->free(d);
    }
    free(text);
}

// ---- memory on disk

static char noted[700];

static void take_note(void *ud, const char *text) {
    (void)ud;
    snprintf(noted, sizeof noted, "%s", text);
}

static ls_code make_with_file(ls_drafter **out, const char *method, const char *key, const char *path,
                              uint64_t tokenizer_id, ls_err *err) {
    static ls_knob_value knobs[64];
    ls_knob_defaults(knobs);
    for (size_t i = 0; i < ls_knob_count(); i++)
        if (!strcmp(ls_knob_at(i)->key, key)) knobs[i].text = path;
    const ls_method *m = ls_method_find(method);
    const ls_draft_setup setup = {.knobs = knobs + ls_knob_offset(m),
                                  .tokenizer = "test",
                                  .n_vocab = 100,
                                  .tokenizer_id = tokenizer_id,
                                  .note = take_note};
    *noted = 0;
    return ls_drafter_make(out, m, &setup, err);
}

static ls_drafter *with_file(const char *method, const char *key, const char *path, uint64_t tokenizer_id) {
    ls_drafter *d;
    assert_int_equal(make_with_file(&d, method, key, path, tokenizer_id, NULL), LS_OK);
    return d;
}

static void damage_at(const char *path, long at, const char *bytes) {
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, strlen(bytes), f), strlen(bytes));
    assert_int_equal(fclose(f), 0);
}

// A server gives what one conversation has learnt to the drafter of another one.
static void a_memory_is_restored_into_another_drafter(void **state) {
    (void)state;
    static const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 9, 4, 5, 6, 8, 1, 2, 3, 4, 5, 1}, top[] = {2, 3};
    static const float p[] = {0.9f, 0.1f};
    enum { N = sizeof text / sizeof *text };
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if (!(*m)->drafter || (*m)->asks_model || (*m)->asks_head || !strcmp((*m)->name, "rest")) continue;
        ls_drafter *from, *to;
        ls_buf memory = {0};
        ls_tree first = test_tree(), second = test_tree();
        const ls_draft_state at = {text, N, 2, top, p, 2, NULL};
        char key[64], path[2][64]; // each has a file of its own if the method has files
        snprintf(key, sizeof key, "%s.file", (*m)->name);
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof path[i], "/tmp/logitspec-test-%d.%d", (int)getpid(), i);
            unlink(path[i]);
            assert_int_equal(make_with_file(i ? &to : &from, (*m)->name, key, path[i], 7, NULL), LS_OK);
        }
        converse(from, text, 3, N);
        converse(to, text, 1, 2);
        ls_memory_copy(&memory, ls_drafter_memory, from);
        from->propose(from, &at, 16, &first);
        from->free(from);
        ls_memory_restore(&memory, ls_drafter_memory, to);
        to->propose(to, &at, 16, &second);
        assert_int_equal(first.n, second.n);
        for (int32_t i = 0; i < first.n; i++) assert_int_equal(first.nodes[i].token, second.nodes[i].token);
        to->free(to);
        for (int i = 0; i < 2; i++) unlink(path[i]);
        ls_buf_free(&memory);
    }
}

static void histories_outlive_a_run(void **state) {
    (void)state;
    static const char *const methods[][2] = {{"suffix", "suffix.file"}, {"cacheback", "cacheback.file"}};
    char path[64];
    snprintf(path, sizeof path, "/tmp/logitspec-test-%d.history", (int)getpid());
    for (int k = 0; k < 2; k++) {
        const int32_t text[] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, other[] = {40, 1};
        unlink(path);
        ls_drafter *d = with_file(methods[k][0], methods[k][1], path, 5);
        assert_string_equal(noted, ""); // the first run
        converse(d, text, 1, 12);
        d->free(d);
        d = with_file(methods[k][0], methods[k][1], path, 5); // the second run
        assert_string_equal(noted, "");
        d->observe(d, other, 2, true);
        ls_tree t = draft_after(d, other, 2, 2, 16);
        assert_int_equal(t.nodes[1].token, 3);
        d->free(d);
        // another vocabulary, another version: one line, nothing used, the file as it was
        for (int i = 0; i < 2; i++) {
            if (i) damage_at(path, 18, "9");
            d = with_file(methods[k][0], methods[k][1], path, i ? 5 : 6);
            assert_non_null(strstr(
                noted, i ? "not a history of this version; the file is not used, and not changed"
                         : "the history is not for the tokenizer of test; the file is not used, and not changed"));
            d->observe(d, other, 2, true);
            assert_int_equal(draft_after(d, other, 2, 2, 16).n, 1);
            d->free(d);
            if (i) damage_at(path, 18, "1");
        }
        d = with_file(methods[k][0], methods[k][1], path, 5);
        assert_string_equal(noted, "");
        d->observe(d, other, 2, true);
        assert_int_equal(draft_after(d, other, 2, 2, 16).nodes[1].token, 3);
        d->free(d);
        // a cut file, a damaged one: one line, nothing used, replaced
        struct {
            long at;
            const char *bytes, *message;
        } const damage[] = {{-1, NULL, "cut short"}, {60, "\xff\xff\xff\x7f", "damaged"}};
        for (int i = 0; i < 2; i++) {
            d = with_file(methods[k][0], methods[k][1], path, 5); // whole again: the last run wrote it
            assert_string_equal(noted, "");
            converse(d, text, 1, 12);
            d->free(d);
            struct stat st;
            if (damage[i].bytes) damage_at(path, damage[i].at, damage[i].bytes);
            else assert_int_equal(stat(path, &st) || truncate(path, st.st_size - 3), 0);
            d = with_file(methods[k][0], methods[k][1], path, 5);
            assert_non_null(strstr(noted, damage[i].message));
            d->observe(d, other, 2, true);
            assert_int_equal(draft_after(d, other, 2, 2, 16).n, 1);
            d->free(d);
        }
    }
    // a file of the user's that is no history is refused, and stays
    for (int k = 0; k < 2; k++) {
        ls_drafter *d;
        ls_err err;
        struct stat st;
        FILE *f = fopen(path, "w");
        assert_true(f && fputs("Dear diary,\n", f) >= 0 && !fclose(f));
        assert_int_equal(make_with_file(&d, methods[k][0], methods[k][1], path, 5, &err), LS_E_USAGE);
        assert_non_null(strstr(err.msg, "not a history of drafts, and it would be overwritten: name another file"));
        assert_null(d);
        assert_int_equal(make_with_file(&d, methods[k][0], methods[k][1], "/tmp", 5, &err), LS_E_USAGE);
        assert_null(strstr(err.msg, "overwritten")); // a folder is none of that
        assert_true(!stat(path, &st) && st.st_size == 12);
    }
    unlink(path);
    ls_drafter *d = with_file("suffix", "suffix.file", "/nowhere/x", 5);
    converse(d, (int32_t[]){1, 2, 3}, 1, 3);
    d->free(d); // told when it cannot be written
    assert_non_null(strstr(noted, "cannot write /nowhere/x"));
}

// Two programs that end one after the other, a third one that holds the file too long.
static void a_history_of_several_programs_keeps_what_each_learned(void **state) {
    (void)state;
    static const char *const methods[][2] = {{"suffix", "suffix.file"}, {"cacheback", "cacheback.file"}};
    char path[64];
    snprintf(path, sizeof path, "/tmp/logitspec-test-%d.shared", (int)getpid());
    const int32_t old[] = {9, 21, 22, 23, 24, 25, 26}, first[] = {9, 31, 32, 33, 34, 35, 36},
                  second[] = {9, 41, 42, 43, 44, 45, 46};
    for (int k = 0; k < 2; k++) {
        unlink(path);
        ls_drafter *a = with_file(methods[k][0], methods[k][1], path, 5);
        assert_int_equal(a->began, 0);
        converse(a, old, 1, 7);
        a->free(a);
        a = with_file(methods[k][0], methods[k][1], path, 5);
        ls_drafter *b = with_file(methods[k][0], methods[k][1], path, 5);
        assert_true(a->began && a->began == b->began); // recordings name the memory that it began with
        converse(a, first, 1, 7);
        converse(b, second, 1, 7);
        b->free(b);
        a->free(a);
        assert_string_equal(noted, "");
        a = with_file(methods[k][0], methods[k][1], path, 5);
        for (int32_t t = 20; t <= 40; t += 10) {
            const int32_t now[] = {t + 1, t + 2};
            a->observe(a, now, 1, true);
            assert_int_equal(draft_after(a, now, 1, t + 2, 16).nodes[1].token, t + 3);
        }
        a->free(a);
        const int lock = ls_open_locked(path, NULL);
        assert_true(lock >= 0);
        ls_drafter *held = with_file(methods[k][0], methods[k][1], path, 5);
        converse(held, first, 1, 7);
        held->free(held);
        assert_non_null(strstr(noted, "so the tokens of this run are not saved: another program is using it"));
        close(lock);
    }
    unlink(path);
}

// Tokens first .. first + n of an answer, each the target's only choice after the one before it.
static void answer(ls_drafter *d, int32_t first, int32_t n) {
    const int32_t prompt = first;
    d->observe(d, &prompt, 1, true);
    for (int32_t i = 0; i < n; i++) test_teach(d, &prompt, 1, first + i, first + i + 1, 1, 0.9f);
}

static bool knows_answer(ls_drafter *d, int32_t first, int32_t n) { // as deep as the answer goes
    const int32_t other = 99;
    d->observe(d, &other, 1, true);
    const ls_tree t = draft_after(d, &other, 1, first, n + 1);
    for (int32_t i = 1; i <= n; i++)
        if (i >= t.n || t.nodes[i].token != first + i) return false;
    return true;
}

// LogitSpec's file has the target's choices after the tokens of answers; two programs that end add theirs. It is not
// believed if it is damaged, or of another vocabulary or kind.
static void choices_outlive_a_run(void **state) {
    (void)state;
    static const char *const key = "logitspec.file";
    char path[64];
    ls_err err;
    struct stat st;
    snprintf(path, sizeof path, "/tmp/logitspec-test-%d.memory", (int)getpid());
    unlink(path);
    ls_drafter *a = with_file("logitspec", key, path, 5);
    assert_int_equal(a->began, 0);
    answer(a, 10, 5);
    a->free(a);
    assert_true(!stat(path, &st) && (st.st_mode & 0777) == 0600);
    a = with_file("logitspec", key, path, 5);
    ls_drafter *b = with_file("logitspec", key, path, 5);
    const uint64_t began = a->began;
    assert_true(began && began == b->began);
    assert_true(knows_answer(a, 10, 5));
    answer(a, 30, 5);
    answer(b, 50, 5);
    assert_false(knows_answer(a, 50, 5));
    b->free(b);
    a->free(a);
    assert_string_equal(noted, "");
    a = with_file("logitspec", key, path, 5);
    assert_true(a->began && a->began != began);
    assert_true(knows_answer(a, 10, 5) && knows_answer(a, 30, 5) && knows_answer(a, 50, 5));
    a->free(a); // nothing new: the file stays as it is
    a = with_file("logitspec", key, path, 6);
    assert_non_null(
        strstr(noted, "the memory is not for the tokenizer of test; the file is not used, and not changed"));
    assert_false(knows_answer(a, 10, 5));
    a->free(a);
    assert_int_equal(make_with_file(&a, "suffix", "suffix.file", path, 5, &err), LS_E_USAGE); // of another kind
    assert_non_null(strstr(err.msg, "not a history of drafts"));
    for (long at = 60; at < 120; at += 4) { // numbers of the first token
        damage_at(path, at, "\xff\xff\xff\x7f");
        a = with_file("logitspec", key, path, 5);
        assert_non_null(strstr(noted, "damaged"));
        assert_false(knows_answer(a, 10, 5));
        a->free(a); // writes an empty one
        a = with_file("logitspec", key, path, 5);
        assert_string_equal(noted, "");
        answer(a, 10, 5);
        a->free(a);
    }
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(make_with_file(&a, "logitspec", key, path, 5, &err), LS_E_USAGE);
    unlink(path);
}

// Bigrams are found by the model's name and vocabulary, written anew as a whole, and never changed by answers.
static void bigrams_are_drafted_from_the_start(void **state) {
    (void)state;
    static const char *const key = "logitspec.bigrams";
    enum { N = 8 };
    const ls_draft_setup place = {.tokenizer = "test", .n_vocab = 100, .tokenizer_id = 5};
    ls_successor next[N];
    char cache[64], old[64], *path;
    ls_err err;
    struct stat st;
    for (int32_t i = 0; i < N; i++) ls_successor_set(&next[i], 0, i + 1, 0.9f), next[i].id[1] = -1;
    snprintf(old, sizeof old, "/tmp/logitspec-test-%d.old", (int)getpid());
    snprintf(cache, sizeof cache, "/tmp/logitspec-test-%d.cache", (int)getpid());
    char *before = getenv("XDG_CACHE_HOME") ? ls_strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("XDG_CACHE_HOME", cache, 1);
    ls_drafter *d = with_file("logitspec", key, "", 5);
    assert_false(d->began || knows_answer(d, 0, 1));
    d->free(d);
    assert_int_equal(ls_bigrams_write(next, 0, N, &place, &path, &err), LS_OK);
    assert_true(!stat(path, &st) && (st.st_mode & 0777) == 0600);
    d = with_file("logitspec", key, "", 5);
    assert_string_equal(noted, "");
    const uint64_t began = d->began;
    assert_true(began && knows_answer(d, 0, 1));
    answer(d, 30, 5);
    d->free(d);
    d = with_file("logitspec", key, "", 5);
    assert_true(d->began == began && !knows_answer(d, 30, 1));
    d->free(d);
    d = with_file("logitspec", key, "none", 5);
    assert_false(d->began || knows_answer(d, 0, 1));
    d->free(d);
    d = with_file("logitspec", key, "", 6); // another vocabulary has another file
    assert_false(d->began || knows_answer(d, 0, 1));
    d->free(d);
    for (int32_t i = 0; i < N; i++) next[i].id[0] = 50 + i; // asked again: nothing of before is left
    assert_int_equal(rename(path, old), 0);
    d = with_file("logitspec", key, old, 5);
    assert_true(d->began == began && knows_answer(d, 0, 1));
    d->free(d);
    assert_int_equal(rename(old, path), 0);
    free(path);
    assert_int_equal(ls_bigrams_write(next, 0, N, &place, &path, &err), LS_OK);
    assert_int_equal(truncate(path, st.st_size), 0);
    d = with_file("logitspec", key, "", 5);
    assert_string_equal(noted, "");
    assert_false(d->began == began || knows_answer(d, 0, 1));
    d->free(d);
    assert_int_equal(truncate(path, st.st_size - 4), 0);
    d = with_file("logitspec", key, "", 5); // damaged: drafts do without
    assert_non_null(strstr(noted, "cut short; it is not used: doctor --bigrams writes it anew"));
    assert_false(d->began);
    d->free(d);
    free(path);
    assert_int_equal(ls_bigrams_write(next, 0, N, &place, &path, &err), LS_OK);
    assert_int_equal(make_with_file(&d, "logitspec", key, "/nonexistent", 5, &err), LS_E_USAGE);
    assert_int_equal(make_with_file(&d, "logitspec", key, path, 6, &err), LS_E_USAGE);
    assert_non_null(strstr(err.msg, "the bigram-table is not for the tokenizer of test"));
    unlink(path);
    free(path);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    assert_int_equal(ls_bigrams_write(next, 0, N, &place, &path, &err), LS_E_IO);
    assert_null(path);
    if (before) setenv("XDG_CACHE_HOME", before, 1);
    else unsetenv("XDG_CACHE_HOME");
    free(before);
}

static void cacheback_asks_a_frozen_table_where_it_knows_nothing(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/logitspec-test-%d.frozen", (int)getpid());
    const int32_t text[] = {1, 2, 3, 4, 5, 6}, other[] = {40, 1}, third[] = {1, 2, 7, 8, 9, 40, 1};
    unlink(path);
    ls_drafter *d;
    ls_err err;
    assert_int_equal(make_with_file(&d, "cacheback", "cacheback.frozen", path, 5, &err), LS_E_USAGE);
    assert_non_null(strstr(err.msg, "the file is empty or does not exist"));
    d = with_file("cacheback", "cacheback.file", path, 5);
    d->observe(d, text, 6, true);
    d->free(d);
    assert_int_equal(make_with_file(&d, "cacheback", "cacheback.frozen", path, 6, &err), LS_E_USAGE); // another's
    assert_non_null(strstr(err.msg, "not for the tokenizer of test"));
    assert_int_equal(make_with_file(&d, "cacheback", "cacheback.frozen", "/dev/null", 5, &err), LS_E_USAGE);
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    d = with_file("cacheback", "cacheback.frozen", path, 5);
    assert_true(d->began);
    d->observe(d, other, 2, true);
    assert_int_equal(draft_after(d, other, 2, 2, 16).nodes[1].token, 3);
    d->observe(d, third, 7, true); // what it knows itself comes first, though the leader is as long
    assert_int_equal(draft_after(d, third, 7, 2, 16).nodes[1].token, 7);
    d->free(d);
    assert_true(!stat(path, &after) && after.st_ino == before.st_ino && after.st_size == before.st_size);
    unlink(path);
}

// ---- estimates for drafters without any

static void scores_are_hit_rates(void **state) {
    (void)state;
    ls_scores *s = ls_calloc(1, sizeof *s);
    ls_tree t = test_tree();
    float first = 0;
    ls_draft nodes[4] = {{.token = 1, .parent = -1}};
    for (int i = 1; i < 4; i++)
        nodes[i] = (ls_draft){
            .token = i + 1, .parent = i - 1, .rank = -1, .match_n = 2, .from = LS_SOURCE_HISTORY, .est_p = NAN};
    for (int i = 0; i < 400; i++) { // chains of three: the first token is right in one of two, the rest always
        const int32_t path[] = {0, 1, 2, 3};
        ls_tree_lay_out(&t, nodes, 4);
        ls_scores_fill(s, &t);
        if (!i) first = t.nodes[1].est_p;
        ls_tree_mark(&t, path, i % 2 ? 4 : 1);
        ls_scores_learn(s, &t);
    }
    ls_tree_lay_out(&t, nodes, 4);
    ls_scores_fill(s, &t);
    assert_true(first > 0.1 && first < 0.9);
    assert_float_equal(t.nodes[1].est_p, 0.5, 0.05);
    assert_true(t.nodes[2].est_p > 0.9 && t.nodes[3].est_p > 0.9);
    // a kind that was never seen: the drafter's own estimate says which is likelier, and without any its place does
    ls_draft fresh[4] = {{.token = 1, .parent = -1}};
    for (int i = 1; i < 4; i++)
        fresh[i] = (ls_draft){
            .token = i + 1, .parent = 0, .rank = -1, .from = LS_SOURCE_REMEMBERED, .est_p = i == 3 ? 0.5f : 0.1f};
    ls_tree_lay_out(&t, fresh, 4);
    ls_scores_fill(s, &t);
    assert_true(t.nodes[3].est_p > 2 * t.nodes[1].est_p);
    for (int i = 1; i < 4; i++) fresh[i].est_p = NAN;
    ls_tree_lay_out(&t, fresh, 4);
    ls_scores_fill(s, &t);
    assert_true(t.nodes[1].est_p > t.nodes[2].est_p && t.nodes[2].est_p > t.nodes[3].est_p && t.nodes[3].est_p > 0);
    // siblings add up to 1 at most
    ls_draft wide[6] = {{.token = 1, .parent = -1}};
    for (int i = 1; i < 6; i++)
        wide[i] = (ls_draft){.token = i + 1, .parent = 0, .rank = -1, .from = LS_SOURCE_CORPUS, .est_p = 0.9f};
    ls_tree_lay_out(&t, wide, 6);
    ls_scores_fill(s, &t);
    float sum = 0;
    for (int i = 1; i < 6; i++) sum += t.nodes[i].est_p;
    assert_true(sum <= 1.0001f);
    free(s);
}

static void knobs_have_ranges(void **state) {
    (void)state;
    ls_err err;
    ls_knob_value v;
    size_t numbers = 0;
    for (size_t i = 0; i < ls_knob_count(); i++) {
        const ls_knob *k = ls_knob_at(i);
        char text[64];
        const char *dot = strchr(k->key, '.');
        char owner[64];
        ls_sizing rule;
        snprintf(owner, sizeof owner, "%.*s", (int)(dot - k->key), k->key);
        assert_true(ls_method_find(owner) || !ls_sizing_read(&rule, "", owner, NULL));
        assert_true(strlen(k->help) > 5);
        if (k->kind == LS_KNOB_FILE) continue;
        if (k->kind == LS_KNOB_SWITCH) {
            assert_int_equal(ls_knob_read(k, "here", "on", &v, &err) || v.number != 1, LS_OK);
            assert_int_equal(ls_knob_read(k, "here", "off", &v, &err) || v.number != 0, LS_OK);
            assert_int_equal(ls_knob_read(k, "here", "1", &v, &err), LS_E_USAGE);
            assert_non_null(strstr(err.msg, "expected one of on, off"));
            continue;
        }
        numbers++;
        snprintf(text, sizeof text, "%.10g", k->fallback);
        assert_int_equal(ls_knob_read(k, "here", text, &v, &err), LS_OK);
        assert_true(v.number >= k->lo && v.number <= k->hi);
        snprintf(text, sizeof text, "%.10g", k->hi + 1);
        assert_int_equal(ls_knob_read(k, "here", text, &v, &err), LS_E_USAGE);
        assert_non_null(strstr(err.msg, k->key));
        assert_int_equal(ls_knob_read(k, "here", "many", &v, &err), LS_E_USAGE);
        assert_int_equal(ls_knob_read(k, "here", "nan", &v, &err), LS_E_USAGE);
        assert_int_equal(ls_knob_read(k, "here", "", &v, &err), LS_E_USAGE);
        if (k->kind == LS_KNOB_INT) assert_int_equal(ls_knob_read(k, "here", "1.5", &v, &err), LS_E_USAGE);
    }
    assert_true(numbers >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_paper_s_look_ups_are_switched_one_by_one),
        cmocka_unit_test(trees_of_every_method_are_valid),
        cmocka_unit_test(what_drafters_remember_is_bounded),
        cmocka_unit_test(the_automaton_counts_every_substring),
        cmocka_unit_test(matches_follow_a_growing_text),
        cmocka_unit_test(suffix_drafts_by_counts_and_length),
        cmocka_unit_test(suffix_drafts_after_long_matches),
        cmocka_unit_test(suffix_asks_this_conversation_and_earlier_answers),
        cmocka_unit_test(cacheback_asks_again_after_each_follower),
        cmocka_unit_test(cacheback_forgets_the_leader_used_longest_ago),
        cmocka_unit_test(lookahead_harvests_what_its_window_said),
        cmocka_unit_test(lookahead_forgets_with_the_conversation),
        cmocka_unit_test(a_memory_is_restored_into_another_drafter),
        cmocka_unit_test(histories_outlive_a_run),
        cmocka_unit_test(choices_outlive_a_run),
        cmocka_unit_test(bigrams_are_drafted_from_the_start),
        cmocka_unit_test(a_history_of_several_programs_keeps_what_each_learned),
        cmocka_unit_test(cacheback_asks_a_frozen_table_where_it_knows_nothing),
        cmocka_unit_test(scores_are_hit_rates),
        cmocka_unit_test(knobs_have_ranges),
    };
    return cmocka_run_group_tests_name("drafters", tests, NULL, NULL);
}
