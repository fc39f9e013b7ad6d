#include "cli/options.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "spec/accept.h"
#include "spec/drafter.h"
#include "spec/sizing.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { STR, ENUM, INT, NUM, BOOL, AUTO, SEED, LIST, SIZING, ACCEPT, COSTS } kind;

static const struct {
    const char *key, *fallback, *choices, *help;
    kind type;
    size_t at;
    double lo, hi;
} table[] = {
#define OPTION(field, type, key, flag, arg, def, lo, hi, choices, help)                                                \
    {key, def, choices, help, type, offsetof(ls_options, field), lo, hi},
#include "cli/options.def"
#undef OPTION
};

int ls_options_count(void) {
    return LS_OPT_COUNT + (int)ls_knob_count();
}

const char *ls_options_key(int i) {
    return i >= LS_OPT_COUNT ? ls_knob_at((size_t)(i - LS_OPT_COUNT))->key : table[i].key;
}
static bool is_knob(int i) {
    return i >= LS_OPT_COUNT;
}
const char *ls_options_help(int i) {
    return is_knob(i) ? ls_knob_at((size_t)(i - LS_OPT_COUNT))->help : table[i].help;
}
const char *ls_options_choices(int i) {
    return is_knob(i) ? NULL : table[i].choices;
}
static void rules(ls_rule_list list, ls_buf *out) {
    char usage[400];
    ls_rule_usage(list, usage, sizeof usage);
    ls_buf_str(out, usage);
}

void ls_options_domain(int i, ls_buf *out) {
    if (is_knob(i)) {
        const ls_knob *k = ls_knob_at((size_t)(i - LS_OPT_COUNT));
        if (k->kind == LS_KNOB_SWITCH) ls_buf_str(out, "on, off");
        else if (k->kind == LS_KNOB_FILE) ls_buf_str(out, "a file");
        else if (k->kind == LS_KNOB_INT) ls_buf_fmt(out, "a whole number, %.0f to %.0f", k->lo, k->hi);
        else ls_buf_fmt(out, "%g to %g", k->lo, k->hi);
        return;
    }
    switch (table[i].type) {
    case STR: ls_buf_str(out, "a text"); break;
    case ENUM:
        for (const char *p = table[i].choices; *p; p++)
            if (*p == '|') ls_buf_str(out, ", ");
            else ls_buf_char(out, *p);
        break;
    case SIZING: ls_buf_str(out, "default, "), rules(ls_sizing_at, out); break;
    case ACCEPT: rules(ls_accept_at, out); break;
    case COSTS: ls_buf_str(out, "auto, free, h200, or ROWS:MS,..."); break;
    case AUTO:
    case SEED: ls_buf_str(out, "auto, or "); // fall through
    case INT:
        ls_buf_fmt(out, "%s%.0f to %.0f", table[i].type == INT ? "a whole number, " : "", table[i].lo, table[i].hi);
        break;
    case NUM: ls_buf_fmt(out, "%g to %g", table[i].lo, table[i].hi); break;
    case BOOL: ls_buf_str(out, "yes, no"); break;
    case LIST: ls_buf_str(out, "a list of texts"); break;
    }
}

static bool is_text(int i) { // a string on the heap
    const kind k = table[i].type;
    return k == STR || k == ENUM || k == SIZING || k == ACCEPT || k == COSTS;
}
static void *field(ls_options *o, int i) {
    return (char *)o + table[i].at;
}

// Edit distance with swaps of neighbours (optimal string alignment); 99 for long words.
static int distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    if (n > 60 || m > 60) return 99;
    int d[62][62];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *ls_nearest(const char *word, const char *const *candidates) {
    const char *best = NULL;
    const size_t n = strlen(word);
    int least = n / 3 + 1 < 4 ? (int)(n / 3) + 1 : 4;         // an unrelated word would be worse advice than none
    for (const char *const *c = candidates; *word && *c; c++) // first choice: a candidate that begins with the word
        if (!strncmp(word, *c, strlen(word))) return *c;
    for (; *candidates; candidates++) {
        const char *last = strrchr(*candidates, '.'); // "budgets" is near "decode.budget"
        int a = distance(word, *candidates), b = last ? distance(word, last + 1) + 1 : 99;
        int d = a < b ? a : b;
        if (d < least) least = d, best = *candidates;
    }
    return best;
}

