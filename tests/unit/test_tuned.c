// The drafter of this program's own: its estimates are chances, its trees grow best first, its rates count what was put
// to the test.
#include "base/rng.h"
#include "drafters.h"
#include "spec/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// A drafter that knows a text in which tokens repeat, and what the target said after some of them.
static void teach(ls_drafter *d, int32_t *text, int32_t n) {
    for (int32_t i = 0; i < n; i++) text[i] = (int32_t)(ls_uniform_at(31, (uint64_t)i) * 25);
    d->observe(d, text, (size_t)n, true);
    for (int32_t i = 1; i < n; i++) {
        ls_tree t = test_tree();
        ls_tree_start(&t, text[i]);
        ls_tree_mark(&t, (const int32_t[]){0}, 1);
        for (int j = 0; j < LS_ROW_TOP; j++) // other tokens than those that followed in the text
            test_say(&t.nodes[0], j, 100 + (text[i] + j) % 25, 0.9f / (float)(1 << j));
        d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = (size_t)i}, &t, 1});
    }
}

static ls_drafter *taught(int32_t *text, int32_t n) {
    ls_drafter *d = test_drafter_named("logitspec");
    teach(d, text, n);
    return d;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static const double DEEPER = 0.9; // a path's chance is lower than the product of its estimates

// The chance of each row's whole path, largest first.
static void paths_of(const ls_tree *t, double *sorted) {
    double path[LS_MAX_ROWS] = {1};
    for (int32_t i = 1; i < t->n; i++) path[i] = path[t->nodes[i].parent] * (double)t->nodes[i].est_p * DEEPER;
    memcpy(sorted, path, (size_t)t->n * sizeof *path);
    qsort(sorted, (size_t)t->n, sizeof *sorted, by_size);
}

enum { TAUGHT = 120 };
static const double NOT_WORTH_A_ROW = 1e-5;

static void last_logits(int32_t *top, float *top_p, int32_t root) {
    for (int32_t i = 0; i < LS_MAX_ROWS; i++) top[i] = (root + i) % 300, top_p[i] = i ? 0.1f / (float)i : 0.5f;
}

static void estimates_are_chances(void **state) {
    (void)state;
    int32_t text[TAUGHT], top[LS_MAX_ROWS], tails = 0, own = 0;
    float top_p[LS_MAX_ROWS];
    ls_drafter *d = taught(text, TAUGHT);
    for (int32_t root = 0; root < 25; root++)
        for (int32_t max_rows = 16; max_rows <= LS_MAX_ROWS; max_rows *= 4) {
            ls_tree t = test_tree();
            double sum[LS_MAX_ROWS] = {0};
            bool guessed[LS_MAX_ROWS] = {0};
            last_logits(top, top_p, root);
            const int32_t n_top = root % 2 ? 4 : LS_MAX_ROWS; // few guesses leave rows for what may follow them
            d->propose(d, &(ls_draft_state){text, TAUGHT, root, top, top_p, n_top, NULL}, max_rows, &t);
            for (int32_t i = 1; i < t.n; i++) {
                const int32_t parent = t.nodes[i].parent;
                assert_true(t.nodes[i].est_p > 0 && t.nodes[i].est_p <= 1);
                sum[parent] += (double)t.nodes[i].est_p;
                guessed[i] = guessed[parent] || t.nodes[i].from == LS_SOURCE_LAST_LOGIT;
                if (t.nodes[i].match_n >
                    0) // copied: after a guess it is that guess's tail, else the root's continuation
                    assert_int_equal(t.nodes[i].from, guessed[parent] ? LS_SOURCE_GUESS_TAIL : LS_SOURCE_RETRIEVED);
                tails += t.nodes[i].from == LS_SOURCE_GUESS_TAIL;
                own += t.nodes[i].from == LS_SOURCE_RETRIEVED;
            }
            for (int32_t i = 0; i < t.n; i++) assert_true(sum[i] < 1.0001); // one child at most is right
        }
    assert_true(tails > 0 && own > 0);
    d->free(d);
}

// Where all that is known is unlikely, a sized tree ends, however cheap rows are; one of a fixed size is filled up.
static void trees_end_where_nothing_is_worth_a_row(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("logitspec");
    const int32_t text = 500;
    for (int32_t token = 0; token < 100; token++) // one successor each, of one in a hundred
        test_teach(d, NULL, 0, token, (token + 1) % 100, 1, 0.01f);
    ls_cost_curve costs = {0};
    for (int i = 0; i < LS_COST_SIZES; i++) costs.base_ms[i] = 10;
    for (int sized = 0; sized < 2; sized++) {
        ls_tree t = test_tree();
        double paths[LS_MAX_ROWS];
        d->propose(d, &(ls_draft_state){&text, 1, 3, NULL, NULL, 0, sized ? &costs : NULL}, 32, &t);
        paths_of(&t, paths);
        assert_int_equal(paths[t.n - 1] >= NOT_WORTH_A_ROW, sized);
        assert_int_equal(t.n < 32, sized);
        assert_true(t.n > 2);
    }
    d->free(d);
}

// A larger tree adds the likeliest rows that are left, and changes none. (Trees of a fixed size also look at less if
// they have fewer rows, so these trees are sized, and rows cost nothing.)
static void trees_grow_best_first(void **state) {
    (void)state;
    int32_t text[TAUGHT], top[LS_MAX_ROWS];
    float top_p[LS_MAX_ROWS];
    ls_drafter *d = taught(text, TAUGHT);
    ls_cost_curve costs = {0};
    for (int i = 0; i < LS_COST_SIZES; i++) costs.base_ms[i] = 10;
    for (int32_t root = 0; root < 25; root += 3) {
        double before[LS_MAX_ROWS] = {1}, now[LS_MAX_ROWS];
        last_logits(top, top_p, root);
        for (int32_t max_rows = 2; max_rows < 40; max_rows++) {
            ls_tree t = test_tree();
            d->propose(d, &(ls_draft_state){text, TAUGHT, root, top, top_p, LS_MAX_ROWS, &costs}, max_rows, &t);
            assert_int_equal(t.n, max_rows);
            paths_of(&t, now);
            assert_memory_equal(now, before, (size_t)(max_rows - 1) * sizeof *now);
            memcpy(before, now, sizeof now);
        }
    }
    d->free(d);
}

// Without one of its sources the tree has none of its tokens, and all of the others'.
static void each_source_can_be_left_out(void **state) {
    (void)state;
    static const char *const keys[] = {"logitspec.retrieved", "logitspec.remembered", "logitspec.last_logit", ""};
    static const ls_draft_source own[] = {LS_SOURCE_RETRIEVED, LS_SOURCE_REMEMBERED, LS_SOURCE_LAST_LOGIT};
    const ls_method *m = ls_method_find("logitspec");
    const size_t first = ls_knob_offset(m);
    for (int off = 0; off < 4; off++) {
        int32_t text[TAUGHT], top[LS_MAX_ROWS], seen[LS_SOURCE_COUNT] = {0};
        float top_p[LS_MAX_ROWS];
        ls_knob_value knobs[16];
        ls_drafter *d;
        for (size_t i = 0; m->knobs[i].key; i++) {
            knobs[i] = test_knobs(1000, 7)[first + i];
            if (!strcmp(m->knobs[i].key, keys[off])) knobs[i].number = 0;
        }
        assert_int_equal(ls_drafter_make(&d, m, &(ls_draft_setup){.knobs = knobs, .tokenizer = ""}, NULL), LS_OK);
        teach(d, text, TAUGHT);
        for (int32_t root = 0; root < 25; root++) {
            ls_tree t = test_tree();
            last_logits(top, top_p, root);
            d->propose(d, &(ls_draft_state){text, TAUGHT, root, top, top_p, LS_MAX_ROWS, NULL}, 200, &t);
            for (int32_t i = 1; i < t.n; i++) seen[t.nodes[i].from]++;
        }
        for (int k = 0; k < 3; k++) assert_int_equal(seen[own[k]] > 0, k != off);
        if (off == 0 || off == 2) assert_int_equal(seen[LS_SOURCE_GUESS_TAIL], 0); // a copy after a guess
        d->free(d);
    }
}

static float rated(ls_drafter *d, float root_p, float guess_p) { // a guess of rank 1
    const int32_t text[] = {400, 401}, top[] = {402, 403};
    ls_tree t = test_tree();
    d->propose(d, &(ls_draft_state){text, 2, 402, top, (float[]){root_p, guess_p}, 2, NULL}, 2, &t);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.nodes[1].token, 403);
    return t.nodes[1].est_p;
}

