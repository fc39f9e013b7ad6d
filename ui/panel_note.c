// What the demo has to say, and what goes on then.
#include "ui/demo.h"
#include "ui/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_panel_note(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_note *n = ui_demo_note(s);
    const bool waits = n != NULL;
    if (!n && s->demo && s->demo_last >= 0) n = &s->demo->notes[s->demo_last]; // still to be seen
    if (!n) {
        ui_pen p = ui_pen_at(v->canvas, v->area, 0, UI_DIM);
        ui_print(&p, s->run_state == LS_STATE_LOADING ? "the model is loading" : "");
        return;
    }
    size_t lines;
    ui_line *line = ui_wrap(v->canvas, n->say, strlen(n->say), v->area.cols, &lines);
    for (size_t i = 0; i < lines && (int)i < v->area.rows; i++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, (int)i, waits ? UI_NUMBER : UI_DIM);
        ui_draw(&p, n->say + line[i].from, line[i].to - line[i].from);
    }
    free(line);
    if (!waits || n->go_on) return;
    snprintf(v->right, UI_RIGHT_BYTES, "Enter goes on%s", s->n_demo_waiting > 1 ? " (there is more)" : "");
}
