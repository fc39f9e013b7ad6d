// The messages of this session, and the output of libraries while the screen is open.
#include "ui/panels.h"
#include "base/err.h"

void ui_panel_log(ui_panel_view *v) {
    const ui_state *s = v->state;
    const size_t kept = s->n_log < UI_LOG_LINES ? s->n_log : UI_LOG_LINES;
    ls_buf text = {0};
    for (size_t i = s->n_log - kept; i < s->n_log; i++)
        ls_buf_fmt(&text, "%s%s", text.n ? "\n" : "", s->log[i % UI_LOG_LINES]);
    if (!kept) ui_dim_line(v, "no messages yet");
    else ui_draw_wrapped(v->canvas, v->area, text.p, UI_TEXT, &v->drawn->overlay_scroll[UI_LOG]);
    ui_right(v, "%zu message%s, L closes", s->n_log, ls_plural(s->n_log));
    ls_buf_free(&text);
}
