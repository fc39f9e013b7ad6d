// The screen as commands start it: its colours and keys, the panel Setup, the methods of Shadows, the tour.
#include "base/mem.h"
#include "base/err.h"
#include "cli/commands.h"
#include "cli/variant.h"
#include "cli/demo_file.h"
#include "spec/accept.h"
#include "spec/cost_curve.h"
#include "spec/drafter.h"
#include "spec/sizing.h"
#include "ui/actions.h"
#include "ui/render.h"
#include "ui/script.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- the panel Setup: the options that change at run time, and the values that it suggests

static const struct {
    int option;
    const char *choices; // suggested values; NULL: those of the option, or all rules
} usual[] = {{LS_OPT_method, NULL},         {LS_OPT_max_rows, "auto|1|2|4|8|16|32|64"},
             {LS_OPT_sizing, NULL},         {LS_OPT_costs, LS_COST_CHOICES},
             {LS_OPT_acceptance, NULL},     {LS_OPT_temperature, "0|0.2|0.5|0.7|1|1.3"},
             {LS_OPT_top_k, "0|10|40|100"}, {LS_OPT_top_p, "1|0.95|0.9|0.5"},
             {LS_OPT_seed, "auto|1|2|3"},   {LS_OPT_max_tokens, "64|128|256|512|1024|4096"},
             {LS_OPT_format, NULL}};
enum { USUAL = sizeof usual / sizeof *usual };

// The option of setting n: the usual ones, then the knobs; -1: no more.
static int option_of(size_t n) {
    if (n < USUAL) return usual[n].option;
    return n < USUAL + ls_knob_count() && n < UI_SETTINGS ? LS_OPT_COUNT + (int)(n - USUAL) : -1;
}

static void rule_choices(ls_rule_list rules, ls_buf *out) {
    for (int i = 0; rules(i); i++) ls_buf_fmt(out, "%s%s", out->n ? "|" : "", rules(i)->name);
}

// A knob's default, halved and doubled up to AROUND times, within its range.
static void knob_choices(const ls_knob *k, ls_buf *out) {
    enum { AROUND = 3 };
    double before = -1;
    if (k->kind == LS_KNOB_FILE) return;
    for (int i = -AROUND; i <= AROUND; i++) {
        double v = ldexp(k->fallback, i);
        if (k->kind == LS_KNOB_INT) v = (double)(long)v;
        if (v < k->lo || v > k->hi || v == before) continue;
        ls_buf_fmt(out, "%s%.6g", out->n ? "|" : "", v);
        before = v;
    }
}

// The values that setting n suggests, "a|b|c"; made once, because the tables are constant.
static const char *choices_of(size_t n) {
    static ls_buf all[UI_SETTINGS];
    ls_buf *made = &all[n];
    const char *fixed = n < USUAL && usual[n].choices ? usual[n].choices : ls_options_choices(option_of(n));
    if (fixed) return fixed;
    if (made->p) return made->p;
    if (n >= USUAL) knob_choices(ls_knob_at(n - USUAL), made);
    else if (usual[n].option == LS_OPT_acceptance) rule_choices(ls_accept_at, made);
    else ls_buf_str(made, "default"), rule_choices(ls_sizing_at, made);
    ls_buf_str(made, "");
    return made->p;
}

// With the current values; ends with a NULL key.
static const ui_setting *settings_of(const ls_options *o) {
    static ui_setting out[UI_SETTINGS + 1];
    static char *owners[UI_SETTINGS]; // the methods and rules of knobs
    size_t n = 0;
    for (int i; (i = option_of(n)) >= 0; n++) {
        ls_buf value = {0};
        ls_options_value(o, i, &value);
        const char *key = ls_options_key(i);
        if (!owners[n] && i >= LS_OPT_COUNT) owners[n] = ls_strndup(key, strcspn(key, "."));
        out[n] = (ui_setting){.key = key, .help = ls_options_help(i), .choices = choices_of(n), .of = owners[n]};
        const char *file = i < LS_OPT_COUNT ? NULL : o->knobs[i - LS_OPT_COUNT].text; // as it is, not as in YAML
        const char *now = file ? file : value.n && strcmp(value.p, "~") ? value.p : "";
        if (strlen(now) < sizeof out[n].value)
            strcpy(out[n].value, now); // a part of a path would be saved as the whole
        ls_buf_free(&value);
    }
    out[n] = (ui_setting){0};
    return out;
}