static const char *nearest_key(const char *word) {
    const int n = ls_options_count();
    const char **keys = ls_calloc((size_t)n + 1, sizeof *keys);
    for (int i = 0; i < n; i++) keys[i] = ls_options_key(i);
    const char *near = ls_nearest(word, keys);
    free(keys);
    return near;
}

static bool is_choice(const char *choices, const char *value) {
    size_t n = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|')) {
        if (*p == '|') p++;
        if (!strncmp(p, value, n) && (p[n] == '|' || !p[n]) && n) return true;
    }
    return false;
}

static ls_code bad_value(int i, const char *value, const char *where, const char *wanted, ls_err *err) {
    return ls_fail(err, LS_E_USAGE, "%s: %s is '%.80s', expected %s", where, table[i].key, value, wanted);
}

static ls_code parse_int(int i, const char *value, const char *where, int64_t *out, ls_err *err) {
    char *end, wanted[80];
    errno = 0;
    long long v = strtoll(value, &end, 10);
    snprintf(wanted, sizeof wanted, "%s%.0f to %.0f", table[i].type == AUTO || table[i].type == SEED ? "auto or " : "",
             table[i].lo, table[i].hi);
    // compares whole numbers: as a double, 2^53 + 1 would equal 2^53
    if (end == value || *end || errno || isspace((unsigned char)*value) || v < (long long)table[i].lo ||
        v > (long long)table[i].hi)
        return bad_value(i, value, where, wanted, err);
    *out = v;
    return LS_OK;
}

static ls_code parse_bool(int i, const char *value, const char *where, bool *out, ls_err *err) {
    bool yes = !strcmp(value, "yes") || !strcmp(value, "true"), no = !strcmp(value, "no") || !strcmp(value, "false");
    if (!yes && !no) return bad_value(i, value, where, "yes or no", err);
    *out = yes;
    return LS_OK;
}

static void list_clear(ls_opt_LIST *l) {
    for (size_t i = 0; i < l->n; i++) free(l->p[i]);
    free(l->p);
    *l = (ls_opt_LIST){0};
}

static void list_add(ls_opt_LIST *l, const char *value) {
    l->p = ls_realloc(l->p, (l->n + 2) * sizeof *l->p);
    l->p[l->n++] = ls_strdup(value);
    l->p[l->n] = NULL;
}

static void set_origin(ls_options *o, int i, const char *where) {
    char *copy = ls_strdup(where);
    free(o->origin[i]);
    o->origin[i] = copy;
}

static void set_text(char **to, const char *value) {
    char *copy = ls_strdup(value);
    free(*to);
    *to = copy;
}

static ls_code set_knob(ls_options *o, int i, const char *value, const char *where, ls_err *err) {
    const size_t k = (size_t)(i - LS_OPT_COUNT);
    ls_knob_value v;
    ls_code code = ls_knob_read(ls_knob_at(k), where, value, &v, err);
    if (code) return code;
    if (v.text) v.text = ls_strdup(v.text);
    free((char *)o->knobs[k].text);
    o->knobs[k] = v;
    set_origin(o, i, where);
    return LS_OK;
}

