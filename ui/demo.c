#include "ui/demo.h"
#include "base/mem.h"
#include "ui/panels.h"

#include <string.h>

static bool applies(const ui_note *n, const ls_step *step) {
    if (step->index < n->from) return false;
    const int accepted = ls_step_accepted(step), drafted = step->rows - 1;
    const ls_next_next next = ls_step_next_next(step);
    const double plain_us = ls_step_plain_us(step) * ls_plain_forwards(step), by = 1 + n->n / 100.0;
    const bool timed = step->plain_us > 0 && step->forward;
    switch (n->when) {
    case UI_WHEN_STEP: return (int)step->index == n->n;
    case UI_WHEN_ACCEPTED: return accepted >= n->n;
    case UI_WHEN_REJECTED: return drafted >= n->n && accepted == 0;
    case UI_WHEN_SOURCE:
        for (int i = 1; i <= accepted; i++)
            if (step->tree.nodes[step->path[i]].from == n->source) return true;
        return false;
    case UI_WHEN_CORRECTED: return step->corrected;
    case UI_WHEN_LOSSY: return ls_step_lossy(step, NULL) > 0;
    case UI_WHEN_NO_DRAFT: return step->forward && drafted == 0;
    case UI_WHEN_MISSED: return step->miss == n->miss;
    case UI_WHEN_NEXT_NEXT: return next.rank >= 0 && next.rank < n->n && !next.drafted;
    case UI_WHEN_SLOWER: return timed && step->t_total_us > plain_us * by;
    case UI_WHEN_FASTER: return timed && step->t_total_us * by < plain_us;
    case UI_WHEN_START:
    case UI_WHEN_END: break;
    }
    return false;
}

void ui_demo_begin(ui_state *s, const ui_demo *d) {
    s->playing.demo = d;
    s->playing.told = ls_calloc(d->n_notes + 1, sizeof *s->playing.told);
    s->shown.focus = UI_OUTPUT;
    if (d->quiz) ui_quiz_toggle(s);
    ui_ask(s, LS_CMD_PAUSE, NULL, 0); // the demo asks for every step
}

const ui_note *ui_demo_note(const ui_state *s) { // a question of the quiz comes before the notes
    const ui_playing *p = &s->playing;
    return p->demo && p->read < p->n_told && !ui_quiz_hides(s) ? &p->demo->notes[p->told[p->read].note] : NULL;
}

static void look(ui_state *s) {
    const ui_note *n = ui_demo_note(s);
    if (!n || n->look == UI_NO_PANEL) return;
    s->shown.focus = n->look;
    s->shown.inspect |= n->look == UI_INSPECT;
    s->shown.compare |= n->look == UI_COMPARE;
}

// Shows the step at which the current note appeared.
static void look_at_note(ui_state *s) {
    if (s->run.n_steps) ui_look_at(s, s->playing.told[s->playing.read].step);
}

static void show_note(ui_state *s, size_t i) {
    const ui_note *shown = ui_demo_note(s);
    if (shown && shown->go_on) ui_demo_go_on(s); // a note that does not wait is replaced by the next one
    const bool start = s->playing.demo->notes[i].when == UI_WHEN_START;
    s->playing.told[s->playing.n_told++] = (struct ui_told){i, start ? -1 : (int64_t)s->run.n_steps - 1};
    look(s);
}

void ui_demo_on(ui_state *s, ui_when when, const ls_step *step) {
    if (step) s->playing.asked = false;
    for (size_t i = 0; s->playing.demo && i < s->playing.demo->n_notes; i++) {
        const ui_note *n = &s->playing.demo->notes[i];
        bool told = step ? !applies(n, step) : n->when != when;
        for (size_t k = 0; k < s->playing.n_told && !told; k++) told = s->playing.told[k].note == i;
        if (!told) show_note(s, i);
    }
    if (when != UI_WHEN_END || !s->playing.demo || !s->playing.demo->rival) return;
    s->shown.compare = true;
    if (!s->given.recording) ui_ask(s, LS_CMD_RIVAL, ls_strdup(s->playing.demo->rival), 0);
}

bool ui_demo_go_on(ui_state *s) {
    if (!ui_demo_note(s)) return false;
    s->playing.read++;
    s->playing.held = false;
    look(s);
    if (s->playing.read == s->playing.n_told) s->view.at_newest = true; // it plays on
    else look_at_note(s);
    return true;
}

bool ui_demo_go_back(ui_state *s) {
    if (!s->playing.demo || !s->playing.read || ui_quiz_hides(s)) return false;
    s->playing.read--;
    look(s);
    look_at_note(s);
    return true;
}

static bool is_waiting(const ui_state *s) { // for the user
    const ui_note *n = ui_demo_note(s);
    return n && !n->go_on;
}

bool ui_demo_plays(const ui_state *s) {
    return s->playing.demo && s->run.conversation->n_turns && !is_waiting(s) && !s->playing.held && !ui_quiz_hides(s) &&
           !s->quiz.answered && s->run.state == LS_STATE_PAUSED && s->view.at_newest;
}

bool ui_demo_is_over(const ui_state *s) {
    return s->playing.demo && ui_finish(&s->run) && !ui_demo_note(s);
}

bool ui_demo_hold(ui_state *s) {
    if (!s->playing.demo || s->run.state != LS_STATE_PAUSED) return false;
    s->playing.held = ui_demo_plays(s);
    s->view.at_newest = true;
    return true;
}

int ui_demo_wait_ms(const ui_state *s, uint64_t now_ns) {
    if (!ui_demo_plays(s) || s->playing.asked) return -1;
    return now_ns >= s->playing.due_ns ? 0 : (int)((s->playing.due_ns - now_ns) / 1000000) + 1;
}

bool ui_demo_is_due(ui_state *s, uint64_t now_ns) {
    if (ui_demo_wait_ms(s, now_ns) != 0) return false;
    s->playing.asked = true;
    s->playing.due_ns = now_ns + (uint64_t)(s->playing.demo->pace * 1e9);
    ui_ask(s, LS_CMD_STEP, NULL, 1);
    return true;
}

// ---- the panel: the current note, or what the demo does now

void ui_panel_note(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_note *n = ui_demo_note(s);
    const bool over = ui_finish(&s->run) != LS_GOING;
    if (!n && over && s->playing.read)
        n = &s->playing.demo->notes[s->playing.told[s->playing.read - 1].note]; // the last note stays
    if (!n) {
        ui_dim_line(v, s->run.state == LS_STATE_LOADING ? "The model is loading."
                       : ui_demo_plays(s)
                           ? "The demo plays to the next note. Space pauses it, [ shows the previous step."
                           : "Space continues, s decodes one step, ] shows the next step.");
        return;
    }
    const bool waits = ui_demo_note(s) != NULL;
    ui_draw_wrapped(v->canvas, v->area, n->say, waits ? UI_NUMBER : UI_DIM, NULL);
    const size_t told = s->playing.read + waits;
    const bool last = s->playing.tour_of && over && told == s->playing.n_told;
    const int room = v->area.cols - 12 - (int)strlen(s->playing.demo->title); // beside the title
    ui_right(v, "%zu of %zu%s", told, s->playing.demo->n_notes,
             !last                                       ? waits && !n->go_on ? ", Enter: next" : ""
             : s->playing.tour_stop < s->playing.tour_of ? ", Enter: the next stop"
                                                         : ", Enter: the end of the tour");
    static const char back[] = ", Backspace back";
    if (s->playing.read > (waits ? 0 : 1) && (int)strlen(v->right) + (int)strlen(back) <= room) ui_right(v, "%s", back);
}