static bool can_change(const char *key) { // while the program runs
    return !ls_begins_among(key, "model. trace. ui.");
}

// Completions of typed commands; ends with NULL.
static const char *const *words(void) {
    enum { MOST = 600 };
    static char *made[MOST + 1];
    size_t length;
    int n = 0;
    if (made[0]) return (const char *const *)made;
    for (int i = 0; i < ls_options_count() && n < MOST; i++)
        if (can_change(ls_options_key(i))) made[n++] = ls_format("set %s=", ls_options_key(i));
    for (size_t k = 0; option_of(k) >= 0; k++)
        for (const char *list = choices_of(k), *w; n < MOST && (w = ls_next_word(&list, "|", &length));)
            made[n++] = ls_format("set %s=%.*s", ls_options_key(option_of(k)), (int)length, w);
    for (const ls_method *const *m = ls_methods; *m && n < MOST; m++) made[n++] = ls_format("compare %s", (*m)->name);
    return (const char *const *)made;
}

static const char *about_value(const char *key, const char *value) {
    static char about[400];
    const bool sizing = !strcmp(key, "decode.sizing"), acceptance = !strcmp(key, "decode.acceptance");
    const ls_rule_list rules = sizing ? ls_sizing_at : ls_accept_at;
    const ls_method *m = strcmp(key, "decode.method") ? NULL : ls_method_find(value);
    if (m) {
        const bool published = m->source && *m->source;
        snprintf(about, sizeof about, "%s%s%s", m->summary, published ? "; " : "", published ? m->source : "");
        return about;
    }
    for (const ls_cost_preset *p = ls_cost_presets; !strcmp(key, "decode.costs") && p->name; p++)
        if (!strcmp(value, p->name)) return p->about;
    if (sizing && !strcmp(value, "default"))
        return "the method's rule: by measured cost if the method supports it, else as in its paper";
    for (int i = 0; (sizing || acceptance) && rules(i); i++)
        if (strlen(rules(i)->name) == strcspn(value, ":") && !strncmp(rules(i)->name, value, strcspn(value, ":")))
            return rules(i)->summary;
    return NULL;
}

// Saves the settings that differ from a start without flags to the user's configuration. said: a message about the
// result, also on errors.
static ls_code save_settings(const ui_setting *settings, int n, char *said, size_t size) {
    ls_err err = {0};
    ls_config_change changes[UI_SETTINGS];
    int n_changes = 0;
    ls_options plain; // the options of a start without flags
    ls_options_init(&plain);
    char *path = ls_options_user_file();
    ls_code code = path ? ls_options_files(&plain, &err)
                        : ls_fail(&err, LS_E_IO, "no folder for your configuration: HOME is not set");
    ls_options wanted; // plain with the current settings: checks and normalises each value
    ls_options_copy(&wanted, &plain);
    for (int i = 0; i < n && !code; i++)
        if (*settings[i].value) code = ls_options_set(&wanted, settings[i].key, settings[i].value, path, &err);
    for (int i = 0; i < n && !code; i++)
        if (ls_options_differ(&plain, &wanted, option_of((size_t)i)))
            changes[n_changes++] = (ls_config_change){settings[i].key, settings[i].value};
    if (!code && n_changes) code = ls_config_file_change(path, changes, n_changes, &err);
    if (code) snprintf(said, size, "%s", err.msg);
    else if (!n_changes) snprintf(said, size, "%.300s already has these values: nothing was written", path);
    else snprintf(said, size, "saved %d setting%s to %.300s", n_changes, ls_plural(n_changes), path);
    ls_options_free(&wanted);
    ls_options_free(&plain);
    free(path);
    return code;
}

// ---- live decoding: settings that change at run time, and rivals by name

// Each setup of the source is that of a variant, with the options from which it was read.
static const ls_variant *of_setup(const ls_setup *s) {
    return (const ls_variant *)((const char *)s - offsetof(ls_variant, setup.s));
}

static void free_setup(ls_setup *s) {
    ls_variant *c = (ls_variant *)of_setup(s);
    ls_variant_free(c);
    free(c);
}

