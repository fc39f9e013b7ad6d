#include "ui/theme.h"
#include "base/buf.h"
#include "base/colour.h"
#include "decode/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COLORS(fg256, bg256, fg16, bg16) fg256, bg256, fg16, bg16
#define OF(kind, ground) LS_KIND_##kind##_##ground, -1, LS_KIND_##kind##_FIRST8, -1
static const ui_theme themes[] = {
#define ROLE(id, name, letter, mark, mono, dark, light) [UI_##id] = {dark, mark},
    {"default",
     0x1c1f26,
     0xdcdfe4,
     {
#include "ui/roles.def"
     }},
#undef ROLE
#define ROLE(id, name, letter, mark, mono, dark, light) [UI_##id] = {light, mark},
    {"light",
     0xffffff,
     0x000000,
     {
#include "ui/roles.def"
     }},
#undef ROLE
#define ROLE(id, name, letter, mark, mono, dark, light) [UI_##id] = {-1, -1, -1, -1, mono},
    {"mono",
     0xffffff,
     0x000000,
     {
#include "ui/roles.def"
     }},
#undef ROLE
};

static const struct {
    const char *name;
    char letter;
} roles[UI_ROLES] = {
#define ROLE(id, name, letter, ...) {name, letter},
#include "ui/roles.def"
#undef ROLE
};

const ui_theme *ui_theme_find(const char *name) {
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        if (!strcmp(themes[i].name, name)) return &themes[i];
    return NULL;
}

const ui_theme *ui_theme_after(const ui_theme *t) {
    const size_t n = sizeof themes / sizeof *themes;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(themes[i].name, t->name)) return &themes[(i + 1) % n];
    return &themes[0];
}

bool ui_theme_has_colors(const ui_theme *t) {
    return strcmp(t->name, "mono") != 0;
}

bool ui_is_light(unsigned rgb) {
    return 299 * (rgb >> 16) + 587 * (rgb >> 8 & 255) + 114 * (rgb & 255) > 128 * 1000; // ITU-R BT.601
}

char ui_role_letter(ui_role r) {
    return roles[r].letter;
}

ls_code ui_theme_set(ui_theme *t, const char *text, ls_err *err) {
    static const struct {
        const char *name;
        int mark;
    } marks[] = {{"bold", UI_BOLD},
                 {"underline", UI_UNDERLINE},
                 {"reverse", UI_REVERSE},
                 {"faint", UI_FAINT},
                 {"italic", UI_ITALIC}};
    static const char names[] =
#define ROLE(id, name, ...) ", " name
#include "ui/roles.def"
#undef ROLE
        ;
    const char *eq = strchr(text, '=');
    int role = 0;
    while (eq && role < UI_ROLES && !ls_str_is((ls_str){text, (size_t)(eq - text)}, roles[role].name)) role++;
    if (!eq || role == UI_ROLES)
        return ls_fail(err, LS_E_USAGE, "'%.60s': expected ROLE=COLOUR; roles are %s", text, names + 2);
    ui_style s = {.fg256 = -1, .bg256 = -1, .fg16 = -1, .bg16 = -1};
    bool back = false;
    size_t n;
    for (const char *words = eq + 1, *p; (p = ls_next_word(&words, " ", &n));) {
        char *end;
        const long color = strtol(p, &end, 10);
        bool known = n == 2 && !strncmp(p, "on", 2);
        back |= known;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (ls_str_is((ls_str){p, n}, marks[i].name)) s.mark |= (uint8_t)marks[i].mark, known = true;
        if (!known && end == p + n && color >= 0 && color < 256) {
            known = true;
            // a terminal of 16 colours gets the first 16 only: the nearest one is not known
            *(back ? &s.bg256 : &s.fg256) = (int16_t)color;
            *(back ? &s.bg16 : &s.fg16) = (int8_t)(color < 16 ? color % 8 : -1);
        }
        if (!known)
            return ls_fail(
                err, LS_E_USAGE,
                "'%.60s': '%.*s' is neither bold, underline, reverse, faint, italic, on nor a colour from 0 to 255",
                text, (int)n, p);
    }
    t->style[role] = s;
    return LS_OK;
}
