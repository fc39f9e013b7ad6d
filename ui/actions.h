// The table of actions (actions.def) and which key means which.
#pragma once
#include "base/err.h"

#include <stddef.h>

typedef enum {
#define ACTION(id, name, keys, help) UI_ACT_##id,
#include "ui/actions.def"
    UI_ACTIONS,
    UI_ACT_NONE = UI_ACTIONS,
} ui_action;

typedef struct {
    const char *name, *keys, *help;
} ui_action_info;
extern const ui_action_info ui_actions[UI_ACTIONS]; // keys: as shipped, see ui_action_keys

const char *ui_action_keys(ui_action a); // the keys in force, separated by blanks; "": none
// Binds keys to an action: "ACTION=KEYS", such as "worst=W F4" or "quit=". The keys lose what they meant before. Call
// it before the screen opens. LS_E_USAGE says what is wrong.
ls_code ui_bind(const char *text, ls_err *err);
void ui_bind_defaults(void);

int ui_key_named(const char *name, size_t n); // "F5", "Space", "^X", "s", ...; UI_KEY_NONE: not a key
// The action of a key. While the user types, a key that is text has none.
ui_action ui_action_of(int key, int typing);
ui_action ui_action_named(const char *name); // UI_ACT_NONE: unknown