// now: what is in force; NULL: nothing is yet. The model was loaded by the first setup; later ones do not use theirs.
static ls_setup *setup_of(ls_variant *c, const ls_setup *now) {
    ls_run_setup_init(&c->setup, &c->options);
    if (!now) return &c->setup.s;
    // without a set seed, keeps the one that was drawn at the start
    if (!c->options.seed.set) c->setup.s.decode.sampling.seed = now->decode.sampling.seed;
    c->setup.s.decode.note = now->decode.note;
    c->setup.s.decode.ud = now->decode.ud;
    return &c->setup.s;
}

static ls_setup *changed(const ls_setup *now, const char *assignment, ls_err *err) {
    const char *eq = strchr(assignment, '=');
    ls_code code = eq ? LS_OK : ls_fail(err, LS_E_USAGE, "set KEY=VALUE is expected, such as 'set decode.max_rows=16'");
    if (!code && !can_change(assignment))
        code = ls_fail(err, LS_E_USAGE, "model.*, trace.* and ui.* cannot change while the program runs");
    if (code) return NULL;
    ls_variant *c = ls_calloc(1, sizeof *c);
    char *key = ls_strndup(assignment, (size_t)(eq - assignment));
    ls_options_copy(&c->options, &of_setup(now)->options);
    code = ls_options_set(&c->options, key, eq + 1, "set", err);
    free(key);
    if (!code) return setup_of(c, now);
    ls_options_free(&c->options);
    free(c);
    return NULL;
}

static ls_setup *variant(const ls_setup *now, const char *text, ls_err *err) {
    ls_variant *list;
    int n;
    if (ls_variants_read(&list, &n, "compare", text, &of_setup(now)->options, err)) return NULL;
    if (n == 1) return &list->setup.s;
    ls_variants_free(list, n);
    ls_fail(err, LS_E_USAGE, "compare takes one method, such as 'compare suffix:16'");
    return NULL;
}

ls_source *ls_live_open(const ls_options *o, const char *autosave, const char *no_autosave, bool *failed, ls_err *err) {
    ls_variant *first = ls_calloc(1, sizeof *first);
    ls_options_copy(&first->options, o);
    const ls_live_options opt = {.setup = setup_of(first, NULL),
                                 .trace = first->options.trace,
                                 .trace_level = ls_trace_level_named(first->options.trace_level),
                                 .autosave = autosave,
                                 .no_autosave = no_autosave,
                                 .forget = !o->history,
                                 .failed = failed,
                                 .changed = changed,
                                 .variant = variant,
                                 .free_setup = free_setup};
    ls_source *source = ls_source_live(&opt);
    if (source) return source;
    free_setup(opt.setup);
    ls_no_thread(err);
    return NULL;
}

// ---- the screen

ls_code ls_theme(const ls_options *o, bool light, const ui_theme **out, ls_err *err) {
    static ui_theme themes[2]; // one screen per process
    ls_code code = LS_OK;
    ui_theme *theme = &themes[light];
    *out = theme;
    *theme = *ui_theme_find(strcmp(o->theme, "auto") ? o->theme : light ? "light" : "default");
    if (!ui_theme_has_colors(theme)) return LS_OK;
    for (size_t i = 0; i < o->colors.n && !code; i++)
        if ((code = ui_theme_set(theme, o->colors.p[i], err))) ls_err_prefix(err, "ui.colors");
    return code;
}

ls_code ls_screen_options(const ls_options *o, ui_options *out, ls_err *err) {
    const ui_theme *theme, *light = NULL;
    ls_code code = ls_theme(o, false, &theme, err);
    if (!code && !strcmp(o->theme, "auto")) code = ls_theme(o, true, &light, err);
    ui_bind_defaults();
    for (size_t i = 0; i < o->keys.n && !code; i++)
        if ((code = ui_bind(o->keys.p[i], err))) ls_err_prefix(err, "ui.keys");
    out->given.words = words();
    out->given.about = about_value;
    out->given.save_settings = save_settings;
    out->settings = settings_of(o);
    out->theme = theme;
    out->light = light;
    out->color = ls_wants_color(o, STDOUT_FILENO) && ui_theme_has_colors(theme);
    out->mouse = o->mouse;
    out->clipboard = o->clipboard;
    out->fps = o->fps;
    out->ambiguous_wide = !strcmp(o->ambiguous_width, "wide");
    out->ascii = o->ascii;
    return code;
}

