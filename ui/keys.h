// Keys as numbers: a code point for what was typed (control characters included), else one of these.
#pragma once

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
