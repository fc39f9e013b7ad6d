// Experts of a mixture: which a forward woke, counted plainly beside ls_experts_count; what they cost; which a tree is
// expected to wake; and the trees that are chosen by it. Output is the same whatever is predicted: test_models.c.
#include "drafters.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "spec/sizing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t drawn; // numbers drawn so far

static int32_t below(int32_t n) {
    return (int32_t)(ls_uniform_at(5, drawn++) * n);
}

enum { MOST_ROWS = 20, LAYERS = 3, EXPERTS = 9, USED = 3 };

static int32_t expert[MOST_ROWS * LAYERS * USED];

static const int32_t *took(int32_t row, int32_t layer) {
    return expert + (row * LAYERS + layer) * USED;
}

static bool has(int32_t row, int32_t layer, int32_t x) {
    bool is = false;
    for (int32_t j = 0; j < USED; j++) is |= took(row, layer)[j] == x;
    return is;
}

static void test_count(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int32_t rows = 1 + below(MOST_ROWS), n = round % 2 ? rows : 1 + below(rows);
        for (int32_t i = 0; i < rows * LAYERS; i++)
            for (int32_t j = 0; j < USED; j++) expert[i * USED + j] = (below(3) * 3 + j) % EXPERTS;
        int32_t awake[LAYERS], alone[MOST_ROWS], all = 0, want_alone[MOST_ROWS] = {0};
        const lst_experts_seen e = {.n_rows = rows, .n_layers = LAYERS, .n_used = USED, .expert = expert};
        const int32_t count = ls_experts_count(&e, n == rows ? 0 : n, EXPERTS, awake, alone);
        for (int32_t layer = 0; layer < LAYERS; layer++) {
            int32_t want = 0;
            for (int32_t x = 0; x < EXPERTS; x++) {
                int32_t by = 0, last = 0;
                for (int32_t i = 0; i < n; i++)
                    if (has(i, layer, x)) by++, last = i;
                want += by > 0;
                want_alone[last] += by == 1;
            }
            assert_int_equal(awake[layer], want);
            all += want;
        }
        assert_int_equal(count, all);
        assert_int_equal(ls_experts_count(&e, n, EXPERTS, NULL, NULL), all);
        for (int32_t i = 0; i < n; i++) assert_int_equal(alone[i], want_alone[i]);
    }
}

// ---- costs

static ls_cost_curve curve(void) {
    ls_cost_curve z = {.expert_ms = 0.05};
    for (int i = 0; i < LS_COST_SIZES; i++) {
        const double rows = ls_cost_rows[i];
        z.awake[i] = LAYERS * EXPERTS * (1 - pow(1 - (double)USED / EXPERTS, rows));
        z.base_ms[i] = 2 + 0.1 * rows + 0.1 * z.awake[i];
    }
    return z;
}

static void experts_have_a_cost(void **state) {
    (void)state;
    const ls_cost_curve z = curve();
    assert_float_equal(ls_cost_awake(&z, 1), 9, 1e-9);
    assert_float_equal(ls_cost_awake(&z, 5), (z.awake[3] + z.awake[4]) / 2, 1e-9);
    assert_float_equal(ls_cost_awake(&z, 200), z.awake[LS_COST_SIZES - 1], 1e-9);
    assert_float_equal(ls_cost_experts_ms(&z, 4, z.awake[3] + 10), 0.5, 1e-9);
    assert_float_equal(ls_cost_experts_ms(&z, 4, z.awake[3] - 10), -0.5, 1e-9);
    double most = INFINITY; // rows cannot take less than nothing
    for (int i = 0; i < LS_COST_SIZES; i++) most = fmin(most, z.base_ms[i] / z.awake[i]);
    assert_float_equal(ls_cost_most_expert_ms(&z), most, 1e-12);
    const ls_cost_curve none = {.base_ms = {1}};
    assert_true(ls_cost_most_expert_ms(&none) == 0 && ls_cost_experts_ms(&none, 3, 100) == 0);
    ls_cost_curve dear = z; // a row that is not worth its cost may be worth it if its experts are awake
    dear.expert_ms = ls_cost_most_expert_ms(&dear);
    ls_cost_curve by_rows = dear;
    by_rows.expert_ms = 0;
    assert_true(ls_cost_may_pay(&dear, 0.06, 1, 0) && !ls_cost_may_pay(&by_rows, 0.06, 1, 0));
}

