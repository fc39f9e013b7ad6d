#include "cli/demo_file.h"
#include "base/alias.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "spec/knobs.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const panels[] = {
#define PANEL(place, name, ...) #name,
#include "ui/panels.def"
#undef PANEL
};

static ls_code wrong(const ls_demo *d, const ls_yaml *at, ls_err *err, const char *what) {
    return ls_fail(err, LS_E_USAGE, "%s:%d:%d: %s", d->file, at->line, at->column, what);
}

static ls_code text_of(const ls_demo *d, const ls_yaml *y, char **out, ls_err *err) {
    if (y->kind != LS_YAML_SCALAR) return wrong(d, y, err, "a text is expected");
    size_t n = strlen(y->text);
    while (n && isspace((unsigned char)y->text[n - 1])) n--; // block scalars end with a newline
    free(*out);
    *out = ls_strndup(y->text, n);
    return LS_OK;
}

static const char *source_name(int f) {
    return ls_draft_source_name((ls_draft_source)f);
}

static const char *miss_name(int m) {
    return ls_miss_name((ls_miss)m);
}

// The index of the name, 1 to n - 1, among the names of a kind; -1: unknown, with an error that lists them.
static int read_name(const ls_demo *d, const ls_yaml *y, const char *kind, const char *name,
                     const char *(*name_of)(int), int n, ls_err *err) {
    char names[200];
    size_t at = (size_t)snprintf(names, sizeof names, "%s is followed by one of:", kind);
    for (int i = 1; i < n; i++) {
        if (!strcmp(name_of(i), name)) return i;
        at += (size_t)snprintf(names + at, sizeof names - at, " %s", name_of(i));
    }
    wrong(d, y, err, names);
    return -1;
}

// "accepted 3", "source remembered", "end": a word and perhaps its number or name.
static ls_code read_when(const ls_demo *d, const ls_yaml *y, ui_note *out, ls_err *err) {
    static const struct {
        const char *word;
        ui_when when;
        int least, fallback; // of the number; least -1: takes no number; fallback -1: the number is required
    } words[] = {{"start", UI_WHEN_START, -1, 0},
                 {"step", UI_WHEN_STEP, 0, -1},
                 {"accepted", UI_WHEN_ACCEPTED, 1, 1},
                 {"rejected", UI_WHEN_REJECTED, 1, 1},
                 {"corrected", UI_WHEN_CORRECTED, -1, 0},
                 {"lossy", UI_WHEN_LOSSY, -1, 0},
                 {"no-draft", UI_WHEN_NO_DRAFT, -1, 0},
                 {"next-next", UI_WHEN_NEXT_NEXT, 1, LS_MAX_TOP},
                 {"slower", UI_WHEN_SLOWER, 0, 0},
                 {"faster", UI_WHEN_FASTER, 0, 0},
                 {"end", UI_WHEN_END, -1, 0}};
    static const char usage[] =
        "when is one of: start, step N, accepted [N], rejected [N], source NAME, missed REASON, next-next [N], "
        "corrected, lossy, no-draft, slower [PERCENT], faster [PERCENT], end";
    if (y->kind != LS_YAML_SCALAR) return wrong(d, y, err, usage);
    const char *rest = y->text + strcspn(y->text, " ");
    const size_t n = (size_t)(rest - y->text);
    rest += strspn(rest, " ");
    if (n == 6 && !strncmp(y->text, "source", n)) {
        const int f = read_name(d, y, "source", rest, source_name, LS_SOURCE_COUNT, err);
        out->when = UI_WHEN_SOURCE;
        out->source = (ls_draft_source)f;
        return f < 0 ? LS_E_USAGE : LS_OK;
    }
    if (n == 6 && !strncmp(y->text, "missed", n)) {
        const int m = read_name(d, y, "missed", rest, miss_name, LS_MISS_COUNT, err);
        out->when = UI_WHEN_MISSED;
        out->miss = (ls_miss)m;
        return m < 0 ? LS_E_USAGE : LS_OK;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != n || strncmp(words[i].word, y->text, n)) continue;
        char *end = NULL;
        out->when = words[i].when;
        out->n = *rest ? (int)strtol(rest, &end, 10) : words[i].fallback;
        if ((*rest && (words[i].least < 0 || *end || out->n < words[i].least || out->n > 1000000)) || out->n < 0) break;
        return LS_OK;
    }
    return wrong(d, y, err, usage);
}

