#include "cli/options.h"
#include "base/alias.h"
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

// The last four are those of knobs, in the order of ls_knob_kind.
typedef enum { STR, ENUM, INT, NUM, BOOL, AUTO, SEED, LIST, SIZING, ACCEPT, COSTS, WHOLE, REAL, SWITCH, PATH } kind;

typedef struct {
    const char *key, *fallback, *choices, *help;
    kind type;
    size_t at; // of its field in ls_options
    double lo, hi;
    const ls_knob *knob; // NULL: an option of the table
} option;

static const option table[] = {
#define OPTION(field, type, key, flag, arg, def, lo, hi, choices, help)                                                \
    {key, def, choices, help, type, offsetof(ls_options, field), lo, hi, NULL},
#include "cli/options.def"
#undef OPTION
};

static option option_at(int i) {
    if (i < LS_OPT_COUNT) return table[i];
    const ls_knob *k = ls_knob_at((size_t)(i - LS_OPT_COUNT));
    const char *choices = k->kind == LS_KNOB_SWITCH ? "on|off" : NULL;
    return (option){k->key, NULL, choices, k->help, WHOLE + k->kind, 0, k->lo, k->hi, k};
}

int ls_options_count(void) {
    return LS_OPT_COUNT + (int)ls_knob_count();
}
const char *ls_options_key(int i) {
    return option_at(i).key;
}
const char *ls_options_help(int i) {
    return option_at(i).help;
}
const char *ls_options_choices(int i) {
    return option_at(i).choices;
}

static void rules(const char *before, ls_rule_list list, ls_buf *out) {
    char usage[400];
    ls_rule_usage(list, usage, sizeof usage);
    ls_buf_fmt(out, "%s%s", before, usage);
}

static void words(const char *choices, ls_buf *out) { // "a|b" as "a, b"
    for (; *choices; choices++)
        if (*choices == '|') ls_buf_str(out, ", ");
        else ls_buf_char(out, *choices);
}

void ls_options_domain(int i, ls_buf *out) {
    const option t = option_at(i);
    switch (t.type) {
    case STR: ls_buf_str(out, "a text"); break;
    case PATH: ls_buf_str(out, "a file"); break;
    case LIST: ls_buf_str(out, "a list of texts"); break;
    case ENUM:
    case BOOL:
    case SWITCH: words(t.choices, out); break;
    case SIZING: rules("default, ", ls_sizing_at, out); break;
    case ACCEPT: rules("", ls_accept_at, out); break;
    case COSTS:
        words(LS_COST_CHOICES, out);
        ls_buf_str(out, ", or ROWS:MS,...");
        break;
    case AUTO:
    case SEED: ls_buf_fmt(out, "auto, or %.0f to %.0f", t.lo, t.hi); break;
    case INT:
    case WHOLE: ls_buf_fmt(out, "a whole number, %.0f to %.0f", t.lo, t.hi); break;
    case NUM:
    case REAL: ls_buf_fmt(out, "%g to %g", t.lo, t.hi); break;
    }
}

static void *field(ls_options *o, int i) {
    return i < LS_OPT_COUNT ? (char *)o + table[i].at : (void *)&o->knobs[i - LS_OPT_COUNT];
}

// The text of an option, on the heap; NULL: its value is none.
static char **text_of(ls_options *o, int i) {
    switch (option_at(i).type) {
    case STR:
    case ENUM:
    case SIZING:
    case ACCEPT:
    case COSTS: return field(o, i);
    case PATH: return (char **)&o->knobs[i - LS_OPT_COUNT].text;
    default: return NULL;
    }
}

static int least(int a, int b) {
    return a < b ? a : b;
}

