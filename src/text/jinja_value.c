// Values, as Python has them.
#include "text/jinja_internal.h"

#include <math.h>

// ---- making

jvalue j_list(jvm *m, jkind kind, size_t n) {
    jvalue v = {.kind = kind, .list = j_alloc(m, sizeof *v.list)};
    enum { MOST = INT32_MAX }; // more than there is memory for: a filter may be asked for any number
    v.list->items = j_alloc(m, (n < MOST ? n : MOST) * sizeof *v.list->items);
    v.list->n = n;
    return v;
}

jvalue j_dict(jvm *m, jkind kind) {
    return (jvalue){.kind = kind, .dict = j_alloc(m, sizeof(jdict))};
}

const jvalue *j_get(jvm *m, const jdict *d, const jvalue *key) {
    j_spend(m, d->n);
    for (size_t i = 0; i < d->n; i++)
        if (j_same(m, &d->keys[i], key)) return &d->values[i];
    return NULL;
}

void j_put(jvm *m, jdict *d, jvalue key, jvalue v) {
    if (key.kind == J_LIST || key.kind == J_DICT) j_fail(m, LS_E_USAGE, "unhashable type: '%s'", j_type(&key));
    jvalue *old = (jvalue *)j_get(m, d, &key);
    if (old) {
        *old = v;
        return;
    }
    d->keys = j_grown(m, d->keys, d->n, sizeof *d->keys);
    d->values = j_grown(m, d->values, d->n, sizeof *d->values);
    d->keys[d->n] = key;
    d->values[d->n++] = v;
}

jstr j_copied(jvm *m, const char *p, size_t n, bool marked) {
    char *text = j_alloc(m, n);
    unsigned char *marks = marked ? j_alloc(m, n) : NULL;
    if (n) memcpy(text, p, n);
    if (marks && n) memset(marks, 1, n);
    return (jstr){text, marks, n};
}

jvalue j_from_json(jvm *m, const ls_json *v, jorigin of) {
    size_t n;
    int64_t i;
    double f;
    bool b;
    const char *s = ls_json_str(v, &n);
    if (s) return j_string(j_copied(m, s, n, of != J_TRUSTED));
    if (ls_json_bool(v, &b)) return j_bool(b);
    if (ls_json_is_null(v)) return j_none();
    if (!ls_json_is_real(v) && ls_json_int(v, &i)) return j_int(i);
    if (ls_json_num(v, &f)) return j_float(f);
    j_deeper(m);
    jvalue out;
    if (ls_json_is_array(v)) {
        out = j_list(m, J_LIST, ls_json_size(v));
        const jorigin item = of == J_MESSAGES ? J_MESSAGE : of == J_MESSAGE ? J_CONVERSATION : of;
        for (size_t k = 0; k < out.list->n; k++) out.list->items[k] = j_from_json(m, ls_json_at(v, k), item);
    } else {
        out = j_dict(m, J_DICT);
        for (ls_json_member e = {0}; ls_json_next(v, &e);) {
            const bool role = of == J_MESSAGE && !strcmp(e.key, "role") && ls_json_str(e.value, NULL);
            j_put(m, out.dict, j_string(j_copied(m, e.key, strlen(e.key), of != J_TRUSTED)),
                  j_from_json(m, e.value, role || of == J_TRUSTED ? J_TRUSTED : J_CONVERSATION));
        }
    }
    m->depth--;
    return out;
}

jvalue j_function(jvm *m, jstr name, jvalue self) {
    jfunction *fn = j_alloc(m, sizeof *fn);
    *fn = (jfunction){.name = name, .self = self};
    return (jvalue){.kind = J_FUNCTION, .fn = fn};
}

// ---- asking

const char *j_type(const jvalue *v) {
    static const char *const names[] = {"Undefined", "NoneType",  "bool", "int",       "float",       "str",     "list",
                                        "tuple",     "generator", "dict", "Namespace", "LoopContext", "function"};
    return names[v->kind];
}

static bool is_list(const jvalue *v) {
    return v->kind == J_LIST || v->kind == J_TUPLE;
}