static ls_code set_value(ls_options *o, int i, const char *value, const char *where, ls_err *err) {
    if (is_knob(i)) return set_knob(o, i, value, where, err);
    char what[300];
    snprintf(what, sizeof what, "%s: %s", where, table[i].key);
    ls_code code = LS_OK;
    int64_t n = 0;
    bool is_auto = !strcmp(value, "auto");
    switch (table[i].type) {
    case ENUM:
        if (!is_choice(table[i].choices, value)) {
            char names[32][32];
            const char *list[33] = {0};
            int k = 0;
            for (const char *p = table[i].choices; p && k < 32; p = strchr(p, '|')) {
                if (*p == '|') p++;
                snprintf(names[k], sizeof names[k], "%.*s", (int)strcspn(p, "|"), p);
                list[k] = names[k];
                k++;
            }
            const char *near = ls_nearest(value, list);
            char wanted[300];
            snprintf(wanted, sizeof wanted, "%s%s%s%s", table[i].choices, near ? " (did you mean '" : "",
                     near ? near : "", near ? "'?)" : "");
            return bad_value(i, value, where, wanted, err);
        }
        // fall through
    case STR: set_text(field(o, i), value); break;
    case SIZING:
        if (!(code = ls_sizing_read(&(ls_sizing){0}, what, value, err))) set_text(field(o, i), value);
        break;
    case ACCEPT:
        if (!(code = ls_accept_read(&(ls_accept){0}, what, value, err))) set_text(field(o, i), value);
        break;
    case COSTS:
        if (!(code = ls_cost_read(&(ls_cost_curve){0}, what, value, err))) set_text(field(o, i), value);
        break;
    case INT:
        if (!(code = parse_int(i, value, where, &n, err))) *(int32_t *)field(o, i) = (int32_t)n;
        break;
    case AUTO:
        if (is_auto || !(code = parse_int(i, value, where, &n, err))) *(int32_t *)field(o, i) = (int32_t)n;
        break;
    case SEED:
        if (is_auto || !(code = parse_int(i, value, where, &n, err)))
            *(ls_opt_SEED *)field(o, i) = (ls_opt_SEED){!is_auto, (uint64_t)n};
        break;
    case NUM: {
        char *end, wanted[64];
        double v = strtod(value, &end);
        snprintf(wanted, sizeof wanted, "a number from %g to %g", table[i].lo, table[i].hi);
        if (end == value || *end || !(v >= table[i].lo && v <= table[i].hi))
            return bad_value(i, value, where, wanted, err);
        *(double *)field(o, i) = v;
        break;
    }
    case BOOL: code = parse_bool(i, value, where, (bool *)field(o, i), err); break;
    case LIST: {
        ls_opt_LIST *l = field(o, i);
        if (!o->origin[i] || strcmp(o->origin[i], where))
            list_clear(l); // the first value of a layer replaces the list, further ones are added
        if (*value) list_add(l, value);
        break;
    }
    }
    if (!code) set_origin(o, i, where);
    return code;
}

void ls_options_init(ls_options *o) {
    const size_t n_knobs = ls_knob_count();
    *o = (ls_options){.knobs = ls_calloc(n_knobs + 1, sizeof *o->knobs),
                      .origin = ls_calloc((size_t)ls_options_count(), sizeof *o->origin)};
    ls_knob_defaults(o->knobs);
    for (int i = LS_OPT_COUNT; i < ls_options_count(); i++) set_origin(o, i, "default");
    for (int i = 0; i < LS_OPT_COUNT; i++) {
        if (table[i].fallback) set_value(o, i, table[i].fallback, "default", NULL);
        else set_origin(o, i, "default");
    }
}

void ls_options_free(ls_options *o) {
    for (int i = 0; i < LS_OPT_COUNT; i++) {
        if (is_text(i)) free(*(char **)field(o, i));
        if (table[i].type == LIST) list_clear(field(o, i));
    }
    for (size_t i = 0; o->knobs && i < ls_knob_count(); i++) free((char *)o->knobs[i].text);
    for (int i = 0; o->origin && i < ls_options_count(); i++) free(o->origin[i]);
    free(o->knobs);
    free(o->origin);
    *o = (ls_options){0};
}

void ls_options_copy(ls_options *to, const ls_options *from) {
    *to = *from;
    const size_t n_knobs = ls_knob_count();
    to->knobs = ls_calloc(n_knobs + 1, sizeof *to->knobs);
    to->origin = ls_calloc((size_t)ls_options_count(), sizeof *to->origin);
    for (int i = 0; i < ls_options_count(); i++) to->origin[i] = ls_strdup(from->origin[i]);
    for (size_t i = 0; i < n_knobs; i++) {
        to->knobs[i] = from->knobs[i];
        if (to->knobs[i].text) to->knobs[i].text = ls_strdup(to->knobs[i].text);
    }
    for (int i = 0; i < LS_OPT_COUNT; i++) {
        char **text = field(to, i);
        if (is_text(i) && *text) *text = ls_strdup(*text);
        if (table[i].type == LIST) {
            ls_opt_LIST old = *(ls_opt_LIST *)field(to, i), *l = field(to, i);
            *l = (ls_opt_LIST){0};
            for (size_t k = 0; k < old.n; k++) list_add(l, old.p[k]);
        }
    }
}

static int find_key(const char *key) {
    for (int i = 0; i < ls_options_count(); i++)
        if (!strcmp(ls_options_key(i), key)) return i;
    return -1;
}

