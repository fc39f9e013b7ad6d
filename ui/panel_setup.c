// Settings that take effect from the next step, with their usual values, and what the chosen one means.
#include "ui/panels.h"

enum { DETAILS = 8 }; // rows below the list

static int list(ui_panel_view *v, ui_rect area) {
    const ui_state *s = v->state;
    const int name = area.cols < 60 ? 20 : 26, value = area.cols < 60 ? 38 : 46;
    int n = 0, chosen = 0;
    for (int i = 0; i < s->setup.n; i++) {
        if (i == s->setup.chosen) chosen = n;
        n += ui_setting_applies(&s->setup, &s->setup.settings[i]);
    }
    int *scroll = &v->drawn->overlay_scroll[UI_SETUP];
    if (chosen < *scroll) *scroll = chosen;
    if (chosen >= *scroll + area.rows) *scroll = chosen - area.rows + 1;
    const int top = ui_scroll_top(scroll, n, area.rows);
    int row = -top;
    for (int i = 0; i < s->setup.n; i++) {
        const ui_setting *t = &s->setup.settings[i];
        if (!ui_setting_applies(&s->setup, t)) continue;
        ui_pen p = ui_pen_at(v->canvas, area, row++, i == s->setup.chosen ? UI_CURSOR : UI_LABEL);
        const int col = p.col;
        p.tag = i + 1;
        ui_print(&p, " %s ", t->key);
        p.role = UI_NUMBER;
        ui_pad(&p, col + name);
        ui_print(&p, "%s", *t->value ? t->value : "-");
        p.role = UI_DIM;
        ui_pad(&p, col + value);
        ui_print(&p, "%s", t->help);
    }
    return n < area.rows ? n : area.rows;
}

void ui_panel_setup(ui_panel_view *v) {
    const ui_state *s = v->state;
    if (!s->setup.n) return;
    ui_rect area = v->area;
    area.rows = v->area.rows > DETAILS + 3 ? v->area.rows - DETAILS : v->area.rows;
    const int used = list(v, area) + 1;
    ui_rect rest = {v->area.row + used, v->area.col + 1, v->area.rows - used, v->area.cols - 2};
    const ui_setting *t = &s->setup.settings[s->setup.chosen];
    const char *about = s->given.about ? s->given.about(t->key, ui_setting_now(t)) : NULL;
    ls_buf text = {0};
    ls_buf_fmt(&text, "%s: %s.", t->key, t->help);
    if (about) ls_buf_fmt(&text, "\n%s: %s.", ui_setting_now(t), about);
    const int rows = ui_draw_wrapped(v->canvas, rest, text.p, UI_TEXT, NULL);
    ls_buf_free(&text);
    rest.row += rows;
    rest.rows -= rows;
    ui_draw_wrapped(v->canvas, rest,
                    s->given.watches ? "Requests are answered by the settings with which the server was started."
                    : s->given.recording
                        ? "The settings of a recording cannot change. These settings apply to the next run."
                        : "w writes the settings to your configuration. Up, down: choose. Left, right: change. Enter: "
                          "type a value, Tab completes it. A change takes effect at the next step.",
                    UI_DIM, NULL);
    ui_right(v, "F2 closes");
}
