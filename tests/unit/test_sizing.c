// The sizing rules ddd and c2t, against their definitions written plainly, on trees made by hand and at random; the fit
// of c2t's weights; how a rule gets its knobs. What all rules share is in test_rules.c.
#include "drafters.h"
#include "base/rng.h"
#include "decode/drafting.h"
#include "spec/sizing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t drawn; // numbers drawn so far

static double draw(void) {
    return ls_uniform_at(11, drawn++);
}

static ls_sizing sizing(const char *text) {
    ls_sizing z;
    ls_err err;
    if (ls_sizing_read(&z, "sizing", text, &err)) fail_msg("%s", err.msg);
    return z;
}

static const ls_cost_curve no_costs;

// Row i has token i. Deep: mostly chains of likely rows.
static ls_tree random_tree(bool deep) {
    ls_draft d[120] = {{.token = 0, .parent = -1}};
    const int n = 2 + (int)(draw() * 118);
    double left[120];
    for (int i = 0; i < n; i++) left[i] = 1;
    for (int i = 1; i < n; i++) {
        const int parent = draw() < (deep ? 0.9 : 0.3) ? i - 1 : (int)(draw() * i);
        const double p = left[parent] * (deep ? 1 - 0.2 * draw() : draw());
        left[parent] -= p;
        d[i] = (ls_draft){.parent = (int16_t)parent, .rank = -1, .est_p = (float)p};
    }
    ls_tree t = test_tree();
    ls_tree_lay_out(&t, d, n);
    for (int i = 0; i < t.n; i++) t.nodes[i].token = i;
    return t;
}

// A chain of the given chances.
static ls_tree chain(const double *p, int n) {
    ls_draft d[LS_MAX_ROWS] = {{.token = 0, .parent = -1}};
    for (int i = 1; i <= n; i++)
        d[i] = (ls_draft){.token = i, .parent = (int16_t)(i - 1), .rank = -1, .est_p = (float)p[i - 1]};
    ls_tree t = test_tree();
    ls_tree_lay_out(&t, d, n + 1);
    return t;
}

static double path_of(const ls_tree *t, int row) {
    double p = 1;
    for (; row > 0; row = t->nodes[row].parent) p *= (double)t->nodes[row].est_p;
    return p;
}

// Cuts by the rule and checks that the rows of expected[] are left, those of the tree as it was.
static void check_cut(const ls_sizing *z, const ls_tree *whole, const bool *expected) {
    ls_tree t = test_tree_copy(whole);
    ls_sizing_cut(z, &t, &no_costs, 0, 0);
    int at = 0;
    for (int i = 0; i < whole->n; i++)
        if (expected[i] || !i) {
            assert_true(at < t.n);
            assert_int_equal(t.nodes[at++].token, whole->nodes[i].token);
        }
    assert_int_equal(at, t.n);
}

// ---- ddd

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Goes down level by level as a drafter would.
static int depth_by_definition(const ls_tree *t, double threshold, int first) {
    for (int depth = 1; depth < 11; depth++) {
        double level[LS_MAX_ROWS], sum = 0;
        int n = 0;
        if (depth != first && depth != first + 2 && depth != first + 4) continue;
        for (int i = 1; i < t->n; i++)
            if (t->nodes[i].depth == depth) level[n++] = path_of(t, i);
        qsort(level, (size_t)n, sizeof *level, by_size);
        for (int i = 0; i < n && i < 10; i++) sum += level[i];
        if (sum < threshold) return depth;
    }
    return 11;
}

static void ddd_stops_below_a_weak_level(void **state) {
    (void)state;
    int stopped = 0, whole = 0;
    for (int round = 0; round < 600; round++) {
        const ls_tree t = random_tree(round % 2);
        const double threshold = draw();
        const int first = 1 + (int)(draw() * 7);
        char text[40];
        bool expected[LS_MAX_ROWS];
        int left = 0;
        snprintf(text, sizeof text, "ddd:%.6f:%d", threshold, first);
        const ls_sizing z = sizing(text);
        const int deepest = depth_by_definition(&t, z.values[0], first);
        for (int i = 0; i < t.n; i++) left += expected[i] = t.nodes[i].depth <= deepest;
        check_cut(&z, &t, expected);
        stopped += left < t.n && deepest < 11;
        whole += left == t.n;
    }
    assert_true(stopped > 100 && whole > 50);
}