static ls_code unknown_key(const char *key, const char *where, ls_err *err) {
    const char *near = nearest_key(key);
    return near ? ls_fail(err, LS_E_USAGE, "%s: unknown key '%.80s' (did you mean '%s'?)", where, key, near)
                : ls_fail(err, LS_E_USAGE, "%s: unknown key '%.80s' ('logitspec config show' lists them)", where, key);
}

ls_code ls_options_set(ls_options *o, const char *key, const char *value, const char *where, ls_err *err) {
    int i = find_key(key);
    return i < 0 ? unknown_key(key, where, err) : set_value(o, i, value, where, err);
}

static ls_code apply_tree(ls_options *o, const ls_yaml *y, const char *prefix, const char *file, ls_err *err) {
    for (size_t k = 0; k < y->n_items; k++) {
        const ls_yaml *item = &y->items[k];
        char *key = prefix ? ls_format("%s.%s", prefix, item->key) : ls_strdup(item->key);
        char *at_key = ls_format("%s:%d:%d", file, item->key_line, item->key_column);
        char *at = ls_format("%s:%d:%d", file, item->line, item->column);
        int i = find_key(key);
        ls_code code = LS_OK;
        if (i < 0) {
            bool section = false; // "decode" is a section if some key begins with "decode."
            for (int j = 0; j < ls_options_count(); j++)
                section |= !strncmp(ls_options_key(j), key, strlen(key)) && ls_options_key(j)[strlen(key)] == '.';
            if (!section) code = unknown_key(key, at_key, err);
            else if (item->kind == LS_YAML_MAPPING) code = apply_tree(o, item, key, file, err);
            else if (item->kind != LS_YAML_SCALAR || *item->text)
                code = ls_fail(err, LS_E_USAGE, "%s: '%s' is a section of keys, not a value", at, key);
        } else if (item->kind == LS_YAML_SCALAR) {
            bool nothing = item->plain && (!*item->text || !strcmp(item->text, "~") || !strcmp(item->text, "null"));
            const bool is_file = is_knob(i) && ls_knob_at((size_t)(i - LS_OPT_COUNT))->kind == LS_KNOB_FILE;
            if (nothing && is_file) code = set_value(o, i, "", at, err); // no file
            else if (nothing && !is_knob(i) && table[i].type == STR &&
                     !table[i].fallback) { // "system:" without a value: absent
                free(*(char **)field(o, i));
                *(char **)field(o, i) = NULL;
                set_origin(o, i, at);
            } else code = set_value(o, i, item->text, at, err);
        } else if (item->kind == LS_YAML_SEQUENCE && !is_knob(i) && table[i].type == LIST) {
            code = set_value(o, i, "", at, err);
            for (size_t j = 0; j < item->n_items && !code; j++)
                code = item->items[j].kind == LS_YAML_SCALAR
                           ? set_value(o, i, item->items[j].text, at, err)
                           : ls_fail(err, LS_E_USAGE, "%s: a list of plain texts is expected", at);
        } else
            code = ls_fail(err, LS_E_USAGE, "%s: %s is one value, not a %s", at, key,
                           item->kind == LS_YAML_SEQUENCE ? "list" : "section");
        free(key);
        free(at_key);
        free(at);
        if (code) return code;
    }
    return LS_OK;
}

ls_code ls_options_file(ls_options *o, const char *path, bool must_exist, ls_err *err) {
    ls_yaml *y = NULL;
    if (!must_exist && access(path, F_OK) && ls_is_missing(errno)) return LS_OK;
    ls_code code = ls_yaml_read(&y, path, err);
    if (!code) code = ls_options_yaml(o, y, path, err);
    ls_yaml_free(y);
    return code;
}

ls_code ls_options_yaml(ls_options *o, const ls_yaml *y, const char *file, ls_err *err) {
    if (y->kind != LS_YAML_MAPPING)
        return ls_fail(err, LS_E_USAGE, "%s:%d:%d: keys are expected, such as 'decode:'", file, y->line, y->column);
    return apply_tree(o, y, NULL, file, err);
}

