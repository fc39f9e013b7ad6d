// Settings that take effect from the next step, with their usual values.
#include "ui/panels.h"

#include <stdio.h>
#include <string.h>

void ui_panel_setup(ui_panel_view *v) {
    const ui_state *s = v->state;
    for (int i = 0; i < s->n_settings && i < v->area.rows; i++) {
        const ui_setting *t = &s->settings[i];
        const bool chosen = i == s->setting;
        ui_pen p = ui_pen_at(v->canvas, v->area, i, chosen ? UI_CURSOR : UI_LABEL);
        const int col = p.col;
        p.tag = i + 1;
        ui_print(&p, " %-20s ", t->key);
        p.role = UI_NUMBER;
        ui_pad(&p, col + 23);
        ui_print(&p, "%s", t->value);
        p.role = UI_DIM;
        ui_pad(&p, col + 42);
        ui_print(&p, "%s", t->help);
    }
    ui_pen p = ui_pen_at(v->canvas, v->area, s->n_settings + 1, UI_DIM);
    ui_print(
        &p, s->recording
                ? " the settings of a recording cannot change: these are for the next run"
                : " up and down choose, left and right change, Enter types another value; in force from the next step");
    snprintf(v->right, UI_RIGHT_BYTES, "F2 closes");
}

const char *ui_setting_choice(const ui_setting *t, int by, char *out, size_t size) {
    const char *now = *t->asked ? t->asked : t->value; // keys may come faster than answers
    int n = 0, at = -1;
    const char *list[UI_CHOICES];
    size_t length[UI_CHOICES];
    for (const char *p = t->choices; *p && n < UI_CHOICES; n++) {
        list[n] = p;
        length[n] = strcspn(p, "|");
        if (length[n] == strlen(now) && !strncmp(p, now, length[n])) at = n;
        p += length[n] + (p[length[n]] == '|');
    }
    if (!n) return NULL;
    at = at < 0 ? 0 : (at + by + n) % n; // some other value is in force: takes the first
    snprintf(out, size, "%.*s", (int)length[at], list[at]);
    return out;
}
