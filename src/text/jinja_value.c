// What can be done with values: functions, methods, filters, tests, parts.
#include "base/utf8.h"
#include "text/jinja_internal.h"

#include <ctype.h>
#include <string.h>

enum { MAX_TEXT = 1 << 24 };

bool j_equals(ls_str s, const char *what) {
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

bool j_same(const jvalue *a, const jvalue *b) {
    return same_to(a, b, 8);
}

jvalue j_list(jvm *m, size_t n) {
    jvalue *items = j_alloc(m, n * sizeof *items);
    return (jvalue){.kind = J_LIST, .items = items, .n = items ? n : 0};
}

static jvalue share(ls_str s) {
    return (jvalue){.kind = J_STRING, .s = s};
}

jvalue j_joined(jvm *m, const jvalue *a, const jvalue *b) {
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
    jvalue v = j_list(m, n);
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

static ls_str string_arg(jvm *m, const jarguments *a, int i, const char *where) {
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

jvalue j_function(jvm *m, ls_str name, const jarguments *a) {
    if (j_equals(name, "raise_exception")) {
        ls_str why = a->n && a->v[0].kind == J_STRING ? a->v[0].s : (ls_str){"", 0};
        j_fail(m, LS_E_USAGE, "%.*s", (int)(why.n < 160 ? why.n : 160), why.p);
    } else if (j_equals(name, "strftime_now")) return fixed_date(m, string_arg(m, a, 0, "strftime_now"));
    else if (j_equals(name, "namespace") || j_equals(name, "dict")) {
        jvalue v = {.kind = J_DICT, .dict = j_alloc(m, sizeof(jdict))};
        for (int i = 0; i < a->n; i++) {
            if (!a->name[i].n) j_fail(m, LS_E_UNSUPPORTED, "'namespace' with such arguments");
            j_put(m, v.dict, a->name[i], a->v[i]);
        }
        return v;
    } else if (j_equals(name, "range")) {
        int64_t from = a->n > 1 ? a->v[0].i : 0, to = a->n ? a->v[a->n > 1].i : 0;
        if (a->n < 1 || a->n > 2 || from < -10000 || to > 10000) j_fail(m, LS_E_UNSUPPORTED, "such a 'range'");
        else {
            jvalue v = j_list(m, to > from ? (size_t)(to - from) : 0);
            for (size_t i = 0; i < v.n; i++) v.items[i] = j_int(from + (int64_t)i);
            return v;
        }
    } else j_fail(m, LS_E_UNSUPPORTED, "the function '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

static jvalue items_of(jvm *m, const jdict *d) {
    jvalue v = j_list(m, d->n);
    for (size_t i = 0; i < v.n; i++) {
        v.items[i] = j_list(m, 2);
        if (!v.items[i].n) break;
        v.items[i].items[0] = share(d->keys[i]);
        v.items[i].items[1] = d->values[i];
    }
    return v;
}

jvalue j_method(jvm *m, const jvalue *of, ls_str name, const jarguments *a) {
    if (of->kind == J_STRING) {
        bool left = j_equals(name, "lstrip"), right = j_equals(name, "rstrip");
        if (left || right || j_equals(name, "strip")) {
            ls_str chars = a->n ? string_arg(m, a, 0, "strip") : (ls_str){"", 0};
            return share(strip(of->s, a->n ? &chars : NULL, !right, !left));
        }
        if (j_equals(name, "startswith") || j_equals(name, "endswith")) {
            ls_str what = string_arg(m, a, 0, "startswith");
            const char *at = j_equals(name, "startswith") ? of->s.p : of->s.p + of->s.n - what.n;
            return j_bool(what.n <= of->s.n && !memcmp(at, what.p, what.n));
        }
        if (j_equals(name, "split") && a->n == 1) {
            ls_str by = string_arg(m, a, 0, "split");
            if (by.n) return split(m, of->s, by);
        }
        if (j_equals(name, "replace") && a->n == 2)
            return replaced(m, of->s, string_arg(m, a, 0, "replace"), string_arg(m, a, 1, "replace"));
        if (j_equals(name, "upper") || j_equals(name, "lower")) return cased(m, of->s, j_equals(name, "upper"));
        if (j_equals(name, "title") || j_equals(name, "capitalize")) return titled(m, of->s, j_equals(name, "title"));
    }
    if (of->kind == J_DICT && j_equals(name, "get") && a->n) {
        ls_str key = string_arg(m, a, 0, "get");
        const jvalue *v = j_get(of->dict, key.p, key.n);
        return v ? *v : a->n > 1 ? a->v[1] : (jvalue){.kind = J_NONE};
    }
    if (of->kind == J_DICT && j_equals(name, "items")) return items_of(m, of->dict);
    j_fail(m, LS_E_UNSUPPORTED, "the method '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

static size_t characters(ls_str s) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

static jvalue select_attr(jvm *m, const jvalue *of, const jarguments *a, bool keep) {
    ls_str key = string_arg(m, a, 0, "selectattr"), test = a->n > 1 ? string_arg(m, a, 1, "selectattr") : key;
    if (a->n == 2 || (a->n == 3 && !j_equals(test, "equalto") && !j_equals(test, "eq") && !j_equals(test, "==")))
        j_fail(m, LS_E_UNSUPPORTED, "'selectattr' with such a test");
    jvalue v = j_list(m, of->n);
    const size_t n = v.n;
    v.n = 0;
    for (size_t i = 0; i < n; i++) {
        const jvalue *x = of->items[i].kind == J_DICT ? j_get(of->items[i].dict, key.p, key.n) : NULL;
        if ((x && (a->n > 2 ? j_same(x, &a->v[2]) : j_true(x))) == keep) v.items[v.n++] = of->items[i];
    }
    return v;
}

jvalue j_filter(jvm *m, const jvalue *of, ls_str name, const jarguments *a) {
    for (int i = 0; i < a->n && !j_equals(name, "tojson"); i++)
        if (a->name[i].n) j_fail(m, LS_E_UNSUPPORTED, "named arguments of a filter");
    if (j_equals(name, "trim") && of->kind == J_STRING && !a->n) return share(ls_strip(of->s));
    if (j_equals(name, "length") || j_equals(name, "count")) {
        if (of->kind == J_STRING) return j_int((int64_t)characters(of->s));
        if (of->kind == J_UNDEFINED) return j_int(0);
        if (of->kind == J_LIST) return j_int((int64_t)of->n);
        if (of->kind == J_DICT) return j_int((int64_t)of->dict->n);
    }
    if (j_equals(name, "string")) return of->kind == J_STRING ? *of : j_joined(m, of, &(jvalue){.kind = J_UNDEFINED});
    if (j_equals(name, "safe")) return *of;
    if (j_equals(name, "list") && of->kind == J_LIST) return *of;
    if ((j_equals(name, "first") || j_equals(name, "last")) && of->kind == J_LIST)
        return of->n ? of->items[j_equals(name, "first") ? 0 : of->n - 1] : (jvalue){0};
    if ((j_equals(name, "default") || j_equals(name, "d")) && a->n)
        return of->kind == J_UNDEFINED || (a->n > 1 && j_true(&a->v[1]) && !j_true(of)) ? a->v[0] : *of;
    if ((j_equals(name, "upper") || j_equals(name, "lower")) && of->kind == J_STRING)
        return cased(m, of->s, j_equals(name, "upper"));
    if ((j_equals(name, "title") || j_equals(name, "capitalize")) && of->kind == J_STRING)
        return titled(m, of->s, j_equals(name, "title"));
    if (j_equals(name, "replace") && of->kind == J_STRING && a->n == 2)
        return replaced(m, of->s, string_arg(m, a, 0, "replace"), string_arg(m, a, 1, "replace"));
    if ((j_equals(name, "selectattr") || j_equals(name, "rejectattr")) && of->kind == J_LIST)
        return select_attr(m, of, a, j_equals(name, "selectattr"));
    if (j_equals(name, "items") && of->kind == J_DICT) return items_of(m, of->dict);
    if (j_equals(name, "join") && of->kind == J_LIST && a->n < 2) {
        jvalue v = share((ls_str){"", 0});
        for (size_t i = 0; i < of->n && !m->code; i++) {
            if (i && a->n) v = j_joined(m, &v, &a->v[0]);
            v = j_joined(m, &v, &of->items[i]);
        }
        return v;
    }
    if (j_equals(name, "tojson")) {
        ls_buf b = {0};
        json(m, of, &b);
        jvalue v = j_str(m, b.p, b.n);
        ls_buf_free(&b);
        return v;
    }
    j_fail(m, LS_E_UNSUPPORTED, "the filter '%.*s' here", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

bool j_test(jvm *m, const jvalue *v, ls_str name) {
    if (j_equals(name, "defined")) return v->kind != J_UNDEFINED;
    if (j_equals(name, "undefined")) return v->kind == J_UNDEFINED;
    if (j_equals(name, "none")) return v->kind == J_NONE;
    if (j_equals(name, "string")) return v->kind == J_STRING;
    if (j_equals(name, "mapping")) return v->kind == J_DICT;
    if (j_equals(name, "number") || j_equals(name, "integer")) return v->kind == J_INT;
    if (j_equals(name, "boolean")) return v->kind == J_BOOL;
    if (j_equals(name, "iterable") || j_equals(name, "sequence"))
        return v->kind == J_LIST || v->kind == J_STRING || v->kind == J_DICT || v->kind == J_UNDEFINED;
    if (j_equals(name, "true")) return v->kind == J_BOOL && v->i;
    if (j_equals(name, "false")) return v->kind == J_BOOL && !v->i;
    j_fail(m, LS_E_UNSUPPORTED, "the test '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return false;
}

// ---- attributes and subscripts

jvalue j_attribute(jvm *m, const jvalue *of, ls_str name) {
    if (of->kind == J_DICT) {
        const jvalue *v = j_get(of->dict, name.p, name.n);
        return v ? *v : (jvalue){0};
    }
    if (of->kind == J_UNDEFINED) j_fail(m, LS_E_USAGE, "'%.*s' of nothing", (int)(name.n < 40 ? name.n : 40), name.p);
    return (jvalue){0};
}

jvalue j_element(jvm *m, const jvalue *of, const jvalue *at) {
    if (at->kind == J_STRING) return j_attribute(m, of, at->s);
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

jvalue j_slice(jvm *m, const jvalue *of, const jvalue *from, const jvalue *to, const jvalue *step) {
    bool back = step->kind == J_INT && step->i == -1;
    if (step->kind == J_INT && !back && step->i != 1) j_fail(m, LS_E_UNSUPPORTED, "such a step of a slice");
    if (of->kind == J_LIST && !back) {
        int64_t a = bound(from, (int64_t)of->n, 0), b = bound(to, (int64_t)of->n, (int64_t)of->n);
        return (jvalue){.kind = J_LIST, .items = of->items + a, .n = b > a ? (size_t)(b - a) : 0};
    }
    if (of->kind == J_LIST && from->kind != J_INT && to->kind != J_INT) {
        jvalue v = j_list(m, of->n);
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

bool j_contains(jvm *m, const jvalue *in, const jvalue *what) {
    if (in->kind == J_STRING && what->kind == J_STRING)
        return !what->s.n || memmem(in->s.p, in->s.n, what->s.p, what->s.n);
    if (in->kind == J_DICT && what->kind == J_STRING) return j_get(in->dict, what->s.p, what->s.n) != NULL;
    if (in->kind == J_LIST) {
        for (size_t i = 0; i < in->n; i++)
            if (j_same(&in->items[i], what)) return true;
        return false;
    }
    if (in->kind != J_UNDEFINED) j_fail(m, LS_E_USAGE, "'in' of such a value");
    return false;
}
