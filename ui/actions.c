#include "ui/actions.h"
#include "base/buf.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

const ui_action_info ui_actions[UI_ACTIONS] = {
#define ACTION(id, name, keys, help) {name, keys, help},
#include "ui/actions.def"
};

static char *bound[UI_ACTIONS]; // NULL: the default keys

const char *ui_action_keys(ui_action a) {
    return bound[a] ? bound[a] : ui_actions[a].keys;
}

int ui_key_named(const char *name, size_t n) {
    static const struct {
        const char *name;
        int key;
    } named[] = {
#define KEY(id, name, ...) {name, UI_KEY_##id},
#include "ui/keys.def"
#undef KEY
        {"Space", ' '}, {"Tab", UI_KEY_TAB}, {"Enter", UI_KEY_ENTER}, {"Esc", UI_KEY_ESC}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (ls_str_is((ls_str){name, n}, named[i].name)) return named[i].key;
    if (n == 2 && name[0] == '^') return UI_CTRL(name[1]);
    if (n > 1 && n < 4 && name[0] == 'F' && name[1] != '0' && strspn(name + 1, "0123456789") + 1 == n) {
        const int number = atoi(name + 1);
        return UI_KEY_F0 + number <= UI_KEY_LAST ? UI_KEY_F0 + number : UI_KEY_NONE;
    }
    return n == 1 && *name > 32 && *name < 127 ? *name : UI_KEY_NONE;
}

ui_action ui_action_of(int key, int typing) {
    if (typing && (key == UI_KEY_LEFT || key == UI_KEY_RIGHT || key == UI_KEY_ENTER || key == UI_KEY_HOME ||
                   key == UI_KEY_END || key == UI_CTRL('U') || key == UI_CTRL('D')))
        return UI_ACT_NONE; // the line editor uses these keys
    if (typing && key >= 32 && key < UI_KEY_FIRST) return UI_ACT_NONE;
    size_t n;
    for (int a = 0; a < UI_ACTIONS; a++)
        for (const char *keys = ui_action_keys((ui_action)a), *p; (p = ls_next_word(&keys, " ", &n));)
            if (ui_key_named(p, n) == key) return (ui_action)a;
    return UI_ACT_NONE;
}

ui_action ui_action_named(const char *name) {
    for (int a = 0; a < UI_ACTIONS; a++)
        if (!strcmp(ui_actions[a].name, name)) return (ui_action)a;
    return UI_ACT_NONE;
}

void ui_bind_defaults(void) {
    for (int a = 0; a < UI_ACTIONS; a++) {
        free(bound[a]);
        bound[a] = NULL;
    }
}

// Takes one key away from an action.
static void unbind(int action, int key) {
    const char *keys = ui_action_keys((ui_action)action);
    ls_buf left = {0};
    size_t n;
    for (const char *p; (p = ls_next_word(&keys, " ", &n));)
        if (ui_key_named(p, n) != key) ls_buf_fmt(&left, "%s%.*s", left.n ? " " : "", (int)n, p);
    ls_buf_str(&left, "");
    free(bound[action]);
    bound[action] = left.p;
}

ls_code ui_bind(const char *text, ls_err *err) {
    const char *eq = strchr(text, '=');
    char *name = ls_strndup(text, eq ? (size_t)(eq - text) : strlen(text));
    const ui_action a = ui_action_named(name);
    free(name);
    if (!eq || a == UI_ACT_NONE)
        return ls_fail(err, LS_E_USAGE, "'%.60s': expected ACTION=KEYS, such as 'worst=W F4' (F1 lists the actions)",
                       text);
    size_t n;
    for (const char *keys = eq + 1, *p; (p = ls_next_word(&keys, " ", &n));) {
        const int key = ui_key_named(p, n);
        if (key == UI_KEY_NONE)
            return ls_fail(err, LS_E_USAGE,
                           "'%.60s': '%.*s' is not a key; keys are letters, ^X, F1 to F12, Space, Tab, Up, PgDn, ...",
                           text, (int)n, p);
        for (int other = 0; other < UI_ACTIONS; other++)
            if (other != (int)a) unbind(other, key);
    }
    free(bound[a]);
    bound[a] = ls_strdup(eq + 1 + strspn(eq + 1, " "));
    return LS_OK;
}
