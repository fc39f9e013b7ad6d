// The table of actions (actions.def) and which key means which.
#pragma once
#include "base/err.h"

typedef enum {
#define ACTION(id, name, keys, label, help) UI_ACT_##id,
#include "ui/actions.def"
#undef ACTION
    UI_ACTIONS,
    UI_ACT_NONE = UI_ACTIONS,
} ui_action;

typedef struct {
    const char *name, *keys, *label, *help;
} ui_action_info;
extern const ui_action_info ui_actions[UI_ACTIONS]; // keys: as shipped, see ui_action_keys

const char *ui_action_keys(ui_action a); // in force: names separated by blanks; "" where it has none
// "ACTION=KEYS", such as "worst=W F4" or "quit=": from now on these keys mean it, and nothing else. Called before the
// screen opens. LS_E_USAGE with what is wrong.
ls_code ui_bind(const char *text, ls_err *err);
void ui_bind_defaults(void);

int ui_key_named(const char *name); // "F5", "Space", "^X", "s", ...; UI_KEY_NONE: no key
// The action of a key; while typing only keys that are no text count.
ui_action ui_action_of(int key, int typing);
ui_action ui_action_named(const char *name); // UI_ACT_NONE: unknown
