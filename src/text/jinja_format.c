// Values as JSON, and formats: of printf, of Python's str.format, of dates.
#include "text/jinja_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_NESTED = 100 };

// ---- JSON, as Python's json.dumps writes it

static void json_string(jvm *m, jtext *t, jstr s, bool ascii) {
    static const char plain[] = "\"\\\n\r\t\b\f", escaped[] = "\"\\nrtbf";
    j_add_lit(m, t, "\"");
    for (size_t n; s.n; s = j_part(s, n, SIZE_MAX)) {
        char out[16];
        uint32_t cp;
        n = j_char(s, &cp);
        const char *at = cp && cp < 128 ? strchr(plain, (int)cp) : NULL;
        if (at) snprintf(out, sizeof out, "\\%c", escaped[at - plain]);
        else if (cp < 32 || (ascii && cp >= 127 && cp < 0x10000 && cp != 127)) snprintf(out, sizeof out, "\\u%04x", cp);
        else if (ascii && cp >= 0x10000)
            snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                     0xdc00 + ((cp - 0x10000) & 0x3ff));
        else {
            j_add(m, t, j_part(s, 0, n));
            continue;
        }
        j_add_like(m, t, out, strlen(out), s);
    }
    j_add_lit(m, t, "\"");
}

static void json_line(jvm *m, jtext *t, const jjson *how) {
    if (!how->indent.p) return;
    j_add_lit(m, t, "\n");
    for (int i = 0; i < m->depth; i++) j_add(m, t, how->indent);
}

static void json_key(jvm *m, jtext *t, const jvalue *key, const jjson *how) {
    jtext text = {0};
    if (key->kind == J_STRING) {
        json_string(m, t, key->s, how->ascii);
        return;
    }
    if (key->kind == J_TUPLE) j_fail(m, LS_E_USAGE, "keys must be str, int, float, bool or None, not tuple");
    j_json(m, &text, key, how);
    json_string(m, t, j_made(m, &text).s, how->ascii);
}

