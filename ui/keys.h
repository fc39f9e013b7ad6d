// Keys as numbers: a code point for what was typed (control characters included), else one of these.
#pragma once

enum {
    UI_KEY_NONE = 0,
    UI_KEY_ESC = 27,
    UI_KEY_TAB = 9,
    UI_KEY_NEWLINE = 10, // Ctrl-J: adds a line
    UI_KEY_ENTER = 13,
    UI_KEY_FIRST = 0x110000, // beyond Unicode
    UI_KEY_UP = UI_KEY_FIRST,
    UI_KEY_DOWN,
    UI_KEY_LEFT,
    UI_KEY_RIGHT,
    UI_KEY_PAGE_UP,
    UI_KEY_PAGE_DOWN,
    UI_KEY_HOME,
    UI_KEY_END,
    UI_KEY_BACKTAB,
    UI_KEY_BACKSPACE,
    UI_KEY_DELETE,
    UI_KEY_RESIZE,
    UI_KEY_MOUSE,
    UI_KEY_PASTE_BEGIN,
    UI_KEY_PASTE_END,
    UI_KEY_F0, // UI_KEY_F0 + n is function key n, up to 12
    UI_KEY_LAST = UI_KEY_F0 + 12,
};
#define UI_CTRL(letter) ((letter)&31)

typedef enum { UI_MOUSE_CLICK, UI_MOUSE_WHEEL_UP, UI_MOUSE_WHEEL_DOWN } ui_mouse_kind;

typedef struct {
    int code;
    ui_mouse_kind mouse; // of UI_KEY_MOUSE
    int row, col;
    int tag; // of the canvas there
} ui_key;
