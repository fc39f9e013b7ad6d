// What the screen counts, on steps that are made by hand: long turns, gone through in any order.
#include "base/mem.h"
#include "base/rng.h"
#include "ui/render.h"
#include "ui/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TURNS = 3, STEPS = 300, PROMPT = 4, ALL = TURNS * STEPS };

static void turn_begins(ui_state *s, uint32_t turn, int32_t context_len) {
    ls_event *e = ls_event_new(LS_EV_PROMPT);
    e->prompt.turn = turn;
    e->prompt.n_ids = PROMPT;
    e->prompt.ids = ls_calloc(PROMPT, sizeof *e->prompt.ids);
    e->prompt.text = ls_strdup("x");
    e->prompt.context_len = context_len;
    ui_on_event(s, e);
}

// A root and two drafts in a chain, n_emitted of them emitted.
static ls_step *made(uint32_t turn, uint32_t index, int n_emitted, bool ends) {
    ls_step *s = ls_step_new();
    s->turn = turn;
    s->index = index;
    s->forward = true;
    s->finish = ends ? LS_FINISH_EOS : LS_GOING;
    s->tree.n = s->rows = 3;
    s->tree.n_branches = 1;
    s->tree.branches[0] = (ls_branch){.rank = -1, .first_node = 1, .n_nodes = 2, .accepted = (int16_t)(n_emitted - 1)};
    s->n_path = s->n_emitted = (int16_t)n_emitted;
    for (int i = 0; i < 3; i++) {
        s->tree.nodes[i] = (ls_node){.token = i,
                                     .parent = (int16_t)(i - 1),
                                     .depth = (int16_t)i,
                                     .branch = (int16_t)(i ? 0 : -1),
                                     .from = i ? LS_SOURCE_RETRIEVED : LS_SOURCE_ROOT,
                                     .state = i < n_emitted    ? LS_NODE_ACCEPTED
                                              : i == n_emitted ? LS_NODE_REJECTED
                                                               : LS_NODE_NOT_REACHED,
                                     .target = i + 1 < n_emitted ? i + 1 : 9};
        s->path[i] = (int16_t)i;
    }
    s->t_total_us = 100 + index;
    return s;
}

static void statistics_of_long_turns(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    ls_event *e = ls_event_new(LS_EV_HEADER);
    e->header = ls_calloc(1, sizeof *e->header);
    ui_on_event(&s, e);
    static ls_stats want[ALL]; // of each step's turn up to the step
    size_t committed = 0;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        committed += PROMPT;
        turn_begins(&s, turn, (int32_t)committed);
        ls_stats st = {0};
        for (uint32_t i = 0; i < STEPS; i++) {
            const int n = 1 + (int)(ls_uniform_at(turn, i) * 3);
            ls_step *step = made(turn, i, n, i + 1 == STEPS);
            step->context_len = (int32_t)committed;
            ls_stats_add(&st, step);
            want[turn * STEPS + i] = st;
            committed += (size_t)n - (i + 1 == STEPS); // the end of sequence is emitted, not committed
            e = ls_event_new(LS_EV_STEP);
            e->step = ls_step_share(step);
            ls_step_free(step);
            ui_on_event(&s, e);
            assert_int_equal(ls_conversation_tokens(s.run.conversation), committed);
        }
        e = ls_event_new(LS_EV_END);
        e->end.turn = turn;
        e->end.finish = LS_FINISH_EOS;
        ui_on_event(&s, e);
    }
    assert_int_equal(s.run.n_steps, ALL);
    s.view.at_newest = false;
    size_t at = ALL - 1;
    for (uint64_t i = 0; i < 3000; i++) { // a step back or forth, and far jumps
        const double u = ls_uniform_at(77, i);
        at = i % 5 == 0 ? (size_t)(u * ALL) : u < 0.6 ? at - (at > 0) : at + (at + 1 < ALL);
        s.view.step = at;
        const ls_stats *got = ui_stats(&s, &s.drawn.statistics);
        assert_int_equal(got->steps, at % STEPS + 1);
        assert_int_equal(got->emitted, want[at].emitted);
        assert_int_equal(got->accepted, want[at].accepted);
        assert_int_equal(got->drafted, want[at].drafted);
        assert_true(got->total_us == want[at].total_us);
    }
    ui_state_free(&s);
}

// Speeds of a turn are marked while another program has the processors, and stay marked when it is gone again.
static void a_speed_of_a_busy_machine_is_marked(void **state) {
    (void)state;
    static const struct {
        double waited[3];
        const char *mark;
    } cases[] = {{{0, 0, 0}, NULL}, {{0.9, 0, 0}, "busy 30%"}, {{0, 0, 0.6}, "busy 20%"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int cols = 80; cols <= 200; cols += 40) {
            ui_state s;
            ui_canvas c = {.ascii = true};
            ls_buf text = {0};
            ui_state_init(&s);
            ls_event *e = ls_event_new(LS_EV_HEADER);
            e->header = ls_calloc(1, sizeof *e->header);
            ui_on_event(&s, e);
            turn_begins(&s, 0, 4);
            for (uint32_t i = 0; i < 3; i++) {
                ls_step *step = made(0, i, 2, false);
                step->context_len = 4 + 2 * (int32_t)i;
                step->cpu_wait = cases[k].waited[i];
                e = ls_event_new(LS_EV_STEP);
                e->step = ls_step_share(step);
                ls_step_free(step);
                ui_on_event(&s, e);
            }
            ui_canvas_resize(&c, 24, cols);
            ui_render(&s, &c);
            ui_canvas_text(&c, false, &text);
            *strchr(text.p, '\n') = 0; // the title

            assert_non_null(strstr(text.p, "tok/s"));
            if (cases[k].mark) assert_non_null(strstr(text.p, cases[k].mark));
            else assert_null(strstr(text.p, "busy"));
            ls_buf_free(&text);
            ui_canvas_free(&c);
            ui_state_free(&s);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(statistics_of_long_turns),
                                       cmocka_unit_test(a_speed_of_a_busy_machine_is_marked)};
    return cmocka_run_group_tests_name("ui counts", tests, NULL, NULL);
}