// Steps teach the time of an expert; without counts they teach what they did before there were any.
static void steps_teach_the_cost_of_experts(void **state) {
    (void)state;
    ls_cost_curve z = curve(), by_rows = z, dense = z, unknown = z;
    double error = 0, error_by_rows = 0;
    by_rows.expert_ms = dense.expert_ms = 0;
    memset(dense.awake, 0, sizeof dense.awake);
    for (int i = 0; i < 3000; i++) {
        const int32_t rows = 1 + below(12);
        const double most = fmin(USED * rows, EXPERTS) * LAYERS, least = USED * LAYERS,
                     awake = least + (most - least) * ls_uniform_at(6, (uint64_t)i), ms = 2 + 0.1 * rows + 0.1 * awake;
        if (i >= 2000) {
            error += fabs(ls_cost_ms(&z, rows, 0) + ls_cost_experts_ms(&z, rows, awake) - ms) / 1000;
            error_by_rows += fabs(ls_cost_ms(&by_rows, rows, 0) - ms) / 1000;
        }
        ls_cost_observe(&z, rows, 0, awake, ms);
        ls_cost_observe(&by_rows, rows, 0, awake, ms);
        ls_cost_observe(&dense, rows, 0, awake, ms);
        ls_cost_observe(&unknown, rows, 0, -1, ms);
        assert_memory_equal(dense.base_ms, by_rows.base_ms, sizeof dense.base_ms);
        assert_true(z.expert_ms > 0 && z.expert_ms <= ls_cost_most_expert_ms(&z));
    }
    assert_float_equal(z.expert_ms, 0.1, 0.01);
    assert_true(error < 0.1 && error_by_rows > 3 * error);
    assert_memory_equal(unknown.base_ms, by_rows.base_ms, sizeof unknown.base_ms);
    assert_true(unknown.expert_ms == curve().expert_ms);
}

// A machine that is slower than when it was measured takes longer for experts, too, although fewer are awake than then.
static void a_slower_machine_is_slower_for_experts(void **state) {
    (void)state;
    ls_cost_curve z = curve();
    z.expert_ms = 0.1;
    for (int i = 0; i < 3000; i++) {
        const int32_t rows = 1 + below(12);
        const double usual = ls_cost_awake(&z, rows),
                     awake = fmax(USED * LAYERS, usual * (0.6 + 0.3 * ls_uniform_at(7, (uint64_t)i)));
        ls_cost_observe(&z, rows, 0, awake, 2 * (2 + 0.1 * rows + 0.1 * awake));
    }
    assert_true(z.expert_ms > 0.15 && z.expert_ms < 0.25);
}

// ---- predictions

// Experts that depend on a token and the token before it.
static void route(const int32_t *tail, int32_t *out) {
    for (int32_t layer = 0; layer < LAYERS; layer++)
        for (int32_t j = 0; j < USED; j++)
            out[layer * USED + j] = (tail[1] * 5 + (layer ? tail[0] : 0) + layer + 3 * j) % EXPERTS;
}

enum { N_TOKENS = 12 };

static int32_t text[4000];

static ls_routing *taught(size_t n) {
    ls_routing *r = ls_routing_new(LAYERS, EXPERTS, USED);
    assert_non_null(r);
    for (size_t i = 0; i < n; i++) text[i] = below(N_TOKENS);
    for (size_t at = 0; at < n; at += MOST_ROWS) { // in pieces, as a prompt is read
        const int32_t rows = n - at < MOST_ROWS ? (int32_t)(n - at) : MOST_ROWS;
        for (int32_t i = 0; i < rows; i++) {
            const size_t end = at + (size_t)i;
            route((int32_t[]){end ? text[end - 1] : 0, text[end]}, expert + i * LAYERS * USED);
        }
        ls_routing_read(r, text, at + (size_t)rows, rows, expert);
    }
    return r;
}

// A tree of random tokens after the text; its experts are put into `expert`. Returns those that are awake.
static int32_t random_tree(ls_tree *t, size_t n, int32_t rows, int32_t n_tokens) {
    ls_draft d[MOST_ROWS] = {{.token = below(n_tokens), .parent = -1}};
    for (int32_t i = 1; i < rows; i++)
        d[i] = (ls_draft){
            .token = below(n_tokens), .parent = (int16_t)below(i), .rank = -1, .est_p = 0.3f + 0.6f * (float)below(2)};
    ls_tree_lay_out(t, d, rows);
    for (int32_t i = 0; i < rows; i++) {
        const int32_t up = t->nodes[i].parent;
        route((int32_t[]){up < 0 ? text[n - 1] : t->nodes[up].token, t->nodes[i].token}, expert + i * LAYERS * USED);
    }
    const lst_experts_seen e = {.n_rows = rows, .n_layers = LAYERS, .n_used = USED, .expert = expert};
    return ls_experts_count(&e, 0, EXPERTS, NULL, NULL);
}

