#include "ui/demo.h"
#include "base/mem.h"
#include "ui/navigate.h"
#include "ui/quiz.h"

#include <stdlib.h>
#include <string.h>

bool ui_note_applies(const ui_note *n, const ls_step *step) {
    if (step->index < n->from) return false;
    const int accepted = ls_step_accepted(step), drafted = step->rows - 1;
    const ls_next_next next = ls_step_next_next(step);
    switch (n->when) {
    case UI_WHEN_STEP: return (int)step->index == n->n;
    case UI_WHEN_ACCEPTED: return accepted >= n->n;
    case UI_WHEN_REJECTED: return drafted >= n->n && accepted == 0;
    case UI_WHEN_SOURCE:
        for (int i = 1; i <= accepted; i++)
            if (step->tree.nodes[step->path[i]].from == n->source) return true;
        return false;
    case UI_WHEN_CORRECTED: return step->corrected;
    case UI_WHEN_LOSSY: return ls_step_loose(step, NULL) > 0;
    case UI_WHEN_NO_DRAFT: return step->forward && drafted == 0;
    case UI_WHEN_MISSED: return step->miss == n->miss;
    case UI_WHEN_NEXT_NEXT: return next.rank >= 0 && next.rank < n->n && !next.drafted;
    case UI_WHEN_SLOWER:
        return step->ar_us > 0 && step->forward &&
               step->t_total_us > ls_step_plain_us(step) * ls_plain_forwards(step) * (1 + n->n / 100.0);
    case UI_WHEN_FASTER:
        return step->ar_us > 0 && step->forward &&
               step->t_total_us * (1 + n->n / 100.0) < ls_step_plain_us(step) * ls_plain_forwards(step);
    case UI_WHEN_START:
    case UI_WHEN_END: break;
    }
    return false;
}

void ui_demo_begin(ui_state *s, const ui_demo *d) {
    s->demo = d;
    s->demo_told = ls_calloc(d->n_notes + 1, 1);
    s->demo_notes = ls_calloc(d->n_notes + 1, sizeof *s->demo_notes);
    s->demo_where = ls_calloc(d->n_notes + 1, sizeof *s->demo_where);
    s->shown.note = true;
    s->shown.focus = UI_OUTPUT;
    if (d->quiz) ui_quiz_toggle(s);
    ui_request_of(s, LS_CMD_PAUSE, NULL, 0); // the demo asks for every step
}

const ui_note *ui_demo_note(const ui_state *s) { // a question of the quiz comes before the notes
    return s->demo && s->demo_read < s->n_demo_notes && !ui_quiz_hides(s) ? &s->demo->notes[s->demo_notes[s->demo_read]]
                                                                          : NULL;
}

static void look(ui_state *s) {
    const ui_note *n = ui_demo_note(s);
    if (!n || n->look == UI_NO_PANEL) return;
    s->shown.focus = n->look;
    s->shown.inspect |= n->look == UI_INSPECT;
    s->shown.compare |= n->look == UI_COMPARE;
}

// Shows the step at which the current note appeared.
static void go_to(ui_state *s) {
    const int64_t step = s->demo_where[s->demo_read];
    if (s->n_steps) ui_look_at(s, step < 0 ? 0 : step);
}

static void tell(ui_state *s, size_t i) {
    const ui_note *shown = ui_demo_note(s);
    if (shown && shown->go_on) ui_demo_go_on(s); // a note that does not wait is replaced by the next one
    s->demo_told[i] = 1;
    s->demo_where[s->n_demo_notes] = s->demo->notes[i].when == UI_WHEN_START ? -1 : (int64_t)s->n_steps - 1;
    s->demo_notes[s->n_demo_notes++] = (int)i;
    look(s);
}

static void tell_all(ui_state *s, ui_when when) {
    for (size_t i = 0; s->demo && i < s->demo->n_notes; i++)
        if (s->demo->notes[i].when == when && !s->demo_told[i]) tell(s, i);
}

void ui_demo_on_start(ui_state *s) {
    tell_all(s, UI_WHEN_START);
}

void ui_demo_on_step(ui_state *s, const ls_step *step) {
    s->demo_asked = false;
    for (size_t i = 0; s->demo && i < s->demo->n_notes; i++)
        if (!s->demo_told[i] && ui_note_applies(&s->demo->notes[i], step)) tell(s, i);
}

void ui_demo_on_end(ui_state *s) {
    tell_all(s, UI_WHEN_END);
    if (!s->demo || !s->demo->rival) return;
    s->shown.compare = true;
    if (!s->recording) ui_request_of(s, LS_CMD_RIVAL, ls_strdup(s->demo->rival), 0);
}

bool ui_demo_go_on(ui_state *s) {
    if (!ui_demo_note(s)) return false;
    s->demo_read++;
    s->demo_held = false;
    look(s);
    if (s->demo_read == s->n_demo_notes) s->at_newest = true; // it plays on
    else go_to(s);
    return true;
}

bool ui_demo_go_back(ui_state *s) {
    if (!s->demo || !s->demo_read || ui_quiz_hides(s)) return false;
    s->demo_read--;
    look(s);
    go_to(s);
    return true;
}

static bool is_waiting(const ui_state *s) { // for the user
    const ui_note *n = ui_demo_note(s);
    return n && !n->go_on;
}

bool ui_demo_plays(const ui_state *s) {
    return s->demo && s->n_turns && !is_waiting(s) && !s->demo_held && !ui_quiz_hides(s) && !s->quiz.answered &&
           s->run_state == LS_STATE_PAUSED && s->at_newest;
}

bool ui_demo_is_over(const ui_state *s) {
    return s->demo && s->n_turns && s->turns[s->n_turns - 1].finish && !ui_demo_note(s);
}

bool ui_demo_hold(ui_state *s) {
    if (!s->demo || s->run_state != LS_STATE_PAUSED) return false;
    s->demo_held = ui_demo_plays(s);
    s->at_newest = true;
    return true;
}

int ui_demo_wait_ms(const ui_state *s, uint64_t now_ns) {
    if (!ui_demo_plays(s) || s->demo_asked) return -1;
    return now_ns >= s->demo_due_ns ? 0 : (int)((s->demo_due_ns - now_ns) / 1000000) + 1;
}

bool ui_demo_is_due(ui_state *s, uint64_t now_ns) {
    if (ui_demo_wait_ms(s, now_ns) != 0) return false;
    s->demo_asked = true;
    s->demo_due_ns = now_ns + (uint64_t)(s->demo->pace * 1e9);
    ui_request_of(s, LS_CMD_STEP, NULL, 1);
    return true;
}
