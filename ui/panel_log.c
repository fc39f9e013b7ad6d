// Messages of this session and whatever libraries printed while the screen had the terminal.
#include "ui/panels.h"

#include <stdio.h>
#include <string.h>

void ui_panel_log(ui_panel_view *v) {
    ui_state *s = v->state;
    const size_t kept = s->n_log < UI_LOG_LINES ? s->n_log : UI_LOG_LINES;
    const int rows = v->area.rows;
    int most = (int)kept > rows ? (int)kept - rows : 0;
    if (s->log_scroll > most) s->log_scroll = most; // from the newest up
    for (int i = 0; i < rows && (size_t)i < kept; i++) {
        const size_t at = s->n_log - kept + (size_t)(most - s->log_scroll + i);
        const char *line = s->log[at % UI_LOG_LINES];
        ui_pen p = ui_pen_at(v->canvas, v->area, i, UI_TEXT);
        ui_draw(&p, line, strlen(line));
    }
    if (!kept) {
        ui_pen p = ui_pen_at(v->canvas, v->area, 0, UI_DIM);
        ui_print(&p, "nothing was said yet");
    }
    snprintf(v->right, UI_RIGHT_BYTES, "%zu lines, L closes", s->n_log);
}
