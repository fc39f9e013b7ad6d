// Expressions, evaluated as they are read. An error does not stop the reading: it is noted in the vm, and a branch that
// is not taken ("a if b else c", "a and b") takes its error back.
#include "base/mem.h"
#include "base/utf8.h"
#include "text/jinja_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 100, MAX_TEXT = 1 << 24 };

static bool equals(ls_str s, const char *what) {
    return s.n == strlen(what) && !memcmp(s.p, what, s.n);
}

// White space of Python's str.strip(): Unicode's, and the separators 0x1c..0x1f.
static bool blank(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool strips(uint32_t cp, const ls_str *chars) {
    if (!chars) return blank(cp);
    char c[4];
    int n = ls_utf8_encode(cp, c);
    return n && memmem(chars->p, chars->n, c, (size_t)n);
}

static ls_str strip(ls_str s, const ls_str *chars, bool left, bool right) { // chars NULL: white space
    uint32_t cp;
    int k;
    while (left && s.n && (k = ls_utf8_decode(s.p, s.n, &cp)) > 0 && strips(cp, chars)) s.p += k, s.n -= (size_t)k;
    while (right && s.n) {
        size_t at = s.n - 1;
        while (at && s.n - at < 4 && ((unsigned char)s.p[at] & 0xc0) == 0x80) at--;
        if (ls_utf8_decode(s.p + at, s.n - at, &cp) != (int)(s.n - at) || !strips(cp, chars)) break;
        s.n = at;
    }
    return s;
}

ls_str ls_strip(ls_str s) {
    return strip(s, NULL, true, true);
}

static bool same_to(const jvalue *a, const jvalue *b, int depth) { // deeper: a namespace that holds itself, say
    if (a->kind == J_BOOL || a->kind == J_INT) return (b->kind == J_BOOL || b->kind == J_INT) && a->i == b->i;
    if (a->kind != b->kind || !depth) return false;
    if (a->kind == J_STRING) return a->s.n == b->s.n && !memcmp(a->s.p, b->s.p, a->s.n);
    if (a->kind == J_LIST) {
        if (a->n != b->n) return false;
        for (size_t i = 0; i < a->n; i++)
            if (!same_to(&a->items[i], &b->items[i], depth - 1)) return false;
    }
    if (a->kind == J_DICT && a->dict != b->dict) {
        if (a->dict->n != b->dict->n) return false;
        for (size_t i = 0; i < a->dict->n; i++) {
            const jvalue *other = j_get(b->dict, a->dict->keys[i].p, a->dict->keys[i].n);
            if (!other || !same_to(&a->dict->values[i], other, depth - 1)) return false;
        }
    }
    return true;
}

static bool same(const jvalue *a, const jvalue *b) {
    return same_to(a, b, 8);
}

static jvalue list_of(jvm *m, size_t n) {
    jvalue *items = j_alloc(m, n * sizeof *items);
    return (jvalue){.kind = J_LIST, .items = items, .n = items ? n : 0};
}

static jvalue share(ls_str s) {
    return (jvalue){.kind = J_STRING, .s = s};
}

static jvalue joined(jvm *m, const jvalue *a, const jvalue *b) {
    ls_buf both = {0};
    j_print(m, a, &both);
    j_print(m, b, &both);
    jvalue v = j_str(m, both.p, both.n);
    ls_buf_free(&both);
    return v;
}

static jvalue replaced(jvm *m, ls_str s, ls_str from, ls_str to) {
    ls_buf b = {0};
    for (size_t i = 0; i < s.n && b.n < MAX_TEXT;) {
        if (from.n && s.n - i >= from.n && !memcmp(s.p + i, from.p, from.n)) {
            ls_buf_add(&b, to.p, to.n);
            i += from.n;
        } else ls_buf_char(&b, s.p[i++]);
    }
    jvalue v = j_str(m, b.p, b.n);
    ls_buf_free(&b);
    return v;
}

static jvalue split(jvm *m, ls_str s, ls_str by) {
    size_t n = 1;
    for (const char *p = s.p, *q; (q = memmem(p, s.n - (size_t)(p - s.p), by.p, by.n)); p = q + by.n) n++;
    jvalue v = list_of(m, n);
    for (size_t i = 0; i < v.n; i++) {
        const char *q = memmem(s.p, s.n, by.p, by.n);
        size_t len = q ? (size_t)(q - s.p) : s.n;
        v.items[i] = share((ls_str){s.p, len});
        if (q) s.p += len + by.n, s.n -= len + by.n;
    }
    return v;
}

static jvalue cased(jvm *m, ls_str s, bool upper) {
    jvalue v = j_str(m, s.p, s.n);
    for (size_t i = 0; i < v.s.n; i++) {
        if ((unsigned char)v.s.p[i] >= 0x80) j_fail(m, LS_E_UNSUPPORTED, "the case of letters beyond ASCII");
        ((char *)v.s.p)[i] = (char)(upper ? toupper(v.s.p[i]) : tolower(v.s.p[i]));
    }
    return v;
}

static jvalue titled(jvm *m, ls_str s, bool every) {
    jvalue v = cased(m, s, false);
    for (size_t i = 0; i < v.s.n; i++)
        if (!i || (every && !isalpha((unsigned char)v.s.p[i - 1]))) ((char *)v.s.p)[i] = (char)toupper(v.s.p[i]);
    return v;
}

static void json(jvm *m, const jvalue *v, ls_buf *b) {
    if (v->kind == J_STRING) {
        ls_buf_char(b, '"');
        for (size_t i = 0; i < v->s.n; i++) {
            char c = v->s.p[i];
            if (c == '"' || c == '\\') ls_buf_fmt(b, "\\%c", c);
            else if (c == '\n') ls_buf_str(b, "\\n");
            else if ((unsigned char)c < 32) ls_buf_fmt(b, "\\u%04x", c);
            else ls_buf_char(b, c);
        }
        ls_buf_char(b, '"');
    } else if (v->kind == J_NONE) ls_buf_str(b, "null");
    else if (v->kind == J_BOOL) ls_buf_str(b, v->i ? "true" : "false");
    else if (v->kind == J_INT) j_print(m, v, b);
    else j_fail(m, LS_E_UNSUPPORTED, "'tojson' of this value");
}

// ---- arguments of a call: (a, b, name=c)

enum { MAX_ARGS = 8 };
typedef struct {
    jvalue v[MAX_ARGS];
    ls_str name[MAX_ARGS]; // n 0: by position
    int n;
} arguments;

static void read_arguments(jvm *m, arguments *a) { // after the opening bracket
    a->n = 0;
    while (!j_take(m, ")")) {
        if (m->p >= m->end || a->n == MAX_ARGS) {
            j_fail(m, LS_E_PARSE, "a call that is not closed, or of many arguments");
            return;
        }
        const char *was = m->p;
        ls_str name = j_name(m);
        j_space(m);
        if (!name.n || m->p >= m->end || *m->p != '=' || (m->p + 1 < m->end && m->p[1] == '=')) {
            m->p = was;
            name.n = 0;
        } else m->p++;
        a->name[a->n] = name;
        a->v[a->n++] = j_expr(m, true);
        if (!j_take(m, ",") && (j_space(m), m->p < m->end && *m->p != ')')) {
            j_fail(m, LS_E_PARSE, "',' or ')' is missing");
            return;
        }
    }
}

static ls_str string_arg(jvm *m, const arguments *a, int i, const char *where) {
    if (i < a->n && a->v[i].kind == J_STRING) return a->v[i].s;
    j_fail(m, LS_E_UNSUPPORTED, "'%s' with such arguments", where);
    return (ls_str){"", 0};
}

// strftime at the one fixed day (see jinja.h)
static jvalue fixed_date(jvm *m, ls_str format) {
    ls_buf b = {0};
    for (size_t i = 0; i < format.n; i++) {
        if (format.p[i] != '%' || i + 1 == format.n) {
            ls_buf_char(&b, format.p[i]);
            continue;
        }
        switch (format.p[++i]) {
        case 'd': ls_buf_str(&b, "26"); break;
        case 'b': ls_buf_str(&b, "Jul"); break;
        case 'B': ls_buf_str(&b, "July"); break;
        case 'm': ls_buf_str(&b, "07"); break;
        case 'Y': ls_buf_str(&b, "2024"); break;
        case 'A': ls_buf_str(&b, "Friday"); break;
        case 'a': ls_buf_str(&b, "Fri"); break;
        case 'H':
        case 'M':
        case 'S': ls_buf_str(&b, "00"); break;
        default: j_fail(m, LS_E_UNSUPPORTED, "strftime_now with '%%%c'", format.p[i]);
        }
    }
    jvalue v = j_str(m, b.p, b.n);
    ls_buf_free(&b);
    return v;
}

static jvalue call_function(jvm *m, ls_str name, const arguments *a) {
    if (equals(name, "raise_exception")) {
        ls_str why = a->n && a->v[0].kind == J_STRING ? a->v[0].s : (ls_str){"", 0};
        j_fail(m, LS_E_USAGE, "%.*s", (int)(why.n < 160 ? why.n : 160), why.p);
    } else if (equals(name, "strftime_now")) return fixed_date(m, string_arg(m, a, 0, "strftime_now"));
    else if (equals(name, "namespace") || equals(name, "dict")) {
        jvalue v = {.kind = J_DICT, .dict = j_alloc(m, sizeof(jdict))};
        for (int i = 0; i < a->n; i++) {
            if (!a->name[i].n) j_fail(m, LS_E_UNSUPPORTED, "'namespace' with such arguments");
            j_put(m, v.dict, a->name[i], a->v[i]);
        }
        return v;
    } else if (equals(name, "range")) {
        int64_t from = a->n > 1 ? a->v[0].i : 0, to = a->n ? a->v[a->n > 1].i : 0;
        if (a->n < 1 || a->n > 2 || from < -10000 || to > 10000) j_fail(m, LS_E_UNSUPPORTED, "such a 'range'");
        else {
            jvalue v = list_of(m, to > from ? (size_t)(to - from) : 0);
            for (size_t i = 0; i < v.n; i++) v.items[i] = j_int(from + (int64_t)i);
            return v;
        }
    } else j_fail(m, LS_E_UNSUPPORTED, "the function '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

static jvalue items_of(jvm *m, const jdict *d) {
    jvalue v = list_of(m, d->n);
    for (size_t i = 0; i < v.n; i++) {
        v.items[i] = list_of(m, 2);
        if (!v.items[i].n) break;
        v.items[i].items[0] = share(d->keys[i]);
        v.items[i].items[1] = d->values[i];
    }
    return v;
}

static jvalue call_method(jvm *m, const jvalue *of, ls_str name, const arguments *a) {
    if (of->kind == J_STRING) {
        bool left = equals(name, "lstrip"), right = equals(name, "rstrip");
        if (left || right || equals(name, "strip")) {
            ls_str chars = a->n ? string_arg(m, a, 0, "strip") : (ls_str){"", 0};
            return share(strip(of->s, a->n ? &chars : NULL, !right, !left));
        }
        if (equals(name, "startswith") || equals(name, "endswith")) {
            ls_str what = string_arg(m, a, 0, "startswith");
            const char *at = equals(name, "startswith") ? of->s.p : of->s.p + of->s.n - what.n;
            return j_bool(what.n <= of->s.n && !memcmp(at, what.p, what.n));
        }
        if (equals(name, "split") && a->n == 1) {
            ls_str by = string_arg(m, a, 0, "split");
            if (by.n) return split(m, of->s, by);
        }
        if (equals(name, "replace") && a->n == 2)
            return replaced(m, of->s, string_arg(m, a, 0, "replace"), string_arg(m, a, 1, "replace"));
        if (equals(name, "upper") || equals(name, "lower")) return cased(m, of->s, equals(name, "upper"));
        if (equals(name, "title") || equals(name, "capitalize")) return titled(m, of->s, equals(name, "title"));
    }
    if (of->kind == J_DICT && equals(name, "get") && a->n) {
        ls_str key = string_arg(m, a, 0, "get");
        const jvalue *v = j_get(of->dict, key.p, key.n);
        return v ? *v : a->n > 1 ? a->v[1] : (jvalue){.kind = J_NONE};
    }
    if (of->kind == J_DICT && equals(name, "items")) return items_of(m, of->dict);
    j_fail(m, LS_E_UNSUPPORTED, "the method '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

static size_t characters(ls_str s) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

static jvalue select_attr(jvm *m, const jvalue *of, const arguments *a, bool keep) {
    ls_str key = string_arg(m, a, 0, "selectattr"), test = a->n > 1 ? string_arg(m, a, 1, "selectattr") : key;
    if (a->n == 2 || (a->n == 3 && !equals(test, "equalto") && !equals(test, "eq") && !equals(test, "==")))
        j_fail(m, LS_E_UNSUPPORTED, "'selectattr' with such a test");
    jvalue v = list_of(m, of->n);
    const size_t n = v.n;
    v.n = 0;
    for (size_t i = 0; i < n; i++) {
        const jvalue *x = of->items[i].kind == J_DICT ? j_get(of->items[i].dict, key.p, key.n) : NULL;
        if ((x && (a->n > 2 ? same(x, &a->v[2]) : j_true(x))) == keep) v.items[v.n++] = of->items[i];
    }
    return v;
}

static jvalue filter(jvm *m, const jvalue *of, ls_str name, const arguments *a) {
    for (int i = 0; i < a->n && !equals(name, "tojson"); i++)
        if (a->name[i].n) j_fail(m, LS_E_UNSUPPORTED, "named arguments of a filter");
    if (equals(name, "trim") && of->kind == J_STRING && !a->n) return share(ls_strip(of->s));
    if (equals(name, "length") || equals(name, "count")) {
        if (of->kind == J_STRING) return j_int((int64_t)characters(of->s));
        if (of->kind == J_UNDEFINED) return j_int(0);
        if (of->kind == J_LIST) return j_int((int64_t)of->n);
        if (of->kind == J_DICT) return j_int((int64_t)of->dict->n);
    }
    if (equals(name, "string")) return of->kind == J_STRING ? *of : joined(m, of, &(jvalue){.kind = J_UNDEFINED});
    if (equals(name, "safe")) return *of;
    if (equals(name, "list") && of->kind == J_LIST) return *of;
    if ((equals(name, "first") || equals(name, "last")) && of->kind == J_LIST)
        return of->n ? of->items[equals(name, "first") ? 0 : of->n - 1] : (jvalue){0};
    if ((equals(name, "default") || equals(name, "d")) && a->n)
        return of->kind == J_UNDEFINED || (a->n > 1 && j_true(&a->v[1]) && !j_true(of)) ? a->v[0] : *of;
    if ((equals(name, "upper") || equals(name, "lower")) && of->kind == J_STRING)
        return cased(m, of->s, equals(name, "upper"));
    if ((equals(name, "title") || equals(name, "capitalize")) && of->kind == J_STRING)
        return titled(m, of->s, equals(name, "title"));
    if (equals(name, "replace") && of->kind == J_STRING && a->n == 2)
        return replaced(m, of->s, string_arg(m, a, 0, "replace"), string_arg(m, a, 1, "replace"));
    if ((equals(name, "selectattr") || equals(name, "rejectattr")) && of->kind == J_LIST)
        return select_attr(m, of, a, equals(name, "selectattr"));
    if (equals(name, "items") && of->kind == J_DICT) return items_of(m, of->dict);
    if (equals(name, "join") && of->kind == J_LIST && a->n < 2) {
        jvalue v = share((ls_str){"", 0});
        for (size_t i = 0; i < of->n && !m->code; i++) {
            if (i && a->n) v = joined(m, &v, &a->v[0]);
            v = joined(m, &v, &of->items[i]);
        }
        return v;
    }
    if (equals(name, "tojson")) {
        ls_buf b = {0};
        json(m, of, &b);
        jvalue v = j_str(m, b.p, b.n);
        ls_buf_free(&b);
        return v;
    }
    j_fail(m, LS_E_UNSUPPORTED, "the filter '%.*s' here", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

static bool test(jvm *m, const jvalue *v, ls_str name) {
    if (equals(name, "defined")) return v->kind != J_UNDEFINED;
    if (equals(name, "undefined")) return v->kind == J_UNDEFINED;
    if (equals(name, "none")) return v->kind == J_NONE;
    if (equals(name, "string")) return v->kind == J_STRING;
    if (equals(name, "mapping")) return v->kind == J_DICT;
    if (equals(name, "number") || equals(name, "integer")) return v->kind == J_INT;
    if (equals(name, "boolean")) return v->kind == J_BOOL;
    if (equals(name, "iterable") || equals(name, "sequence"))
        return v->kind == J_LIST || v->kind == J_STRING || v->kind == J_DICT || v->kind == J_UNDEFINED;
    if (equals(name, "true")) return v->kind == J_BOOL && v->i;
    if (equals(name, "false")) return v->kind == J_BOOL && !v->i;
    j_fail(m, LS_E_UNSUPPORTED, "the test '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return false;
}

// ---- attributes and subscripts

static jvalue attribute(jvm *m, const jvalue *of, ls_str name) {
    if (of->kind == J_DICT) {
        const jvalue *v = j_get(of->dict, name.p, name.n);
        return v ? *v : (jvalue){0};
    }
    if (of->kind == J_UNDEFINED) j_fail(m, LS_E_USAGE, "'%.*s' of nothing", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

static jvalue element(jvm *m, const jvalue *of, const jvalue *at) {
    if (at->kind == J_STRING) return attribute(m, of, at->s);
    if (of->kind == J_LIST && at->kind == J_INT) {
        int64_t i = at->i < 0 ? at->i + (int64_t)of->n : at->i;
        return i >= 0 && i < (int64_t)of->n ? of->items[i] : (jvalue){0};
    }
    j_fail(m, of->kind == J_UNDEFINED ? LS_E_USAGE : LS_E_UNSUPPORTED, "such a subscript");
    return (jvalue){0};
}

static int64_t bound(const jvalue *v, int64_t n, int64_t otherwise) {
    if (v->kind != J_INT) return otherwise;
    int64_t i = v->i < 0 ? v->i + n : v->i;
    return i < 0 ? 0 : i > n ? n : i;
}

static jvalue slice(jvm *m, const jvalue *of, const jvalue *from, const jvalue *to, const jvalue *step) {
    bool back = step->kind == J_INT && step->i == -1;
    if (step->kind == J_INT && !back && step->i != 1) j_fail(m, LS_E_UNSUPPORTED, "such a step of a slice");
    if (of->kind == J_LIST && !back) {
        int64_t a = bound(from, (int64_t)of->n, 0), b = bound(to, (int64_t)of->n, (int64_t)of->n);
        return (jvalue){.kind = J_LIST, .items = of->items + a, .n = b > a ? (size_t)(b - a) : 0};
    }
    if (of->kind == J_LIST && from->kind != J_INT && to->kind != J_INT) {
        jvalue v = list_of(m, of->n);
        for (size_t i = 0; i < v.n; i++) v.items[i] = of->items[of->n - 1 - i];
        return v;
    }
    if (of->kind == J_STRING && !back && characters(of->s) == of->s.n) {
        int64_t a = bound(from, (int64_t)of->s.n, 0), b = bound(to, (int64_t)of->s.n, (int64_t)of->s.n);
        return share((ls_str){of->s.p + a, b > a ? (size_t)(b - a) : 0});
    }
    j_fail(m, LS_E_UNSUPPORTED, "such a slice");
    return (jvalue){0};
}

static jvalue subscript(jvm *m, const jvalue *of) { // after the opening bracket
    jvalue part[3] = {{.kind = J_NONE}, {.kind = J_NONE}, {.kind = J_NONE}};
    int n = 0;
    for (;; n++) {
        j_space(m);
        if (m->p < m->end && *m->p != ':' && *m->p != ']') part[n] = j_expr(m, true);
        if (n == 2 || !j_take(m, ":")) break;
    }
    if (!j_take(m, "]")) j_fail(m, LS_E_PARSE, "']' is missing");
    return n ? slice(m, of, &part[0], &part[1], &part[2]) : element(m, of, &part[0]);
}

// ---- literals and names

static jvalue string_literal(jvm *m) {
    ls_buf b = {0};
    do { // "a" "b" is one string
        char quote = *m->p++;
        while (m->p < m->end && *m->p != quote) {
            char c = *m->p++;
            if (c == '\\' && m->p < m->end) {
                c = *m->p++;
                if (c == 'n') c = '\n';
                else if (c == 't') c = '\t';
                else if (c == 'r') c = '\r';
                else if (c != '\\' && c != '\'' && c != '"') j_fail(m, LS_E_UNSUPPORTED, "the escape '\\%c'", c);
            }
            ls_buf_char(&b, c);
        }
        if (m->p < m->end) m->p++;
        else j_fail(m, LS_E_PARSE, "a string that is not closed");
        j_space(m);
    } while (m->p < m->end && (*m->p == '"' || *m->p == '\''));
    jvalue v = j_str(m, b.p, b.n);
    ls_buf_free(&b);
    return v;
}

static jvalue list_literal(jvm *m) {
    jvalue held[MAX_ARGS];
    size_t n = 0;
    while (!j_take(m, "]")) {
        if (m->p >= m->end || n == MAX_ARGS) {
            j_fail(m, LS_E_UNSUPPORTED, "a list that is not closed, or long");
            m->p = m->end;
            break;
        }
        held[n++] = j_expr(m, true);
        if (!j_take(m, ",") && (j_space(m), m->p < m->end && *m->p != ']')) {
            j_fail(m, LS_E_PARSE, "',' or ']' is missing");
            m->p = m->end;
        }
    }
    jvalue v = list_of(m, n);
    if (v.n) memcpy(v.items, held, n * sizeof *held);
    return v;
}

static jvalue dict_literal(jvm *m) {
    jvalue v = {.kind = J_DICT, .dict = j_alloc(m, sizeof(jdict))};
    while (!j_take(m, "}")) {
        jvalue key = j_expr(m, true), value = {0};
        if (key.kind == J_STRING && j_take(m, ":")) value = j_expr(m, true);
        else m->p = m->end;
        if (m->p >= m->end || (!j_take(m, ",") && *m->p != '}')) {
            j_fail(m, LS_E_PARSE, "a dictionary that is not closed, or with other keys than strings");
            m->p = m->end;
            break;
        }
        j_put(m, v.dict, key.s, value);
    }
    return v;
}

static jvalue primary(jvm *m) {
    j_space(m);
    if (m->p >= m->end) {
        j_fail(m, LS_E_PARSE, "an expression is missing");
        return (jvalue){0};
    }
    if (*m->p == '"' || *m->p == '\'') return string_literal(m);
    if (isdigit((unsigned char)*m->p)) {
        int64_t i = 0;
        while (m->p < m->end && isdigit((unsigned char)*m->p))
            i = i < 1000000000 ? i * 10 + (*m->p++ - '0') : (m->p++, i);
        if (m->p < m->end && *m->p == '.') j_fail(m, LS_E_UNSUPPORTED, "a number with a fraction");
        return j_int(i);
    }
    if (j_take(m, "(")) {
        jvalue v = j_expr(m, true);
        if (!j_take(m, ")")) j_fail(m, LS_E_PARSE, "')' is missing, or a tuple");
        return v;
    }
    if (j_take(m, "[")) return list_literal(m);
    if (j_take(m, "{")) return dict_literal(m);
    ls_str name = j_name(m);
    if (!name.n) {
        j_fail(m, LS_E_PARSE, "'%c' is not expected", *m->p);
        m->p = m->end;
        return (jvalue){0};
    }
    if (equals(name, "true") || equals(name, "True")) return j_bool(true);
    if (equals(name, "false") || equals(name, "False")) return j_bool(false);
    if (equals(name, "none") || equals(name, "None")) return (jvalue){.kind = J_NONE};
    if (j_take(m, "(")) {
        arguments a;
        read_arguments(m, &a);
        return call_function(m, name, &a);
    }
    jvar *v = j_find(m, name);
    return v ? v->value : (jvalue){0};
}

static jvalue postfix(jvm *m) {
    jvalue v = primary(m);
    arguments a;
    while (m->p < m->end) {
        if (j_take(m, ".")) {
            ls_str name = j_name(m);
            if (!name.n) j_fail(m, LS_E_PARSE, "a name is missing after '.'");
            if (j_take(m, "(")) {
                read_arguments(m, &a);
                v = call_method(m, &v, name, &a);
            } else v = attribute(m, &v, name);
        } else if (j_take(m, "[")) v = subscript(m, &v);
        else break;
    }
    return v;
}

// Counts one more level; false, at the end of the tag and with an error set, when there are too many.
static bool deeper(jvm *m) {
    if (++m->depth <= MAX_DEPTH) return true;
    j_fail(m, LS_E_RANGE, "an expression that is nested too deep");
    m->p = m->end;
    return false;
}

// What binds tighter than any operator: filters and tests.
static jvalue filtered(jvm *m) {
    jvalue v = {0};
    arguments a;
    if (!deeper(m)) {
        m->depth--;
        return v;
    }
    if (j_take(m, "-")) {
        v = filtered(m);
        if (v.kind != J_INT) j_fail(m, LS_E_UNSUPPORTED, "'-' of this value");
        v.i = -v.i;
    } else v = postfix(m);
    while (m->p < m->end) {
        if (j_take(m, "|")) {
            ls_str name = j_name(m);
            a.n = 0;
            if (j_take(m, "(")) read_arguments(m, &a);
            v = filter(m, &v, name, &a);
        } else if (j_word(m, "is")) {
            bool negated = j_word(m, "not");
            v = j_bool(test(m, &v, j_name(m)) != negated);
        } else break;
    }
    m->depth--;
    return v;
}

static jvalue product(jvm *m) {
    jvalue v = filtered(m);
    for (;;) {
        bool mod = j_take(m, "%");
        if (!mod && !j_take(m, "*")) return v;
        jvalue w = filtered(m);
        if (v.kind != J_INT || w.kind != J_INT || (mod && w.i < 1) || llabs(v.i) > 1000000 || llabs(w.i) > 1000000)
            j_fail(m, LS_E_UNSUPPORTED, "such arithmetic");
        else v = j_int(mod ? (v.i % w.i + w.i) % w.i : v.i * w.i);
    }
}

static jvalue concatenation(jvm *m) { // "~" binds tighter than "+"
    jvalue v = product(m);
    while (j_take(m, "~")) {
        jvalue w = product(m);
        v = joined(m, &v, &w);
    }
    return v;
}

static jvalue sum(jvm *m) {
    jvalue v = concatenation(m);
    for (;;) {
        bool minus = j_take(m, "-");
        if (!minus && !j_take(m, "+")) return v;
        jvalue w = concatenation(m);
        if (v.kind == J_STRING && w.kind == J_STRING && !minus) v = joined(m, &v, &w);
        else if (v.kind == J_INT && w.kind == J_INT && llabs(v.i) < INT32_MAX && llabs(w.i) < INT32_MAX)
            v = j_int(minus ? v.i - w.i : v.i + w.i);
        else { // as in Python, where None or nothing plus a string is an error
            j_fail(m, LS_E_USAGE, "'%c' of values that do not fit", minus ? '-' : '+');
            v = (jvalue){0};
        }
    }
}

static bool contains(jvm *m, const jvalue *in, const jvalue *what) {
    if (in->kind == J_STRING && what->kind == J_STRING)
        return !what->s.n || memmem(in->s.p, in->s.n, what->s.p, what->s.n);
    if (in->kind == J_DICT && what->kind == J_STRING) return j_get(in->dict, what->s.p, what->s.n) != NULL;
    if (in->kind == J_LIST) {
        for (size_t i = 0; i < in->n; i++)
            if (same(&in->items[i], what)) return true;
        return false;
    }
    if (in->kind != J_UNDEFINED) j_fail(m, LS_E_USAGE, "'in' of such a value");
    return false;
}

static jvalue comparison(jvm *m) {
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    jvalue v = sum(m);
    bool all = true, any = false;
    for (;;) {
        size_t op = 0;
        while (op < 6 && !j_take(m, ops[op])) op++;
        const char *was = m->p;
        bool in = op == 6 && j_word(m, "in"), not_in = false;
        if (op == 6 && !in) {
            not_in = j_word(m, "not") && j_word(m, "in");
            if (!not_in) {
                m->p = was;
                return any ? j_bool(all) : v;
            }
        }
        jvalue w = sum(m);
        bool yes = false;
        if (in || not_in) yes = contains(m, &w, &v) != not_in;
        else if (op < 2) yes = same(&v, &w) == (op == 0);
        else if (v.kind != J_INT || w.kind != J_INT) j_fail(m, LS_E_USAGE, "'%s' of such values", ops[op]);
        else yes = op == 2 ? v.i <= w.i : op == 3 ? v.i >= w.i : op == 4 ? v.i < w.i : v.i > w.i;
        all = all && yes;
        any = true;
        v = w;
    }
}

static jvalue negation(jvm *m) {
    bool odd = false, any = false;
    while (j_word(m, "not")) odd = !odd, any = true;
    jvalue v = comparison(m);
    return any ? j_bool(j_true(&v) != odd) : v;
}

// The right side of "and" and "or" counts, its errors too, only if the left side does not decide.
static jvalue conjunction(jvm *m) {
    jvalue v = negation(m);
    while (j_word(m, "and")) {
        ls_code had = m->code;
        jvalue w = negation(m);
        if (j_true(&v)) v = w;
        else m->code = had;
    }
    return v;
}

static jvalue disjunction(jvm *m) {
    jvalue v = conjunction(m);
    while (j_word(m, "or")) {
        ls_code had = m->code;
        jvalue w = conjunction(m);
        if (!j_true(&v)) v = w;
        else m->code = had;
    }
    return v;
}

static jvalue choice(jvm *m) {
    ls_code had = m->code;
    jvalue v = disjunction(m);
    if (!j_word(m, "if")) return v;
    ls_code then = m->code;
    m->code = had;
    jvalue when = disjunction(m), otherwise = {0};
    ls_code decided = m->code;
    if (j_word(m, "else")) otherwise = j_expr(m, true);
    if (!j_true(&when)) return otherwise;
    m->code = decided ? decided : then;
    return v;
}

jvalue j_expr(jvm *m, bool conditional) {
    jvalue v = {0};
    if (deeper(m)) v = conditional ? choice(m) : disjunction(m);
    m->depth--;
    return v;
}
