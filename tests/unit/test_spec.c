// Pool, tree, verification, costs, the first drafters: integers only.
#include "drafters.h"
#include "base/rng.h"
#include "spec/pool.h"
#include "spec/rates.h"
#include "spec/usage.h"
#include "spec/cost_curve.h"
#include "spec/tree.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const ls_pool as_published = {.order = LS_POOL_ORDER, .span = LS_POOL_SPAN};

static void list_pool(void *of, ls_memory_visit *v) {
    ls_memory_part(v, of, sizeof(ls_pool));
    ls_pool_arrays(of, v);
}

static void list_successors(void *of, ls_memory_visit *v) {
    ls_memory_part(v, of, sizeof(ls_successors));
    ls_successors_arrays(of, v);
}

static void pool_prefers_long_matches_and_full_continuations(void **state) {
    (void)state;
    ls_pool p = as_published;
    int32_t text[64], n = 0;
    for (int i = 0; i < 30; i++) text[n++] = i;                  // 0 1 2 ... 29
    text[n++] = 5, text[n++] = 6, text[n++] = 7, text[n++] = 90; // 5 6 7 again, then something else
    ls_pool_update(&p, text, (size_t)n);
    ls_match m = ls_pool_find(&p, (int32_t[]){5, 6, 7}, 3);
    assert_int_equal(m.n, 3);
    assert_int_equal(m.len, LS_POOL_SPAN); // the later occurrence has one token only: the older full one stays
    assert_int_equal(m.pos, 8);
    m = ls_pool_find(&p, (int32_t[]){77, 6, 7}, 3); // no such 3-gram: falls back to two
    assert_int_equal(m.n, 2);
    m = ls_pool_find(&p, (int32_t[]){77, 78, 3}, 3);
    assert_int_equal(m.n, 1);
    assert_int_equal(m.pos, 4);
    m = ls_pool_find(&p, (int32_t[]){77, 78, 79}, 3);
    assert_int_equal(m.n, 0);
    m = ls_pool_find(&p, (int32_t[]){5, 6, 7} + 2, 1); // what stands before the tail is not looked at
    assert_int_equal(m.n, 1);
    m = ls_pool_find(&p, (int32_t[]){90}, 1); // the last token has no continuation yet
    assert_int_equal(m.n, 0);
    // once the later continuation is as long, it wins
    for (int i = 0; i < 20; i++) {
        text[n++] = 200 + i;
        ls_pool_update(&p, text, (size_t)n);
    }
    m = ls_pool_find(&p, (int32_t[]){5, 6, 7}, 3);
    assert_int_equal(m.pos, 33);
    assert_int_equal(text[m.pos], 90);
    ls_memory_drop(list_pool, &p);
}

// What the pool holds by its definition: every n-gram of the places that are indexed, a later place replacing an
// earlier one whose continuation is not longer.
typedef struct {
    int32_t pos[LS_POOL_ORDER][400], len[LS_POOL_ORDER][400]; // by place of the n-gram; len 0: not indexed
    size_t n;
    int32_t order, span;
} plain_pool;

static void plain_update(plain_pool *p, size_t n) {
    const size_t span = (size_t)p->span, window = 2 * span;
    const size_t end = n - p->n > span + 1 ? p->n : n; // a longer addition: the window before the old end
    for (size_t k = 1; k <= LS_POOL_ORDER; k++)
        for (size_t i = end > window ? end - window : 0; i + k < n; i++) {
            p->pos[k - 1][i] = (int32_t)(i + k);
            p->len[k - 1][i] = (int32_t)(n - i - k < span ? n - i - k : span);
        }
    p->n = n;
}

static ls_match plain_find(const plain_pool *p, const int32_t *text, const int32_t *tail) {
    for (int32_t k = p->order; k > 0; k--) {
        ls_match m = {k, -1, 0};
        for (size_t i = 0; i + (size_t)k < p->n; i++)
            if (p->len[k - 1][i] >= m.len && p->len[k - 1][i] > 0 &&
                !memcmp(text + i, tail + LS_POOL_ORDER - k, (size_t)k * sizeof *text))
                m.pos = p->pos[k - 1][i], m.len = p->len[k - 1][i];
        if (m.len) return m;
    }
    return (ls_match){0, -1, 0};
}

static void the_pool_grows_by_its_definition(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        // as published, and all other lengths
        const int32_t order = round < 20 ? LS_POOL_ORDER : 1 + (int32_t)round % LS_POOL_ORDER;
        const int32_t span = round < 20 ? LS_POOL_SPAN : 1 + (int32_t)round % LS_POOL_MAX_SPAN;
        ls_pool p = {.order = order, .span = span};
        static plain_pool plain;
        int32_t text[400];
        const int32_t kinds = round % 2 ? 4 : 30;
        uint64_t counter = round * 1000;
        memset(&plain, 0, sizeof plain);
        plain.order = order, plain.span = span;
        size_t n = 1 + (size_t)(ls_uniform_at(21, counter++) * 100); // a prompt, then steps of one token or a few
        for (size_t i = 0; i < 400; i++) text[i] = (int32_t)(ls_uniform_at(22, counter++) * kinds);
        while (n < 300) {
            ls_pool_update(&p, text, n);
            plain_update(&plain, n);
            for (size_t i = LS_POOL_ORDER; i <= n; i += 7) {
                const ls_match got = ls_pool_find(&p, text, i),
                               want = plain_find(&plain, text, text + i - LS_POOL_ORDER);
                assert_int_equal(got.n, want.n);
                assert_int_equal(got.pos, want.pos);
                assert_int_equal(got.len, want.len);
            }
            n += 1 + (size_t)(ls_uniform_at(23, counter++) * (round % 3 ? 3 : 30));
        }
        ls_memory_drop(list_pool, &p);
    }
}

