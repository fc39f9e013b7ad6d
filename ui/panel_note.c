// The current note of a demo, or what the demo does now.
#include "ui/demo.h"
#include "ui/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_panel_note(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_note *n = ui_demo_note(s);
    const bool over = s->n_turns && s->turns[s->n_turns - 1].finish;
    if (!n && over && s->demo_read) n = &s->demo->notes[s->demo_notes[s->demo_read - 1]]; // the last note stays
    if (!n) {
        ui_pen p = ui_pen_at(v->canvas, v->area, 0, UI_DIM);
        ui_print(&p, "%s",
                 s->run_state == LS_STATE_LOADING ? "The model is loading."
                 : ui_demo_plays(s) ? "The demo plays to the next note. Space pauses it, [ shows the previous step."
                                    : "Space continues, s decodes one step, ] shows the next step.");
        return;
    }
    const bool waits = ui_demo_note(s) != NULL;
    size_t lines;
    ui_line *line = ui_wrap(v->canvas, n->say, strlen(n->say), v->area.cols, &lines);
    for (size_t i = 0; i < lines && (int)i < v->area.rows; i++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, (int)i, waits ? UI_NUMBER : UI_DIM);
        ui_draw(&p, n->say + line[i].from, line[i].to - line[i].from);
    }
    free(line);
    const size_t told = s->demo_read + waits;
    const bool last = s->tour_of && over && told == s->n_demo_notes;
    const int room = v->area.cols - 12 - (int)strlen(s->demo->title); // beside the title
    const int used = snprintf(v->right, UI_RIGHT_BYTES, "%zu of %zu%s", told, s->demo->n_notes,
                              !last                       ? waits && !n->go_on ? ", Enter: next" : ""
                              : s->tour_stop < s->tour_of ? ", Enter: the next stop"
                                                          : ", Enter: the end of the tour");
    static const char back[] = ", Backspace back";
    if (s->demo_read > (waits ? 0 : 1) && used + (int)strlen(back) <= room)
        snprintf(v->right + used, (size_t)(UI_RIGHT_BYTES - used), "%s", back);
}