// What the last logits leave beside the root is shared among the guesses.
static void guesses_share_what_the_root_leaves(void **state) {
    (void)state;
    ls_drafter *d = test_drafter_named("logitspec");
    assert_true(rated(d, 0.9f, 0.05f) == rated(d, 0.5f, 0.25f)); // a half of what is left
    assert_true(rated(d, 0.9f, 0.05f) > rated(d, 0.1f, 0.05f));  // an eighteenth
    d->free(d);
}

enum { TRIALS = 4000 };
typedef struct {
    ls_child of[TRIALS];
    int32_t n, places, came[LS_MAX_ROWS], end[LS_MAX_ROWS]; // end: trials up to this place
} tested;

static void keep(void *ud, const ls_child *trials, int32_t n, int32_t came) {
    tested *k = ud;
    memcpy(k->of + k->n, trials, (size_t)n * sizeof *trials);
    k->n += n;
    k->came[k->places] = came;
    k->end[k->places++] = k->n;
}

// The rates learn from all candidates after accepted rows, drafted or not, and from no others.
static void rates_count_what_was_tested(void **state) {
    (void)state;
    enum { ROOT = 5, A = 6, B = 7, C = 8, ELSEWHERE = 9, UNDRAFTED = 40 };
    ls_drafter *d = test_drafter_named("logitspec");
    const ls_rates *r = &((const ls_searcher *)d)->e.rates;
    const int32_t text[] = {1, 2}, path[] = {0, 3}, top[] = {ROOT, C, UNDRAFTED};
    const float top_p[] = {0.5f, 0.2f, 0.1f};
    const ls_draft_state s = {text, 2, ROOT, top, top_p, 3, NULL};
    test_teach(d, (const int32_t[]){1, 2}, 2, ROOT, A, 1, 0.3f);
    for (int32_t n = 1; n <= LS_SUCCESSORS_ORDER; n++) {
        const ls_successor *said = ls_successors_get(&((const ls_searcher *)d)->e.successors,
                                                     (const int32_t[]){1, 2, ROOT} + LS_SUCCESSORS_ORDER - n, n);
        assert_true(said && said->id[0] == A);
    }
    test_teach(d, (const int32_t[]){2, ROOT}, 2, C, 30, 4, 0.2f);
    test_teach(d, (const int32_t[]){2, ROOT}, 2, A, B, 1, 0.2f);
    const ls_rates before = *r;
    const ls_draft nodes[] = {{.token = ROOT, .parent = -1},
                              {.token = A, .parent = 0, .rank = -1, .from = LS_SOURCE_RETRIEVED, .est_p = 0.9f},
                              {.token = B, .parent = 1, .rank = -1, .from = LS_SOURCE_RETRIEVED, .est_p = 0.9f},
                              {.token = C, .parent = 0, .rank = 1, .from = LS_SOURCE_LAST_LOGIT, .est_p = 0.9f}};
    ls_tree t = test_tree();
    ls_tree_lay_out(&t, nodes, 4);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < LS_ROW_TOP; j++) test_say(&t.nodes[i], j, 100 * (i + 1) + j, 0.1f);
    ls_tree_mark(&t, path, 2); // C was right, A wrong, B not tested
    t.nodes[0].target = C;
    t.nodes[3].target = 31; // a candidate that was not drafted
    static tested got;
    ls_search_trials(ls_search_of((const ls_searcher *)d, &s), &t, keep, &got);
    assert_int_equal(got.places, 2);
    assert_int_equal(got.came[0], C);
    assert_int_equal(got.came[1], 31);
    float expected[LS_RATE_KEYS], bias[100] = {0};
    memcpy(expected, before.weight, sizeof expected);
    bool undrafted = false;
    for (int32_t i = 0; i < got.n; i++) {
        const int32_t place = i >= got.end[0];
        assert_int_not_equal(got.of[i].token, B);
        undrafted |= !place && got.of[i].token == UNDRAFTED;
        const float error = (float)(got.of[i].token == got.came[place]) - got.of[i].p;
        if (error > -0.001f && error < 0.001f) continue;
        bias[got.of[i].token] += 0.01f * error;
        for (int v = 0; v < LS_VIEWS; v++)
            if (got.of[i].view[v]) expected[ls_rate_at[v] + got.of[i].view[v]] += 0.01f * error;
    }
    assert_true(undrafted && bias[31] > 0 && bias[A] < 0);
    d->learn(d, &(ls_draft_result){&s, &t, 2});
    for (int i = 0; i < LS_RATE_KEYS; i++)
        assert_float_equal(r->weight[i], expected[i], 3e-4); // the second place's after the first
    for (int i = 0; i < 100; i++) {
        const ls_token_usage *u = ls_usage_of(&((const ls_searcher *)d)->e.usage, i);
        assert_float_equal(u->bias, bias[i], 3e-4);
    }
    const ls_rates after = *r;
    d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = 2}, &t,
                                   2}); // without the last logits not all candidates are known
    assert_memory_equal(r, &after, sizeof after);
    // then the target says other things after B and C elsewhere: what it said after ROOT C and after A B is still known
    for (int i = 0; i < 2; i++) test_teach(d, (const int32_t[]){ELSEWHERE}, 1, i ? B : C, 900, LS_ROW_TOP, 0.1f);
    // and another one after ROOT C where 3 stands before them, not 2
    const struct {
        int32_t context[2], root, said;
    } known[] = {{{1, ROOT}, C, 400}, {{9, A}, B, 300},    {{1, ELSEWHERE}, C, 900}, {{1, 1}, C, 900},
                 {{2, ROOT}, C, 400}, {{3, ROOT}, C, 800}, {{1, ROOT}, C, 800}};
    const size_t before_that = 4;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (i == before_that) test_teach(d, (const int32_t[]){3, ROOT}, 2, C, 800, LS_ROW_TOP, 0.1f);
        d->propose(d, &(ls_draft_state){known[i].context, 2, known[i].root, NULL, NULL, 0, NULL}, LS_MAX_ROWS, &t);
        int32_t children = 0;
        for (int32_t k = 1; k < t.n; k++)
            if (t.nodes[k].parent == 0 && t.nodes[k].token / 100 == known[i].said / 100) {
                assert_in_range(t.nodes[k].token, known[i].said, known[i].said + LS_ROW_TOP - 1);
                assert_int_equal(t.nodes[k].from, LS_SOURCE_REMEMBERED);
                children++;
            }
        assert_int_equal(children, LS_ROW_TOP);
    }
    d->free(d);
}