static void short_texts_are_fine(void **state) {
    (void)state;
    ls_pool p = as_published;
    ls_pool_update(&p, NULL, 0);
    int32_t one[] = {4};
    ls_pool_update(&p, one, 1);
    assert_int_equal(ls_pool_size(&p), 0);
    assert_int_equal(ls_pool_find(&p, one, 1).n, 0);
    ls_memory_drop(list_pool, &p);
}

static void verify_takes_the_longest_agreeing_path(void **state) {
    (void)state;
    ls_tree t = test_tree();
    ls_tree_start(&t, 1);
    ls_branch b = {.rank = -1, .match_n = 2, .match_pos = 10, .found = 3};
    assert_int_equal(ls_tree_add(&t, (int32_t[]){2, 3, 4}, 3, 64, b), 3); // rows 1 2 3
    b.rank = 1;
    assert_int_equal(ls_tree_add(&t, (int32_t[]){2, 3, 9, 8}, 4, 64, b), 4); // rows 4 5 6 7, same prefix
    int32_t chosen[8] = {2, 3, 9, 0, 3, 9, 8, 7}, path[8];
    assert_int_equal(test_verify(&t, chosen, path), 5);
    const int32_t want[] = {0, 4, 5, 6, 7};
    assert_memory_equal(path, want, sizeof want);
    chosen[5] = 4; // now both match two tokens: the first of equals
    chosen[2] = 5;
    assert_int_equal(test_verify(&t, chosen, path), 3);
    assert_int_equal(path[2], 2);
    chosen[0] = 5; // nothing agrees at the root: what agrees below does not count
    assert_int_equal(test_verify(&t, chosen, path), 1);
    assert_int_equal(path[0], 0);
    assert_int_equal(t.nodes[2].match_pos, 11);
    assert_int_equal(t.nodes[4].match_pos, -1); // a guess itself was not copied
    assert_int_equal(t.nodes[5].match_pos, 10);
    assert_int_equal(t.nodes[4].from, LS_SOURCE_LAST_LOGIT);
    assert_int_equal(t.nodes[5].from, LS_SOURCE_GUESS_TAIL);
    b.rank = 0; // a guess too: the root was sampled
    assert_int_equal(ls_tree_add(&t, (int32_t[]){6, 7}, 2, 64, b), 2);
    assert_int_equal(t.nodes[8].from, LS_SOURCE_LAST_LOGIT);
    assert_int_equal(t.nodes[9].from, LS_SOURCE_GUESS_TAIL);
}

// The paper's rule on a worked example: the retrieved continuation first, then guesses by rank with their lengths.
static void paper_rule_lengths_and_order(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("logitspec-paper");
    int32_t text[100], top[64], n = 0;
    for (int i = 0; i < 30; i++) text[n++] = 100 + i;
    d->observe(d, text, (size_t)n, true);
    for (int i = 0; i < 64; i++) top[i] = i;
    top[0] = 105; // the root
    top[3] = 110; // a guess with a continuation
    top[9] = 115; // rank 9: three tokens
    ls_tree t = test_tree();
    ls_draft_state s = {text, (size_t)n, 105, top, NULL, 64, NULL};
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.n, 64);
    assert_int_equal(t.branches[0].rank, -1);
    assert_int_equal(t.branches[0].n_nodes, 20); // 106 ...
    assert_int_equal(t.nodes[1].token, 106);
    assert_int_equal(t.branches[1].rank, 1); // rank 0 is the root and is skipped
    assert_int_equal(t.branches[1].n_nodes, 1);
    assert_int_equal(t.branches[3].rank, 3);
    assert_int_equal(t.branches[3].n_nodes, 4); // 110 111 112 113
    assert_int_equal(t.branches[3].found, 19);
    assert_int_equal(t.nodes[t.branches[3].first_node + 1].token, 111);
    assert_int_equal(t.branches[9].n_nodes, 3);
    for (int32_t max_rows = 1; max_rows < 64; max_rows++) { // a smaller tree is a prefix, of exactly that many rows
        ls_tree small = test_tree();
        d->propose(d, &s, max_rows, &small);
        assert_int_equal(small.n, max_rows);
        for (int32_t i = 0; i < max_rows; i++) {
            assert_int_equal(small.nodes[i].token, t.nodes[i].token);
            assert_int_equal(small.nodes[i].parent, t.nodes[i].parent);
        }
    }
    // ranks 1 to 8 take four tokens, 9 to 32 three, the rest one; the root is never drafted after itself
    static const int32_t ranks[] = {8, 9, 32, 33}, rows[] = {4, 3, 3, 1};
    for (int i = 0; i < 4; i++) top[ranks[i]] = 116 + i;
    d->propose(d, &s, 256, &t);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.branches[ranks[i]].rank, ranks[i]);
        assert_int_equal(t.branches[ranks[i]].n_nodes, rows[i]);
    }
    for (int32_t i = 1; i < t.n; i++) assert_int_not_equal(t.nodes[i].token, 105);
    d->free(d);
}

static void the_papers_lengths_are_knobs(void **state) {
    (void)state;
    int32_t text[62], top[64];
    for (int i = 0; i < 60; i++) text[i] = 100 + i % 30;
    text[31] = 7; // 100 7 102 ...: the second 102 follows another token
    text[60] = 101, text[61] = 102;
    for (int i = 0; i < 64; i++) top[i] = i ? 200 + i : 103;
    const ls_draft_state s = {text, 62, 103, top, NULL, 64, NULL};
    ls_knob_value knobs[] = {{1, NULL}, {5, NULL}, {3, NULL}, {1, NULL}, {1, NULL}}; // ngram, span, ranks, root, tails
    const ls_draft_setup setup = {.knobs = knobs, .tokenizer = ""};
    ls_drafter *d;
    ls_tree t = test_tree();
    assert_int_equal(ls_drafter_make(&d, ls_method_find("logitspec-paper"), &setup, NULL), LS_OK);
    d->observe(d, text, 62, true);
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.branches[0].match_n, 1);
    assert_int_equal(t.branches[0].match_pos, 34); // after the later 103, though 101 102 103 is at the first
    assert_int_equal(t.branches[0].n_nodes, 5);
    assert_int_equal(t.n_branches, 3); // the root's own and ranks 1 and 2
    d->free(d);
    knobs[0].number = 3;
    assert_int_equal(ls_drafter_make(&d, ls_method_find("logitspec-paper"), &setup, NULL), LS_OK);
    d->observe(d, text, 62, true);
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.branches[0].match_n, 3);
    assert_int_equal(t.branches[0].match_pos, 4);
    d->free(d);
}