static void ddd_by_hand(void **state) {
    (void)state;
    double sure[30], fair[30];
    for (int i = 0; i < 30; i++) sure[i] = 1, fair[i] = 0.8;
    bool expected[LS_MAX_ROWS];
    struct {
        const char *rule;
        const double *chances;
        int rows; // root included
    } const cases[] = {
        {"ddd", sure, 12},                                                 // eleven levels at most
        {"ddd", fair, 8},                                                  // 0.8^5 = 0.33, 0.8^7 = 0.21
        {"ddd:0.4", fair, 6},                                              // it fails at once, and the level stays
        {"ddd:0.17", fair, 10},                                            // 0.8^9 = 0.13
        {"ddd:0.1", fair, 12},                                             // it passes 5, 7 and 9
        {"ddd:0.79:1", fair, 4},                                           // 0.8 passes, 0.51 does not
        {"ddd:0.9:1", fair, 2},  {"ddd:0", fair, 12}, {"ddd:1", sure, 12}, // a sure level does not fail
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const ls_sizing z = sizing(cases[c].rule);
        const ls_tree t = chain(cases[c].chances, 30);
        for (int i = 0; i < t.n; i++) expected[i] = i < cases[c].rows;
        check_cut(&z, &t, expected);
    }
    // twelve rows of 0.05 at depth 1, each with a row below: the beam holds ten of them, 0.5
    ls_draft d[25] = {{.token = 0, .parent = -1}};
    for (int i = 1; i <= 12; i++) {
        d[i] = (ls_draft){.parent = 0, .rank = (int16_t)i, .est_p = 0.05f};
        d[12 + i] = (ls_draft){.parent = (int16_t)i, .rank = -1, .est_p = 1};
    }
    ls_tree t = test_tree();
    ls_tree_lay_out(&t, d, 25);
    for (int i = 0; i < t.n; i++) t.nodes[i].token = i;
    const ls_sizing passes = sizing("ddd:0.49:1"), fails = sizing("ddd:0.55:1");
    for (int i = 0; i < t.n; i++) expected[i] = true;
    check_cut(&passes, &t, expected);
    for (int i = 0; i < t.n; i++) expected[i] = t.nodes[i].depth <= 1;
    check_cut(&fails, &t, expected);
}

// ---- c2t

static double odds(double p) {
    p = fmin(fmax(p, 1e-6), 1 - 1e-6);
    return log(p) - log1p(-p);
}

static double chance_by_definition(const ls_tree *t, int row, const double *w) {
    double entropy = 0, rest = 1;
    for (int i = 1; i < t->n; i++)
        if (t->nodes[i].parent == t->nodes[row].parent) {
            const double p = (double)t->nodes[i].est_p;
            if (p > 0) entropy -= p * log(p);
            rest -= p;
        }
    if (rest > 0) entropy -= rest * log(rest);
    const double z = w[0] + w[1] * odds(path_of(t, row)) + w[2] * odds((double)t->nodes[row].est_p) + w[3] * entropy +
                     w[4] * t->nodes[row].depth;
    return 1 / (1 + exp(-z));
}

static void c2t_keeps_what_its_classifier_accepts(void **state) {
    (void)state;
    int some = 0;
    for (int round = 0; round < 600; round++) {
        const ls_tree t = random_tree(round % 2);
        ls_sizing z = sizing("c2t");
        bool expected[LS_MAX_ROWS] = {true};
        int left = 1;
        z.values[0] = draw();
        for (int k = 0; k < LS_SIZING_KNOBS; k++) z.knobs[k] = 4 * draw() - 2;
        for (int i = 1; i < t.n; i++) {
            const double chance = chance_by_definition(&t, i, z.knobs);
            if (fabs(chance - z.values[0]) < 1e-9) z.values[0] += 1e-6; // no row decides by its last digits
        }
        for (int i = 1; i < t.n; i++) {
            expected[i] = expected[t.nodes[i].parent] && chance_by_definition(&t, i, z.knobs) >= z.values[0];
            left += expected[i];
        }
        check_cut(&z, &t, expected);
        some += left > 1 && left < t.n;
    }
    assert_true(some > 100);
}