static double awake_of(ls_routing *r, size_t n, const ls_tree *t) {
    double sum = 0;
    ls_routing_predict(r, text, n, t);
    for (int32_t i = 0; i < t->n; i++) {
        const double more = ls_routing_wakes(r, i);
        assert_true(more > -1e-9 && more < LAYERS * USED + 1e-9);
        ls_routing_take(r, i);
        sum += more;
    }
    assert_float_equal(sum, ls_routing_awake(r), 1e-6);
    assert_true(ls_routing_expect(r, text, n, t) == ls_routing_awake(r));
    return sum;
}

static void experts_are_remembered_by_token(void **state) {
    (void)state;
    const size_t n = 4000;
    ls_routing *r = taught(n);
    ls_tree t = test_tree();
    double trials, error = 0;
    assert_true(ls_routing_rate(r, 2, &trials) > 0.999 && trials > 500);
    for (int round = 0; round < 50; round++) { // all pairs of tokens are known: predictions are right
        const int32_t awake = random_tree(&t, n, 1 + below(MOST_ROWS), N_TOKENS);
        error += fabs(awake_of(r, n, &t) - awake) / 50;
    }
    assert_true(error < 0.2);
    // a known token after an unknown one: the first layer does not depend on that
    for (int round = 0; round < 200; round++) {
        const int32_t awake = random_tree(&t, n, 8, N_TOKENS);
        for (int32_t i = 0; i < t.n; i++) t.nodes[i].token += i % 2 * N_TOKENS * (1 + round);
        ls_routing_expect(r, text, n, &t);
        ls_routing_learn(r, text, n, &t, expert, awake);
    }
    const double by_token = ls_routing_rate(r, 1, &trials);
    assert_true(by_token > 0.4 && by_token < 0.9 && trials > 200);
    assert_true(ls_routing_rate(r, LS_ROUTING_LAST, &trials) < by_token && trials > 200);
    ls_routing_free(r);
}

// Rows of unknown tokens that take the same experts nevertheless: how many are awake is learnt from trees.
static void what_predictions_miss_is_counted(void **state) {
    (void)state;
    ls_routing *r = ls_routing_new(LAYERS, EXPERTS, USED);
    ls_tree t = test_tree();
    double before = 0, after = 0;
    text[0] = 1;
    for (int round = 0; round < 400; round++) {
        ls_draft d[6] = {{.token = 10000 + 6 * round, .parent = -1}};
        for (int32_t i = 1; i < 6; i++) d[i] = (ls_draft){.token = d[0].token + i, .rank = -1};
        ls_tree_lay_out(&t, d, 6);
        for (int32_t i = 0; i < 6 * LAYERS; i++) // the layers take experts 0 to 2, one row others
            for (int32_t j = 0; j < USED; j++) expert[i * USED + j] = j + (i / LAYERS == 3 ? USED : 0);
        const double wrong = fabs(awake_of(r, 1, &t) - 2 * USED * LAYERS);
        if (!round) before = wrong;
        after = wrong;
        ls_routing_learn(r, text, 1, &t, expert, 2 * USED * LAYERS);
    }
    assert_true(before > 4 && after < 0.5);
    ls_routing_free(r);
}

static void lists(void *r, ls_memory_visit *v) {
    ls_routing_memory(r, v);
}

// An answer that is decoded again gets the same trees.
static void what_is_remembered_can_be_restored(void **state) {
    (void)state;
    const size_t n = 2000;
    ls_routing *r = taught(n);
    ls_tree t = test_tree(), other = test_tree();
    ls_buf before = {0};
    random_tree(&t, n, 12, 2 * N_TOKENS);
    const double awake = awake_of(r, n, &t);
    ls_memory_copy(&before, lists, r);
    for (int i = 0; i < 50; i++) {
        random_tree(&other, n, 12, 2 * N_TOKENS);
        for (int32_t k = 0; k < 12 * LAYERS; k++)
            for (int32_t j = 0; j < USED; j++) expert[k * USED + j] = j;
        ls_routing_expect(r, text, n, &other);
        ls_routing_learn(r, text, n, &other, expert, USED * LAYERS);
    }
    assert_true(fabs(awake_of(r, n, &t) - awake) > 1);
    ls_memory_restore(&before, lists, r);
    assert_true(awake_of(r, n, &t) == awake);
    ls_buf_free(&before);
    ls_routing_free(r);
}

