// What is done with strings: every byte keeps its mark. Values as JSON; formats of printf, of str.format, of dates.
#include "base/utf8.h"
#include "text/jinja_internal.h"
#include "text/normalize.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_TEXT = 1 << 24 };

// The text that s was made from, to be gone on with: no other string has the bytes behind s. What grows by one addition
// after the other would be copied as often otherwise.
static bool taken_back(jvm *m, jtext *t, jstr s) {
    for (int i = 0; i < J_SPARE; i++)
        if (m->spare[i].p == s.p && m->spare[i].n == s.n && m->spare[i].marks == s.marks) {
            *t = m->spare[i];
            m->spare[i] = (jtext){0};
            return true;
        }
    return false;
}

void j_add(jvm *m, jtext *t, jstr s) {
    if (!s.n || (!t->p && taken_back(m, t, s))) return;
    if (t->n + s.n > MAX_TEXT) j_fail(m, LS_E_RANGE, "the text is longer than %d bytes", MAX_TEXT);
    j_spend(m, s.n / 16);
    if (t->n + s.n > t->cap) {
        const size_t cap = 2 * (t->n + s.n) + 32;
        char *p = j_alloc(m, cap);
        if (t->n) memcpy(p, t->p, t->n);
        if (t->marks) {
            unsigned char *marks = j_alloc(m, cap);
            memcpy(marks, t->marks, t->n);
            t->marks = marks;
        }
        t->p = p;
        t->cap = cap;
    }
    if (s.marks && !t->marks) t->marks = j_alloc(m, t->cap);
    memcpy(t->p + t->n, s.p, s.n);
    if (s.marks) memcpy(t->marks + t->n, s.marks, s.n);
    else if (t->marks) memset(t->marks + t->n, 0, s.n);
    t->n += s.n;
}

void j_add_lit(jvm *m, jtext *t, const char *s) {
    j_add(m, t, j_lit(s));
}

// s, each byte with the mark of the first of `like`.
static void add_like(jvm *m, jtext *t, const char *s, size_t n, jstr like) {
    static const unsigned char ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    j_add(m, t, (jstr){s, like.marks && *like.marks ? ones : NULL, n});
}

jvalue j_made(jvm *m, const jtext *t) {
    if (t->p) m->spare[m->newest++ % J_SPARE] = *t;
    return j_string((jstr){t->p ? t->p : "", t->marks, t->n});
}

jstr j_part(jstr s, size_t from, size_t n) {
    if (n > s.n - from) n = s.n - from;
    return (jstr){s.p + from, s.marks ? s.marks + from : NULL, n};
}

size_t j_char(jstr s, uint32_t *cp) {
    uint32_t c = 0xfffd;
    const int n = ls_utf8_decode(s.p, s.n, &c);
    if (cp) *cp = n > 0 ? c : 0xfffd;
    return n > 0 ? (size_t)n : 1;
}

size_t j_find(jvm *m, jstr s, jstr what, bool last) {
    j_spend(m, s.n / 16);
    if (last) {
        size_t at = s.n >= what.n ? s.n - what.n + 1 : 0;
        while (at-- > 0 && what.n && memcmp(s.p + at, what.p, what.n))
            if (s.p[at] == *what.p) j_spend(m, what.n / 16); // all of it may have been compared
        return at;                                           // SIZE_MAX: it went past the beginning
    }
    const char *at = what.n && s.n ? memmem(s.p, s.n, what.p, what.n) : NULL;
    return !what.n ? 0 : at ? (size_t)(at - s.p) : SIZE_MAX;
}

// ---- str() and repr()

static void add_float(jvm *m, jtext *t, double f) {
    char text[40];
    if (isnan(f) || isinf(f)) {
        j_add_lit(m, t, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) { // the shortest that is read as the same number
        snprintf(text, sizeof text, "%.*e", digits - 1, f);
        if (strtod(text, NULL) == f) break;
    }
    const int exponent = atoi(strchr(text, 'e') + 1),
              digits = (int)(strchr(text, 'e') - text) - (text[0] == '-') - (strchr(text, '.') != NULL);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, f);
    j_add_lit(m, t, text);
}