static void c2t_of_the_path_alone_is_a_threshold_for_it(void **state) {
    (void)state;
    const double chances[] = {0.9, 0.8, 0.7, 0.5, 0.5, 0.9}; // 0.9, 0.72, 0.504, 0.252, 0.126, 0.113
    const ls_tree t = chain(chances, 6);
    static const int rows[] = {7, 6, 5, 4, 3, 2, 1};
    static const double at[] = {0.11, 0.12, 0.2, 0.3, 0.6, 0.8, 0.95};
    for (int i = 0; i < 7; i++) {
        ls_sizing z = sizing("c2t");
        bool expected[7];
        memcpy(z.knobs, (double[LS_SIZING_KNOBS]){0, 1}, sizeof z.knobs);
        z.values[0] = at[i];
        for (int k = 0; k < 7; k++) expected[k] = k < rows[i];
        check_cut(&z, &t, expected);
    }
}

// Rows whose ends follow from known weights.
static void random_rows(ls_c2t_row *rows, size_t n, const double *weights) {
    for (size_t i = 0; i < n; i++) {
        double x[LS_C2T_FEATURES] = {1};
        for (int k = 1; k < LS_C2T_FEATURES; k++) x[k] = 4 * draw() - 2;
        for (int k = 0; k < LS_C2T_FEATURES; k++) rows[i].x[k] = (float)x[k];
        rows[i].accepted = draw() < ls_c2t_chance(weights, x);
    }
}

static void the_fit_finds_the_weights(void **state) {
    (void)state;
    enum { ROWS = 40000 };
    static const double truth[LS_C2T_FEATURES] = {-1, 0.8, 0.3, -0.5, 0.2};
    ls_c2t_row *rows = calloc(ROWS, sizeof *rows);
    double w[LS_C2T_FEATURES] = {0, 1};
    assert_non_null(rows);
    random_rows(rows, ROWS, truth);
    const double before = ls_c2t_loss(rows, ROWS, w);
    assert_int_equal(ls_c2t_fit(rows, ROWS, w, NULL), LS_OK);
    for (int k = 0; k < LS_C2T_FEATURES; k++) assert_true(fabs(w[k] - truth[k]) < 0.06);
    const double after = ls_c2t_loss(rows, ROWS, w);
    assert_true(after < before);
    for (int k = 0; k < LS_C2T_FEATURES; k++) // no other weights are likelier, but for the small penalty
        for (int sign = -1; sign <= 1; sign += 2) {
            double other[LS_C2T_FEATURES];
            memcpy(other, w, sizeof other);
            other[k] += sign * 0.02;
            assert_true(ls_c2t_loss(rows, ROWS, other) > after);
        }
    free(rows);
}

static void the_fit_stays_finite(void **state) {
    (void)state;
    enum { ROWS = 200 };
    static const double sharp[LS_C2T_FEATURES] = {0, 1e6}; // accepted exactly where x[1] > 0
    ls_c2t_row rows[ROWS];
    double w[LS_C2T_FEATURES] = {0};
    ls_err err;
    random_rows(rows, ROWS, sharp);
    assert_int_equal(ls_c2t_fit(rows, ROWS, w, &err), LS_OK);
    for (int k = 0; k < LS_C2T_FEATURES; k++) assert_true(fabs(w[k]) < 100); // within the range of the knobs
    assert_true(w[1] > 1);
    for (int i = 0; i < ROWS; i++) rows[i].x[2] = rows[i].x[1]; // twice the same
    assert_int_equal(ls_c2t_fit(rows, ROWS, w, &err), LS_OK);
    assert_true(fabs(w[1] - w[2]) < 1e-3);
    const double path_alone[LS_C2T_FEATURES] = {0, 1};
    rows[0].x[1] = 1000; // no overflow where a row is very sure
    assert_true(isfinite(ls_c2t_loss(rows, ROWS, path_alone)));
}

