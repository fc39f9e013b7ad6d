// Settings that take effect from the next step: which apply, their usual values, the preset of the paper's method; and
// their list, with what the chosen one means.
#include "ui/panels.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

const char *ui_setting_now(const ui_setting *t) { // the requested value until the source has answered
    return *t->asked ? t->asked : t->value;
}

bool ui_setting_applies(const ui_setup *s, const ui_setting *t) {
    if (!t->of) return true;
    const size_t n = strlen(t->of);
    for (int i = 0; i < s->n; i++) {
        const ui_setting *o = &s->settings[i];
        if (strcmp(o->key, "decode.method") && strcmp(o->key, "decode.sizing")) continue;
        const char *now = ui_setting_now(o);
        if (!strncmp(now, t->of, n) && (!now[n] || now[n] == ':')) return true;
    }
    return false;
}

void ui_setting_move(ui_setup *s, int by) {
    do s->chosen = (s->chosen + by + s->n) % s->n;
    while (!ui_setting_applies(s, &s->settings[s->chosen])); // ends: decode.method always applies
}

const char *ui_setting_choice(const ui_setting *t, int by, char *out, size_t size) {
    const ls_str now = {ui_setting_now(t), strlen(ui_setting_now(t))};
    const char *list = t->choices;
    int n = 0, at = -1;
    ls_str choice;
    for (; (choice.p = ls_next_word(&list, "|", &choice.n)); n++)
        if (ls_str_same(choice, now)) at = n;
    if (!n) return NULL;
    at = at < 0 ? 0 : (at + by + n) % n; // the value is not a usual one: takes the first
    for (list = t->choices; at >= 0; at--) choice.p = ls_next_word(&list, "|", &choice.n);
    snprintf(out, size, "%.*s", (int)choice.n, choice.p);
    return out;
}

void ui_setting_ask(ui_state *s, ui_setting *t, const char *value) {
    snprintf(t->asked, sizeof t->asked, "%s", value);
    ui_ask(s, LS_CMD_SET, ls_format("%s=%s", t->key, value), 0);
}

void ui_setting_unasked(ui_state *s) {
    for (int i = 0; i < s->setup.n; i++) *s->setup.settings[i].asked = 0;
}

void ui_settings_save(ui_state *s) {
    char said[sizeof s->message] = "these settings cannot be saved";
    if (!s->given.save_settings || s->given.save_settings(s->setup.settings, s->setup.n, said, sizeof said))
        ui_say_error(s, "%s", said);
    else ui_say(s, "%s", said);
}

// ---- the paper's step

static const struct {
    const char *key, *value;
} paper[UI_PAPER] = {{"decode.acceptance", "exact"},
                     {"decode.sizing", "default"},
                     {"decode.max_rows", "16"},
                     {"decode.method", "logitspec-paper"}};

ui_setting *ui_setting_of(const ui_setup *s, const char *key) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->settings[i].key, key)) return (ui_setting *)&s->settings[i];
    return NULL;
}

void ui_paper_step(ui_state *s) {
    bool is_set = true;
    for (int i = 0; i < UI_PAPER; i++) {
        const ui_setting *t = ui_setting_of(&s->setup, paper[i].key);
        if (!t || s->given.recording) {
            ui_say(s, "%s: its method cannot change", ui_fixed(s));
            return;
        }
        is_set &= !strcmp(ui_setting_now(t), paper[i].value);
    }
    if (is_set && !*s->setup.before_paper[0]) {
        ui_say(s, "the paper's method (logitspec-paper, 16 rows) is already set");
        return;
    }
    ls_buf all = {0};
    int n = 0;
    for (int i = 0; i < UI_PAPER; i++) {
        ui_setting *t = ui_setting_of(&s->setup, paper[i].key);
        const char *value = is_set ? s->setup.before_paper[i] : paper[i].value;
        char now[sizeof t->value];
        snprintf(now, sizeof now, "%s", ui_setting_now(t));
        if (strcmp(now, value)) {
            ls_buf_fmt(&all, "%s%s=%s", n++ ? "\n" : "", t->key, value);
            snprintf(t->asked, sizeof t->asked, "%s", value);
        }
        if (!is_set) memcpy(s->setup.before_paper[i], now, sizeof now);
    }
    ui_ask(s, LS_CMD_SET, all.p, n);
}

// ---- the list

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
    ui_scroll_to(scroll, chosen, area.rows);
    const int top = ui_scroll_top(scroll, n, area.rows);
    int row = -top;
    for (int i = 0; i < s->setup.n; i++) {
        const ui_setting *t = &s->setup.settings[i];
        if (!ui_setting_applies(&s->setup, t)) continue;
        ui_pen p = ui_pen_at(v->canvas, area, row++, i == s->setup.chosen ? UI_CURSOR : UI_LABEL);
        const int col = p.col;
        p.tag = i + 1;
        ui_print(&p, " %s ", t->key);
        ui_print(ui_pad(ui_as(&p, UI_NUMBER), col + name), "%s", *t->value ? t->value : "-");
        ui_print(ui_pad(ui_as(&p, UI_DIM), col + value), "%s", t->help);
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