static bool is_child(const ls_tree *t, int32_t parent, int32_t token, float *est) {
    for (int32_t i = 1; i < t->n; i++)
        if (t->nodes[i].parent == parent && t->nodes[i].token == token) return *est = t->nodes[i].est_p, true;
    return false;
}

static int32_t copy_of(int32_t agree, ls_place place) { // as a view has it
    uint8_t view[LS_VIEWS];
    ls_rate_views(&(ls_features){.copies = true, .agree = agree, .place = place, .last_rank = -1}, view);
    return view[LS_VIEW_COPY];
}

// A copy goes on where it began, beside what followed its last three tokens elsewhere; what agrees for longer is
// likelier.
static void copies_go_on(void **state) {
    (void)state;
    int32_t text[80], n = 0;
    text[n++] = 1, text[n++] = 2, text[n++] = 3, text[n++] = 4, text[n++] = 5; // 1 2 3 4 5 | 100 ...
    for (int32_t i = 0; i < 25; i++) text[n++] = 100 + i;
    text[n++] = 3, text[n++] = 4, text[n++] = 5; // later: 3 4 5 | 200 ...
    for (int32_t i = 0; i < 25; i++) text[n++] = 200 + i;
    text[n++] = 1;
    ls_drafter *d = test_drafter_named("logitspec");
    ls_tree t = test_tree();
    d->observe(d, text, (size_t)n, true);
    const ls_draft_state s = {text, (size_t)n, 2, NULL, NULL, 0, NULL};
    d->propose(d, &s, 48, &t);
    for (int32_t i = 1; i <= 3; i++) assert_int_equal(t.nodes[i].token, 2 + i);
    float goes_on, elsewhere;
    assert_true(is_child(&t, 3, 100, &goes_on));
    assert_true(is_child(&t, 3, 200, &elsewhere));
    assert_true(goes_on > elsewhere);
    static tested k;
    ls_tree_mark(&t, (const int32_t[]){0, 1, 2, 3}, 4);
    t.nodes[3].target = 100;
    ls_search_trials(ls_search_of((const ls_searcher *)d, &s), &t, keep, &k);
    assert_int_equal(k.places, 4);
    for (int32_t i = 0; i < k.n; i++) {
        const int32_t place = i < k.end[0] ? 0 : i < k.end[1] ? 1 : i < k.end[2] ? 2 : 3, token = k.of[i].token;
        const int32_t copy = k.of[i].view[LS_VIEW_COPY];
        if (token == 3 + place) assert_int_equal(copy, copy_of(2 + place, place ? LS_PLACE_ON : LS_PLACE_FIRST));
        if (place < 3) continue;
        if (token == 100) assert_int_equal(copy, copy_of(5, LS_PLACE_ON));
        if (token == 200) assert_int_equal(copy, copy_of(3, LS_PLACE_JUMP));
    }
    d->free(d);
}

