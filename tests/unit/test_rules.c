// Sizing and acceptance rules: each where it changes what is verified or what stands.
#include "drafters.h"
#include "spec/accept.h"
#include "spec/sizing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

// A root with a likely chain (0.9 each, rows 1-6) and a fan of unlikely tokens (0.04, 0.03, rows 7-8; 0.5 below the
// first).
static ls_tree chain_and_fan(void) {
    ls_tree t = test_tree();
    ls_draft n[10] = {{.token = 1, .parent = -1}};
    for (int i = 1; i <= 6; i++)
        n[i] = (ls_draft){.token = 10 + i, .parent = i - 1, .rank = -1, .from = LS_SOURCE_RETRIEVED, .est_p = 0.9f};
    n[7] = (ls_draft){.token = 20, .parent = 0, .rank = 1, .from = LS_SOURCE_LAST_LOGIT, .est_p = 0.04f};
    n[8] = (ls_draft){.token = 21, .parent = 0, .rank = 2, .from = LS_SOURCE_LAST_LOGIT, .est_p = 0.03f};
    n[9] = (ls_draft){.token = 22, .parent = 7, .rank = -1, .from = LS_SOURCE_GUESS_TAIL, .est_p = 0.5f};
    ls_tree_lay_out(&t, n, 10);
    return t;
}

static ls_sizing sizing(const char *text) {
    ls_sizing z;
    ls_err err;
    if (ls_sizing_read(&z, "sizing", text, &err)) fail_msg("%s", err.msg);
    return z;
}

static bool holds(const ls_tree *t, int32_t token) {
    for (int32_t i = 0; i < t->n; i++)
        if (t->nodes[i].token == token) return true;
    return false;
}

static ls_tree cut(ls_sizing z, const ls_cost_curve *costs, int32_t max_rows) {
    ls_tree t = chain_and_fan();
    ls_sizing_cut(&z, &t, costs, 0, max_rows);
    for (int32_t i = 1; i < t.n; i++) {
        assert_in_range(t.nodes[i].parent, 0, i - 1);
        assert_int_equal(t.nodes[i].depth, t.nodes[t.nodes[i].parent].depth + 1);
        assert_in_range(t.nodes[i].branch, 0, t.n_branches - 1);
    }
    int32_t listed = 1;
    for (int32_t b = 0; b < t.n_branches; b++) {
        assert_int_equal(t.branches[b].first_node, listed);
        listed += t.branches[b].n_nodes;
    }
    assert_int_equal(listed, t.n);
    return t;
}

static const ls_cost_curve no_costs;

static void trees_are_laid_out_branch_by_branch(void **state) {
    (void)state;
    const ls_tree t = chain_and_fan();
    assert_int_equal(t.n, 10);
    assert_int_equal(t.n_branches, 3);
    assert_int_equal(t.branches[1].n_nodes, 2);
    assert_int_equal(t.nodes[8].token, 22); // under row 7, which is of the second branch
    assert_int_equal(t.nodes[8].parent, 7);
    ls_tree less = test_tree_copy(&t);
    bool keep[10] = {true, true, true,  false, true,
                     true, true, false, true,  true}; // what hangs off a dropped row goes too
    ls_tree_keep(&less, keep);
    assert_int_equal(less.n, 4);
    assert_int_equal(less.nodes[3].token, 21);
    assert_int_equal(less.n_branches, 2);
    assert_int_equal(less.branches[1].rank, 2);
    assert_int_equal(less.branches[0].n_nodes, 2);
    assert_float_equal(less.nodes[2].est_p, 0.9, 1e-6); // a row keeps what is known of it
    assert_float_equal(less.nodes[3].est_p, 0.03, 1e-6);
    assert_int_equal(less.nodes[3].from, LS_SOURCE_LAST_LOGIT);
    assert_int_equal(less.nodes[3].depth, 1);
    const ls_draft forks[] = {{.token = 1, .parent = -1}, {.token = 2, .parent = 0}, {.token = 3, .parent = 1},
                              {.token = 4, .parent = 2},  {.token = 5, .parent = 1}, {.token = 6, .parent = 4}};
    const int32_t depth[] = {0, 1, 2, 3, 2, 3};
    ls_tree_lay_out(&less, forks, 6);
    for (int32_t i = 0; i < 6; i++) assert_int_equal(less.nodes[i].depth, depth[i]); // of each row below its own parent
}

