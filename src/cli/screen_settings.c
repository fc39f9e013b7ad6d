#include "cli/screen_settings.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/plural.h"
#include "cli/config_file.h"
#include "spec/accept.h"
#include "spec/cost_curve.h"
#include "spec/drafter.h"
#include "spec/sizing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int option;
    const char *choices; // suggested values
} usual[] = {{LS_OPT_method, ls_method_names},
             {LS_OPT_budget, "auto|1|2|4|8|16|32|64"},
             {LS_OPT_sizing, "default|auto|paper|adaedl|specdec++|tetris:16|fixed:8|ddd|c2t"},
             {LS_OPT_costs, LS_COST_CHOICES},
             {LS_OPT_acceptance, "exact|speculative|mcsd|mcsd-wor|fly|typical|reflective|fuzzy-js|fuzzy-kl|fuzzy-tv"},
             {LS_OPT_temperature, "0|0.2|0.5|0.7|1|1.3"},
             {LS_OPT_top_k, "0|10|40|100"},
             {LS_OPT_top_p, "1|0.95|0.9|0.5"},
             {LS_OPT_seed, "auto|1|2|3"},
             {LS_OPT_max_tokens, "64|128|256|512|1024|4096"},
             {LS_OPT_format, "auto|chat|raw"}};
enum { USUAL = sizeof usual / sizeof *usual };

static ui_setting setting_of(const ls_options *o, int i, const char *help, const char *choices) {
    ls_buf value = {0};
    ls_options_value(o, i, &value);
    ui_setting t = {.key = ls_options_key(i), .help = help, .choices = choices};
    if (value.n && strcmp(value.p, "~")) snprintf(t.value, sizeof t.value, "%s", value.p); // else it has no value
    ls_buf_free(&value);
    return t;
}

// Suggested values of a knob: its default, halved and doubled up to AROUND times, within its range.
static const char *knob_choices(size_t knob) {
    enum { AROUND = 3 };
    static char *made[UI_SETTINGS]; // made once: the tables of knobs are constant
    const ls_knob *k = ls_knob_at(knob);
    if (knob >= UI_SETTINGS) return "";
    if (made[knob]) return made[knob];
    if (k->kind == LS_KNOB_FILE) return "";
    if (k->kind == LS_KNOB_SWITCH) return "on|off";
    ls_buf list = {0};
    double before = -1;
    for (int i = -AROUND; i <= AROUND; i++) {
        double v = k->fallback;
        for (int n = 0; n < i; n++) v *= 2;
        for (int n = 0; n > i; n--) v /= 2;
        if (k->kind == LS_KNOB_INT) v = (double)(long)v;
        if (v < k->lo || v > k->hi || v == before) continue;
        ls_buf_fmt(&list, "%s%.6g", list.n ? "|" : "", v);
        before = v;
    }
    ls_buf_str(&list, "");
    return made[knob] = list.p;
}

const ui_setting *ls_screen_settings(const ls_options *o) {
    static ui_setting out[UI_SETTINGS + 1];
    static char *owners[UI_SETTINGS];
    size_t n = 0;
    for (; n < USUAL; n++) out[n] = setting_of(o, usual[n].option, ls_options_help(usual[n].option), usual[n].choices);
    for (size_t i = 0; i < ls_knob_count() && n < UI_SETTINGS; i++, n++) {
        const ls_knob *k = ls_knob_at(i);
        if (!owners[n]) owners[n] = ls_strndup(k->key, strcspn(k->key, "."));
        out[n] = setting_of(o, LS_OPT_COUNT + (int)i, k->help, knob_choices(i));
        out[n].of = owners[n];
    }
    out[n] = (ui_setting){0};
    return out;
}

static void add_words(char **words, int *n, int most, const char *before, const char *key, const char *choices) {
    for (const char *p = choices; *p && *n < most; p += strcspn(p, "|") + (p[strcspn(p, "|")] == '|'))
        words[(*n)++] = ls_format("%s%s=%.*s", before, key, (int)strcspn(p, "|"), p);
}

const char *const *ls_screen_words(void) {
    enum { MOST = 600 };
    static char *words[MOST + 1];
    int n = 0;
    if (words[0]) return (const char *const *)words;
    for (int i = 0; i < ls_options_count() && n < MOST; i++)
        if (!strncmp(ls_options_key(i), "decode.", 7) || !strncmp(ls_options_key(i), "prompt.", 7) ||
            !strncmp(ls_options_key(i), "draft.", 6) || i >= LS_OPT_COUNT)
            words[n++] = ls_format("set %s=", ls_options_key(i));
    for (size_t i = 0; i < USUAL; i++)
        add_words(words, &n, MOST, "set ", ls_options_key(usual[i].option), usual[i].choices);
    for (size_t i = 0; i < ls_knob_count(); i++)
        add_words(words, &n, MOST, "set ", ls_knob_at(i)->key, knob_choices(i));
    for (const ls_method *const *m = ls_methods; *m && n < MOST; m++) words[n++] = ls_format("compare %s", (*m)->name);
    return (const char *const *)words;
}

static const char *summary_of(const ls_rule *r, const char *value) {
    const size_t n = strcspn(value, ":");
    return r && strlen(r->name) == n && !strncmp(r->name, value, n) ? r->summary : NULL;
}

const char *ls_screen_about(const char *key, const char *value) {
    static char about[400];
    const char *found = NULL;
    if (!strcmp(key, "decode.method")) {
        const ls_method *m = ls_method_find(value);
        if (!m) return NULL;
        snprintf(about, sizeof about, "%s%s%s", m->summary, m->source && *m->source ? "; " : "",
                 m->source ? m->source : "");
        return about;
    }
    for (const ls_cost_preset *p = ls_cost_presets; !strcmp(key, "decode.costs") && p->name; p++)
        if (!strcmp(value, p->name)) return p->about;
    if (!strcmp(key, "decode.sizing") && !strcmp(value, "default"))
        return "the method's rule: by measured cost if the method supports it, else as in its paper";
    for (int i = 0; !strcmp(key, "decode.sizing") && ls_sizing_rule_at(i) && !found; i++)
        found = summary_of(&ls_sizing_rule_at(i)->is, value);
    for (int i = 0; !strcmp(key, "decode.acceptance") && ls_accept_at(i) && !found; i++)
        found = summary_of(ls_accept_at(i), value);
    return found;
}

ls_code ls_screen_save(const ui_setting *settings, int n, char *said, size_t size) {
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
    for (int i = 0; i < ls_options_count() && !code; i++)
        for (int k = 0; k < n && ls_options_differ(&plain, &wanted, i); k++)
            if (!strcmp(settings[k].key, ls_options_key(i)))
                changes[n_changes++] = (ls_config_change){settings[k].key, settings[k].value};
    if (!code && n_changes) code = ls_config_file_change(path, changes, n_changes, &err);
    if (code) snprintf(said, size, "%s", err.msg);
    else if (!n_changes) snprintf(said, size, "%.300s already has these values: nothing was written", path);
    else snprintf(said, size, "saved %d setting%s to %.300s", n_changes, ls_plural(n_changes), path);
    ls_options_free(&wanted);
    ls_options_free(&plain);
    free(path);
    return code;
}
