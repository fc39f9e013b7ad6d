// Keys as numbers, the actions (actions.def), and which key means which.
#pragma once
#include "base/err.h"

#include <stddef.h>

// A code point for what was typed (control characters included), else one of these.
enum {
    UI_KEY_NONE = 0,
    UI_KEY_ESC = 27,
    UI_KEY_TAB = 9,
    UI_KEY_NEWLINE = 10, // Ctrl-J, Shift-Enter, Alt-Enter: adds a line
    UI_KEY_ENTER = 13,
    UI_KEY_CHARACTERS = 0x10FFFF, // the last of Unicode; what follows is no character
#define KEY(id, ...) UI_KEY_##id,
#include "ui/keys.def"
#undef KEY
    UI_KEY_F0, // UI_KEY_F0 + n is function key n, up to 12
    UI_KEY_LAST = UI_KEY_F0 + 12,
    // what a terminal sends that is no key
    UI_KEY_MOUSE,
    UI_KEY_PASTE,      // a text, see ui/input.h; tag: 1 where its end never came
    UI_KEY_INVALID,    // a byte that is not UTF-8
    UI_KEY_BACKGROUND, // tag: the terminal's background, 0xRRGGBB
    UI_KEY_FIRST = UI_KEY_UP,
};
#define UI_CTRL(letter) ((letter)&31)

typedef enum { UI_MOUSE_CLICK, UI_MOUSE_WHEEL_UP, UI_MOUSE_WHEEL_DOWN } ui_mouse_kind;

typedef struct {
    int code;
    ui_mouse_kind mouse; // of UI_KEY_MOUSE
    int row, col;
    int tag; // of the canvas there; else see above
} ui_key;

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
