#include "ui/actions.h"
#include "ui/keys.h"

#include <stdlib.h>
#include <string.h>

const ui_action_info ui_actions[UI_ACTIONS] = {
#define ACTION(id, name, keys, label, help) {name, keys, label, help},
#include "ui/actions.def"
#undef ACTION
};

static int key_of(const char *name, size_t n) {
    static const struct {
        const char *name;
        int key;
    } named[] = {
        {"Space", ' '},           {"Tab", UI_KEY_TAB},        {"S-Tab", UI_KEY_BACKTAB}, {"Up", UI_KEY_UP},
        {"Down", UI_KEY_DOWN},    {"Left", UI_KEY_LEFT},      {"Right", UI_KEY_RIGHT},   {"Enter", UI_KEY_ENTER},
        {"PgUp", UI_KEY_PAGE_UP}, {"PgDn", UI_KEY_PAGE_DOWN}, {"Home", UI_KEY_HOME},     {"End", UI_KEY_END}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strlen(named[i].name) == n && !memcmp(named[i].name, name, n)) return named[i].key;
    if (n == 2 && name[0] == '^') return UI_CTRL(name[1]);
    if (n > 1 && name[0] == 'F') return UI_KEY_F0 + atoi(name + 1);
    return n == 1 ? (unsigned char)name[0] : UI_KEY_NONE;
}

ui_action ui_action_of(int key, int typing) {
    if (typing && (key == UI_KEY_LEFT || key == UI_KEY_RIGHT || key == UI_KEY_ENTER || key == UI_KEY_HOME ||
                   key == UI_KEY_END || key == UI_CTRL('U') || key == UI_CTRL('D')))
        return UI_ACT_NONE; // the line editor's
    if (typing && key >= 32 && key < UI_KEY_FIRST) return UI_ACT_NONE;
    for (int a = 0; a < UI_ACTIONS; a++)
        for (const char *p = ui_actions[a].keys; *p;) {
            size_t n = strcspn(p, " ");
            if (key_of(p, n) == key) return (ui_action)a;
            p += n + strspn(p + n, " ");
        }
    return UI_ACT_NONE;
}

ui_action ui_action_named(const char *name) {
    for (int a = 0; a < UI_ACTIONS; a++)
        if (!strcmp(ui_actions[a].name, name)) return (ui_action)a;
    return UI_ACT_NONE;
}