static void the_fit_needs_both_ends(void **state) {
    (void)state;
    ls_c2t_row rows[200] = {0};
    double w[LS_C2T_FEATURES] = {0};
    ls_err err;
    assert_int_equal(ls_c2t_fit(rows, 200, w, &err), LS_E_RANGE);
    assert_string_equal(err.msg, "0 of 200 drafted rows were accepted; a fit needs 100 rows, with both outcomes");
    for (int i = 0; i < 200; i++) rows[i].accepted = true;
    assert_int_equal(ls_c2t_fit(rows, 200, w, &err), LS_E_RANGE);
    rows[3].accepted = false;
    assert_int_equal(ls_c2t_fit(rows, 99, w, &err), LS_E_RANGE);
    assert_int_equal(ls_c2t_fit(rows, 200, w, &err), LS_OK);
}

// ---- knobs

static void a_rule_takes_its_knobs_from_all(void **state) {
    (void)state;
    ls_knob_value *all = calloc(ls_knob_count(), sizeof *all);
    ls_sizing z = sizing("c2t"), other = sizing("auto");
    assert_non_null(all);
    for (size_t i = 0; i < ls_knob_count(); i++) all[i].number = 1000 + (double)i;
    const size_t first = ls_knob_of_sizing(z.rule);
    assert_true(first >= ls_knob_offset(NULL)); // the methods' come first
    assert_string_equal(ls_knob_at(first)->key, "c2t.bias");
    for (int i = 0; i < LS_SIZING_KNOBS; i++) {
        assert_true(z.knobs[i] >= z.rule->knobs[i].fallback && z.knobs[i] <= z.rule->knobs[i].fallback);
        assert_ptr_equal(ls_knob_at(first + (size_t)i), &z.rule->knobs[i]);
    }
    ls_sizing_tune(&z, all);
    for (int i = 0; i < LS_SIZING_KNOBS; i++) assert_int_equal((int)z.knobs[i], 1000 + (int)first + i);
    ls_sizing_tune(&other, all); // it has none
    assert_true(other.knobs[0] == 0);
    for (int i = 0; ls_sizing_at(i); i++) {
        const ls_knob *k = ls_sizing_rule_at(i)->knobs;
        int n = 0;
        while (k && k[n].key) {
            assert_int_equal(strncmp(k[n].key, ls_sizing_at(i)->name, strlen(ls_sizing_at(i)->name)), 0);
            assert_int_not_equal(k[n].kind, LS_KNOB_FILE); // numbers only: the values are copied
            n++;
        }
        assert_true(n <= LS_SIZING_KNOBS);
    }
    free(all);
}

static void changed_knobs_are_in_force_at_once(void **state) {
    (void)state;
    ls_knob_value *all = calloc(ls_knob_count(), sizeof *all);
    ls_drafting d = {0};
    ls_err err;
    assert_non_null(all);
    ls_knob_defaults(all);
    ls_decode_options o = {.method = "pld", .sizing = sizing("c2t"), .knobs = all};
    const ls_draft_setup place = {.tokenizer = ""};
    assert_int_equal(ls_drafting_set(&d, &o, &place, NULL, 0, &err), LS_OK);
    const size_t first = ls_knob_of_sizing(d.sizing.rule);
    assert_true(d.sizing.knobs[1] == all[first + 1].number);
    d.sizing.threshold = 0.4; // stands for what a rule has learnt
    assert_int_equal(ls_drafting_set(&d, &o, &place, NULL, 0, &err), LS_OK);
    assert_true(d.sizing.threshold == 0.4);
    all[first + 1].number = 3;
    assert_int_equal(ls_drafting_set(&d, &o, &place, NULL, 0, &err), LS_OK);
    assert_true(d.sizing.knobs[1] == 3);
    ls_drafting_free(&d);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ddd_stops_below_a_weak_level),
        cmocka_unit_test(ddd_by_hand),
        cmocka_unit_test(c2t_keeps_what_its_classifier_accepts),
        cmocka_unit_test(c2t_of_the_path_alone_is_a_threshold_for_it),
        cmocka_unit_test(the_fit_finds_the_weights),
        cmocka_unit_test(the_fit_stays_finite),
        cmocka_unit_test(the_fit_needs_both_ends),
        cmocka_unit_test(a_rule_takes_its_knobs_from_all),
        cmocka_unit_test(changed_knobs_are_in_force_at_once),
    };
    return cmocka_run_group_tests_name("sizing", tests, NULL, NULL);
}