// Two halves of the paper's rule.
static void ablations_keep_one_half(void **state) {
    (void)state;
    int32_t text[40], top[64];
    for (int i = 0; i < 40; i++) text[i] = 100 + i;
    for (int i = 0; i < 64; i++) top[i] = i ? 200 + i : 105;
    const ls_draft_state s = {text, 40, 105, top, NULL, 64, NULL};
    ls_tree t = test_tree();
    ls_drafter *d = test_drafter_named("logit-only");
    d->observe(d, text, 40, true);
    d->propose(d, &s, 20, &t);
    assert_int_equal(t.n, 20);
    for (int32_t i = 1; i < t.n; i++) assert_true(t.nodes[i].parent == 0 && t.nodes[i].from == LS_SOURCE_LAST_LOGIT);
    d->free(d);
    d = test_drafter_named("retrieval-only");
    d->observe(d, text, 40, true);
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.n, 21);
    assert_int_equal(t.n_branches, 1);
    for (int32_t i = 1; i < t.n; i++) assert_true(t.nodes[i].parent == i - 1 && t.nodes[i].token == 105 + i);
    d->free(d);
}

static void prompt_lookup_takes_the_longest_then_the_earliest(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("pld");
    const int32_t text[] = {7,  1,  2,  50, 9,  1,  2,  3,  60, 61, 1,  2, 3, 70,
                            71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 1, 2};
    const size_t n = sizeof text / sizeof *text;
    ls_draft_state s = {text, n, 3, NULL, NULL, 0, NULL};
    ls_tree t = test_tree();
    d->observe(d, text, n, true);
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.n, 11); // ten tokens after "1 2 3", the first time
    assert_int_equal(t.nodes[1].token, 60);
    assert_int_equal(t.nodes[1].match_n, 3);
    assert_int_equal(t.nodes[1].match_pos, 8);
    d->propose(d, &s, 4, &t);
    assert_int_equal(t.n, 4);
    s.root = 9; // never after "1 2": only itself is known
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.nodes[1].match_n, 1);
    assert_int_equal(t.nodes[1].token, 1);
    s.root = 999;
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.n, 1);
    d->observe(d, text, 3, true); // another conversation: the old one is forgotten
    s = (ls_draft_state){text, 3, 3, NULL, NULL, 0, NULL};
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.n, 1);
    d->free(d);
}

static void recycling_hangs_known_successors_in_a_fixed_tree(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("recycle");
    ls_tree t = test_tree();
    const ls_draft_state s = {NULL, 0, 5, NULL, NULL, 0, NULL};
    d->propose(d, &s, 80, &t);
    assert_int_equal(t.n, 1);                     // nothing is known
    for (int32_t token = 0; token < 100; token++) // after x the target likes x + 1, x + 2, ...
        test_teach(d, NULL, 0, token, token + 1, LS_ROW_TOP, 0.1f);
    d->propose(d, &s, LS_MAX_ROWS, &t);
    assert_int_equal(t.n, 81);
    static const int32_t levels[] = {1, 8, 21, 25, 15, 8, 3}; // of the published tree
    int32_t count[7] = {0}, children[LS_MAX_ROWS] = {0};
    for (int32_t i = 0; i < t.n; i++) count[t.nodes[i].depth]++;
    assert_memory_equal(count, levels, sizeof levels);
    for (int32_t i = 1; i < t.n; i++) { // a row's children have ranks 0, 1, ...
        const int32_t rank = t.nodes[i].token - t.nodes[t.nodes[i].parent].token - 1;
        assert_int_equal(rank, children[t.nodes[i].parent]++);
    }
    int32_t row = 0; // the way by ranks 0, 0, 0, 1, 0, 0 is its longest but one
    for (int32_t depth = 0; depth < 6; depth++) {
        const int32_t token = t.nodes[row].token + 1 + (depth == 3);
        int32_t next = row + 1;
        while (next < t.n && (t.nodes[next].parent != row || t.nodes[next].token != token)) next++;
        assert_true(next < t.n);
        row = next;
    }
    ls_tree small = test_tree();
    for (int32_t max_rows = 1; max_rows < 81; max_rows++) { // a smaller tree is a part of a larger one
        d->propose(d, &s, max_rows, &small);
        assert_int_equal(small.n, max_rows);
        if (max_rows == 5) assert_int_equal(small.nodes[3].depth, 3); // deep where it is likely, not level by level
    }
    test_teach(d, NULL, 0, 5, 90, LS_ROW_TOP, 0.1f); // what the target said last counts
    d->propose(d, &s, 81, &t);
    for (int32_t i = 1; i < t.n; i++)
        if (t.nodes[i].parent == 0) assert_in_range(t.nodes[i].token, 90, 97);
    d->free(d);
}

static ls_cost_curve costs(double fixed, double per_row) {
    ls_cost_curve z = {0};
    for (int i = 0; i < LS_COST_SIZES; i++) z.base_ms[i] = fixed + per_row * ls_cost_rows[i];
    return z;
}

