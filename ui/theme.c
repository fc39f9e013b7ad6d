#include "ui/theme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const ui_theme themes[] = {
    {"default",
     {
         [UI_TEXT] = {-1, -1, -1, -1, 0, 0},
         [UI_DIM] = {244, -1, 7, -1, 0, UI_FAINT},
         [UI_TITLE] = {231, 24, 7, 4, UI_BOLD, UI_REVERSE},
         [UI_FRAME] = {240, -1, -1, -1, 0, 0},
         [UI_FOCUS] = {39, -1, 6, -1, UI_BOLD, UI_BOLD},
         [UI_LABEL] = {109, -1, 6, -1, 0, 0},
         [UI_NUMBER] = {-1, -1, -1, -1, UI_BOLD, UI_BOLD},
         [UI_PROMPT] = {250, -1, 7, -1, 0, UI_FAINT},
         [UI_ROOT] = {-1, -1, -1, -1, 0, 0},
         [UI_RETRIEVED] = {114, -1, 2, -1, UI_UNDERLINE, UI_UNDERLINE},
         [UI_GUESS] = {221, -1, 3, -1, UI_UNDERLINE, UI_UNDERLINE | UI_BOLD},
         [UI_TAIL] = {80, -1, 6, -1, UI_UNDERLINE, UI_UNDERLINE},
         [UI_REMEMBERED] = {176, -1, 5, -1, UI_UNDERLINE, UI_UNDERLINE},
         [UI_CORRECTED] = {209, -1, 1, -1, 0, UI_BOLD},
         [UI_GOOD] = {114, -1, 2, -1, 0, UI_BOLD},
         [UI_BAD] = {203, -1, 1, -1, 0, UI_BOLD},
         [UI_BAR] = {75, -1, 4, -1, 0, 0},
         [UI_CURSOR] = {16, 220, 0, 3, UI_BOLD, UI_REVERSE | UI_BOLD},
         [UI_SPAN] = {231, 60, 7, 5, 0, UI_BOLD | UI_UNDERLINE},
         [UI_KEY] = {-1, -1, -1, -1, UI_BOLD, UI_BOLD},
         [UI_KEY_LABEL] = {16, 37, 0, 6, 0, UI_REVERSE},
     }},
    {"light",
     {
         [UI_TEXT] = {-1, -1, -1, -1, 0, 0},
         [UI_DIM] = {245, -1, 0, -1, 0, UI_FAINT},
         [UI_TITLE] = {231, 25, 7, 4, UI_BOLD, UI_REVERSE},
         [UI_FRAME] = {249, -1, -1, -1, 0, 0},
         [UI_FOCUS] = {25, -1, 4, -1, UI_BOLD, UI_BOLD},
         [UI_LABEL] = {24, -1, 4, -1, 0, 0},
         [UI_NUMBER] = {-1, -1, -1, -1, UI_BOLD, UI_BOLD},
         [UI_PROMPT] = {240, -1, 0, -1, 0, UI_FAINT},
         [UI_ROOT] = {-1, -1, -1, -1, 0, 0},
         [UI_RETRIEVED] = {28, -1, 2, -1, UI_UNDERLINE, UI_UNDERLINE},
         [UI_GUESS] = {130, -1, 3, -1, UI_UNDERLINE, UI_UNDERLINE | UI_BOLD},
         [UI_TAIL] = {30, -1, 6, -1, UI_UNDERLINE, UI_UNDERLINE},
         [UI_REMEMBERED] = {127, -1, 5, -1, UI_UNDERLINE, UI_UNDERLINE},
         [UI_CORRECTED] = {160, -1, 1, -1, 0, UI_BOLD},
         [UI_GOOD] = {28, -1, 2, -1, 0, UI_BOLD},
         [UI_BAD] = {160, -1, 1, -1, 0, UI_BOLD},
         [UI_BAR] = {25, -1, 4, -1, 0, 0},
         [UI_CURSOR] = {16, 220, 0, 3, UI_BOLD, UI_REVERSE | UI_BOLD},
         [UI_SPAN] = {16, 183, 0, 5, 0, UI_BOLD | UI_UNDERLINE},
         [UI_KEY] = {-1, -1, -1, -1, UI_BOLD, UI_BOLD},
         [UI_KEY_LABEL] = {231, 25, 7, 4, 0, UI_REVERSE},
     }},
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
    static const char letters[] = "tdTfFlnpRrgcmxGBbuskK";
    _Static_assert(sizeof letters - 1 == UI_ROLES, "a letter for every role");
    return letters[r];
}

static const char *const role_names[] = {"text",   "dim",  "title",     "frame",  "focus", "label",      "number",
                                         "prompt", "root", "retrieved", "guess",  "tail",  "remembered", "corrected",
                                         "good",   "bad",  "bar",       "cursor", "span",  "key",        "key-label"};
_Static_assert(sizeof role_names / sizeof *role_names == UI_ROLES, "a name for every role");

ls_code ui_theme_set(ui_theme *t, const char *text, ls_err *err) {
    static const struct {
        const char *name;
        int mark;
    } marks[] = {{"bold", UI_BOLD}, {"underline", UI_UNDERLINE}, {"reverse", UI_REVERSE}, {"faint", UI_FAINT}};
    const char *eq = strchr(text, '=');
    int role = 0;
    while (eq && role < UI_ROLES &&
           (strlen(role_names[role]) != (size_t)(eq - text) || strncmp(role_names[role], text, (size_t)(eq - text))))
        role++;
    if (!eq || role == UI_ROLES)
        return ls_fail(
            err, LS_E_USAGE,
            "'%.60s': expected ROLE=COLOUR; roles are text, dim, title, frame, focus, label, number, prompt, "
            "root, retrieved, guess, tail, remembered, corrected, good, bad, bar, cursor, span, key, key-label",
            text);
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
