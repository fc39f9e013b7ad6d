// The messages of this session, and the output of libraries while the screen is open.
#include "ui/panels.h"
#include "base/plural.h"

#include <stdlib.h>
#include <string.h>

void ui_panel_log(ui_panel_view *v) {
    const ui_state *s = v->state;
    const size_t kept = s->n_log < UI_LOG_LINES ? s->n_log : UI_LOG_LINES;
    ui_line *lines[UI_LOG_LINES];
    size_t n[UI_LOG_LINES];
    int total = 0, row = 0;
    for (size_t i = 0; i < kept; i++) {
        const char *text = s->log[(s->n_log - kept + i) % UI_LOG_LINES];
        lines[i] = ui_wrap(v->canvas, text, strlen(text), v->area.cols, &n[i]);
        total += (int)n[i];
    }
    const int most = total > v->area.rows ? total - v->area.rows : 0;
    int *up = &v->drawn->overlay_scroll[UI_LOG]; // from the newest
    if (*up > most) *up = most;
    for (size_t i = 0; i < kept; i++) {
        const char *text = s->log[(s->n_log - kept + i) % UI_LOG_LINES];
        for (size_t k = 0; k < n[i]; k++, row++) {
            const int at = row - (most - *up);
            if (at < 0 || at >= v->area.rows) continue;
            ui_pen p = ui_pen_at(v->canvas, v->area, at, UI_TEXT);
            ui_draw(&p, text + lines[i][k].from, lines[i][k].to - lines[i][k].from);
        }
        free(lines[i]);
    }
    if (!kept) ui_dim_line(v, "no messages yet");
    ui_right(v, "%zu message%s, L closes", s->n_log, ls_plural(s->n_log));
}