static ls_code read_note(ls_demo *d, const ls_yaml *y, ls_err *err) {
    ui_note *n = &d->play.notes[d->play.n_notes++];
    *n = (ui_note){.look = UI_NO_PANEL};
    if (y->kind != LS_YAML_MAPPING)
        return wrong(d, y, err, "a note has the keys when and say, and optionally look, from and go-on");
    bool has_when = false;
    ls_code code = LS_OK;
    for (size_t i = 0; i < y->n_items && !code; i++) {
        const ls_yaml *v = &y->items[i];
        if (!strcmp(v->key, "when")) has_when = true, code = read_when(d, v, n, err);
        else if (!strcmp(v->key, "say")) code = text_of(d, v, &n->say, err);
        else if (!strcmp(v->key, "look")) {
            for (int p = 0; p < UI_PANELS; p++)
                if (v->kind == LS_YAML_SCALAR && !strcmp(v->text, panels[p])) n->look = (ui_panel)p;
            if (n->look == UI_NO_PANEL) {
                char known[120] = "";
                for (int p = 0; p < UI_PANELS; p++)
                    snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", p ? ", " : "look is one of ",
                             panels[p]);
                code = wrong(d, v, err, known);
            }
        } else if (!strcmp(v->key, "go-on")) {
            n->go_on = v->kind == LS_YAML_SCALAR && !strcmp(v->text, "yes");
            if (!n->go_on && strcmp(v->text ? v->text : "", "no")) code = wrong(d, v, err, "go-on is yes or no");
        } else if (!strcmp(v->key, "from")) {
            char *end = NULL;
            const long from = v->kind == LS_YAML_SCALAR ? strtol(v->text, &end, 10) : -1;
            n->from = (uint32_t)from;
            if (!end || end == v->text || *end || from < 0 || from > 1000000)
                code = wrong(d, v, err, "from is the number of a step");
        } else code = wrong(d, v, err, "a note has the keys when, say, look, from and go-on");
    }
    if (!code && (!has_when || !n->say || !*n->say)) code = wrong(d, y, err, "a note needs when and say");
    return code;
}

// A demo may come from a stranger, so its settings must not name files to write: a trace, or the file of a method.
static ls_code read_settings(ls_demo *d, ls_yaml *y, ls_err *err) {
    static const char what[] = "a demo must not set a trace or a file of a method; set them in your own configuration";
    if (y->kind != LS_YAML_MAPPING) return wrong(d, y, err, "settings must be keys of a configuration file");
    for (size_t n = 0; n < ls_knob_count(); n++) {
        const ls_knob *k = ls_knob_at(n);
        const char *dot = strchr(k->key, '.');
        char *section = ls_strndup(k->key, (size_t)(dot - k->key));
        const ls_yaml *file = k->kind == LS_KNOB_FILE ? ls_yaml_get(ls_yaml_get(y, section), dot + 1) : NULL;
        free(section);
        if (file) return wrong(d, file, err, what);
    }
    if (ls_yaml_get(y, "trace")) return wrong(d, ls_yaml_get(y, "trace"), err, what);
    d->settings = y;
    return LS_OK;
}

static ls_code read_document(ls_demo *d, ls_err *err) {
    const ls_yaml *y = d->document;
    ls_code code = LS_OK;
    if (y->kind != LS_YAML_MAPPING) return wrong(d, y, err, "keys are expected: title, about, prompt, settings, notes");
    for (size_t i = 0; i < y->n_items && !code; i++) {
        ls_yaml *v = &y->items[i];
        if (!strcmp(v->key, "title")) code = text_of(d, v, &d->play.title, err);
        else if (!strcmp(v->key, "about")) code = text_of(d, v, &d->about, err);
        else if (!strcmp(v->key, "prompt")) code = text_of(d, v, &d->prompt, err);
        else if (!strcmp(v->key, "place")) {
            char *end = NULL;
            const long place = v->kind == LS_YAML_SCALAR ? strtol(v->text, &end, 10) : 0;
            d->place = (int)place;
            if (!end || end == v->text || *end || place < 1 || place > 1000)
                code = wrong(d, v, err, "place is a number from 1 to 1000, the position in the list of demos");
        } else if (!strcmp(v->key, "rival")) code = text_of(d, v, &d->play.rival, err);
        else if (!strcmp(v->key, "quiz")) {
            d->play.quiz = v->kind == LS_YAML_SCALAR && !strcmp(v->text, "yes");
            if (!d->play.quiz) code = wrong(d, v, err, "quiz is yes or absent");
        } else if (!strcmp(v->key, "pace")) {
            char *end = NULL;
            d->play.pace = v->kind == LS_YAML_SCALAR ? strtod(v->text, &end) : -1;
            if (!end || end == v->text || *end || !(d->play.pace >= 0 && d->play.pace <= 60))
                code = wrong(d, v, err, "pace is a number of seconds per step, 0 to 60");
        } else if (!strcmp(v->key, "settings")) {
            code = read_settings(d, v, err);
        } else if (!strcmp(v->key, "notes")) {
            if (v->kind != LS_YAML_SEQUENCE) return wrong(d, v, err, "notes are a list");
            d->play.notes = ls_calloc(v->n_items + 1, sizeof *d->play.notes);
            for (size_t k = 0; k < v->n_items && !code; k++) code = read_note(d, &v->items[k], err);
        } else
            code = wrong(d, v, err,
                         "unknown key; expected title, about, place, prompt, settings, pace, quiz, rival "
                         "or notes");
    }
    if (!code && (!d->play.title || !d->prompt || !d->play.n_notes))
        code = wrong(d, y, err, "title, prompt and notes are needed");
    return code;
}

