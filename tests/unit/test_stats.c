// Statistics by their definitions, on steps that are made by hand.
#include "base/mem.h"
#include "decode/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

// Root, a branch of its own continuation (rows 1 to 3), one of rank 1 (rows 4 and 5). n_path rows of the first branch's
// way are accepted, root included, or of the second's.
static ls_step *made(int n_path, bool second, int n_emitted, ls_finish finish) {
    static const ls_draft_source from[] = {LS_SOURCE_ROOT,      LS_SOURCE_RETRIEVED,  LS_SOURCE_RETRIEVED,
                                           LS_SOURCE_RETRIEVED, LS_SOURCE_LAST_LOGIT, LS_SOURCE_GUESS_TAIL};
    static const int16_t parent[] = {-1, 0, 1, 2, 0, 4}, depth[] = {0, 1, 2, 3, 1, 2};
    ls_step *s = ls_step_new();
    s->forward = true;
    s->finish = (uint8_t)finish;
    s->tree.n = s->rows = 6;
    s->tree.n_branches = 2;
    s->tree.branches[0] = (ls_branch){.rank = -1, .first_node = 1, .n_nodes = 3};
    s->tree.branches[1] = (ls_branch){.rank = 1, .first_node = 4, .n_nodes = 2};
    s->n_path = (int16_t)n_path;
    s->n_emitted = (int16_t)n_emitted;
    for (int i = 0; i < 6; i++)
        s->tree.nodes[i] = (ls_node){.token = 10 + i,
                                     .parent = parent[i],
                                     .depth = depth[i],
                                     .branch = (int16_t)(i == 0  ? -1
                                                         : i < 4 ? 0
                                                                 : 1),
                                     .from = (uint8_t)from[i],
                                     .state = LS_NODE_NOT_REACHED,
                                     .target = 99,
                                     .own = -1};
    for (int i = 0; i < n_path; i++) {
        const int row = !i ? 0 : second ? 3 + i : i;
        s->path[i] = (int16_t)row;
        s->tree.nodes[row].state = LS_NODE_ACCEPTED;
        if (i) s->tree.branches[second].accepted++;
        if (i) s->tree.nodes[s->path[i - 1]].target = s->tree.nodes[row].token;
    }
    s->t_draft_us = 10;
    s->t_total_us = 150;
    s->plain_us = 80;
    return s;
}

static void count(ls_stats *st, ls_step *s) {
    ls_stats_add(st, s);
    ls_step_free(s);
}

static void counts_are_those_of_their_definitions(void **state) {
    (void)state;
    ls_stats st = {0};
    count(&st, made(3, false, 3, LS_GOING)); // two drafts accepted
    count(&st, made(3, true, 3, LS_GOING));  // the guess and what followed it
    count(&st, made(1, false, 1, LS_GOING)); // none
    ls_step *plain = made(1, false, 1, LS_GOING);
    plain->tree.n = plain->rows = 1;
    plain->tree.n_branches = 0;
    count(&st, plain);
    ls_step *unknown = made(2, false, 2, LS_GOING); // what plain decoding takes is not known
    unknown->plain_us = 0;
    count(&st, unknown);
    count(&st, made(4, false, 2, LS_FINISH_LENGTH)); // cut: two accepted drafts lie behind the end
    ls_step *root = made(1, false, 1, LS_FINISH_EOS);
    root->forward = false;
    root->tree.n = root->rows = 1;
    root->tree.n_branches = 0;
    count(&st, root);
    assert_int_equal(st.steps, 7);
    assert_int_equal(st.forwards, 6);
    assert_int_equal(st.emitted, 13);
    assert_int_equal(st.accepted, 6); // steps + accepted = emitted
    assert_int_equal(st.drafted, 5 * 5);
    assert_int_equal(st.steps_with_draft, 5);
    assert_int_equal(st.steps_with_accept, 4);
    assert_int_equal(st.lossy, 0);
    assert_true(fabs(ls_stats_mat(&st) - 13.0 / 7) < 1e-12); // every step counts, also that without a forward
    assert_int_equal(st.by_emitted[1], 3);
    assert_int_equal(st.by_emitted[2], 2);
    assert_int_equal(st.by_emitted[3], 2);
    static const uint64_t at_depth[] = {4, 2, 0};
    for (int d = 1; d <= 3; d++) { // of the steps whose tree reached that depth
        assert_int_equal(st.depth[d].of, 5);
        assert_int_equal(st.depth[d].n, at_depth[d - 1]);
    }
    assert_int_equal(st.depth[4].of, 0);
    assert_int_equal(st.rank[1].of, 5); // branches, however many of their nodes were accepted
    assert_int_equal(st.rank[1].n, 1);
    assert_int_equal(st.from[LS_SOURCE_RETRIEVED].of, 15);
    assert_int_equal(st.from[LS_SOURCE_RETRIEVED].n, 4);
    assert_int_equal(st.from[LS_SOURCE_LAST_LOGIT].n, 1);
    assert_int_equal(st.from[LS_SOURCE_GUESS_TAIL].n, 1);
    // plain decoding: 3 + 3 + 1 forwards of 80 us, the plain step itself (140 us), 1 of the cut step, none of the last
    assert_int_equal(st.plain_forwards, 3 + 3 + 1 + 1 + 1);
    assert_int_equal(st.plain_tokens, 11);
    assert_true(fabs(st.plain_us - (8 * 80 + 140)) < 1e-9);
    assert_true(fabs(ls_stats_speedup(&st) - (8 * 80 + 140) / (6 * 150.0)) < 1e-12);
    assert_true(fabs(ls_stats_tokens_per_s(&st) - 13e6 / (7 * 150)) < 1e-6);
}