static void of_equal_chances_a_parent_comes_first(void **state) {
    (void)state;
    ls_tree t = test_tree();
    ls_draft n[8] = {{.token = 1, .parent = -1}};
    for (int i = 1; i < 8; i++) n[i] = (ls_draft){.token = i + 1, .parent = i - 1, .rank = -1, .est_p = 1};
    for (int32_t rows = 1; rows <= 8; rows++) { // a chain that is certain: any size is its beginning
        char text[20];
        snprintf(text, sizeof text, "tetris:%d", rows);
        ls_sizing z = sizing(text);
        ls_tree_lay_out(&t, n, 8);
        ls_sizing_cut(&z, &t, &no_costs, 0, 0);
        assert_int_equal(t.n, rows);
        for (int32_t i = 0; i < t.n; i++) assert_int_equal(t.nodes[i].token, i + 1);
    }
}

static void fixed_and_paper_take_all(void **state) {
    (void)state;
    assert_int_equal(cut(sizing("fixed:4"), &no_costs, 0).n, 10); // the drafter was asked for so many, it is not cut
    ls_sizing z = sizing("fixed:12");
    const ls_method *m = ls_method_find("logitspec-paper");
    assert_int_equal(ls_sizing_ask(&z, m, 0), 12);
    assert_int_equal(ls_sizing_ask(&z, m, 8), 8);
    z = sizing("paper");
    assert_int_equal(ls_sizing_ask(&z, m, 0), 64);
    assert_int_equal(ls_sizing_ask(&z, ls_method_find("recycle"), 0), 81);
    assert_int_equal(ls_sizing_ask(&z, ls_method_find("recycle"), 10), 10);
}

