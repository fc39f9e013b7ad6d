#include "ui/theme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define COLORS(fg256, bg256, fg16, bg16) fg256, bg256, fg16, bg16
static const ui_theme themes[] = {
#define ROLE(id, name, letter, mark, mono, dark, light) [UI_##id] = {dark, mark, mono},
    {"default",
     {
#include "ui/roles.def"
     }},
#undef ROLE
#define ROLE(id, name, letter, mark, mono, dark, light) [UI_##id] = {light, mark, mono},
    {"light",
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
    if (!strcmp(name, "mono")) return &themes[0]; // the same marks; the terminal layer leaves the colours out
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        if (!strcmp(themes[i].name, name)) return &themes[i];
    return NULL;
}

const char *ui_theme_after(const char *name) {
    return !strcmp(name, "default") ? "light" : !strcmp(name, "light") ? "mono" : "default";
}

char ui_role_letter(ui_role r) {
    return roles[r].letter;
}

ls_code ui_theme_set(ui_theme *t, const char *text, ls_err *err) {
    static const struct {
        const char *name;
        int mark;
    } marks[] = {{"bold", UI_BOLD}, {"underline", UI_UNDERLINE}, {"reverse", UI_REVERSE}, {"faint", UI_FAINT}};
    static const char names[] =
#define ROLE(id, name, ...) ", " name
#include "ui/roles.def"
#undef ROLE
        ;
    const char *eq = strchr(text, '=');
    int role = 0;
    const size_t n_name = eq ? (size_t)(eq - text) : 0;
    while (eq && role < UI_ROLES && (strlen(roles[role].name) != n_name || strncmp(roles[role].name, text, n_name)))
        role++;
    if (!eq || role == UI_ROLES)
        return ls_fail(err, LS_E_USAGE, "'%.60s': expected ROLE=COLOUR; roles are %s", text, names + 2);
    ui_style s = {.fg256 = -1, .bg256 = -1, .fg16 = -1, .bg16 = -1, .mono = t->style[role].mono};
    bool back = false;
    for (const char *p = eq + 1 + strspn(eq + 1, " "); *p;) {
        const size_t n = strcspn(p, " ");
        char *end;
        const long color = strtol(p, &end, 10);
        bool known = n == 2 && !strncmp(p, "on", 2);
        back |= known;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (strlen(marks[i].name) == n && !strncmp(marks[i].name, p, n))
                s.mark |= (uint8_t)marks[i].mark, known = true;
        if (!known && end == p + n && color >= 0 && color < 256) {
            known = true;
            // a terminal of 16 colours gets the first 16 only: the nearest one is not known
            *(back ? &s.bg256 : &s.fg256) = (int16_t)color;
            *(back ? &s.bg16 : &s.fg16) = (int8_t)(color < 16 ? color % 8 : -1);
        }
        if (!known)
            return ls_fail(err, LS_E_USAGE,
                           "'%.60s': '%.*s' is neither bold, underline, reverse, faint, on nor a colour from 0 to 255",
                           text, (int)n, p);
        p += n + strspn(p + n, " ");
    }
    t->style[role] = s;
    return LS_OK;
}
