// Colours by role, in themes: on a dark ground, on a light one, and without colours. No role relies on colour alone:
// signs, brackets and underlines mean the same. The terminal's own background is kept.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define ROLE(id, ...) UI_##id,
#include "ui/roles.def"
#undef ROLE
    UI_ROLES
} ui_role;

enum { // ui_mark; not drawn are UI_CUT, a number is cut there, and UI_ODD, terminals count its cells differently
    UI_BOLD = 1,
    UI_UNDERLINE = 2,
    UI_REVERSE = 4,
    UI_FAINT = 8,
    UI_CUT = 16,
    UI_ITALIC = 32,
    UI_ODD = 64,
};

typedef struct {
    int16_t fg256, bg256; // -1: the terminal's own
    int8_t fg16, bg16;
    uint8_t mark;
} ui_style;

typedef struct {
    const char *name;
    unsigned ground, ink; // 0xRRGGBB in pictures, where there is no terminal's own
    ui_style style[UI_ROLES];
} ui_theme;

const ui_theme *ui_theme_find(const char *name);   // default, light or mono; NULL: unknown
const ui_theme *ui_theme_after(const ui_theme *t); // default, light, mono, default, ...
bool ui_theme_has_colors(const ui_theme *t);       // false: mono
// "ROLE=[MARK...] [COLOUR] [on COLOUR]" in a copy of a theme: marks bold, underline, reverse, faint, italic; colours 0
// to 255, or none. LS_E_USAGE with what is wrong.
ls_code ui_theme_set(ui_theme *t, const char *text, ls_err *err);
bool ui_is_light(unsigned rgb); // a background, 0xRRGGBB, on which the light theme is readable
char ui_role_letter(ui_role r); // for dumps
