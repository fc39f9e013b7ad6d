// Pool, tree, verification, drafters, sizing: integers only.
#include "spec/drafter.h"
#include "spec/pool.h"
#include "spec/sizing.h"
#include "spec/tree.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void pool_prefers_long_matches_and_full_continuations(void **state) {
    (void)state;
    ls_pool p = {0};
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
    ls_pool_free(&p);
}

static void short_texts_are_fine(void **state) {
    (void)state;
    ls_pool p = {0};
    ls_pool_update(&p, NULL, 0);
    int32_t one[] = {4};
    ls_pool_update(&p, one, 1);
    assert_int_equal(ls_pool_size(&p), 0);
    assert_int_equal(ls_pool_find(&p, one, 1).n, 0);
    ls_pool_free(&p);
}

static void verify_takes_the_longest_agreeing_path(void **state) {
    (void)state;
    ls_tree t;
    ls_tree_start(&t, 1);
    ls_tree_branch b = {.rank = -1, .match_n = 2, .match_pos = 10, .found = 3};
    assert_int_equal(ls_tree_add(&t, (int32_t[]){2, 3, 4}, 3, 64, false, b), 3); // rows 1 2 3
    b.rank = 1;
    assert_int_equal(ls_tree_add(&t, (int32_t[]){2, 3, 9, 8}, 4, 64, false, b), 4); // rows 4 5 6 7, same prefix
    int32_t chosen[8] = {2, 3, 9, 0, 3, 9, 8, 7}, path[8];
    assert_int_equal(ls_tree_verify(&t, chosen, path), 5);
    const int32_t want[] = {0, 4, 5, 6, 7};
    assert_memory_equal(path, want, sizeof want);
    chosen[5] = 4; // now both match two tokens: the first of equals
    chosen[2] = 5;
    assert_int_equal(ls_tree_verify(&t, chosen, path), 3);
    assert_int_equal(path[2], 2);
    chosen[0] = 5; // nothing agrees: the root alone
    assert_int_equal(ls_tree_verify(&t, chosen, path), 1);
    assert_int_equal(path[0], 0);
    assert_int_equal(t.match_pos[2], 11);
    assert_int_equal(t.match_pos[4], -1); // a guess itself was not copied
    assert_int_equal(t.match_pos[5], 10);
    assert_int_equal(t.from[4], LS_TREE_LAST_LOGIT);
    assert_int_equal(t.from[5], LS_TREE_GUESS_TAIL);
}

static void merging_shares_prefixes(void **state) {
    (void)state;
    ls_tree t;
    ls_tree_start(&t, 1);
    ls_tree_branch b = {.rank = -1};
    ls_tree_add(&t, (int32_t[]){2, 3, 4}, 3, 64, true, b);
    b.rank = 1;
    assert_int_equal(ls_tree_add(&t, (int32_t[]){2, 3, 9}, 3, 64, true, b), 1);
    assert_int_equal(t.parent[4], 2);
    assert_int_equal(ls_tree_add(&t, (int32_t[]){2, 3}, 2, 64, true, b), 0); // adds nothing: no branch
    assert_int_equal(t.n_branches, 2);
    assert_int_equal(ls_tree_add(&t, (int32_t[]){7, 7, 7, 7}, 4, 6, true, b), 1); // the budget cuts
    assert_int_equal(t.n, 6);
}

// The paper's rule on a worked example: the retrieved continuation first, then guesses by rank with their lengths.
static void paper_rule_lengths_and_order(void **state) {
    (void)state;
    ls_drafter *d = ls_method_find("logitspec-paper")->make();
    int32_t text[100], top[64], n = 0;
    for (int i = 0; i < 30; i++) text[n++] = 100 + i;
    d->observe(d, text, (size_t)n, true);
    for (int i = 0; i < 64; i++) top[i] = i;
    top[0] = 105; // the root
    top[3] = 110; // a guess with a continuation
    top[9] = 115; // rank 9: three tokens
    ls_tree t;
    ls_draft_state s = {text, (size_t)n, 105, top, 64};
    d->propose(d, &s, 64, &t);
    assert_int_equal(t.n, 64);
    assert_int_equal(t.branches[0].rank, -1);
    assert_int_equal(t.branches[0].n_rows, 20); // 106 ...
    assert_int_equal(t.token[1], 106);
    assert_int_equal(t.branches[1].rank, 1); // rank 0 is the root and is skipped
    assert_int_equal(t.branches[1].n_rows, 1);
    assert_int_equal(t.branches[3].rank, 3);
    assert_int_equal(t.branches[3].n_rows, 4); // 110 111 112 113
    assert_int_equal(t.branches[3].found, 19);
    assert_int_equal(t.token[t.branches[3].first_row + 1], 111);
    assert_int_equal(t.branches[9].n_rows, 3);
    for (int32_t budget = 1; budget < 64; budget++) { // a smaller budget gives a prefix, of exactly that many rows
        ls_tree small;
        d->propose(d, &s, budget, &small);
        assert_int_equal(small.n, budget);
        assert_memory_equal(small.token, t.token, sizeof(int32_t) * (size_t)budget);
        assert_memory_equal(small.parent, t.parent, sizeof(int32_t) * (size_t)budget);
    }
    d->free(d);
}

static void sizing_follows_measured_costs(void **state) {
    (void)state;
    ls_sizing z;
    ls_sizing_init(&z);
    for (int i = 0; i < LS_SIZES; i++) z.base_ms[i] = ls_size_rows[i]; // a row costs as much as a step: never draft
    assert_int_equal(ls_sizing_choose(&z, 100), 1);
    for (int i = 0; i < LS_SIZES; i++) z.base_ms[i] = 10 + 0.001 * ls_size_rows[i]; // rows are free: the largest tree
    assert_int_equal(ls_sizing_choose(&z, 100), 64);
    assert_true(ls_sizing_cost_ms(&z, 12, 0) > z.base_ms[3] && ls_sizing_cost_ms(&z, 12, 0) < z.base_ms[4]);
    // drafts that are never right: plain decoding, even with nearly free rows
    int32_t path[1] = {0};
    for (int i = 0; i < LS_SIZES; i++) z.base_ms[i] = 10 + 0.02 * ls_size_rows[i];
    for (int i = 0; i < 300; i++) ls_sizing_observe(&z, 64, path, 1, 100, 11);
    int plain = 0;
    for (int i = 0; i < 48; i++) plain += ls_sizing_choose(&z, 100) == 1;
    assert_true(plain >= 46); // all but the explorations
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_prefers_long_matches_and_full_continuations),
        cmocka_unit_test(short_texts_are_fine),
        cmocka_unit_test(verify_takes_the_longest_agreeing_path),
        cmocka_unit_test(merging_shares_prefixes),
        cmocka_unit_test(paper_rule_lengths_and_order),
        cmocka_unit_test(sizing_follows_measured_costs),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