static void default_depends_on_budget_and_method(void **state) {
    (void)state;
    struct {
        const char *method, *rule;
        int32_t max_rows;
    } const cases[] = {
        {"logitspec", "auto", 0}, {"logitspec", "fixed:9", 9}, {"pld", "paper", 0}, {"pld", "fixed:5", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_sizing z = sizing("default");
        char text[40];
        ls_sizing_write(&z, text, sizeof text);
        assert_string_equal(text, "default");
        ls_sizing_settle(&z, ls_method_find(cases[i].method), cases[i].max_rows);
        ls_sizing_write(&z, text, sizeof text);
        assert_string_equal(text, cases[i].rule);
    }
}

static void auto_takes_what_pays(void **state) {
    (void)state;
    ls_cost_curve costs = {0}, free_rows = {0};
    for (int i = 0; i < LS_COST_SIZES; i++) costs.base_ms[i] = 10 + 2 * ls_cost_rows[i], free_rows.base_ms[i] = 10;
    assert_int_equal(cut(sizing("auto"), &free_rows, 0).n, 10);
    const ls_tree t = cut(sizing("auto"), &costs, 0);
    assert_true(t.n >= 4 && t.n <= 7);
    assert_false(holds(&t, 20));
    assert_int_equal(cut(sizing("auto"), &no_costs, 0).n, 10); // nothing measured, nothing cut
}

static void specdec_stops_where_a_rejection_is_likely(void **state) {
    (void)state;
    ls_tree t = cut(sizing("specdec++"), &no_costs, 0); // 1 - 0.9^k <= 0.7: all six; 0.04 is not, but it is the last
    assert_int_equal(t.n, 9);
    assert_true(holds(&t, 20) && !holds(&t, 22));
    t = cut(sizing("specdec++:0.3"), &no_costs, 0); // 1 - 0.9^3 = 0.27, so the fourth is the last
    assert_int_equal(t.n, 7);
    assert_true(holds(&t, 14) && !holds(&t, 15));
    t = cut(sizing("specdec++:0.01"), &no_costs, 0); // two in any case
    assert_int_equal(t.n, 5);
    assert_true(holds(&t, 12) && !holds(&t, 13));
    assert_int_equal(cut(sizing("specdec++:0.999"), &no_costs, 0).n, 10);
    ls_draft n[30] = {{.token = 1, .parent = -1}};
    for (int i = 1; i < 30; i++) n[i] = (ls_draft){.token = i + 1, .parent = i - 1, .rank = -1, .est_p = 1};
    ls_sizing z = sizing("specdec++");
    ls_tree_lay_out(&t, n, 30);
    ls_sizing_cut(&z, &t, &no_costs, 0, 0);
    assert_int_equal(t.n, 21); // twenty at most
}

static void tetris_takes_the_largest_products(void **state) {
    (void)state;
    ls_tree t = cut(sizing("tetris:8"), &no_costs, 0);
    assert_int_equal(t.n, 8);
    assert_true(holds(&t, 16) && holds(&t, 20) && !holds(&t, 21)); // 0.53 ... 0.04 > 0.03 > 0.02
    t = cut(sizing("tetris:8"), &no_costs, 3);                     // max_rows binds what is kept
    assert_int_equal(t.n, 3);
    assert_true(holds(&t, 12));
    const ls_sizing z = sizing("tetris:8");
    assert_int_equal(ls_sizing_ask(&z, ls_method_find("pld"), 3), LS_MAX_ROWS);
}

static void adaedl_stops_where_entropy_is_high(void **state) {
    (void)state;
    // after each row of the chain: 0.9 and 0.1, 0.33 nats, bound 0.75; after the root four outcomes, bound 0.70; after
    // the first unlikely token 0.5 and 0.5, bound 0.63
    ls_tree t = cut(sizing("adaedl:0.65"), &no_costs, 0);
    assert_int_equal(t.n, 9);
    assert_false(holds(&t, 22));
    t = cut(sizing("adaedl:0.72"), &no_costs, 0); // nothing beside the likeliest after the root
    assert_int_equal(t.n, 7);
    assert_false(holds(&t, 20));
    t = cut(sizing("adaedl:0.8"), &no_costs, 0); // the likeliest token is drafted in any case
    assert_int_equal(t.n, 2);
    // the threshold rises while little is accepted, and falls again
    ls_sizing z = sizing("adaedl:0.6");
    t = chain_and_fan();
    for (int i = 0; i < 150; i++) z.rule->learn(&z, &t, 1);
    const double risen = z.threshold;
    assert_true(risen > 0.7);
    t = chain_and_fan();
    ls_sizing_cut(&z, &t, &no_costs, 0, 0);
    assert_true(t.n < 9);
    t = chain_and_fan();
    for (int i = 0; i < 100; i++) z.rule->learn(&z, &t, 7);
    assert_true(z.threshold < risen - 0.05);
    t = chain_and_fan(); // five of six levels are fewer than nine in ten, six are more
    for (int accepted = 5; accepted <= 6; accepted++) {
        z = sizing("adaedl:0.6");
        for (int i = 0; i < 60; i++) z.rule->learn(&z, &t, 1 + accepted);
        assert_int_equal(z.threshold > 0.6, accepted == 5);
    }
    t.n = 1; // nothing drafted says nothing
    const double before = z.threshold;
    z.rule->learn(&z, &t, 1);
    assert_true(z.threshold == before);
}

static void rules_are_read_and_refused(void **state) {
    (void)state;
    ls_sizing z;
    ls_accept a;
    ls_err err;
    char text[64];
    for (int i = 0; ls_sizing_at(i); i++) {
        assert_int_equal(ls_sizing_read(&z, "x", ls_sizing_at(i)->name, &err), LS_OK);
        ls_sizing_write(&z, text, sizeof text);
        assert_int_equal(ls_sizing_read(&z, "x", text, &err), LS_OK); // what is written can be read
    }
    for (int i = 0; ls_accept_at(i); i++) {
        assert_int_equal(ls_accept_read(&a, "x", ls_accept_at(i)->name, &err), LS_OK);
        const bool odds = ls_accept_guarantee(&a, 1) == LS_SAME_DISTRIBUTION;
        assert_int_equal(odds, !strncmp(ls_accept_at(i)->name, "speculative", 11) ||
                                   !strncmp(ls_accept_at(i)->name, "mcsd", 4));
        assert_int_equal(ls_accept_guarantee(&a, 1) == LS_LOSSY, i > 0 && !odds);
        ls_accept_write(&a, text, sizeof text);
        assert_int_equal(ls_accept_read(&a, "x", text, &err), LS_OK);
    }
    assert_int_equal(ls_sizing_read(&z, "here: decode.sizing", "tetris:300", &err), LS_E_USAGE);
    assert_string_equal(err.msg,
                        "here: decode.sizing is 'tetris:300', expected tetris:ROWS, a whole number from 1 to 256");
    assert_int_equal(ls_sizing_read(&z, "x", "auto:3", &err), LS_E_USAGE);
    assert_string_equal(err.msg, "x is 'auto:3', but auto takes no value");
    assert_int_equal(ls_sizing_read(&z, "x", "specdec", &err), LS_E_USAGE);
    assert_non_null(strstr(err.msg, "expected one of default, auto, rows, fixed[:ROWS], paper, adaedl[:THRESHOLD]"));
    static const char *const bad[] = {"", ":", "fixed:", "fixed:x", "fixed:1.5", "fixed:8 ", "tetris:nan", "adaedl:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ls_sizing_read(&z, "x", bad[i], &err), LS_E_USAGE);
    assert_int_equal(ls_accept_read(&a, "x", "typical:2", &err), LS_E_USAGE);
    assert_int_equal(ls_accept_read(&a, "x", "typical:0.1:2:1", &err), LS_E_USAGE);
    assert_string_equal(err.msg, "x is 'typical:0.1:2:1', but typical takes no more values");
    assert_int_equal(ls_accept_read(&a, "x", "fuzzy-kl:0.1:2", &err), LS_E_USAGE);
    assert_string_equal(err.msg, "x is 'fuzzy-kl:0.1:2', expected fuzzy-kl:...:CHOICE, a whole number from 0 to 1");
    assert_int_equal(ls_accept_read(&a, "x", "fly:0.5:2.5", &err), LS_E_USAGE);
    assert_string_equal(err.msg, "x is 'fly:0.5:2.5', expected fly:...:WINDOW, a whole number from 1 to 64");
    assert_int_equal(ls_accept_read(&a, "x", "fly:0.5:", &err), LS_E_USAGE);
    assert_int_equal(ls_accept_read(&a, "x", "fly:0.5:4:1", &err), LS_E_USAGE);
    assert_int_equal(ls_accept_read(&a, "x", "fly:0.5", &err), LS_OK);
    ls_accept_write(&a, text, sizeof text);
    assert_string_equal(text, "fly:0.5");
    assert_int_equal(ls_accept_read(&a, "x", "fly:0.5:4", &err), LS_OK);
    ls_accept_write(&a, text, sizeof text);
    assert_string_equal(text, "fly:0.5:4");
    assert_int_equal(ls_accept_read(&a, "x", "lossy", &err), LS_E_USAGE);
}

// ---- acceptance

// A chain of nine tokens after the root, 11 .. 19, which the target agrees with, as sure of them as the drafter.
static ls_tree agreeing(void) {
    ls_tree t = test_tree();
    ls_draft n[10] = {{.token = 10, .parent = -1}};
    for (int i = 1; i < 10; i++)
        n[i] = (ls_draft){.token = 10 + i, .parent = i - 1, .rank = -1, .from = LS_SOURCE_RETRIEVED, .est_p = 0.9f};
    ls_tree_lay_out(&t, n, 10);
    for (int i = 0; i < 10; i++) {
        ls_node *row = &t.nodes[i];
        row->target = 11 + i;
        row->p = 0.9f;
        row->entropy = 0.1f;
        for (int k = 0; k < LS_ROW_TOP; k++) row->top[k].id = k ? 100 + k : 11 + i;
    }
    return t;
}

// At row i the target wants token 99; the draft ranks second with probability p.
static void disagree(ls_tree *t, int i, float p, float entropy) {
    t->nodes[i].target = t->nodes[i].top[0].id = 99;
    t->nodes[i].top[1].id = t->nodes[i + 1].token;
    t->nodes[i + 1].p = p;
    t->nodes[i].entropy = entropy;
}

static int32_t last_accepted; // row where the last path ended

static int32_t accepted(const ls_tree *t, const char *rule) {
    ls_accept a;
    int32_t path[LS_MAX_ROWS];
    ls_err err;
    memset(path, -1, sizeof path);
    if (ls_accept_read(&a, "acceptance", rule, &err)) fail_msg("%s", err.msg);
    const int32_t n = ls_accept_path(&a, t, path);
    for (int32_t i = 0; i < n; i++) {
        assert_in_range(path[i], i, t->n - 1);
        assert_int_equal(t->nodes[path[i]].parent, i ? path[i - 1] : -1);
    }
    last_accepted = path[n - 1];
    return n - 1;
}

static void exact_stops_at_the_first_mismatch(void **state) {
    (void)state;
    ls_tree t = agreeing();
    for (int i = 0; ls_accept_at(i); i++) assert_int_equal(accepted(&t, ls_accept_at(i)->name), 9); // all agree
    disagree(&t, 1, 0.45f, 0.7f);
    assert_int_equal(accepted(&t, "exact"), 1);
}

static void typical_asks_how_likely(void **state) {
    (void)state;
    ls_tree t = agreeing();
    disagree(&t, 1, 0.10f, 0.7f); // min(0.09, 0.3 exp(-0.7) = 0.149)
    assert_int_equal(accepted(&t, "typical"), 9);
    t.nodes[2].p = 0.08f;
    assert_int_equal(accepted(&t, "typical"), 1);
    t.nodes[1].entropy = 2; // 0.3 exp(-2) = 0.041
    assert_int_equal(accepted(&t, "typical"), 9);
    assert_int_equal(accepted(&t, "typical:0.01"), 9);
    t.nodes[2].p = 0.005f;
    assert_int_equal(accepted(&t, "typical"), 1);
}

// The target's chances of its three best tokens after row i.
static void best_three(ls_tree *t, int i, double p0, double p1, double p2) {
    const double p[] = {p0, p1, p2};
    t->nodes[i].lse = 1;
    for (int k = 0; k < 3; k++) t->nodes[i].top[k].logit = (float)(1 + log(p[k]));
}

static void fly_asks_what_comes_after(void **state) {
    (void)state;
    ls_tree t = agreeing();
    disagree(&t, 1, 0.3f, 0.7f); // seven agree after it
    best_three(&t, 1, 0.5, 0.3, 0.1);
    t.nodes[1].top[1].id = 98; // the rank of the draft does not matter
    assert_int_equal(accepted(&t, "fly"), 9);
    // -(0.9 ln 0.9 + 0.02 ln 0.02 + 0.01 ln 0.01) = 0.095 + 0.078 + 0.046 = 0.219, whatever the entropy of all tokens
    // is
    best_three(&t, 1, 0.9, 0.02, 0.01);
    assert_int_equal(accepted(&t, "fly"), 1); // decided
    assert_int_equal(accepted(&t, "fly:0.220"), 1);
    assert_int_equal(accepted(&t, "fly:0.218"), 9);
    t = agreeing();
    disagree(&t, 4, 0.3f, 0.7f);
    best_three(&t, 4, 0.5, 0.3, 0.1);
    assert_int_equal(accepted(&t, "fly"), 4); // four agree after it, the window of six asks for five
    assert_int_equal(accepted(&t, "fly:0.3:5"), 9);
    assert_int_equal(accepted(&t, "fly:0.3:6"), 4);
    t = agreeing();
    disagree(&t, 3, 0.3f, 0.7f);
    best_three(&t, 3, 0.5, 0.3, 0.1);
    assert_int_equal(accepted(&t, "fly"), 9);
    t = agreeing();
    disagree(&t, 1, 0.3f, 0.7f);
    disagree(&t, 5, 0.3f, 0.7f); // it is corrected within the window
    best_three(&t, 1, 0.5, 0.3, 0.1);
    assert_int_equal(accepted(&t, "fly"), 1);
}

static void fuzzy_asks_how_near_the_distributions_are(void **state) {
    (void)state;
    ls_tree t = agreeing();
    disagree(&t, 1, 0.75f, 0.7f);                  // the drafter said 0.9
    assert_int_equal(accepted(&t, "fuzzy-tv"), 9); // 0.15
    assert_int_equal(accepted(&t, "fuzzy-js"), 9);
    assert_int_equal(accepted(&t, "fuzzy-js-paper"), 9);
    assert_int_equal(accepted(&t, "fuzzy-kl"), 9);
    assert_int_equal(accepted(&t, "fuzzy-tv:0.1"), 1);
    t.nodes[2].p = 0.02f; // far from 0.9
    // by hand, target (0.02, 0.98), draft (0.9, 0.1): m = (0.46, 0.54)
    static const struct {
        const char *rule;
        double divergence;
    } cases[] = {{"fuzzy-tv", 0.88},
                 {"fuzzy-kl", 3.1978}, // 0.9 ln 45 + 0.1 ln(0.1 / 0.98)
                 {"fuzzy-js", 0.8612}, // (0.46 ln 23 + 0.54 ln(0.54 / 0.98) + 0.46 ln(0.46 / 0.9) + 0.54 ln 5.4) / 2
                 {"fuzzy-js-paper", 0.4784}}; // (0.02 ln(0.02 / 0.46) + 0.98 ln(0.98 / 0.54) + ... of the draft) / 2
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int side = -1; side <= 1; side += 2) {
            char rule[40];
            assert_int_equal(accepted(&t, cases[i].rule), 1);
            snprintf(rule, sizeof rule, "%s:%.4f", cases[i].rule, cases[i].divergence + side * 2e-4);
            assert_int_equal(accepted(&t, rule), side > 0 ? 9 : 1);
        }
}

// Where the distributions differ, these rules refuse the target's own choice too; CHOICE 1 does not.
static void fuzzy_and_typical_refuse_choices(void **state) {
    (void)state;
    ls_tree t = agreeing();
    t.nodes[4].est_p = 0.1f;
    assert_int_equal(accepted(&t, "fuzzy-kl"), 3);
    assert_int_equal(accepted(&t, "fuzzy-kl:0.4:1"), 9);
    assert_int_equal(accepted(&t, "fly"), 9);
    t.nodes[6].p = 0.05f; // a sampled choice that is unlikely
    assert_int_equal(accepted(&t, "typical"), 5);
}

static void the_targets_own_choice_goes_first(void **state) {
    (void)state;
    ls_tree t = agreeing();
    ls_draft n[6] = {{.token = 10, .parent = -1},
                     {.token = 11, .parent = 0, .est_p = 0.4f},
                     {.token = 12, .parent = 1, .est_p = 0.4f},
                     {.token = 13, .parent = 2, .est_p = 0.4f},
                     {.token = 50, .parent = 0, .est_p = 0.4f}};
    ls_tree_lay_out(&t, n, 5); // a longer branch that is likely, a short one that is the choice
    for (int i = 1; i < 5; i++) t.nodes[i].p = 0.4f;
    t.nodes[0].target = 50;
    assert_int_equal(accepted(&t, "fuzzy-tv"), 1);
    assert_int_equal(last_accepted, 4);
    assert_int_equal(accepted(&t, "typical"), 3); // not this rule's
    t.nodes[0].target = 51;
    assert_int_equal(accepted(&t, "fuzzy-tv"), 3);
    t.nodes[2].p = 0; // two paths of one draft each: of equals the first, by `typical` the likelier
    t.nodes[1].target = 99;
    t.nodes[4].p = 0.5f;
    assert_int_equal(accepted(&t, "fuzzy-tv"), 1);
    assert_int_equal(last_accepted, 1);
    assert_int_equal(accepted(&t, "typical"), 1);
    assert_int_equal(last_accepted, 4);
    t.nodes[4].p = 0.4f;
    assert_int_equal(accepted(&t, "typical"), 1);
    assert_int_equal(last_accepted, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_laid_out_branch_by_branch),
        cmocka_unit_test(of_equal_chances_a_parent_comes_first),
        cmocka_unit_test(fixed_and_paper_take_all),
        cmocka_unit_test(default_depends_on_budget_and_method),
        cmocka_unit_test(auto_takes_what_pays),
        cmocka_unit_test(specdec_stops_where_a_rejection_is_likely),
        cmocka_unit_test(tetris_takes_the_largest_products),
        cmocka_unit_test(adaedl_stops_where_entropy_is_high),
        cmocka_unit_test(rules_are_read_and_refused),
        cmocka_unit_test(exact_stops_at_the_first_mismatch),
        cmocka_unit_test(typical_asks_how_likely),
        cmocka_unit_test(fly_asks_what_comes_after),
        cmocka_unit_test(fuzzy_asks_how_near_the_distributions_are),
        cmocka_unit_test(fuzzy_and_typical_refuse_choices),
        cmocka_unit_test(the_targets_own_choice_goes_first),
    };
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
