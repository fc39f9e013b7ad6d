// What the demo has to say, and what goes on then.
#include "ui/demo.h"
#include "ui/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_panel_note(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_note *n = ui_demo_note(s);
    const bool over = s->n_turns && s->turns[s->n_turns - 1].finish;
    if (!n && over && s->demo_last >= 0) n = &s->demo->notes[s->demo_last]; // still to be seen
    if (!n) {
        ui_pen p = ui_pen_at(v->canvas, v->area, 0, UI_DIM);
        ui_print(&p, "%s",
                 s->run_state == LS_STATE_LOADING ? "The model is loading."
                 : ui_demo_plays(s) ? "It plays on to the next thing to look at. Space stops it here, [ goes back."
                                    : "Space lets it play on, s makes one step, ] goes to the newest.");
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
    if (ui_demo_is_over(s) && s->tour_of)
        snprintf(v->right, UI_RIGHT_BYTES, "Enter: %s",
                 s->tour_stop < s->tour_of ? "the next stop" : "the end of the tour");
    if (!waits || n->go_on) return;
    snprintf(v->right, UI_RIGHT_BYTES, "Enter goes on%s", s->n_demo_waiting > 1 ? " (there is more)" : "");
}