bool j_is_number(const jvalue *v) {
    return v->kind == J_BOOL || v->kind == J_INT || v->kind == J_FLOAT;
}

double j_number(const jvalue *v) {
    return v->kind == J_FLOAT ? v->f : (double)v->i;
}

bool j_true(const jvalue *v) {
    switch (v->kind) {
    case J_UNDEFINED:
    case J_NONE: return false;
    case J_BOOL:
    case J_INT: return v->i != 0;
    case J_FLOAT: return v->f != 0;
    case J_STRING: return v->s.n > 0;
    case J_LIST:
    case J_TUPLE: return v->list->n > 0;
    case J_DICT: return v->dict->n > 0;
    default: return true;
    }
}

bool j_same(jvm *m, const jvalue *a, const jvalue *b) {
    if (j_is_number(a) && j_is_number(b))
        return a->kind == J_FLOAT || b->kind == J_FLOAT ? j_number(a) == j_number(b) : a->i == b->i;
    if (a->kind != b->kind) return false;
    if (a->kind == J_STRING) return j_spend(m, a->s.n == b->s.n ? a->s.n / 16 : 0), j_same_text(a->s, b->s);
    if (a->kind == J_FUNCTION) return a->fn == b->fn;
    if (a->kind == J_NAMESPACE) return a->dict == b->dict;
    if (!is_list(a) && a->kind != J_DICT) return true;
    j_deeper(m);
    bool same = is_list(a) ? a->list->n == b->list->n : a->dict->n == b->dict->n;
    for (size_t i = 0; same && is_list(a) && i < a->list->n; i++)
        same = j_same(m, &a->list->items[i], &b->list->items[i]);
    for (size_t i = 0; same && a->kind == J_DICT && i < a->dict->n; i++) {
        const jvalue *other = j_get(m, b->dict, &a->dict->keys[i]);
        same = other && j_same(m, &a->dict->values[i], other);
    }
    m->depth--;
    return same;
}

static void need_defined(jvm *m, const jvalue *a, const jvalue *b) {
    const jvalue *v = a->kind == J_UNDEFINED ? a : b;
    if (v->kind == J_UNDEFINED) j_fail(m, LS_E_USAGE, "'%.*s' is undefined", J_SHOWN(v->s));
}

int j_compare(jvm *m, const jvalue *a, const jvalue *b) {
    if (j_is_number(a) && j_is_number(b)) {
        if (a->kind != J_FLOAT && b->kind != J_FLOAT) return a->i < b->i ? -1 : a->i > b->i;
        return j_number(a) < j_number(b) ? -1 : j_number(a) > j_number(b);
    }
    if (a->kind == J_STRING && b->kind == J_STRING) {
        const size_t n = a->s.n < b->s.n ? a->s.n : b->s.n;
        j_spend(m, n / 16);
        const int c = n ? memcmp(a->s.p, b->s.p, n) : 0; // UTF-8 sorts as code points do
        return c ? c : a->s.n < b->s.n ? -1 : a->s.n > b->s.n;
    }
    if (is_list(a) && a->kind == b->kind) {
        j_deeper(m);
        int c = 0;
        for (size_t i = 0; !c && i < a->list->n && i < b->list->n; i++)
            if (!j_same(m, &a->list->items[i], &b->list->items[i]))
                c = j_compare(m, &a->list->items[i], &b->list->items[i]);
        m->depth--;
        return c ? c : a->list->n < b->list->n ? -1 : a->list->n > b->list->n;
    }
    need_defined(m, a, b);
    j_fail(m, LS_E_USAGE, "'<' not supported between instances of '%s' and '%s'", j_type(a), j_type(b));
}

static bool contains(jvm *m, const jvalue *in, const jvalue *what) {
    if (in->kind == J_STRING) {
        if (what->kind != J_STRING)
            j_fail(m, LS_E_USAGE, "'in <string>' requires string as left operand, not %s", j_type(what));
        return j_find(m, in->s, what->s, false) != SIZE_MAX;
    }
    if (in->kind == J_DICT) return j_get(m, in->dict, what) != NULL;
    const jlist all = j_items(m, in);
    j_spend(m, all.n);
    for (size_t i = 0; i < all.n; i++)
        if (j_same(m, &all.items[i], what)) return true;
    return false;
}