static void unknown_rows_wake_random_experts(void **state) {
    (void)state;
    ls_routing *r = ls_routing_new(LAYERS, EXPERTS, USED);
    ls_tree t = test_tree();
    double trials;
    text[0] = 1;
    random_tree(&t, 1, 7, N_TOKENS);
    assert_float_equal(awake_of(r, 1, &t), LAYERS * EXPERTS * (1 - pow(1 - (double)USED / EXPERTS, 7)), 1e-9);
    assert_true(isnan(ls_routing_rate(r, 1, &trials)) && trials == 0);
    ls_routing_free(r);
    assert_null(ls_routing_new(0, 8, 2));
    assert_null(ls_routing_new(4, 2, 3));
    assert_null(ls_routing_new(4, 70000, 3));
    assert_null(ls_routing_new(1 << 20, 60000, 3));
    ls_routing_free(NULL);
    r = ls_routing_new(1, 1, 1); // the smallest
    ls_routing_free(r);
    r = ls_routing_new(100000, 8, 8); // few rows of it fit
    assert_non_null(r);
    ls_routing_free(r);
}

// ---- trees

static ls_sizing by_cost(ls_routing *r) {
    ls_sizing z;
    ls_err err;
    if (ls_sizing_read(&z, "sizing", "auto", &err)) fail_msg("%s", err.msg);
    z.routing = r;
    return z;
}

static int32_t tokens_left(const ls_sizing *z, const ls_tree *of, const ls_cost_curve *costs, size_t n, int32_t *out) {
    ls_tree t = test_tree_copy(of);
    if (z->routing) ls_routing_predict(z->routing, text, n, &t);
    ls_sizing_cut(z, &t, costs, (int32_t)n, 0);
    for (int32_t i = 0; i < t.n; i++) out[i] = t.nodes[i].token;
    return t.n;
}

// What a tree of these tokens brings a millisecond, if the predictions are right.
static double rate_of(ls_tree *t, const ls_cost_curve *costs, size_t n) {
    double expected = 0, path[LS_MAX_ROWS];
    for (int32_t i = 0; i < t->n; i++)
        expected += path[i] = i ? path[t->nodes[i].parent] * (double)t->nodes[i].est_p : 1;
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t up = t->nodes[i].parent;
        route((int32_t[]){up < 0 ? text[n - 1] : t->nodes[up].token, t->nodes[i].token}, expert + i * LAYERS * USED);
    }
    const lst_experts_seen e = {.n_rows = t->n, .n_layers = LAYERS, .n_used = USED, .expert = expert};
    const int32_t awake = ls_experts_count(&e, 0, EXPERTS, NULL, NULL);
    return expected / (ls_cost_ms(costs, t->n, (int32_t)n) + ls_cost_experts_ms(costs, t->n, awake));
}

static void trees_are_sized_by_experts(void **state) {
    (void)state;
    const size_t n = 4000;
    ls_routing *r = taught(n);
    const ls_sizing rows = by_cost(NULL), experts = by_cost(r);
    ls_cost_curve z = curve(), none = z;
    z.expert_ms = 0.1;
    none.expert_ms = 0;
    int32_t a[LS_MAX_ROWS], b[LS_MAX_ROWS];
    double gain = 0;
    int differ = 0;
    for (int round = 0; round < 300; round++) {
        ls_tree t = test_tree();
        random_tree(&t, n, 2 + below(MOST_ROWS - 1), N_TOKENS);
        // if experts cost nothing, or nothing is known of them, the tree is that by rows
        const int32_t n_rows = tokens_left(&rows, &t, &none, n, a);
        assert_int_equal(tokens_left(&experts, &t, &none, n, b), n_rows);
        assert_memory_equal(a, b, sizeof *a * (size_t)n_rows);
        assert_int_equal(tokens_left(&rows, &t, &z, n, b), n_rows);
        assert_memory_equal(a, b, sizeof *a * (size_t)n_rows);
        ls_tree x = test_tree_copy(&t), y = test_tree_copy(&t);
        ls_sizing_cut(&rows, &x, &z, (int32_t)n, 0);
        ls_routing_predict(r, text, n, &y);
        ls_sizing_cut(&experts, &y, &z, (int32_t)n, 0);
        const double by_rows = rate_of(&x, &z, n), by_experts = rate_of(&y, &z, n);
        gain += by_experts / by_rows / 300;
        differ += x.n != y.n || by_experts != by_rows;
        assert_true(by_experts > 0.9 * by_rows);
    }
    assert_true(differ > 100 && gain > 1.005);
    ls_routing_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(experts_have_a_cost),
        cmocka_unit_test(steps_teach_the_cost_of_experts),
        cmocka_unit_test(a_slower_machine_is_slower_for_experts),
        cmocka_unit_test(experts_are_remembered_by_token),
        cmocka_unit_test(what_predictions_miss_is_counted),
        cmocka_unit_test(what_is_remembered_can_be_restored),
        cmocka_unit_test(unknown_rows_wake_random_experts),
        cmocka_unit_test(trees_are_sized_by_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