static void add_quoted(jvm *m, jtext *t, jstr s) {
    const bool twice = s.n && memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n);
    const char quote[] = {twice ? '"' : '\'', 0};
    j_add_lit(m, t, quote);
    for (size_t n; s.n; s = j_part(s, n, SIZE_MAX)) {
        char out[12];
        uint32_t cp;
        n = j_char(s, &cp);
        const bool hidden = cp < 32 || (cp >= 127 && cp < 0xa1) || cp == 0xad;
        if (cp == '\\' || cp == (uint32_t)*quote) snprintf(out, sizeof out, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            snprintf(out, sizeof out, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (hidden) snprintf(out, sizeof out, "\\x%02x", cp);
        else {
            j_add(m, t, j_part(s, 0, n));
            continue;
        }
        add_like(m, t, out, strlen(out), s);
    }
    j_add_lit(m, t, quote);
}

static void add_repr(jvm *m, jtext *t, const jvalue *v);

static void add_items(jvm *m, jtext *t, const jvalue *v) {
    j_deeper(m);
    const size_t n = v->kind == J_DICT ? v->dict->n : v->list->n;
    j_add_lit(m, t, v->kind == J_DICT ? "{" : v->kind == J_LIST ? "[" : "(");
    for (size_t i = 0; i < n; i++) {
        if (i) j_add_lit(m, t, ", ");
        if (v->kind == J_DICT) {
            add_repr(m, t, &v->dict->keys[i]);
            j_add_lit(m, t, ": ");
            add_repr(m, t, &v->dict->values[i]);
        } else add_repr(m, t, &v->list->items[i]);
    }
    j_add_lit(m, t, v->kind == J_DICT ? "}" : v->kind == J_LIST ? "]" : n == 1 ? ",)" : ")");
    m->depth--;
}

void j_print(jvm *m, jtext *t, const jvalue *v) {
    char text[32];
    switch (v->kind) {
    case J_UNDEFINED: break;
    case J_NONE: j_add_lit(m, t, "None"); break;
    case J_BOOL: j_add_lit(m, t, v->i ? "True" : "False"); break;
    case J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->i);
        j_add_lit(m, t, text);
        break;
    case J_FLOAT: add_float(m, t, v->f); break;
    case J_STRING: j_add(m, t, v->s); break;
    case J_LIST:
    case J_TUPLE:
    case J_DICT: add_items(m, t, v); break;
    default: j_fail(m, LS_E_UNSUPPORTED, "a %s cannot be converted to text", j_type(v));
    }
}

static void add_repr(jvm *m, jtext *t, const jvalue *v) {
    if (v->kind == J_STRING) add_quoted(m, t, v->s);
    else if (v->kind == J_UNDEFINED) j_add_lit(m, t, "Undefined");
    else j_print(m, t, v);
}

jstr j_text_of(jvm *m, const jvalue *v) {
    jtext t = {0};
    if (v->kind == J_STRING) return v->s;
    j_print(m, &t, v);
    return j_made(m, &t).s;
}

// ---- parts of strings

// White space of Python's str.strip(): Unicode's, and the separators 0x1c..0x1f.
static bool is_space(uint32_t c) {
    return ls_is_space(c) || (c >= 28 && c <= 31);
}

static bool strips(jstr c, const jstr *chars) {
    uint32_t cp;
    j_char(c, &cp);
    return chars ? chars->n && memmem(chars->p, chars->n, c.p, c.n) : is_space(cp);
}

static size_t last_char(jstr s) { // bytes of it
    size_t at = s.n - 1;
    while (at && s.n - at < 4 && ((unsigned char)s.p[at] & 0xc0) == 0x80) at--;
    return j_char(j_part(s, at, SIZE_MAX), NULL) == s.n - at ? s.n - at : 1;
}

jstr j_stripped(jstr s, const jstr *chars, bool left, bool right) {
    for (size_t n; left && s.n; s = j_part(s, n, SIZE_MAX)) {
        n = j_char(s, NULL);
        if (!strips(j_part(s, 0, n), chars)) break;
    }
    for (size_t n; right && s.n; s.n -= n) {
        n = last_char(s);
        if (!strips(j_part(s, s.n - n, n), chars)) break;
    }
    return s;
}

jvalue j_replaced(jvm *m, jstr s, jstr from, jstr to, int64_t most) {
    jtext t = {0};
    for (int64_t i = 0; most < 0 || i < most; i++) {
        if (!from.n) { // before every character, and at the end
            j_add(m, &t, to);
            if (!s.n) return j_made(m, &t);
            const size_t n = j_char(s, NULL);
            j_add(m, &t, j_part(s, 0, n));
            s = j_part(s, n, SIZE_MAX);
            continue;
        }
        const size_t at = j_find(m, s, from, false);
        if (at == SIZE_MAX) break;
        j_add(m, &t, j_part(s, 0, at));
        j_add(m, &t, to);
        s = j_part(s, at + from.n, SIZE_MAX);
    }
    j_add(m, &t, s);
    return j_made(m, &t);
}

static void append(jvm *m, jvalue *list, jstr s) {
    jlist *l = list->list;
    l->items = j_grown(m, l->items, l->n, sizeof *l->items);
    l->items[l->n++] = j_string(s);
}