ls_code ls_options_environment(ls_options *o, char *const *environment, ls_err *err) {
    static const char prefix[] = "LOGITSPEC_SET_";
    for (; environment && *environment; environment++) {
        const char *eq = strchr(*environment, '=');
        if (!eq || strncmp(*environment, prefix, sizeof prefix - 1)) continue;
        char key[128], where[160];
        size_t n = 0;
        for (const char *p = *environment + sizeof prefix - 1; p < eq && n + 1 < sizeof key; p++) {
            if (p[0] == '_' && p[1] == '_') key[n++] = '.', p++;
            else key[n++] = (char)tolower((unsigned char)*p);
        }
        key[n] = 0;
        snprintf(where, sizeof where, "environment %.*s", (int)(eq - *environment < 120 ? eq - *environment : 120),
                 *environment);
        ls_code code = ls_options_set(o, key, eq + 1, where, err);
        if (code) return code;
    }
    return LS_OK;
}

// Writes a YAML double-quoted string; valid for any text.
static void quoted(const char *s, ls_buf *out) {
    uint32_t before = 0;
    ls_buf_char(out, '"');
    for (size_t n = strlen(s); n;) {
        uint32_t cp = (unsigned char)*s; // a byte that is not UTF-8 counts as its own code point
        const int len = ls_utf8_decode(s, n, &cp), taken = len > 0 ? len : 1;
        const bool plain = len > 0 && ls_is_visible(cp, before);
        if (cp == '"' || cp == '\\') ls_buf_fmt(out, "\\%c", (char)cp);
        else if (cp == '\n') ls_buf_str(out, "\\n");
        else if (plain) ls_buf_add(out, s, (size_t)taken);
        else ls_buf_fmt(out, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
        before = plain ? cp : 0;
        s += taken;
        n -= (size_t)taken;
    }
    ls_buf_char(out, '"');
}

static void knob_value(const ls_options *o, size_t k, ls_buf *out) {
    const ls_knob_value *v = &o->knobs[k];
    if (ls_knob_at(k)->kind == LS_KNOB_SWITCH) ls_buf_str(out, v->number != 0 ? "on" : "off");
    else if (ls_knob_at(k)->kind != LS_KNOB_FILE) ls_buf_fmt(out, "%.10g", v->number);
    else if (v->text && *v->text) quoted(v->text, out);
    else ls_buf_char(out, '~');
}

void ls_options_value(const ls_options *o, int i, ls_buf *out) {
    if (is_knob(i)) {
        knob_value(o, (size_t)(i - LS_OPT_COUNT), out);
        return;
    }
    const void *p = (const char *)o + table[i].at;
    switch (table[i].type) {
    case STR:
        if (*(char *const *)p) quoted(*(char *const *)p, out);
        else ls_buf_char(out, '~');
        break;
    case ENUM:
    case SIZING:
    case ACCEPT:
    case COSTS: ls_buf_str(out, *(char *const *)p); break;
    case INT: ls_buf_fmt(out, "%d", *(const int32_t *)p); break;
    case AUTO:
        if (*(const int32_t *)p) ls_buf_fmt(out, "%d", *(const int32_t *)p);
        else ls_buf_str(out, "auto");
        break;
    case SEED: {
        const ls_opt_SEED *s = p;
        if (s->set) ls_buf_fmt(out, "%" PRIu64, s->value);
        else ls_buf_str(out, "auto");
        break;
    }
    case NUM: ls_buf_fmt(out, "%.15g", *(const double *)p); break;
    case BOOL: ls_buf_str(out, *(const bool *)p ? "yes" : "no"); break;
    case LIST: {
        const ls_opt_LIST *l = p;
        ls_buf_char(out, '[');
        for (size_t k = 0; k < l->n; k++) {
            if (k) ls_buf_str(out, ", ");
            quoted(l->p[k], out);
        }
        ls_buf_char(out, ']');
        break;
    }
    }
}

void ls_options_show(const ls_options *o, ls_buf *out) {
    char section[32] = "";
    for (int i = 0; i < ls_options_count(); i++) {
        const char *key = ls_options_key(i), *dot = strchr(key, '.');
        int n = (int)(dot - key);
        if (strncmp(section, key, (size_t)n) || section[n]) {
            snprintf(section, sizeof section, "%.*s", n, key);
            ls_buf_fmt(out, "%s:\n", section);
        }
        ls_buf line = {0};
        ls_buf_fmt(&line, "  %s: ", dot + 1);
        ls_options_value(o, i, &line);
        ls_sanitize_row(out, "%-40s # %s", line.p, o->origin[i]);
        ls_buf_free(&line);
    }
}