// A given curve is the same after its text was read again; what was measured gives a text that can be read.
static void a_curve_has_a_text(void **state) {
    (void)state;
    static const char *const given[] = {
        "1:10,8:17,64:73", "1:0.86123456,64:1.2712345", "1:10:32,9:18:64,64:73:90,expert:0.125",
        "1:10.123456:32.3333333,64:99999.5:6143.7,expert:0.0123456", "1:1:3,expert:100"};
    ls_err err = {0};
    ls_cost_curve z, again;
    char text[LS_COST_TEXT], twice[LS_COST_TEXT];
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        assert_int_equal(ls_cost_read(&z, "it", given[i], &err), LS_OK);
        ls_cost_text(&z, text);
        assert_int_equal(ls_cost_read(&again, "it", text, &err), LS_OK);
        assert_memory_equal(&z, &again, sizeof z);
        assert_int_equal(z.expert_ms > 0, strstr(given[i], "expert") != NULL);
        assert_true(z.expert_ms <= ls_cost_most_expert_ms(&z));
        ls_cost_text(&again, twice);
        assert_string_equal(text, twice);
    }
    z = costs(9e5, 123.4567); // the longest text; and neither times nor experts rise with every size
    for (int i = 0; i < LS_COST_SIZES; i++) z.awake[i] = 9.8765e6 - (i == 4);
    z.base_ms[5] = z.base_ms[3];
    z.expert_ms = 1.23456e-5;
    ls_cost_text(&z, text);
    assert_int_equal(ls_cost_read(&again, "it", text, &err), LS_OK);
    assert_true(again.expert_ms > 1.234e-5 && again.base_ms[5] == again.base_ms[4]);
    ls_cost_text(&(ls_cost_curve){0}, text);
    assert_string_equal(text, "");
}

