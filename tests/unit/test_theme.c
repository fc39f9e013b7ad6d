// The themes: what differs in meaning differs in look, also for those who see fewer colours, and without any.
#include "base/colour.h"
#include "spec/tree.h"
#include "ui/theme.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

// How linear red, green and blue reach an eye: all cones; without long, middle or short ones (Machado, Oliveira and
// Fernandes 2009, "A Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1).
static const struct {
    const char *name;
    double m[3][3];
} eyes[] = {
    {"all cones", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {"protanopia", {{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}}},
    {"deuteranopia", {{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}}},
    {"tritanopia", {{1.255528, -.076749, -.178779}, {-.078411, .930809, .147602}, {.004733, .691367, .303900}}},
};
enum { EYES = sizeof eyes / sizeof *eyes };

static void linear(unsigned rgb, double out[3]) {
    for (int i = 0; i < 3; i++) {
        const double c = (rgb >> (16 - 8 * i) & 255) / 255.;
        out[i] = c <= .04045 ? c / 12.92 : pow((c + .055) / 1.055, 2.4);
    }
}

static void times(const double m[3][3], const double v[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
}

// Oklab (Ottosson 2020): equal distances look about equally far apart; a just visible one is 0.02.
static void oklab(int eye, unsigned rgb, double out[3]) {
    static const double to_cones[3][3] = {{.4122214708, .5363325363, .0514459929},
                                          {.2119034982, .6806995451, .1073969566},
                                          {.0883024619, .2817188376, .6299787005}};
    static const double to_lab[3][3] = {{.2104542553, .7936177850, -.0040720468},
                                        {1.9779984951, -2.4285922050, .4505937099},
                                        {.0259040371, .7827717662, -.8086757660}};
    double v[3], seen[3];
    linear(rgb, v);
    times(eyes[eye].m, v, seen);
    for (int i = 0; i < 3; i++) seen[i] = fmin(fmax(seen[i], 0), 1);
    times(to_cones, seen, v);
    for (int i = 0; i < 3; i++) v[i] = cbrt(v[i]);
    times(to_lab, v, out);
}

static double apart(int eye, unsigned a, unsigned b) {
    double x[3], y[3];
    oklab(eye, a, x);
    oklab(eye, b, y);
    return sqrt(pow(x[0] - y[0], 2) + pow(x[1] - y[1], 2) + pow(x[2] - y[2], 2));
}

static double contrast(unsigned a, unsigned b) { // as the WCAG has it; 3 for large text, 4.5 for small
    double light[2];
    for (int i = 0; i < 2; i++) {
        double v[3];
        linear(i ? b : a, v);
        light[i] = .2126 * v[0] + .7152 * v[1] + .0722 * v[2] + .05;
    }
    return fmax(light[0], light[1]) / fmin(light[0], light[1]);
}

static unsigned color_of(const ui_theme *t, ui_role r) {
    return t->style[r].fg256 >= 0 ? ls_rgb256(t->style[r].fg256) : t->ink;
}

static const ui_role tokens[] = {
#define KIND(name, ...) UI_##name,
#include "spec/sources.def"
#undef KIND
};
enum { TOKENS = sizeof tokens / sizeof *tokens };

static void every_eye_tells_sources_apart(void **state) {
    (void)state;
    const ui_theme *t = ui_theme_find("default");
    for (; ui_theme_has_colors(t); t = ui_theme_after(t))
        for (int eye = 0; eye < EYES; eye++) {
            for (int a = 0; a < TOKENS; a++)
                for (int b = 0; b < a; b++)
                    if (apart(eye, color_of(t, tokens[a]), color_of(t, tokens[b])) < .1)
                        fail_msg("%s, %s: the tokens of roles %c and %c look alike", t->name, eyes[eye].name,
                                 ui_role_letter(tokens[a]), ui_role_letter(tokens[b]));
            assert_true(apart(eye, color_of(t, UI_GOOD), color_of(t, UI_BAD)) >= .1);
        }
    assert_ptr_equal(t, ui_theme_find("mono"));
}

static void every_text_stands_out(void **state) {
    (void)state;
    for (const ui_theme *t = ui_theme_find("default"); ui_theme_has_colors(t); t = ui_theme_after(t))
        for (int r = 0; r < UI_ROLES; r++) {
            const ui_style *s = &t->style[r];
            const unsigned ground = s->bg256 >= 0 ? ls_rgb256(s->bg256) : t->ground;
            if (r == UI_FRAME || r == UI_FOCUS || r == UI_BAR) continue; // lines
            if (contrast(color_of(t, (ui_role)r), ground) < 5)
                fail_msg("%s: role %c has a contrast of %.2f", t->name, ui_role_letter((ui_role)r),
                         contrast(color_of(t, (ui_role)r), ground));
        }
}

static void without_colours_each_source_has_a_mark(void **state) {
    (void)state;
    const ui_theme *t = ui_theme_find("mono");
    for (int r = 0; r < UI_ROLES; r++) assert_true(t->style[r].fg256 < 0 && t->style[r].bg256 < 0);
    for (int a = 0; a < TOKENS; a++) {
        assert_int_equal(!!(t->style[tokens[a]].mark & UI_UNDERLINE), tokens[a] != UI_ROOT);
        assert_int_not_equal(t->style[tokens[a]].mark, t->style[UI_CORRECTED].mark);
        for (int b = 0; b < a; b++) assert_int_not_equal(t->style[tokens[a]].mark, t->style[tokens[b]].mark);
    }
}

static void a_correction_is_no_error(void **state) {
    (void)state;
    for (const ui_theme *t = ui_theme_find("default"); ui_theme_has_colors(t); t = ui_theme_after(t)) {
        assert_int_not_equal(color_of(t, UI_CORRECTED), color_of(t, UI_BAD));
        assert_int_equal(color_of(t, UI_CORRECTED), color_of(t, UI_ROOT)); // it is the target's own choice as well
        assert_int_not_equal(t->style[UI_CORRECTED].mark, t->style[UI_ROOT].mark);
    }
}

static void a_user_changes_a_role(void **state) {
    (void)state;
    ls_err err;
    ui_theme t = *ui_theme_find("default");
    assert_int_equal(ui_theme_set(&t, "retrieved=bold italic 226 on 17", &err), LS_OK);
    assert_int_equal(t.style[UI_RETRIEVED].fg256, 226);
    assert_int_equal(t.style[UI_RETRIEVED].bg256, 17);
    assert_int_equal(t.style[UI_RETRIEVED].mark, UI_BOLD | UI_ITALIC);
    assert_int_equal(ui_theme_set(&t, "key-label=", &err), LS_OK);
    assert_int_equal(t.style[UI_KEY_LABEL].bg256, -1);
    static const char *const wrong[] = {"nonsense=3", "good=256", "good=blue", "good"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ui_theme_set(&t, wrong[i], &err), LS_E_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_eye_tells_sources_apart), cmocka_unit_test(every_text_stands_out),
        cmocka_unit_test(without_colours_each_source_has_a_mark), cmocka_unit_test(a_correction_is_no_error),
        cmocka_unit_test(a_user_changes_a_role)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