bool j_compares(jvm *m, char op, const jvalue *a, const jvalue *b) {
    switch (op) {
    case '=': return j_same(m, a, b);
    case '!': return !j_same(m, a, b);
    case 'i': return contains(m, b, a);
    case 'o': return !contains(m, b, a);
    case '<': return j_compare(m, a, b) < 0;
    case '>': return j_compare(m, a, b) > 0;
    case 'l': return j_compare(m, a, b) <= 0;
    default: return j_compare(m, a, b) >= 0;
    }
}

// Where character i begins; beyond the last: s.n. *left: characters that lack then.
static size_t place(jvm *m, jstr s, size_t i, size_t *left) {
    const char *p = s.p, *end = s.p + s.n;
    for (; i && p < end; i--) p += (signed char)*p >= 0 ? 1 : j_char((jstr){p, NULL, (size_t)(end - p)}, NULL);
    j_spend(m, (size_t)(p - s.p) / 8);
    *left = i;
    return (size_t)(p - s.p);
}

static size_t characters(jvm *m, jstr s) {
    size_t left;
    place(m, s, SIZE_MAX, &left);
    return SIZE_MAX - left;
}

size_t j_length(jvm *m, const jvalue *v) {
    if (v->kind == J_UNDEFINED) return 0;
    if (v->kind == J_STRING) return characters(m, v->s);
    if (is_list(v)) return v->list->n;
    if (v->kind == J_DICT) return v->dict->n;
    if (v->kind == J_LOOP) return v->loop->all.n;
    j_fail(m, LS_E_USAGE, "object of type '%s' has no len()", j_type(v));
}

jlist j_items(jvm *m, const jvalue *v) {
    if (is_list(v) || v->kind == J_ITERATOR) return *v->list;
    if (v->kind == J_UNDEFINED) return (jlist){0};
    if (v->kind == J_DICT) return (jlist){v->dict->keys, v->dict->n};
    if (v->kind != J_STRING) j_fail(m, LS_E_USAGE, "'%s' object is not iterable", j_type(v));
    jvalue out = j_list(m, J_LIST, characters(m, v->s));
    jstr s = v->s;
    for (size_t i = 0; i < out.list->n; i++) {
        const size_t n = j_char(s, NULL);
        out.list->items[i] = j_string(j_part(s, 0, n));
        s = j_part(s, n, SIZE_MAX);
    }
    return *out.list;
}

// ---- operators

static jvalue repeated(jvm *m, const jvalue *v, int64_t times) {
    if (times < 0) times = 0;
    if (v->kind == J_STRING) {
        jtext t = {0};
        for (int64_t i = 0; i < times && v->s.n; i++) j_add(m, &t, v->s);
        return j_made(m, &t);
    }
    if (v->list->n && times > 1 << 20) j_fail(m, LS_E_RANGE, "a list cannot be repeated %lld times", (long long)times);
    jvalue out = j_list(m, v->kind, v->list->n ? v->list->n * (size_t)times : 0);
    for (size_t i = 0; i < out.list->n; i++) out.list->items[i] = v->list->items[i % v->list->n];
    return out;
}

static jvalue joined(jvm *m, const jvalue *a, const jvalue *b) {
    if (a->kind == J_STRING) {
        jtext t = {0};
        j_add(m, &t, a->s);
        j_add(m, &t, b->s);
        return j_made(m, &t);
    }
    jvalue out = j_list(m, a->kind, a->list->n + b->list->n);
    for (size_t i = 0; i < a->list->n; i++) out.list->items[i] = a->list->items[i];
    for (size_t i = 0; i < b->list->n; i++) out.list->items[a->list->n + i] = b->list->items[i];
    return out;
}