static void a_curve_can_be_given(void **state) {
    (void)state;
    ls_err err = {0};
    ls_cost_curve z, before;
    assert_int_equal(ls_cost_read(&z, "it", "1:10,8:17,64:73", &err), LS_OK);
    assert_true(z.given);
    assert_true(fabs(ls_cost_ms(&z, 1, 500) - 10) < 1e-9 && fabs(ls_cost_ms(&z, 3, 0) - 12) < 1e-9);
    assert_true(fabs(ls_cost_ms(&z, 24, 9) - 33) < 1e-9 && fabs(ls_cost_ms(&z, 128, 0) - 146) < 1e-9);
    before = z;
    ls_cost_observe(&z, 8, 100, -1, 90);
    assert_memory_equal(&z, &before, sizeof z); // what steps take changes nothing
    assert_int_equal(ls_cost_read(&z, "it", "1:10:32,9:18:64,64:73:90,expert:0.125", &err), LS_OK);
    assert_true(z.given && fabs(ls_cost_awake(&z, 5) - 48) < 1e-9 && fabs(ls_cost_awake(&z, 100) - 90) < 1e-9);
    assert_true(fabs(ls_cost_ms(&z, 5, 0) + ls_cost_experts_ms(&z, 5, 40) - 13) < 1e-9);
    assert_int_equal(ls_cost_read(&z, "it", "1:10:32,expert:100", &err), LS_OK); // rows take no time of their own
    assert_true(z.expert_ms <= ls_cost_most_expert_ms(&z));
    static const char *const wrong[] = {"1:10,expert:1",      "expert:1", "1:10:32,8:20",         "1:10,8:20:32",
                                        "1:10:32,8:20:16",    "1:10:0",   "1:10:32,expert:0",     "1:10:32,expert:",
                                        "1:10:32,expert:nan", "1:10:nan", "1:10:32,expert:1,2:3", "1:10:32,expert:-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ls_cost_read(&z, "it", wrong[i], &err), LS_E_USAGE);
    assert_int_equal(ls_cost_read(&z, "it", "1:5", &err), LS_OK);
    assert_true(fabs(ls_cost_ms(&z, 20, 0) - 100) < 1e-9); // in proportion
    assert_int_equal(ls_cost_read(&z, "it", "auto", &err), LS_OK);
    assert_true(!z.given && ls_cost_ms(&z, 1, 0) == 0);
    static const char *const bad[] = {"",      "1",       "1:",      "2:5",     "1:5,",       "1:0",    "1:-3",
                                      "1:nan", "1:5,1:6", "1:5;8:6", "1:5,8:4", "1:5,9999:9", "auto:1", "1:5,4:x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ls_cost_read(&z, "it", bad[i], &err), LS_E_USAGE);
        assert_non_null(strstr(err.msg, "it is '"));
        assert_non_null(strstr(err.msg, "expected auto, free, h200, or ROWS:MS,..."));
    }
}

static void sizing_follows_measured_costs(void **state) {
    (void)state;
    double path[64] = {1}, even[64];
    for (int i = 1; i < 64; i++) path[i] = path[i - 1] * 0.8, even[i] = 0.3;
    even[0] = 1;
    const ls_cost_curve dear = costs(0, 1), free_rows = costs(10, 1e-9), usual = costs(10, 1);
    assert_int_equal(ls_cost_choose(&dear, path, 64, 0, NULL), 1); // a row costs as much as a step: plain decoding
    assert_int_equal(ls_cost_choose(&free_rows, path, 64, 0, NULL), 64);
    // in between: against every other size
    const int32_t n = ls_cost_choose(&usual, path, 64, 0, NULL);
    double sum = 0, best = 0;
    int32_t want = 0;
    for (int32_t k = 1; k <= 64; k++) {
        sum += path[k - 1];
        if (sum / (10 + k) > best) best = sum / (10 + k), want = k;
    }
    assert_int_equal(n, want);
    assert_true(n > 4 && n < 20);
    // stairs: rows up to 8 cost nothing, more cost much: exactly the stair is filled
    ls_cost_curve stairs = {0};
    for (int i = 0; i < LS_COST_SIZES; i++) stairs.base_ms[i] = ls_cost_rows[i] <= 8 ? 4 : 4 * ls_cost_rows[i];
    assert_int_equal(ls_cost_choose(&stairs, even, 64, 0, NULL), 8);
    // a probe goes along with any draft: rows are worth it only together, or not at all
    ls_cost_curve probed = usual;
    probed.beside_rows = 20;
    sum = best = 0;
    for (int32_t k = 1; k <= 64; k++) {
        sum += path[k - 1];
        const double rate = sum / (10 + k + (k > 1 ? 20 : 0));
        if (rate > best) best = rate, want = k;
    }
    assert_int_equal(ls_cost_choose(&probed, path, 64, 0, NULL), want);
    assert_true(want > n);
    probed.beside_rows = 60;
    assert_int_equal(ls_cost_choose(&probed, path, 64, 0, NULL), 1);
    assert_false(ls_cost_may_pay(&dear, 0.05, 10, 0));
    probed = dear;
    probed.beside_rows = 90;
    assert_true(ls_cost_may_pay(&probed, 0.05, 10, 0)); // a row more is a small part of what is paid in any case
    // the search for candidates ends only where nothing can pay
    for (int32_t k = 1; k < n; k++) assert_true(ls_cost_may_pay(&usual, path[k], k, 0));
    assert_false(ls_cost_may_pay(&usual, 0.01, n, 0));
    // nothing measured: everything is offered
    const ls_cost_curve none = {0};
    assert_int_equal(ls_cost_choose(&none, even, 64, 0, NULL), 64);
    assert_true(ls_cost_may_pay(&none, 1e-4, 60, 0));
}

static void costs_interpolate_and_learn(void **state) {
    (void)state;
    ls_cost_curve z = costs(10, 1);
    z.cost_context = 100;
    z.slope_ms = 0.001;
    assert_float_equal(ls_cost_ms(&z, 20, 100), 30, 1e-9);
    assert_float_equal(ls_cost_ms(&z, 128, 100), 148, 1e-9); // beyond the largest: in proportion
    // context is read once, and multiplied by rows
    assert_float_equal(ls_cost_ms(&z, 20, 600), 30 + 0.5 * sqrt(416), 1e-9);
    assert_float_equal(ls_cost_ms(&z, 1, 600), 11 + 0.5 * sqrt(17), 1e-9);
    assert_float_equal(ls_cost_ms(&z, 20, 0), 30 - 0.1 * sqrt(416), 1e-9);
    z.window = 350, z.local = 0.8; // of 500 more tokens, a fifth of the layers sees all and the others 250
    assert_float_equal(ls_cost_seen(&z, 350), 350, 1e-9);
    assert_float_equal(ls_cost_seen(&z, 600), 400, 1e-9);
    assert_float_equal(ls_cost_ms(&z, 20, 600), 30 + 0.3 * sqrt(416), 1e-9);
    ls_cost_curve near_window = z;
    for (int i = 0; i < 500; i++) ls_cost_observe(&near_window, 4, 1100, -1, 18); // few tokens more are seen: no slope
    assert_true(near_window.slope_ms == z.slope_ms && near_window.base_ms[3] > z.base_ms[3]);
    z.window = 50; // smaller than the context of the measurement
    assert_float_equal(ls_cost_ms(&z, 20, 600), 30 + 0.1 * sqrt(416), 1e-9);
    z.window = 0, z.local = 0;
    z.slope_ms = 1;
    assert_float_equal(ls_cost_ms(&z, 20, 0), 15, 1e-9); // not below half
    z.slope_ms = 0;
    for (int i = 0; i < 500; i++) ls_cost_observe(&z, 4, 1100, -1, 14 + 4 * 1000 * 0.001); // far away: the slope
    assert_float_equal(ls_cost_ms(&z, 4, 1100), 18, 0.05);
    assert_float_equal(ls_cost_ms(&z, 4, 100), 14, 1e-9);
    z.slope_ms = 0;
    const ls_cost_curve first = z;
    for (int i = 0; i < 500; i++) ls_cost_observe(&z, 7, 150, -1, 40); // near: the costs of that size
    assert_float_equal(ls_cost_ms(&z, 7, 150), 40, 0.5);
    // the two sizes beside it alike, the others the less the farther they are
    double more[LS_COST_SIZES];
    for (int i = 0; i < LS_COST_SIZES; i++) more[i] = z.base_ms[i] / first.base_ms[i];
    assert_float_equal(more[4], more[5], 1e-9); // 6 and 8 rows
    for (int i = 0; i < 4; i++) assert_true(more[i] > 1 && more[i] < more[i + 1]);
    for (int i = 6; i < LS_COST_SIZES; i++) assert_true(more[i] > 1 && more[i] < more[i - 1]);
    for (int i = 0; i < 500; i++) { // each size believes its own steps
        ls_cost_observe(&z, 1, 150, -1, 11);
        ls_cost_observe(&z, 7, 150, -1, 40);
    }
    assert_float_equal(ls_cost_ms(&z, 7, 150), 40, 1);
    assert_float_equal(ls_cost_ms(&z, 1, 150), 11, 0.5);
    z = first; // a measurement that was disturbed: sizes that are never tried become cheaper with those that are
    for (int i = 0; i < 500; i++)
        for (int32_t rows = 1; rows < 4; rows++)
            ls_cost_observe(&z, rows, 150, -1, 0.6 * ls_cost_ms(&first, rows, 150));
    assert_float_equal(ls_cost_ms(&z, 3, 150), 0.6 * ls_cost_ms(&first, 3, 150), 0.1);
    assert_true(ls_cost_ms(&z, 4, 150) < 0.65 * ls_cost_ms(&first, 4, 150));
    assert_true(ls_cost_ms(&z, 64, 150) < ls_cost_ms(&first, 64, 150));
    const double usual = ls_cost_ms(&z, 1, 150);
    ls_cost_observe(&z, 1, 150, -1, -100 * usual); // no time at all
    assert_true(ls_cost_ms(&z, 1, 150) == usual);
    ls_cost_observe(&z, 1, 150, -1, 1000 * usual); // an interruption is believed no more than a slow step
    assert_true(ls_cost_ms(&z, 1, 150) < 1.1 * usual);
}

static void successors_remember_the_last_word(void **state) {
    (void)state;
    ls_successors s = {.limit = 1 << 20};
    ls_successor a, b;
    for (int i = 0; i < LS_ROW_TOP; i++) ls_successor_set(&a, i, i, 0.1f), ls_successor_set(&b, i, 50 + i, 0.1f);
    assert_float_equal(ls_successor_p(&a, 3), 0.1f, 1e-5);
    ls_successor_set(&a, 0, 0, 1.00001f); // rounding may leave a little more than all
    assert_true(ls_successor_p(&a, 0) == 1);
    const int32_t tail[] = {0, 3, 4}, turned[] = {4, 3};
    for (int n = 1; n <= LS_SUCCESSORS_ORDER; n++) assert_null(ls_successors_get(&s, tail + 3 - n, n));
    ls_successors_put(&s, tail + 1, 2, &a);
    ls_successors_put(&s, tail + 2, 1, &b);
    assert_int_equal(ls_successors_get(&s, tail + 1, 2)->id[1], 1);
    assert_int_equal(ls_successors_get(&s, tail + 2, 1)->id[1], 51);
    assert_null(ls_successors_get(&s, turned, 2));
    assert_null(ls_successors_get(&s, tail, 3)); // token 0 is one, too
    ls_successors_put(&s, tail, 3, &b);
    assert_int_equal(ls_successors_get(&s, tail, 3)->id[0], 50);
    assert_int_equal(ls_successors_get(&s, tail + 1, 2)->id[0], 0);
    ls_successors_put(&s, tail + 1, 2, &b);
    assert_int_equal(ls_successors_get(&s, tail + 1, 2)->id[0], 50);
    int32_t lost = 0;
    for (int32_t i = 0; i < 20000; i++) { // many keys: an answer is the key's own or none
        a.id[0] = i;
        ls_successors_put(&s, (const int32_t[]){i, 7}, 2, &a);
        const ls_successor *e = ls_successors_get(&s, (const int32_t[]){i / 2, 7}, 2);
        if (e) assert_int_equal(e->id[0], i / 2);
        else lost++;
    }
    assert_true(lost < 1000); // 1 MB holds about 14,500: what is younger is there
    const size_t bytes = ls_memory_bytes(list_successors, &s) - sizeof s;
    assert_true(bytes > (1 << 19) && bytes <= 1 << 20);
    int32_t recent = 0; // what was put last is there
    for (int32_t i = 15000; i < 20000; i++) recent += ls_successors_get(&s, (const int32_t[]){i, 7}, 2) != NULL;
    assert_true(recent > 4800);
    int32_t old = 0; // what was put first is forgotten
    for (int32_t i = 0; i < 5000; i++) old += ls_successors_get(&s, (const int32_t[]){i, 7}, 2) != NULL;
    assert_true(old < 200);
    ls_memory_drop(list_successors, &s);
}

static double alone(const ls_rates *r, const ls_features *f) { // the chance of a child without siblings
    uint8_t view[LS_VIEWS];
    ls_rate_views(f, view);
    const double odds = ls_rate_odds(r, view, 0);
    return odds / (1 + odds);
}

static void learn_features(ls_rates *r, const ls_features *f, bool hit) {
    uint8_t view[LS_VIEWS];
    ls_rate_views(f, view);
    ls_rates_learn(r, view, hit - alone(r, f), 0.01);
}

static int32_t any_of(uint64_t *at, int32_t n) {
    return (int32_t)(ls_uniform_at(77, (*at)++) * (double)n);
}

// Each value of each view is that of some candidate, and no weight is that of two views.
static void views_tell_candidates_apart(void **state) {
    (void)state;
    static const float p[] = {0, .0005f, .002f, .005f, .02f, .05f, .08f, .15f, .3f, .4f, .6f, .8f, .9f, .97f};
    bool seen[LS_RATE_KEYS] = {0};
    uint64_t at = 0;
    for (int round = 0; round < 400000; round++) {
        ls_features f = {.copies = any_of(&at, 2),
                         .agree = any_of(&at, 20),
                         .place = (ls_place)any_of(&at, 4),
                         .last = any_of(&at, 2),
                         .last_rank = any_of(&at, 70) - 1,
                         .last_p = p[any_of(&at, 14)],
                         .ago = any_of(&at, 2) ? 1 << any_of(&at, 12) : 0,
                         .count = any_of(&at, 30),
                         .average_rows = any_of(&at, 2) ? 1 << any_of(&at, 6) : 0,
                         .average_rank = any_of(&at, 17) - 1,
                         .average_p = p[any_of(&at, 14)],
                         .listed_ago = any_of(&at, 70),
                         .listed_rank = any_of(&at, LS_ROW_TOP),
                         .listed_p = p[any_of(&at, 14)]};
        f.agree *= f.copies;
        for (int k = 0; k < LS_SUCCESSORS_ORDER; k++) {
            f.remembered[k].known = any_of(&at, 2);
            f.remembered[k].rank = f.remembered[k].known ? (int16_t)(any_of(&at, LS_ROW_TOP + 1) - 1) : -1;
            f.remembered[k].p = p[any_of(&at, 14)];
        }
        uint8_t view[LS_VIEWS];
        ls_rate_views(&f, view);
        for (int v = 0; v < LS_VIEWS; v++) {
            assert_true(ls_rate_at[v] + view[v] < ls_rate_at[v + 1]);
            seen[ls_rate_at[v] + view[v]] = true;
        }
        assert_int_equal(!view[LS_VIEW_COPY], !f.copies);
        assert_int_equal(!view[LS_VIEW_REMEMBERED_2], !f.remembered[1].known);
        assert_int_equal(!view[LS_VIEW_LAST], !f.last);
        assert_int_equal(!view[LS_VIEW_AVERAGE], !f.average_rows);
    }
    static const ls_view always[] = {LS_VIEW_KIND, LS_VIEW_RANKS, LS_VIEW_RECENT, LS_VIEW_COUNT, LS_VIEW_LISTED};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) { // these apply to each candidate
        assert_false(seen[ls_rate_at[always[i]]]);
        seen[ls_rate_at[always[i]]] = true;
    }
    for (int k = 0; k < LS_RATE_KEYS; k++) assert_true(seen[k]);
}

