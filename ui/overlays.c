#include "ui/overlays.h"
#include "base/mem.h"
#include "ui/navigate.h"
#include "ui/panels.h"

#include <stdio.h>
#include <string.h>

ui_overlay ui_overlay_top(const ui_state *s) {
    return s->n_overlays ? s->overlays[s->n_overlays - 1] : UI_NO_OVERLAY;
}

void ui_overlay_close(ui_state *s) {
    if (s->n_overlays) s->n_overlays--;
}

void ui_overlays_clear(ui_state *s) {
    s->n_overlays = 0;
}

void ui_overlay_toggle(ui_state *s, ui_overlay o) {
    const bool close = ui_overlay_top(s) == o;
    int kept = 0;
    for (int i = 0; i < s->n_overlays; i++) // it may lie further below
        if (s->overlays[i] != o) s->overlays[kept++] = s->overlays[i];
    s->n_overlays = kept;
    if (close) return;
    s->overlays[s->n_overlays++] = o;
    s->overlay_scroll[o] = 0;
}

bool ui_overlay_scroll(ui_state *s, int by) {
    const ui_overlay top = ui_overlay_top(s);
    if (top == UI_NO_OVERLAY) return false;
    int *lines = &s->overlay_scroll[top];
    *lines += top == UI_LOG ? -by : by; // the log's natural position is its end
    if (*lines < 0) *lines = 0;
    return true;
}

static bool is_scroll(ui_action a) {
    return a == UI_ACT_UP || a == UI_ACT_DOWN || a == UI_ACT_PAGE_UP || a == UI_ACT_PAGE_DOWN || a == UI_ACT_TOP ||
           a == UI_ACT_BOTTOM;
}

// Keys while the settings are shown.
static void set_up(ui_state *s, int key, ui_action a) {
    ui_setting *t = &s->settings[s->setting];
    char value[sizeof t->value], line[128];
    const int by = key == UI_KEY_RIGHT || a == UI_ACT_RIGHT ? 1 : key == UI_KEY_LEFT || a == UI_ACT_LEFT ? -1 : 0;
    if (!s->n_settings || key == UI_KEY_ESC || a == UI_ACT_CLOSE || a == UI_ACT_SETUP) ui_overlay_close(s);
    else if (a == UI_ACT_HELP || a == UI_ACT_LOG) ui_act(s, a);
    else if (key == UI_KEY_UP || a == UI_ACT_UP) s->setting = (s->setting + s->n_settings - 1) % s->n_settings;
    else if (key == UI_KEY_DOWN || a == UI_ACT_DOWN) s->setting = (s->setting + 1) % s->n_settings;
    else if (s->recording) ui_say(s, "this is a recording: it was decoded as it was", false);
    else if (by && ui_setting_choice(t, by, value, sizeof value)) {
        snprintf(line, sizeof line, "%s=%s", t->key, value);
        snprintf(t->asked, sizeof t->asked, "%s", value);
        ui_request_of(s, LS_CMD_SET, ls_strdup(line), 0);
    } else if (key == UI_KEY_ENTER) {
        snprintf(line, sizeof line, "set %s=", t->key);
        ui_type_line(s, ':', line);
    }
}

bool ui_overlay_key(ui_state *s, int key, ui_action a) {
    switch (ui_overlay_top(s)) {
    case UI_HELP: // any key closes it
        if (is_scroll(a)) ui_act(s, a);
        else ui_overlay_close(s);
        return true;
    case UI_LOG: // messages are read beside a run: other actions work on
        if (key == UI_KEY_ESC || a == UI_ACT_CLOSE) ui_overlay_close(s);
        else ui_act(s, a);
        return true;
    case UI_SETUP:
        if (a == UI_ACT_QUIT) return false;
        set_up(s, key, a);
        return true;
    case UI_OVERLAYS:
    case UI_NO_OVERLAY: break;
    }
    return false;
}

void ui_overlay_mouse(ui_state *s, ui_key k) {
    if (k.mouse != UI_MOUSE_CLICK) ui_overlay_scroll(s, k.mouse == UI_MOUSE_WHEEL_UP ? -3 : 3);
    else if (ui_overlay_top(s) == UI_SETUP && k.tag > 0 && k.tag <= s->n_settings) s->setting = k.tag - 1;
}