static int64_t floor_divided(int64_t a, int64_t b) {
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static jvalue integers(jvm *m, char op, int64_t a, int64_t b) {
    int64_t v = 0;
    bool over = false;
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, &v); break;
    case '-': over = __builtin_sub_overflow(a, b, &v); break;
    case '*': over = __builtin_mul_overflow(a, b, &v); break;
    case 'f':
        v = floor_divided(a, b);
        over = a == INT64_MIN && b == -1;
        break;
    case '%': over = __builtin_sub_overflow(a, (int64_t)((uint64_t)floor_divided(a, b) * (uint64_t)b), &v); break;
    default: // a power
        if (b < 0) return j_float(pow((double)a, (double)b));
        if (b > 64 && (a > 1 || a < -1)) over = true;
        v = 1;
        for (int64_t i = 0; i < b && !over && (a > 1 || a < -1); i++) over = __builtin_mul_overflow(v, a, &v);
        if (a >= -1 && a <= 1 && b) v = a == -1 && b % 2 == 0 ? 1 : a;
    }
    if (over) j_fail(m, LS_E_RANGE, "a number does not fit 64 bits");
    return j_int(v);
}

static jvalue reals(char op, double a, double b) {
    switch (op) {
    case '+': return j_float(a + b);
    case '-': return j_float(a - b);
    case '*': return j_float(a * b);
    case '/': return j_float(a / b);
    case 'f': return j_float(floor(a / b));
    case '%': return j_float(a - floor(a / b) * b);
    default: return j_float(pow(a, b));
    }
}

jvalue j_arithmetic(jvm *m, char op, const jvalue *a, const jvalue *b) {
    if (op == '~') {
        jtext t = {0};
        j_print(m, &t, a);
        j_print(m, &t, b);
        return j_made(m, &t);
    }
    need_defined(m, a, b);
    if (j_is_number(a) && j_is_number(b)) {
        if ((op == '/' || op == 'f' || op == '%') && j_number(b) == 0) j_fail(m, LS_E_USAGE, "division by zero");
        if (op == '/' || a->kind == J_FLOAT || b->kind == J_FLOAT) return reals(op, j_number(a), j_number(b));
        return integers(m, op, a->i, b->i);
    }
    const bool sequence = a->kind == J_STRING || is_list(a);
    if (op == '+' && sequence && a->kind == b->kind) return joined(m, a, b);
    if (op == '*' && sequence && (b->kind == J_INT || b->kind == J_BOOL)) return repeated(m, a, b->i);
    if (op == '*' && (b->kind == J_STRING || is_list(b)) && (a->kind == J_INT || a->kind == J_BOOL))
        return repeated(m, b, a->i);
    if (op == '%' && a->kind == J_STRING) return j_percent(m, a->s, b);
    if (op == '+' && a->kind == J_STRING)
        j_fail(m, LS_E_USAGE, "can only concatenate str (not \"%s\") to str", j_type(b));
    char sign[3] = {op, 0, 0};
    if (op == 'f') sign[0] = sign[1] = '/';
    if (op == 'p') sign[0] = sign[1] = '*';
    j_fail(m, LS_E_USAGE, "unsupported operand type(s) for %s: '%s' and '%s'", sign, j_type(a), j_type(b));
}

// ---- parts

static jvalue of_loop(const jloop *l, jstr name) {
    const int64_t i = (int64_t)l->i, n = (int64_t)l->all.n;
    if (j_is(name, "index")) return j_int(i + 1);
    if (j_is(name, "index0")) return j_int(i);
    if (j_is(name, "first")) return j_bool(!i);
    if (j_is(name, "last")) return j_bool(i + 1 == n);
    if (j_is(name, "length")) return j_int(n);
    if (j_is(name, "revindex")) return j_int(n - i);
    if (j_is(name, "revindex0")) return j_int(n - i - 1);
    if (j_is(name, "depth")) return j_int(1); // of recursive loops
    if (j_is(name, "depth0")) return j_int(0);
    if (j_is(name, "previtem") && i) return l->all.items[i - 1];
    if (j_is(name, "nextitem") && i + 1 < n) return l->all.items[i + 1];
    return j_undefined(name);
}