// A draft repeats the answer if it was copied from behind the prompt's end.
static void drafts_that_repeat_the_answer_are_counted(void **state) {
    (void)state;
    ls_stats st = {0};
    for (int i = 0; i < 14; i++) {
        ls_step *s = made(3, false, 3, LS_GOING);
        s->context_len = 100;
        s->output_pos = 40; // the answer begins at 60
        s->tree.nodes[1].match_pos = i < 3 || i == 13 ? 60 : i % 2 ? 59 : -1;
        s->tree.nodes[2].match_pos = 61;
        s->tree.nodes[3].match_pos = 62; // not accepted
        count(&st, s);
        assert_int_equal(ls_stats_repeats(&st), i >= 7); // 3 x 2 of 6 are too few
    }
    assert_int_equal(st.repeats.n, 14 + 4);
    assert_int_equal(st.repeats.of, 28);
    ls_stats half = {.repeats = {10, 20}};
    assert_false(ls_stats_repeats(&half));
}

static void the_next_next_token_is_found_in_the_last_logits(void **state) {
    (void)state;
    ls_stats st = {0};
    // what the target chose after the root: row 1's token, row 4's, or 99, which was not drafted
    struct {
        int n_path;
        bool second;
        int n_top, at, rank; // at: where it stands in the last logits; -1: nowhere
    } const cases[] = {{2, false, 64, 0, 0},   {3, true, 64, 7, 7},    {1, false, 64, 8, 8}, {1, false, 64, 63, 63},
                       {1, false, 64, -1, -1}, {2, false, 10, 20, -1}, {2, false, 0, 0, -2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_step *s = made(cases[i].n_path, cases[i].second, cases[i].n_path, LS_GOING);
        const int32_t token = cases[i].n_path == 1 ? 99 : cases[i].second ? 14 : 11;
        for (int r = 0; r < LS_MAX_TOP; r++) s->top[r].id = r == cases[i].at ? token : 1000 + r;
        s->n_top = (int16_t)cases[i].n_top;
        const ls_next_next next = ls_step_next_next(s);
        assert_int_equal(next.token, cases[i].rank == -2 ? -1 : token);
        assert_int_equal(next.rank, cases[i].rank == -2 ? -1 : cases[i].rank);
        if (next.token >= 0) assert_int_equal(next.drafted, token != 99);
        count(&st, s);
    }
    ls_step *ended = made(1, false, 1, LS_FINISH_EOS);
    ended->forward = false; // nothing was chosen after it
    ended->n_top = 64;
    assert_int_equal(ls_step_next_next(ended).token, -1);
    count(&st, ended);
    assert_int_equal(st.next_next, 6); // where the last logits were kept
    assert_int_equal(st.next_next_drafted, 3);
    assert_int_equal(st.next_next_rank[0], 1);
    assert_int_equal(st.next_next_rank[LS_MAX_TOP], 2);
    assert_int_equal(ls_stats_next_next_below(&st, 8), 2);
    assert_int_equal(ls_stats_next_next_below(&st, 9), 3);
    assert_int_equal(ls_stats_next_next_below(&st, LS_MAX_TOP), 4);
}

static void sums_are_over_all_steps(void **state) {
    (void)state;
    ls_stats st = {0};
    assert_true(ls_stats_mat(&st) == 0 && ls_stats_tokens_per_s(&st) == 0); // nothing is known before the first step
    assert_true(ls_stats_speedup(&st) == 0 && ls_stats_plain_tokens_per_s(&st) == 0);
    for (int i = 0; i < 3; i++) {
        ls_step *s = made(2, false, 2, LS_GOING);
        s->t_draft_us = 1, s->t_forward_us = 20, s->t_verify_us = 300, s->t_commit_us = 4000, s->t_total_us = 50000;
        s->t_device_us = 15;
        count(&st, s);
    }
    assert_true(st.draft_us == 3 && st.forward_us == 60 && st.verify_us == 900 && st.commit_us == 12000);
    assert_true(st.total_us == 150000 && st.device_us == 45);
}

// Paths that are deeper than the tables are wide.
static void deep_paths_stay_in_their_tables(void **state) {
    (void)state;
    enum { ROWS = LS_STATS_HIST + 10 };
    ls_step *s = ls_step_new();
    s->forward = true;
    s->tree.n = s->rows = s->n_path = s->n_emitted = ROWS;
    s->tree.n_branches = 1;
    s->tree.branches[0] = (ls_branch){.rank = -1, .first_node = 1, .n_nodes = ROWS - 1, .accepted = ROWS - 1};
    for (int i = 0; i < ROWS; i++) {
        s->path[i] = (int16_t)i;
        s->tree.nodes[i] = (ls_node){.token = i,
                                     .parent = (int16_t)(i - 1),
                                     .depth = (int16_t)i,
                                     .branch = (int16_t)(i ? 0 : -1),
                                     .from = i ? LS_SOURCE_RETRIEVED : LS_SOURCE_ROOT,
                                     .target = i + 1,
                                     .own = -1};
    }
    ls_stats st = {0};
    count(&st, s);
    assert_int_equal(st.accepted, ROWS - 1);
    assert_int_equal(st.by_emitted[LS_STATS_HIST], 1); // that many or more
    for (int d = 1; d < LS_STATS_DEPTHS; d++) assert_true(st.depth[d].n == 1 && st.depth[d].of == 1);
    for (int r = 0; r < LS_STATS_RANKS; r++) assert_true(!st.rank[r].n && !st.rank[r].of);
    assert_int_equal(st.from[LS_SOURCE_RETRIEVED].of, ROWS - 1);
}

static void tokens_that_were_let_stand_are_counted(void **state) {
    (void)state;
    ls_step *s = made(4, false, 4, LS_GOING);
    int at[LS_MAX_ROWS];
    assert_int_equal(ls_step_lossy(s, at), 0);
    s->tree.nodes[1].target = 77; // after the first draft the target wanted another than the second
    assert_int_equal(ls_step_lossy(s, at), 1);
    assert_int_equal(at[0], 2);
    s->tree.nodes[1].target = s->tree.nodes[s->path[2]].token;
    s->tree.nodes[1].own = 77; // likewise, but a probe gave it that choice
    assert_int_equal(ls_step_lossy(s, at), 1);
    assert_int_equal(at[0], 2);
    s->n_emitted = 2; // it was cut off
    assert_int_equal(ls_step_lossy(s, at), 0);
    ls_step_free(s);
}

// A speedup is as uncertain as the plain steps that it stands on: the step's share of plain time counts.
static void a_speedup_has_the_spread_of_the_plain_steps(void **state) {
    (void)state;
    ls_stats st = {0};
    ls_step *s = made(4, false, 4, LS_GOING);
    s->t_total_us = 20, s->plain_us = 10, s->plain_spread = 0.1, s->plain_timed = 3,
    s->cpu_wait = 0.5; // 4 plain steps: 40
    ls_stats_add(&st, s);
    s->t_total_us = 60, s->plain_us = 15, s->plain_spread = 0.2, s->plain_timed = 6, s->cpu_wait = 0.1; // 60
    ls_stats_add(&st, s);
    assert_float_equal(ls_stats_speedup(&st), 100.0 / 80, 1e-12);
    assert_float_equal(st.plain_spread_us / st.plain_against_us, (40 * 0.1 + 60 * 0.2) / 80, 1e-12);
    assert_int_equal(st.plain_timed, 6);
    assert_float_equal(ls_stats_waited(&st), (20 * 0.5 + 60 * 0.1) / 80, 1e-12);
    ls_step_free(s);
}

// Plain decoding is as fast as itself: the token that ends its answer takes neither it nor the baseline a forward. Only
// that step has no plain time of its own.
static void a_plain_answer_has_one_rate(void **state) {
    (void)state;
    ls_stats st = {0};
    for (uint32_t i = 0; i < 8; i++) {
        ls_step *s = made(1, false, 1, i < 7 ? LS_GOING : LS_FINISH_EOS);
        s->tree.n = s->rows = 1;
        s->tree.n_branches = 0;
        s->index = i;
        s->forward = i < 7;
        s->t_draft_us = 0;
        s->t_total_us = i < 7 ? 100 : 1;
        s->plain_us = i < 7 ? 100 : 0;
        count(&st, s);
    }
    assert_int_equal(st.emitted, 8);
    assert_int_equal(st.plain_tokens, 8);
    assert_int_equal(st.plain_forwards, 7);
    assert_float_equal(ls_stats_tokens_per_s(&st), 8e6 / 701, 1e-6);
    assert_float_equal(ls_stats_plain_tokens_per_s(&st), 8e6 / 700, 1e-6);
    assert_float_equal(ls_stats_speedup(&st), 700.0 / 701, 1e-12);
    assert_string_equal(ls_stats_speedup_text(&st, false).s, "1.00");
}

static void a_speedup_is_written_with_its_spread(void **state) {
    (void)state;
    static const struct {
        double x, spread;
        const char *text, *ascii;
        int sign;
    } cases[] = {{1.314, 0, "1.31", "1.31", 1},
                 {1.314, 0.042, "1.31±.04", "1.31+-.04", 1},
                 {1.314, 0.2, "1.3±.2", "1.3+-.2", 1},
                 {1.1, 0.2, "1.1±.2", "1.1+-.2", 0},
                 {0.9, 0.3, "0.9±.3", "0.9+-.3", 0},
                 {0.9, 0.04, "0.90±.04", "0.90+-.04", -1},
                 {1.31, 0.7, "?", "?", 0},
                 {3.34, 1.7, "?", "?", 0}, // a gain for sure, but not how much
                 {12.3, 1.6, "12±2", "12+-2", 1},
                 {1.004, 0, "1.00", "1.00", 0},
                 {0.996, 0, "1.00", "1.00", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_stats st = {.plain_us = 1000 * cases[i].x,
                             .plain_against_us = 1000,
                             .plain_spread_us = 1000 * cases[i].spread,
                             .plain_forwards = 100,
                             .emitted = 200,
                             .steps = 10};
        assert_string_equal(ls_stats_speedup_text(&st, false).s, cases[i].text);
        assert_string_equal(ls_stats_speedup_text(&st, true).s, cases[i].ascii);
        const bool told = *cases[i].text != '?'; // by numbers as by text
        assert_float_equal(ls_stats_speedup_told(&st).x, told ? cases[i].x : 0, 1e-12);
        assert_float_equal(ls_stats_speedup_told(&st).spread, told ? cases[i].spread : 0, 1e-12);
        assert_int_equal(ls_stats_speedup_sign(&st), cases[i].sign);
        assert_string_equal(ls_stats_speedup_verdict(&st), *cases[i].text == '?' ? "too noisy"
                                                           : cases[i].sign > 0   ? "faster"
                                                           : cases[i].sign < 0   ? "slower"
                                                                                 : "no difference");
    }
    ls_stats st = {.plain_us = 11000, .plain_against_us = 1000, .plain_spread_us = 4000, .emitted = 100, .steps = 10};
    assert_string_equal(ls_stats_speedup_text(&st, false).s, "10±4"); // at most MAT
    st.plain_spread_us = 100;                                         // and this cannot be
    st.plain_us = 12000;
    assert_string_equal(ls_stats_speedup_text(&st, false).s, "?");
    assert_string_equal(ls_stats_speedup_verdict(&st), "too noisy");
    // an answer of one token, which plain decoding has for nothing: no gain or loss is known
    st = (ls_stats){.plain_against_us = 1000, .emitted = 1, .steps = 1};
    assert_string_equal(ls_stats_speedup_text(&st, false).s, "?");
    assert_int_equal(ls_stats_speedup_sign(&st), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_their_definitions),
        cmocka_unit_test(drafts_that_repeat_the_answer_are_counted),
        cmocka_unit_test(the_next_next_token_is_found_in_the_last_logits),
        cmocka_unit_test(sums_are_over_all_steps),
        cmocka_unit_test(deep_paths_stay_in_their_tables),
        cmocka_unit_test(tokens_that_were_let_stand_are_counted),
        cmocka_unit_test(a_speedup_has_the_spread_of_the_plain_steps),
        cmocka_unit_test(a_plain_answer_has_one_rate),
        cmocka_unit_test(a_speedup_is_written_with_its_spread),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