static void rates_learn_and_forget(void **state) {
    (void)state;
    ls_rates r;
    ls_rates_init(&r);
    for (int v = 0; v < LS_VIEWS; v++) assert_true(r.weight[ls_rate_at[v]] == 0); // a view that does not apply
    const ls_features copied = {.copies = true,
                                .agree = 4,
                                .place = LS_PLACE_ON,
                                .remembered = {{.rank = -1}, {.rank = -1}, {.rank = -1}},
                                .last_rank = -1,
                                .average_rank = -1};
    uint8_t view[LS_VIEWS];
    ls_rate_views(&copied, view);
    assert_true(ls_rate_odds(&r, view, 1) > 2.7 * ls_rate_odds(&r, view, 0)); // a token's own log odds
    for (int i = 0; i < 5000; i++) learn_features(&r, &copied, i % 4 == 0);
    assert_float_equal(alone(&r, &copied), 0.25, 0.05);
    for (int i = 0; i < 5000; i++) learn_features(&r, &copied, true); // what is long ago counts little
    assert_true(alone(&r, &copied) > 0.95);
    for (int v = 0; v < LS_VIEWS; v++) assert_true(r.weight[ls_rate_at[v]] == 0);
}

static void list_usage(void *of, ls_memory_visit *v) {
    ls_memory_part(v, of, sizeof(ls_usage));
    ls_usage_arrays(of, v);
}