jvalue j_attribute(jvm *m, const jvalue *of, jstr name) {
    if (of->kind == J_UNDEFINED) {
        if (of->s.n) j_fail(m, LS_E_USAGE, "'%.*s' is undefined", J_SHOWN(of->s));
        j_fail(m, LS_E_USAGE, "'%.*s' of an undefined value", J_SHOWN(name));
    }
    if (j_has_method(of, name)) return j_function(m, name, *of);
    if (of->kind == J_LOOP) return of_loop(of->loop, name);
    if (of->kind == J_DICT || of->kind == J_NAMESPACE) {
        const jvalue key = j_string(name), *v = j_get(m, of->dict, &key);
        if (v) return *v;
    }
    return j_undefined(name);
}

jvalue j_element(jvm *m, const jvalue *of, const jvalue *at) {
    const jvalue *v = of->kind == J_DICT ? j_get(m, of->dict, at) : NULL;
    if (v) return *v;
    if (at->kind == J_STRING) return j_attribute(m, of, at->s);
    if (of->kind == J_UNDEFINED) j_attribute(m, of, j_lit("an element"));
    if ((is_list(of) || of->kind == J_STRING) && (at->kind == J_INT || at->kind == J_BOOL)) {
        const int64_t i = at->i < 0 ? at->i + (int64_t)j_length(m, of) : at->i;
        if (is_list(of) && i >= 0 && i < (int64_t)of->list->n) return of->list->items[i];
        if (of->kind == J_STRING && i >= 0) {
            size_t left;
            const jstr rest = j_part(of->s, place(m, of->s, (size_t)i, &left), SIZE_MAX);
            if (rest.n) return j_string(j_part(rest, 0, j_char(rest, NULL)));
        }
    }
    return j_undefined((jstr){0});
}

static int64_t bound(jvm *m, const jvalue *v, int64_t n, int64_t lowest, int64_t otherwise) {
    if (v->kind == J_NONE) return otherwise;
    if (v->kind != J_INT && v->kind != J_BOOL)
        j_fail(m, LS_E_USAGE, "slice indices must be integers or None, not %s", j_type(v));
    const int64_t i = v->i < 0 ? v->i + n : v->i;
    return i < lowest ? lowest : i > n + lowest ? n + lowest : i;
}

jvalue j_slice(jvm *m, const jvalue *of, const jvalue *from, const jvalue *to, const jvalue *step) {
    if (of->kind == J_UNDEFINED) j_attribute(m, of, j_lit("a slice"));
    if (!is_list(of) && of->kind != J_STRING) return j_undefined((jstr){0});
    const int64_t n = (int64_t)j_length(m, of), most = INT64_MAX / 2;
    bound(m, step, 0, 0, 0); // that it is a number
    const int64_t by = step->kind == J_NONE ? 1 : step->i < -most ? -most : step->i;
    if (!by) j_fail(m, LS_E_USAGE, "slice step cannot be zero");
    const int64_t lowest = by < 0 ? -1 : 0, a = bound(m, from, n, lowest, by < 0 ? n - 1 : 0),
                  b = bound(m, to, n, lowest, by < 0 ? -1 : n);
    size_t count = 0;
    if (by > 0 && b > a) count = (size_t)((b - a - 1) / by + 1);
    if (by < 0 && a > b) count = (size_t)((a - b - 1) / -by + 1);
    if (of->kind == J_STRING && by == 1) { // without a copy
        size_t left;
        const jstr rest = j_part(of->s, count ? place(m, of->s, (size_t)a, &left) : 0, SIZE_MAX);
        return j_string(j_part(rest, 0, place(m, rest, count, &left)));
    }
    const jlist all = j_items(m, of);
    if (of->kind == J_STRING) {
        jtext t = {0};
        for (size_t i = 0; i < count; i++) j_add(m, &t, all.items[a + (int64_t)i * by].s);
        return j_made(m, &t);
    }
    jvalue out = j_list(m, of->kind, count);
    for (size_t i = 0; i < count; i++) out.list->items[i] = all.items[a + (int64_t)i * by];
    return out;
}