// What was read of a prompt is known after three tokens, after two, and after the last one alone.
static void prompts_are_read(void **state) {
    (void)state;
    enum { N = 8 };
    const int32_t text[N] = {4, 1, 5, 2, 5, 3, 1, 5};
    ls_node rows[N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < LS_ROW_TOP; j++) test_say(&rows[i], j, 100 * (i + 1) + j, 0.1f);
    ls_drafter *d = test_drafter_named("logitspec");
    for (size_t at = 0; at < N; at += 2) // in parts
        d->read(d, text, at, 2, rows + at);
    const struct {
        int32_t context[2], root, said;
    } known[] = {{{9, 1}, 5, 800}, {{3, 1}, 5, 800}, {{4, 1}, 5, 300}, {{5, 2}, 5, 500},
                 {{9, 2}, 5, 500}, {{9, 9}, 5, 800}, {{9, 5}, 2, 400}, {{1, 5}, 2, 400}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ls_tree t = test_tree();
        float est;
        d->propose(d, &(ls_draft_state){known[i].context, 2, known[i].root, NULL, NULL, 0, NULL}, LS_MAX_ROWS, &t);
        for (int j = 0; j < LS_ROW_TOP; j++) assert_true(is_child(&t, 0, known[i].said + j, &est));
    }
    d->free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_chances),
        cmocka_unit_test(trees_end_where_nothing_is_worth_a_row),
        cmocka_unit_test(trees_grow_best_first),
        cmocka_unit_test(each_source_can_be_left_out),
        cmocka_unit_test(guesses_share_what_the_root_leaves),
        cmocka_unit_test(rates_count_what_was_tested),
        cmocka_unit_test(copies_go_on),
        cmocka_unit_test(prompts_are_read),
    };
    return cmocka_run_group_tests_name("tuned", tests, NULL, NULL);
}