static char *beside(const ls_demo *d, const char *suffix) { // NULL: there is none
    const char *slash = strrchr(d->file, '/');
    char *path = ls_format("%.*straces/%s%s", slash ? (int)(slash + 1 - d->file) : 0, d->file, d->name, suffix);
    if (!access(path, R_OK)) return path;
    free(path);
    return NULL;
}

ls_code ls_demo_read(ls_demo *out, const char *name, ls_err *err) {
    *out = (ls_demo){.play.pace = 0.25};
    if (strchr(name, '/') || strstr(name, ".yaml")) out->file = ls_strdup(name);
    else {
        char *rel = ls_format("demos/%s.yaml", ls_name_now("demo", name));
        out->file = ls_data_path(rel);
        free(rel);
        if (access(out->file, R_OK)) {
            ls_demo_free(out);
            return ls_fail(err, LS_E_USAGE, "there is no demo '%.60s' ('logitspec demo' lists them)", name);
        }
    }
    const char *base = strrchr(out->file, '/'), *dot;
    base = base ? base + 1 : out->file;
    dot = strstr(base, ".yaml");
    out->name = ls_strndup(base, dot ? (size_t)(dot - base) : strlen(base));
    ls_code code = ls_yaml_read(&out->document, out->file, err);
    if (!code) code = read_document(out, err);
    if (code) {
        ls_demo_free(out);
        return code;
    }
    out->trace = beside(out, ".jsonl.zst");
    out->rival_trace = beside(out, ".rival.jsonl.zst");
    return LS_OK;
}

void ls_demo_free(ls_demo *d) {
    for (size_t i = 0; i < d->play.n_notes; i++) free(d->play.notes[i].say);
    free(d->play.notes);
    free(d->play.title);
    free(d->play.rival);
    free(d->name);
    free(d->about);
    free(d->prompt);
    free(d->trace);
    free(d->rival_trace);
    free(d->file);
    ls_yaml_free(d->document);
    *d = (ls_demo){0};
}

static int is_demo(const struct dirent *e) {
    return ls_ends_with(e->d_name, ".yaml");
}

static int by_place(const void *a, const void *b) {
    const ls_demo *x = a, *y = b;
    const unsigned p = (unsigned)x->place - 1, q = (unsigned)y->place - 1; // place 0 becomes UINT_MAX: after all others
    return p != q ? (p > q) - (p < q) : strcmp(x->name, y->name);
}

ls_code ls_demos_read(ls_demo **out, size_t *n, ls_err *err) {
    char *folder = ls_data_path("demos");
    struct dirent **files = NULL;
    const int found = scandir(folder, &files, is_demo, alphasort);
    ls_code code = LS_OK;
    *n = 0;
    *out = ls_calloc((size_t)(found > 0 ? found : 0) + 1, sizeof **out);
    for (int i = 0; i < found; i++) {
        char *name = ls_strndup(files[i]->d_name, strlen(files[i]->d_name) - 5);
        ls_err why;
        if (!ls_demo_read(&(*out)[*n], name, &why)) ++*n;
        else if (!code) code = ls_fail(err, why.code, "%s", why.msg);
        free(name);
        free(files[i]);
    }
    if (*n) qsort(*out, *n, sizeof **out, by_place);
    free(files);
    free(folder);
    return code;
}

void ls_demos_free(ls_demo *d, size_t n) {
    while (n) ls_demo_free(&d[--n]);
    free(d);
}