void j_json(jvm *m, jtext *t, const jvalue *v, const jjson *how) {
    const bool dict = v->kind == J_DICT, list = v->kind == J_LIST || v->kind == J_TUPLE;
    if (v->kind == J_STRING) json_string(m, t, v->s, how->ascii);
    else if (v->kind == J_NONE) j_add_lit(m, t, "null");
    else if (v->kind == J_BOOL) j_add_lit(m, t, v->i ? "true" : "false");
    else if (v->kind == J_FLOAT && !isfinite(v->f))
        j_add_lit(m, t, isnan(v->f) ? "NaN" : v->f < 0 ? "-Infinity" : "Infinity");
    else if (j_is_number(v)) j_print(m, t, v);
    else if (!dict && !list) j_fail(m, LS_E_USAGE, "Object of type %s is not JSON serializable", j_type(v));
    if (!dict && !list) return;
    const size_t n = dict ? v->dict->n : v->list->n;
    if (++m->depth > MAX_NESTED) j_fail(m, LS_E_RANGE, "values nested more than %d deep", MAX_NESTED);
    size_t *order = j_alloc(m, n * sizeof *order);
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        j_spend(m, dict && how->sorted ? i : 0);
        for (; dict && how->sorted && at && j_compare(m, &v->dict->keys[i], &v->dict->keys[order[at - 1]]) < 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    j_add_lit(m, t, dict ? "{" : "[");
    for (size_t i = 0; i < n; i++) {
        if (i) j_add(m, t, how->comma);
        json_line(m, t, how);
        if (dict) {
            json_key(m, t, &v->dict->keys[order[i]], how);
            j_add(m, t, how->colon);
            j_json(m, t, &v->dict->values[order[i]], how);
        } else j_json(m, t, &v->list->items[i], how);
    }
    m->depth--;
    if (n) json_line(m, t, how);
    j_add_lit(m, t, dict ? "}" : "]");
}

// ---- formats

// One value by a printf-like conversion: %s, %r, %d, %f, %x, ... with flags, width and precision.
static void converted(jvm *m, jtext *t, const char *flags, size_t n_flags, char kind, const jvalue *v) {
    char spec[32], out[400], numbers[20] = "";
    if (n_flags > 16) j_fail(m, LS_E_UNSUPPORTED, "a format of %zu characters is not supported", n_flags);
    for (size_t i = 0; i < n_flags; i++)
        if (!flags[i] || !strchr("0123456789.+- #", flags[i]))
            j_fail(m, LS_E_UNSUPPORTED, "'%c' in a format is not supported", flags[i]);
    memcpy(numbers, flags, n_flags);
    const char *dot = strchr(numbers, '.');
    if (atoi(numbers + strspn(numbers, "+- #")) > 300 || (dot && atoi(dot + 1) > 300))
        j_fail(m, LS_E_RANGE, "the width of a format is too large");
    if (kind == 's' || kind == 'r') {
        if (n_flags) j_fail(m, LS_E_UNSUPPORTED, "a width for strings in a format is not supported");
        if (kind == 's') j_print(m, t, v);
        else j_repr(m, t, v);
        return;
    }
    if (!j_is_number(v)) j_fail(m, LS_E_USAGE, "%%%c format: a number is required, not %s", kind, j_type(v));
    if (strchr("di", kind)) {
        snprintf(spec, sizeof spec, "%%%slld", numbers);
        snprintf(out, sizeof out, spec, v->kind == J_FLOAT ? (long long)v->f : (long long)v->i);
    } else if (strchr("xXo", kind) && v->kind != J_FLOAT && v->i >= 0) {
        snprintf(spec, sizeof spec, "%%%sll%c", numbers, kind);
        snprintf(out, sizeof out, spec, (long long)v->i);
    } else if (strchr("fFeEgG", kind)) {
        snprintf(spec, sizeof spec, "%%%s%c", numbers, kind);
        snprintf(out, sizeof out, spec, j_number(v));
    } else j_fail(m, LS_E_UNSUPPORTED, "'%c' in a format is not supported", kind);
    j_add_lit(m, t, out);
}

jvalue j_percent(jvm *m, jstr f, const jvalue *values) {
    const jlist all = values->kind == J_TUPLE ? *values->list : (jlist){(jvalue *)values, 1};
    size_t used = 0;
    jtext t = {0};
    for (size_t i = 0; i < f.n;) {
        const char *next = memchr(f.p + i, '%', f.n - i);
        const size_t at = next ? (size_t)(next - f.p) : f.n;
        j_add(m, &t, j_part(f, i, at - i));
        if (!next) break;
        size_t end = at + 1;
        while (end < f.n && strchr("0123456789.+- #", f.p[end]) && f.p[end]) end++;
        if (end >= f.n) j_fail(m, LS_E_USAGE, "incomplete format");
        if (f.p[end] == '%') j_add_lit(m, &t, "%");
        else if (used == all.n) j_fail(m, LS_E_USAGE, "not enough arguments for format string");
        else converted(m, &t, f.p + at + 1, end - at - 1, f.p[end], &all.items[used++]);
        i = end + 1;
    }
    if (used < all.n && values->kind != J_DICT)
        j_fail(m, LS_E_USAGE, "not all arguments converted during string formatting");
    return j_made(m, &t);
}

static const jvalue *field(jvm *m, jstr name, const jargs *a, int *next) {
    int at = 0, i = 0;
    if (!name.n) at = (*next)++;
    else if (isdigit((unsigned char)*name.p)) at = atoi(name.p);
    else {
        for (; i < a->n; i++)
            if (a->names[i].n && j_same_text(a->names[i], name)) return &a->v[i];
        j_fail(m, LS_E_USAGE, "'%.*s' is missing in format()", J_SHOWN(name));
    }
    for (; i < a->n; i++)
        if (!a->names[i].n && !at--) return &a->v[i];
    j_fail(m, LS_E_USAGE, "Replacement index out of range for positional args tuple");
}

jvalue j_format(jvm *m, jstr f, const jargs *a) {
    jtext t = {0};
    int next = 0;
    for (size_t i = 0; i < f.n; i++) {
        const char c = f.p[i];
        if (c != '{' && c != '}') {
            j_add(m, &t, j_part(f, i, 1));
            continue;
        }
        if (i + 1 < f.n && f.p[i + 1] == c) {
            j_add(m, &t, j_part(f, i++, 1));
            continue;
        }
        const char *close = c == '{' ? memchr(f.p + i, '}', f.n - i) : NULL;
        if (!close) j_fail(m, LS_E_USAGE, "Single '%c' encountered in format string", c);
        const jstr inside = j_part(f, i + 1, (size_t)(close - f.p) - i - 1);
        const char *colon = inside.n ? memchr(inside.p, ':', inside.n) : NULL;
        const jstr name = j_part(inside, 0, colon ? (size_t)(colon - inside.p) : inside.n);
        for (size_t k = 0; k < name.n; k++)
            if (!isalnum((unsigned char)name.p[k]) && name.p[k] != '_')
                j_fail(m, LS_E_UNSUPPORTED, "the field '%.*s' of a format is not supported", J_SHOWN(name));
        const jvalue *v = field(m, name, a, &next);
        const size_t n = colon ? (size_t)(close - colon) - 1 : 0;
        const bool typed = n && isalpha((unsigned char)close[-1]);
        if (!n) j_print(m, &t, v);
        else
            converted(m, &t, colon + 1, n - typed,
                      typed                ? close[-1]
                      : v->kind == J_FLOAT ? 'f'
                      : j_is_number(v)     ? 'd'
                                           : 's',
                      v);
        i = (size_t)(close - f.p);
    }
    return j_made(m, &t);
}

jvalue j_date(jvm *m, jstr format) {
    char f[200], out[1000];
    struct tm day;
    const time_t now = (time_t)m->now;
    if (format.n >= sizeof f) j_fail(m, LS_E_RANGE, "the date format is too long (%zu bytes)", format.n);
    memcpy(f, format.p, format.n);
    f[format.n] = 0;
    gmtime_r(&now, &day);
    const size_t n = *f ? strftime(out, sizeof out, f, &day) : 0;
    jtext t = {0};
    j_add(m, &t, (jstr){out, NULL, n});
    return j_made(m, &t);
}