static void turn_around(jlist *l) {
    for (size_t i = 0; i < l->n / 2; i++) {
        const jvalue v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
}

// by NULL: at white space, and no empty parts.
jvalue j_split(jvm *m, jstr s, const jstr *by, int64_t most, bool from_right) {
    jvalue out = j_list(m, J_LIST, 0);
    if (by && !by->n) j_fail(m, LS_E_USAGE, "empty separator");
    for (int64_t i = 0; by && (most < 0 || i < most); i++) {
        const size_t at = j_find(m, s, *by, from_right);
        if (at == SIZE_MAX) break;
        append(m, &out, from_right ? j_part(s, at + by->n, SIZE_MAX) : j_part(s, 0, at));
        s = from_right ? j_part(s, 0, at) : j_part(s, at + by->n, SIZE_MAX);
    }
    if (by) append(m, &out, s);
    for (int64_t i = 0; !by && (s = j_stripped(s, NULL, !from_right, from_right)).n; i++) {
        size_t n = 0; // of the part
        while (n < s.n && (most < 0 || i < most)) {
            const size_t c = from_right ? last_char(j_part(s, 0, s.n - n)) : j_char(j_part(s, n, SIZE_MAX), NULL);
            if (strips(j_part(s, from_right ? s.n - n - c : n, c), NULL)) break;
            n += c;
        }
        if (most >= 0 && i >= most) { // the rest
            append(m, &out, s);
            break;
        }
        append(m, &out, from_right ? j_part(s, s.n - n, n) : j_part(s, 0, n));
        s = from_right ? j_part(s, 0, s.n - n) : j_part(s, n, SIZE_MAX);
    }
    if (from_right) turn_around(out.list);
    return out;
}

jvalue j_lines(jvm *m, jstr s, bool keep_ends) {
    jvalue out = j_list(m, J_LIST, 0);
    size_t from = 0, n;
    j_spend(m, s.n / 8);
    for (size_t at = 0; at < s.n; at += n) {
        uint32_t c;
        n = j_char(j_part(s, at, SIZE_MAX), &c);
        if (!((c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029)) continue;
        if (c == '\r' && at + 1 < s.n && s.p[at + 1] == '\n') n = 2;
        append(m, &out, j_part(s, from, at - from + (keep_ends ? n : 0)));
        from = at + n;
    }
    if (from < s.n) append(m, &out, j_part(s, from, SIZE_MAX));
    return out;
}

jvalue j_cased(jvm *m, jstr s, jcase how) {
    jtext t = {0};
    bool upper = how != J_LOWER; // the next letter
    for (size_t n; s.n; s = j_part(s, n, SIZE_MAX)) {
        char out[8];
        uint32_t cp;
        n = j_char(s, &cp);
        const bool valid = cp != 0xfffd || n == 3;
        const uint32_t to = !upper ? ls_lower(cp) : how == J_UPPER ? ls_upper(cp) : ls_title(cp);
        if (how == J_TITLE_WORDS) upper = is_space(cp) || (cp < 128 && strchr("-({[<", (int)cp));
        else if (how == J_TITLE_LETTERS) upper = !ls_has_case(cp);
        else if (how == J_CAPITALIZED) upper = false;
        if (valid && cp == 0xdf && how == J_UPPER) add_like(m, &t, "SS", 2, s); // those that grow in ordinary text
        else if (cp == 0x130 && to == 'i') add_like(m, &t, "i\u0307", 3, s);
        else if (valid) add_like(m, &t, out, (size_t)ls_utf8_encode(to, out), s);
        else j_add(m, &t, j_part(s, 0, n));
    }
    return j_made(m, &t);
}

jvalue j_indented(jvm *m, jstr s, jstr by, bool first, bool blank) {
    jtext t = {0}, whole = {0};
    j_add(m, &whole, s);
    j_add_lit(m, &whole, "\n");
    const jvalue lines = j_lines(m, j_made(m, &whole).s, false);
    if (first) j_add(m, &t, by);
    for (size_t i = 0; i < lines.list->n; i++) {
        const jstr line = lines.list->items[i].s;
        if (i) j_add_lit(m, &t, "\n");
        if (i && (line.n || blank)) j_add(m, &t, by);
        j_add(m, &t, line);
    }
    return j_made(m, &t);
}

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
        add_like(m, t, out, strlen(out), s);
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
    j_deeper(m);
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
    if (atoll(numbers + strspn(numbers, "+- #")) > 300 || (dot && atoll(dot + 1) > 300)) // 16 digits at most
        j_fail(m, LS_E_RANGE, "the width of a format is too large");
    if (kind == 's' || kind == 'r') {
        if (n_flags) j_fail(m, LS_E_UNSUPPORTED, "a width for strings in a format is not supported");
        if (kind == 's') j_print(m, t, v);
        else add_repr(m, t, v);
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