// Edit distance with swaps of neighbours (optimal string alignment); 99 for long words.
static int distance(const char *a, const char *b, size_t m) {
    const size_t n = strlen(a);
    if (n > 60 || m > 60) return 99;
    int d[62][62];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = least(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

void ls_near_try(ls_near *near, const char *candidate, size_t n) {
    const size_t length = strlen(near->word);
    const char *dot = memrchr(candidate, '.', n); // "budgets" is near "decode.max_rows"
    const bool begins = length && length <= n && !strncmp(near->word, candidate, length);
    int d = begins ? -1 : distance(near->word, candidate, n);
    if (dot) d = least(d, distance(near->word, dot + 1, n - (size_t)(dot + 1 - candidate)) + 1);
    // an unrelated word would be worse advice than none
    if (d >= (near->best ? near->distance : least((int)(length / 3) + 1, 4)) || !length) return;
    near->best = candidate;
    near->n = n;
    near->distance = d;
}

const char *ls_near_hint(ls_near *near, const char *dashes, const char *otherwise) {
    if (near->best)
        snprintf(near->hint, sizeof near->hint, " (did you mean '%s%.*s'?)", dashes, (int)near->n, near->best);
    else snprintf(near->hint, sizeof near->hint, *otherwise ? " (%s)" : "%s", otherwise);
    return near->hint;
}

static ls_code bad_value(const option *t, const char *value, const char *where, const char *wanted, ls_err *err) {
    return ls_fail(err, LS_E_USAGE, "%s: %s is '%.80s', expected %s", where, t->key, value, wanted);
}

static ls_code check_choice(const option *t, const char *value, const char *where, ls_err *err) {
    ls_near near = {.word = value};
    size_t n;
    for (const char *list = t->choices, *w; (w = ls_next_word(&list, "|", &n));) {
        if (ls_str_is((ls_str){w, n}, value)) return LS_OK;
        ls_near_try(&near, w, n);
    }
    ls_buf wanted = {0};
    ls_buf_str(&wanted, "one of ");
    words(t->choices, &wanted);
    ls_buf_str(&wanted, ls_near_hint(&near, "", ""));
    const ls_code code = bad_value(t, value, where, wanted.p, err);
    ls_buf_free(&wanted);
    return code;
}

static ls_code read_whole(const option *t, const char *value, const char *where, int64_t *out, ls_err *err) {
    char *end, wanted[80];
    const bool may_be_auto = t->type != INT;
    if (may_be_auto && !strcmp(value, "auto")) return LS_OK;
    errno = 0;
    *out = strtoll(value, &end, 10);
    snprintf(wanted, sizeof wanted, "%s%.0f to %.0f", may_be_auto ? "auto or " : "", t->lo, t->hi);
    // compares whole numbers: as a double, 2^53 + 1 would equal 2^53
    if (end == value || *end || errno || isspace((unsigned char)*value) || *out < (int64_t)t->lo ||
        *out > (int64_t)t->hi)
        return bad_value(t, value, where, wanted, err);
    return LS_OK;
}

static ls_code read_number(const option *t, const char *value, const char *where, double *out, ls_err *err) {
    char *end, wanted[64];
    const double v = strtod(value, &end);
    snprintf(wanted, sizeof wanted, "a number from %g to %g", t->lo, t->hi);
    if (end == value || *end || !(v >= t->lo && v <= t->hi)) return bad_value(t, value, where, wanted, err);
    *out = v;
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

static void set_text(char **to, const char *value) { // NULL: absent
    char *copy = value ? ls_strdup(value) : NULL;
    free(*to);
    *to = copy;
}

static ls_code set_value(ls_options *o, int i, const char *value, const char *where, ls_err *err) {
    const option t = option_at(i);
    char what[300];
    snprintf(what, sizeof what, "%s: %s", where, t.key);
    void *to = field(o, i);
    char **text = text_of(o, i);
    ls_knob_value knob;
    int64_t n = 0;
    ls_code code = LS_OK;
    switch (t.type) {
    case STR: break;
    case PATH: value = *value ? value : NULL; break; // no file
    case WHOLE:
    case REAL:
    case SWITCH:
        if (!(code = ls_knob_read(t.knob, where, value, &knob, err))) *(ls_knob_value *)to = knob;
        break;
    case ENUM:
        value = ls_name_now(t.key, value);
        code = check_choice(&t, value, where, err);
        break;
    case SIZING: code = ls_sizing_read(&(ls_sizing){0}, what, value, err); break;
    case ACCEPT: code = ls_accept_read(&(ls_accept){0}, what, value, err); break;
    case COSTS: code = ls_cost_read(&(ls_cost_curve){0}, what, value, err); break;
    case INT:
    case AUTO:
        if (!(code = read_whole(&t, value, where, &n, err))) *(int32_t *)to = (int32_t)n;
        break;
    case SEED:
        if (!(code = read_whole(&t, value, where, &n, err)))
            *(ls_opt_SEED *)to = (ls_opt_SEED){strcmp(value, "auto") != 0, (uint64_t)n};
        break;
    case NUM: code = read_number(&t, value, where, to, err); break;
    case BOOL:
        value = !strcmp(value, "true") ? "yes" : !strcmp(value, "false") ? "no" : value;
        if (!(code = check_choice(&t, value, where, err))) *(bool *)to = !strcmp(value, "yes");
        break;
    case LIST:
        if (!o->origin[i] || strcmp(o->origin[i], where))
            list_clear(to); // the first value of a layer replaces the list, further ones are added
        if (*value) list_add(to, value);
        break;
    }
    if (code) return code;
    if (text) set_text(text, value);
    set_text(&o->origin[i], where);
    return LS_OK;
}

void ls_options_init(ls_options *o) {
    *o = (ls_options){.knobs = ls_calloc(ls_knob_count() + 1, sizeof *o->knobs),
                      .origin = ls_calloc((size_t)ls_options_count(), sizeof *o->origin)};
    ls_knob_defaults(o->knobs);
    for (int i = 0; i < ls_options_count(); i++)
        if (option_at(i).fallback) set_value(o, i, option_at(i).fallback, "default", NULL);
        else set_text(&o->origin[i], "default");
}

void ls_options_free(ls_options *o) {
    for (int i = 0; o->origin && i < ls_options_count(); i++) {
        if (text_of(o, i)) free(*text_of(o, i));
        if (option_at(i).type == LIST) list_clear(field(o, i));
        free(o->origin[i]);
    }
    free(o->knobs);
    free(o->origin);
    *o = (ls_options){0};
}

void ls_options_copy(ls_options *to, const ls_options *from) {
    *to = *from;
    to->knobs = ls_calloc(ls_knob_count() + 1, sizeof *to->knobs);
    to->origin = ls_calloc((size_t)ls_options_count(), sizeof *to->origin);
    memcpy(to->knobs, from->knobs, ls_knob_count() * sizeof *to->knobs);
    for (int i = 0; i < ls_options_count(); i++) {
        char **text = text_of(to, i);
        if (text && *text) *text = ls_strdup(*text);
        if (option_at(i).type == LIST) {
            ls_opt_LIST *l = field(to, i);
            const ls_opt_LIST old = *l;
            *l = (ls_opt_LIST){0};
            for (size_t k = 0; k < old.n; k++) list_add(l, old.p[k]);
        }
        to->origin[i] = ls_strdup(from->origin[i]);
    }
}

void ls_options_start_cold(ls_options *o, bool all) {
    for (size_t i = 0; i < ls_knob_count(); i++) {
        const ls_knob *k = ls_knob_at(i);
        if (k->kind != LS_KNOB_FILE || strcmp(strchr(k->key, '.'), ".file")) continue;
        char **text = text_of(o, LS_OPT_COUNT + (int)i);
        if (!*text || (!all && strcmp(*text, "auto"))) continue;
        free(*text);
        *text = NULL;
    }
}

bool ls_options_differ(const ls_options *a, const ls_options *b, int i) {
    ls_buf of_a = {0}, of_b = {0};
    ls_options_value(a, i, &of_a);
    ls_options_value(b, i, &of_b);
    const bool differ = of_a.n != of_b.n || (of_a.n && memcmp(of_a.p, of_b.p, of_a.n));
    ls_buf_free(&of_a);
    ls_buf_free(&of_b);
    return differ;
}

static int find_key(const char *key) {
    key = ls_name_now("key", key);
    for (int i = 0; i < ls_options_count(); i++)
        if (!strcmp(ls_options_key(i), key)) return i;
    return -1;
}

static ls_code unknown_key(const char *key, const char *where, ls_err *err) {
    ls_near near = {.word = key};
    for (int i = 0; i < ls_options_count(); i++) ls_near_try(&near, ls_options_key(i), strlen(ls_options_key(i)));
    return ls_fail(err, LS_E_USAGE, "%s: unknown key '%.80s'%s", where, key,
                   ls_near_hint(&near, "", "'logitspec config show' lists them"));
}

ls_code ls_options_set(ls_options *o, const char *key, const char *value, const char *where, ls_err *err) {
    int i = find_key(key);
    return i < 0 ? unknown_key(key, where, err) : set_value(o, i, value, where, err);
}

static bool is_section(const char *key) { // "decode" is a section if some key begins with "decode."
    const size_t n = strlen(key);
    for (int i = 0; i < ls_options_count(); i++)
        if (!strncmp(ls_options_key(i), key, n) && ls_options_key(i)[n] == '.') return true;
    return false;
}

// "system:" without a value: absent, if the option has no other default.
static bool is_absent(int i, const ls_yaml *y) {
    const bool nothing = y->plain && (!*y->text || !strcmp(y->text, "~") || !strcmp(y->text, "null"));
    return nothing && (option_at(i).type == STR || option_at(i).type == PATH) && !option_at(i).fallback;
}

static ls_code set_list(ls_options *o, int i, const ls_yaml *y, const char *at, ls_err *err) {
    ls_code code = set_value(o, i, "", at, err);
    for (size_t k = 0; k < y->n_items && !code; k++)
        code = y->items[k].kind == LS_YAML_SCALAR
                   ? set_value(o, i, y->items[k].text, at, err)
                   : ls_fail(err, LS_E_USAGE, "%s: a list of plain texts is expected", at);
    return code;
}

static ls_code apply_tree(ls_options *o, const ls_yaml *y, const char *section, const char *file, ls_err *err);

static ls_code apply_item(ls_options *o, const ls_yaml *item, const char *key, const char *file, ls_err *err) {
    char *at_key = ls_format("%s:%d:%d", file, item->key_line, item->key_column),
         *at = ls_format("%s:%d:%d", file, item->line, item->column);
    const int i = find_key(key);
    ls_code code = LS_OK;
    if (i < 0 && !is_section(key)) code = unknown_key(key, at_key, err);
    else if (i < 0 && item->kind == LS_YAML_MAPPING) code = apply_tree(o, item, key, file, err);
    else if (i < 0 && (item->kind != LS_YAML_SCALAR || *item->text))
        code = ls_fail(err, LS_E_USAGE, "%s: '%s' is a section of keys, not a value", at, key);
    else if (i < 0) code = LS_OK; // an empty section
    else if (item->kind == LS_YAML_SEQUENCE && option_at(i).type == LIST) code = set_list(o, i, item, at, err);
    else if (item->kind != LS_YAML_SCALAR)
        code = ls_fail(err, LS_E_USAGE, "%s: %s is one value, not a %s", at, key,
                       item->kind == LS_YAML_SEQUENCE ? "list" : "section");
    else if (is_absent(i, item)) set_text(text_of(o, i), NULL), set_text(&o->origin[i], at);
    else code = set_value(o, i, item->text, at, err);
    free(at_key);
    free(at);
    return code;
}

static ls_code apply_tree(ls_options *o, const ls_yaml *y, const char *section, const char *file, ls_err *err) {
    ls_code code = LS_OK;
    for (size_t k = 0; k < y->n_items && !code; k++) {
        char *key = ls_format("%s%s%s", section, *section ? "." : "", y->items[k].key);
        code = apply_item(o, &y->items[k], key, file, err);
        free(key);
    }
    return code;
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
    return apply_tree(o, y, "", file, err);
}

void ls_options_quoted(const char *s, ls_buf *out) {
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

void ls_options_value(const ls_options *o, int i, ls_buf *out) {
    const void *p = field((ls_options *)o, i);
    char *const *text = text_of((ls_options *)o, i);
    const ls_knob_value *knob = p;
    const ls_opt_SEED *seed = p;
    const ls_opt_LIST *l = p;
    switch (option_at(i).type) {
    case STR:
    case PATH:
        if (*text) ls_options_quoted(*text, out);
        else ls_buf_char(out, '~');
        break;
    case ENUM:
    case SIZING:
    case ACCEPT:
    case COSTS: ls_buf_str(out, *text); break;
    case SWITCH: ls_buf_str(out, knob->number != 0 ? "on" : "off"); break;
    case WHOLE:
    case REAL: ls_buf_fmt(out, "%.10g", knob->number); break;
    case INT: ls_buf_fmt(out, "%d", *(const int32_t *)p); break;
    case AUTO: ls_buf_fmt(out, *(const int32_t *)p ? "%d" : "auto", *(const int32_t *)p); break;
    case SEED: ls_buf_fmt(out, seed->set ? "%" PRIu64 : "auto", seed->value); break;
    case NUM: ls_buf_fmt(out, "%.15g", *(const double *)p); break;
    case BOOL: ls_buf_str(out, *(const bool *)p ? "yes" : "no"); break;
    case LIST:
        ls_buf_char(out, '[');
        for (size_t k = 0; k < l->n; k++) {
            if (k) ls_buf_str(out, ", ");
            ls_options_quoted(l->p[k], out);
        }
        ls_buf_char(out, ']');
    }
}

void ls_options_show(const ls_options *o, ls_buf *out) {
    const char *section = "";
    for (int i = 0; i < ls_options_count(); i++) {
        const char *key = ls_options_key(i), *name = strchr(key, '.') + 1;
        if (strncmp(section, key, (size_t)(name - key))) ls_buf_fmt(out, "%.*s:\n", (int)(name - 1 - key), key);
        section = key;
        ls_buf line = {0};
        ls_buf_fmt(&line, "  %s: ", name);
        ls_options_value(o, i, &line);
        ls_sanitize_row(out, "%-40s # %s", line.p, o->origin[i]);
        ls_buf_free(&line);
    }
}