// Usage equals what a plain count of the text says, also after its memory was copied and returned.
static void usage_counts_tokens(void **state) {
    (void)state;
    enum { KINDS = 60, N = 400 };
    ls_usage u = {0};
    int32_t total[KINDS] = {0}, text[N];
    uint64_t at = 0;
    for (int talk = 0; talk < 4; talk++) {
        int32_t count[KINDS] = {0}, last[KINDS] = {0};
        for (int32_t i = 0; i < N; i++) text[i] = any_of(&at, 1 + any_of(&at, KINDS)); // small ones are frequent
        for (int32_t n = 0; n < N; n += 1 + any_of(&at, 9)) {
            ls_usage_observe(&u, text, (size_t)n, !n);
            if (any_of(&at, 20)) continue;
            ls_buf copy = {0};
            ls_memory_copy(&copy, list_usage, &u);
            ls_usage_observe(&u, text, N, false);
            ls_memory_drop(list_usage, &u);
            ls_memory_restore(&copy, list_usage, &u);
            ls_buf_free(&copy);
        }
        ls_usage_observe(&u, text, N, false);
        for (int32_t i = 0; i < N; i++) total[text[i]]++, count[text[i]]++, last[text[i]] = i + 1;
        for (int32_t k = 0; k < KINDS; k++) {
            const ls_token_usage *t = ls_usage_of(&u, k);
            assert_int_equal(t->total, total[k]);
            if (!count[k]) assert_true(t->conversation != u.conversation || !t->count);
            else {
                assert_int_equal(t->conversation, u.conversation);
                assert_int_equal(t->count, count[k]);
                assert_int_equal(t->last, last[k]);
            }
        }
        int32_t least = INT32_MAX;
        for (int32_t i = 0; i < u.n_frequent; i++) {
            if (total[u.frequent[i]] < least) least = total[u.frequent[i]];
            for (int32_t k = 0; k < i; k++) assert_int_not_equal(u.frequent[k], u.frequent[i]);
        }
        int32_t more = 0;
        for (int32_t k = 0; k < KINDS; k++) more += total[k] > least;
        assert_int_equal(u.n_frequent, LS_USAGE_FREQUENT);
        assert_true(more < LS_USAGE_FREQUENT);
    }
    assert_null(ls_usage_of(&u, 1 << 20));
    assert_true(ls_memory_bytes(list_usage, &u) < 1 << 18);
    ls_memory_drop(list_usage, &u);
}

// An average holds the likeliest tokens of all rows, in order; what is in the text is listed, with its place.
static void usage_averages_predictions(void **state) {
    (void)state;
    ls_usage u = {0};
    ls_usage_observe(&u, NULL, 0, true);
    assert_null(ls_usage_average(&u, 5));
    uint64_t at = 0;
    for (int round = 0; round < 2000; round++) {
        ls_successor next;
        for (int j = 0; j < LS_ROW_TOP; j++) {
            const int32_t id = 10 * j + any_of(&at, j ? 10 : 2); // 0 or 1 first
            ls_successor_set(&next, j, id, 0.5f / (float)(1 << j));
        }
        ls_usage_add(&u, 5, round % 2 ? round : -1, &next);
        const ls_average *a = ls_usage_average(&u, 5);
        float sum = 0;
        int n = 0;
        while (n < LS_AVERAGE_TOP && a->id[n] >= 0) n++;
        assert_in_range(n, LS_ROW_TOP, LS_AVERAGE_TOP);
        assert_int_equal(ls_usage_of(&u, 5)->average_rows, round < UINT8_MAX ? round + 1 : UINT8_MAX);
        for (int i = 0; i < n; i++) {
            sum += a->p[i];
            assert_true(a->p[i] > 0 && (!i || a->p[i] <= a->p[i - 1]));
            for (int k = 0; k < i; k++) assert_int_not_equal(a->id[i], a->id[k]);
        }
        assert_true(sum <= 1.0005f); // shares are rounded
        for (int j = 0; j < LS_ROW_TOP && round % 2; j++) {
            const ls_token_usage *t = ls_usage_of(&u, next.id[j]);
            assert_int_equal(t->listed_at, round);
            assert_int_equal(t->listed_rank, j);
            assert_true(t->listed_p == ls_successor_p(&next, j));
        }
    }
    const ls_average *a = ls_usage_average(&u, 5);
    assert_true(a->id[0] + a->id[1] == 1); // 0 and 1, half of 0.5 each
    assert_float_equal(a->p[0] + a->p[1], 0.5f, 0.01f);
    assert_int_equal(u.n_averages, 1);
    const int32_t n = u.n_recent;
    ls_usage_add(&u, 5, 3, &(ls_successor){.id = {-1}}); // no prediction: nothing is learnt
    assert_int_equal(u.n_recent, n);
    ls_usage_add(&u, 5, -1, &(ls_successor){.id = {300, -1}}); // a row beside the text lists nothing
    assert_int_equal(u.n_recent, n);
    ls_usage_observe(&u, NULL, 0, true); // what was listed is of a conversation, averages are not
    assert_int_equal(u.n_recent, 0);
    assert_true(ls_usage_of(&u, 0)->conversation != u.conversation);
    assert_non_null(ls_usage_average(&u, 5));
    ls_memory_drop(list_usage, &u);
}