ls_code ls_size_read(const char *text, int *cols, int *rows, ls_err *err) {
    int end = 0;
    *cols = 120, *rows = 36;
    if (!text || (sscanf(text, "%4dx%4d%n", cols, rows, &end) == 2 && !text[end] && *cols >= UI_MIN_COLS &&
                  *rows >= UI_MIN_ROWS && *cols <= 500 && *rows <= 200))
        return LS_OK;
    return ls_fail(err, LS_E_USAGE, "--size is '%.40s', expected COLSxROWS from %dx%d to 500x200", text, UI_MIN_COLS,
                   UI_MIN_ROWS);
}

ls_code ls_keys_from_terminal(char *path, size_t size, ls_err *err) {
    const int data = dup(STDIN_FILENO), keys = open("/dev/tty", O_RDWR | O_CLOEXEC);
    snprintf(path, size, "/dev/fd/%d", data);
    if (data < 0 || keys < 0 || dup2(keys, STDIN_FILENO) < 0)
        return ls_fail(err, LS_E_IO, "no terminal to read keys from");
    return LS_OK;
}

bool ls_is_scripted(const ls_command_line *c) {
    return c->script || c->cast;
}

// The methods that the panel Shadows lists. Made on demand, because "all" opens every drafter once.
typedef struct {
    const ls_options *options;
    ls_variant *all;
    ls_shadow_variant *list;
    int n;
    ls_demo stop; // the stop of the tour on the screen
} given;

static const ls_shadow_variant *make_variants(void *ud, int *n) {
    given *w = ud;
    if (!w->list) { // else made at an earlier stop of the tour
        ls_variants_read(&w->all, &w->n, "shadows", "all,logitspec:4,logitspec:16,logitspec:64", w->options, NULL);
        w->list = ls_calloc((size_t)w->n + 1, sizeof *w->list);
        for (int i = 0; i < w->n; i++) w->list[i] = (ls_shadow_variant){w->all[i].label, w->all[i].setup.s.decode};
    }
    *n = w->n;
    return w->list;
}

// The stops of the guided tour: demos with a recording.
static ls_source *open_stop(void *ud, int i, int *of, const ui_demo **demo, ls_err *err) {
    static const char *const stops[] = {"first-step", "next-next", "slower"};
    given *w = ud;
    *of = (int)(sizeof stops / sizeof *stops);
    ls_demo_free(&w->stop);
    if (i >= *of || ls_demo_read(&w->stop, stops[i], err)) return NULL;
    *demo = &w->stop.play;
    if (w->stop.trace)
        return ls_source_replay(
            &(ls_replay_options){.path = w->stop.trace, .rival = w->stop.rival_trace, .paused = true}, err);
    ls_fail(err, LS_E_IO, "the demo %s has no recording", stops[i]);
    return NULL;
}

ls_code ls_show(ls_source *source, ui_options *screen, const ls_command_line *c, ls_console *to, ls_err *err) {
    given w = {.options = &c->options};
    ui_play play = {.script = c->script, .cast = c->cast};
    if (!source) return err->code;
    ls_code code = ls_screen_options(&c->options, screen, err);
    if (!code && ls_is_scripted(c)) code = ls_size_read(c->size, &play.cols, &play.rows, err);
    if (code) {
        source->close(source);
        return code;
    }
    screen->given.variants = make_variants;
    if (!screen->given.recording && !screen->demo) screen->given.tour = open_stop;
    screen->given.ud = &w;
    if (ls_is_scripted(c)) { // a script has colours even without a terminal
        screen->color = strcmp(c->options.color, "never") && ui_theme_has_colors(screen->theme);
        code = ui_run_script(source, screen, &play, &to->status, err);
    } else code = ui_run(source, screen, &to->status, err);
    ls_variants_free(w.all, w.n);
    free(w.list);
    ls_demo_free(&w.stop);
    return code;
}

ls_code ls_show_feed(ls_feed *feed, const char *server, bool serves, const ls_command_line *c, ls_console *to,
                     ls_err *err) {
    ls_source *source = ls_source_feed(feed);
    if (!source) return ls_no_thread(err);
    ui_options screen = {.given = {.recording = true, .watches = true, .serves = serves, .server = server}};
    return ls_show(source, &screen, c, to, err);
}
