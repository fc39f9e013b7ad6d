#include "ui/state.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

const char *ui_setting_now(const ui_setting *t) { // the requested value until the source has answered
    return *t->asked ? t->asked : t->value;
}

bool ui_setting_applies(const ui_setup *s, const ui_setting *t) {
    if (!t->of) return true;
    const size_t n = strlen(t->of);
    for (int i = 0; i < s->n; i++) {
        const ui_setting *o = &s->settings[i];
        if (strcmp(o->key, "decode.method") && strcmp(o->key, "decode.sizing")) continue;
        const char *now = ui_setting_now(o);
        if (!strncmp(now, t->of, n) && (!now[n] || now[n] == ':')) return true;
    }
    return false;
}

void ui_setting_move(ui_setup *s, int by) {
    do s->chosen = (s->chosen + by + s->n) % s->n;
    while (!ui_setting_applies(s, &s->settings[s->chosen])); // ends: decode.method always applies
}

const char *ui_setting_choice(const ui_setting *t, int by, char *out, size_t size) {
    const char *now = ui_setting_now(t), *p = t->choices;
    int n = 0, at = -1;
    for (; *p; n++) {
        const size_t length = strcspn(p, "|");
        if (length == strlen(now) && !strncmp(p, now, length)) at = n;
        p += length + (p[length] == '|');
    }
    if (!n) return NULL;
    at = at < 0 ? 0 : (at + by + n) % n; // the value is not a usual one: takes the first
    for (p = t->choices; at > 0; at--) p += strcspn(p, "|") + 1;
    snprintf(out, size, "%.*s", (int)strcspn(p, "|"), p);
    return out;
}

void ui_setting_ask(ui_state *s, const ui_setting *t, const char *value) {
    char *asked = s->setup.settings[t - s->setup.settings].asked;
    snprintf(asked, sizeof t->asked, "%s", value);
    ui_ask(s, LS_CMD_SET, ls_format("%s=%s", t->key, value), 0);
}

void ui_setting_unasked(ui_state *s) {
    for (int i = 0; i < s->setup.n; i++) *s->setup.settings[i].asked = 0;
}

void ui_settings_save(ui_state *s) {
    char said[sizeof s->message] = "these settings cannot be saved";
    if (!s->given.save_settings || s->given.save_settings(s->setup.settings, s->setup.n, said, sizeof said))
        ui_say_error(s, "%s", said);
    else ui_say(s, "%s", said);
}

// ---- the paper's step

static const struct {
    const char *key, *value;
} paper[UI_PAPER] = {{"decode.acceptance", "exact"},
                     {"decode.sizing", "default"},
                     {"decode.max_rows", "16"},
                     {"decode.method", "logitspec-paper"}};

const ui_setting *ui_setting_of(const ui_setup *s, const char *key) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->settings[i].key, key)) return &s->settings[i];
    return NULL;
}

void ui_paper_step(ui_state *s) {
    bool is_set = true;
    for (int i = 0; i < UI_PAPER; i++) {
        const ui_setting *t = ui_setting_of(&s->setup, paper[i].key);
        if (!t || s->given.recording) {
            ui_say(s, "%s: its method cannot change", ui_fixed(s));
            return;
        }
        is_set &= !strcmp(ui_setting_now(t), paper[i].value);
    }
    if (is_set && !*s->setup.before_paper[0]) {
        ui_say(s, "the paper's method (logitspec-paper, 16 rows) is already set");
        return;
    }
    ls_buf all = {0};
    int n = 0;
    for (int i = 0; i < UI_PAPER; i++) {
        ui_setting *t = &s->setup.settings[ui_setting_of(&s->setup, paper[i].key) - s->setup.settings];
        const char *value = is_set ? s->setup.before_paper[i] : paper[i].value;
        char now[sizeof t->value];
        snprintf(now, sizeof now, "%s", ui_setting_now(t));
        if (strcmp(now, value)) {
            ls_buf_fmt(&all, "%s%s=%s", n++ ? "\n" : "", t->key, value);
            snprintf(t->asked, sizeof t->asked, "%s", value);
        }
        if (!is_set) memcpy(s->setup.before_paper[i], now, sizeof now);
    }
    ui_ask(s, LS_CMD_SET, all.p, n);
}