// Trees hold what is likely. That such rows are right must not make those look likely that were left out, though they
// look the same in some view.
static void rates_are_not_biased_by_what_is_drafted(void **state) {
    (void)state;
    ls_rates r;
    ls_rates_init(&r);
    ls_features f = {.place = LS_PLACE_FIRST,
                     .remembered = {{.rank = -1}, {.rank = -1}, {.rank = -1}},
                     .last = true,
                     .last_rank = 6,
                     .last_p = 0.03f,
                     .average_rank = -1};
    const ls_features guess = f;
    f.copies = true;
    f.agree = 6;
    const ls_features copy = f;
    for (int i = 0; i < 2000; i++) {
        learn_features(&r, &guess, i % 50 == 0);
        learn_features(&r, &copy, i % 4 != 0);
    }
    assert_float_equal(alone(&r, &guess), 0.02, 0.02);
    assert_float_equal(alone(&r, &copy), 0.75, 0.05);
    for (int i = 0; i < 20000; i++) learn_features(&r, &copy, i % 4 != 0);
    assert_float_equal(alone(&r, &guess), 0.02, 0.02);
}

// On a target that always says the same after a token, remembered choices reach further than any retrieval.
static void tuned_drafter_learns_from_rejected_rows(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("logitspec");
    int32_t text[200] = {1, 2, 3}, n = 3, top[64];
    float top_p[64];
    size_t emitted = 0;
    for (int step = 0; step < 20; step++) {
        const int32_t root = (text[n - 1] * 5 + 3) % 97;
        for (int32_t i = 0; i < 64; i++) top[i] = (root + i) % 97, top_p[i] = i ? 0.005f : 0.7f;
        const ls_draft_state s = {text, (size_t)n, root, top, top_p, 64, NULL};
        ls_tree t = test_tree();
        d->propose(d, &s, 16, &t);
        int32_t chosen[LS_MAX_ROWS], path[LS_MAX_ROWS];
        for (int32_t i = 0; i < t.n; i++) {
            chosen[i] = (t.nodes[i].token * 5 + 3) % 97;
            for (int j = 0; j < LS_ROW_TOP; j++) test_say(&t.nodes[i], j, (chosen[i] + j) % 97, j ? 0.03f : 0.7f);
        }
        const int32_t n_path = test_verify(&t, chosen, path);
        d->learn(d, &(ls_draft_result){&s, &t, n_path});
        for (int32_t i = 0; i < n_path && n < 190; i++) text[n++] = t.nodes[path[i]].token;
        d->observe(d, text, (size_t)n, false);
        emitted += step >= 10 ? (size_t)n_path : 0;
    }
    assert_true(emitted >= 30); // the last ten steps: three tokens a step, although hardly any text repeats
    d->free(d);
}

static void cost_presets_are_curves(void **state) {
    (void)state;
    ls_cost_curve z;
    for (const ls_cost_preset *p = ls_cost_presets; p->name; p++) {
        assert_int_equal(ls_cost_read(&z, "", p->name, NULL), LS_OK);
        assert_true(z.given);
        for (int i = 0; i < LS_COST_SIZES; i++)
            assert_true(z.base_ms[i] > 0 && (!i || z.base_ms[i] >= z.base_ms[i - 1]));
    }
    assert_string_equal(LS_COST_CHOICES, "auto|free|h200");
    assert_int_equal(ls_cost_read(&z, "", "free", NULL), LS_OK);
    const double none[] = {1, 0.01, 0.01, 0.01};
    assert_int_equal(ls_cost_choose(&z, none, 4, 100, NULL), 4); // any chance is worth a row that costs nothing
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_presets_are_curves),
        cmocka_unit_test(pool_prefers_long_matches_and_full_continuations),
        cmocka_unit_test(the_pool_grows_by_its_definition),
        cmocka_unit_test(short_texts_are_fine),
        cmocka_unit_test(verify_takes_the_longest_agreeing_path),
        cmocka_unit_test(paper_rule_lengths_and_order),
        cmocka_unit_test(the_papers_lengths_are_knobs),
        cmocka_unit_test(ablations_keep_one_half),
        cmocka_unit_test(prompt_lookup_takes_the_longest_then_the_earliest),
        cmocka_unit_test(recycling_hangs_known_successors_in_a_fixed_tree),
        cmocka_unit_test(a_curve_can_be_given),
        cmocka_unit_test(a_curve_has_a_text),
        cmocka_unit_test(sizing_follows_measured_costs),
        cmocka_unit_test(costs_interpolate_and_learn),
        cmocka_unit_test(successors_remember_the_last_word),
        cmocka_unit_test(views_tell_candidates_apart),
        cmocka_unit_test(rates_learn_and_forget),
        cmocka_unit_test(usage_counts_tokens),
        cmocka_unit_test(usage_averages_predictions),
        cmocka_unit_test(rates_are_not_biased_by_what_is_drafted),
        cmocka_unit_test(tuned_drafter_learns_from_rejected_rows),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
