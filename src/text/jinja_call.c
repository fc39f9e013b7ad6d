// Filters (jinja2/filters.py), tests (jinja2/tests.py), Python's methods of strings, dictionaries and lists, and a
// template's functions. Tables name them; what differs between related ones is `how`.
#include "text/jinja_internal.h"
#include "text/normalize.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef jvalue callee(jvm *m, const jvalue *of, const jargs *a, int how);
typedef struct {
    const char *name;
    callee *run;
    int how;
} entry;
#define DEFINE(name)                                                                                                   \
    static jvalue name(__attribute__((unused)) jvm *m, __attribute__((unused)) const jvalue *of,                       \
                       __attribute__((unused)) const jargs *a, __attribute__((unused)) int how)

static const entry *named(const entry *table, size_t n, jstr name) {
    const char first = name.n ? *name.p : 0;
    for (size_t i = 0; i < n; i++)
        if (*table[i].name == first && j_is(name, table[i].name)) return &table[i];
    return NULL;
}
#define NAMED(table, name) named(table, sizeof(table) / sizeof *(table), name)

// ---- arguments

static const jvalue *given(const jargs *a, int i, const char *name) {
    for (int k = 0, at = 0; k < a->n; k++)
        if (a->names[k].n ? name && j_is(a->names[k], name) : at++ == i) return &a->v[k];
    return NULL;
}

static bool flag(const jargs *a, int i, const char *name) {
    const jvalue *v = given(a, i, name);
    return v && j_true(v);
}

static int64_t integer(jvm *m, const jargs *a, int i, const char *name, int64_t otherwise) {
    const jvalue *v = given(a, i, name);
    if (!v || v->kind == J_NONE) return otherwise;
    if (v->kind != J_INT && v->kind != J_BOOL)
        j_fail(m, LS_E_USAGE, "'%s' object cannot be interpreted as an integer", j_type(v));
    return v->i;
}

static jstr argument(jvm *m, const jargs *a, int i, const char *name) {
    const jvalue *v = given(a, i, name);
    if (!v) j_fail(m, LS_E_USAGE, "an argument is missing");
    if (v->kind != J_STRING) j_fail(m, LS_E_USAGE, "a string is expected, not %s", j_type(v));
    return v->s;
}

static const jargs nothing;

// What a width of blanks or a string indents by.
static jstr indentation(jvm *m, const jargs *a, int i, const char *name, int64_t otherwise) {
    const jvalue *width = given(a, i, name);
    if (width && width->kind == J_STRING) return width->s;
    const jvalue blank = j_string(j_lit(" ")), n = j_int(integer(m, a, i, name, otherwise));
    return j_arithmetic(m, '*', &blank, &n).s;
}

// ---- filters

DEFINE(f_length) {
    return j_int((int64_t)j_length(m, of));
}
DEFINE(f_string) {
    return j_string(j_text_of(m, of));
}
DEFINE(f_same) {
    return *of;
}
DEFINE(f_list) {
    const jlist all = j_items(m, of);
    jvalue v = j_list(m, J_LIST, 0);
    *v.list = all;
    return v;
}
DEFINE(f_end) { // how: the last item, else the first
    const jlist all = j_items(m, of);
    if (!all.n) return j_undefined(j_lit(how ? "the last item of nothing" : "the first item of nothing"));
    return all.items[how ? all.n - 1 : 0];
}
DEFINE(f_default) {
    const jvalue *v = given(a, 0, "default_value");
    if (of->kind != J_UNDEFINED && !(flag(a, 1, "boolean") && !j_true(of))) return *of;
    return v ? *v : j_string((jstr){"", NULL, 0});
}
DEFINE(cased) {
    return j_cased(m, j_text_of(m, of), (jcase)how);
}
enum { LEFT = 1, RIGHT = 2 };
DEFINE(stripped) {
    const jvalue *chars = given(a, 0, "chars");
    if (chars && chars->kind != J_NONE && chars->kind != J_STRING)
        j_fail(m, LS_E_USAGE, "strip arg must be None or str");
    const jstr *only = chars && chars->kind == J_STRING ? &chars->s : NULL;
    return j_string(j_stripped(j_text_of(m, of), only, how & LEFT, how & RIGHT));
}
DEFINE(f_replace) {
    const jvalue *from = given(a, 0, "old"), *to = given(a, 1, "new");
    if (!from || !to) j_fail(m, LS_E_USAGE, "'replace' needs two strings");
    return j_replaced(m, j_text_of(m, of), j_text_of(m, from), j_text_of(m, to), integer(m, a, 2, "count", -1));
}
DEFINE(f_indent) {
    return j_indented(m, j_text_of(m, of), indentation(m, a, 0, "width", 4), flag(a, 1, "first"), flag(a, 2, "blank"));
}
static jvalue pairs(jvm *m, const jdict *d, jkind kind) {
    jvalue v = j_list(m, kind, d->n);
    for (size_t i = 0; i < d->n; i++) {
        const jvalue two = v.list->items[i] = j_list(m, J_TUPLE, 2);
        two.list->items[0] = d->keys[i];
        two.list->items[1] = d->values[i];
    }
    return v;
}
DEFINE(f_items) {
    if (of->kind == J_UNDEFINED) return j_list(m, J_ITERATOR, 0);
    if (of->kind != J_DICT) j_fail(m, LS_E_USAGE, "Can only get item pairs from a mapping.");
    return pairs(m, of->dict, J_ITERATOR);
}
DEFINE(f_reverse) {
    const jvalue none = j_none(), back = j_int(-1);
    jvalue v = *of;
    if (v.kind != J_STRING) v = f_list(m, of, a, 0);
    return j_slice(m, &v, &none, &none, &back);
}
DEFINE(f_abs) {
    if (!j_is_number(of)) j_fail(m, LS_E_USAGE, "bad operand type for abs(): '%s'", j_type(of));
    return of->kind == J_FLOAT ? j_float(fabs(of->f))
           : of->i < 0         ? j_arithmetic(m, '-', &(jvalue){.kind = J_INT}, of)
                               : j_int(of->i);
}
DEFINE(f_float) {
    const jvalue *otherwise = given(a, 0, "default");
    if (j_is_number(of)) return j_float(j_number(of));
    char number[64] = "", *end = number;
    const jstr s = of->kind == J_STRING ? j_stripped(of->s, NULL, true, true) : (jstr){0};
    if (s.n && s.n < sizeof number) memcpy(number, s.p, s.n);
    const double v = strtod(number, &end);
    return end > number && !*end ? j_float(v) : otherwise ? *otherwise : j_float(0);
}
DEFINE(f_int) {
    const jvalue *otherwise = given(a, 0, "default");
    const int64_t base = integer(m, a, 1, "base", 10);
    if (of->kind == J_INT || of->kind == J_BOOL) return j_int(of->i);
    if (of->kind == J_STRING && base >= 2 && base <= 36) {
        char number[80] = "", *end = number;
        const jstr s = j_stripped(of->s, NULL, true, true);
        if (s.n && s.n < sizeof number) memcpy(number, s.p, s.n);
        errno = 0;
        const int64_t v = strtoll(number, &end, (int)base);
        if (end > number && !*end && !errno) return j_int(v);
    }
    const jvalue real = f_float(m, of, &nothing, 0); // "3.7" is 3
    const bool number = of->kind == J_FLOAT || (of->kind == J_STRING && real.f != 0);
    if (number && fabs(real.f) < 9e18) return j_int((int64_t)real.f);
    if (number && isfinite(real.f)) j_fail(m, LS_E_RANGE, "a number does not fit 64 bits");
    return otherwise ? *otherwise : j_int(0);
}
DEFINE(f_round) {
    const int64_t places = integer(m, a, 0, "precision", 0);
    const jvalue *method = given(a, 1, "method");
    const double scale = pow(10, (double)places), v = j_number(of) * scale;
    if (!j_is_number(of)) j_fail(m, LS_E_USAGE, "'round' cannot be applied to %s", j_type(of));
    const bool up = method && method->kind == J_STRING && j_is(method->s, "ceil"),
               down = method && method->kind == J_STRING && j_is(method->s, "floor");
    const bool whole = of->kind != J_FLOAT && !up && !down; // stays an integer
    if (whole && places >= 0) return j_int(of->i);
    const jvalue out = j_float((up ? ceil(v) : down ? floor(v) : rint(v)) / scale);
    return whole ? f_int(m, &out, &nothing, 0) : out;
}
DEFINE(f_json) {
    const jvalue *indent = given(a, 1, "indent"), *separators = given(a, 2, "separators");
    jtext t = {0};
    jjson style = {.ascii = flag(a, 0, "ensure_ascii"),
                   .sorted = flag(a, 3, "sort_keys"),
                   .comma = j_lit(", "),
                   .colon = j_lit(": ")};
    if (indent && indent->kind != J_NONE) {
        style.indent = indentation(m, a, 1, "indent", 0);
        style.comma = j_lit(",");
    }
    if (separators && separators->kind != J_NONE) {
        const jlist two = j_items(m, separators);
        if (two.n != 2 || two.items[0].kind != J_STRING || two.items[1].kind != J_STRING)
            j_fail(m, LS_E_USAGE, "separators must be two strings");
        style.comma = two.items[0].s;
        style.colon = two.items[1].s;
    }
    const int depth = m->depth;
    m->depth = 0; // of the indentation
    j_json(m, &t, of, &style);
    m->depth = depth;
    return j_made(m, &t);
}

// A value's part by "name" or "a.b.0"; path NULL: the value.
static jvalue part_of(jvm *m, const jvalue *of, const jvalue *path) {
    if (!path) return *of;
    if (path->kind != J_STRING) return j_element(m, of, path);
    jvalue v = *of;
    const jvalue names = j_split(m, path->s, &(jstr){".", NULL, 1}, -1, false);
    for (size_t i = 0; i < names.list->n; i++) {
        const jstr name = names.list->items[i].s;
        const bool digits = name.n && name.n < 9 && isdigit((unsigned char)*name.p);
        const jvalue key = digits ? j_int(atoi(name.p)) : names.list->items[i];
        v = j_element(m, &v, &key);
    }
    return v;
}
static const jvalue *attribute(const jargs *a, int i) {
    const jvalue *v = given(a, i, "attribute");
    return v && v->kind != J_NONE ? v : NULL;
}
DEFINE(f_join) {
    const jvalue *by = given(a, 0, "d"), *what = attribute(a, 1);
    const jlist all = j_items(m, of);
    jtext t = {0};
    for (size_t i = 0; i < all.n; i++) {
        const jvalue v = part_of(m, &all.items[i], what);
        if (i && by) j_print(m, &t, by);
        j_print(m, &t, &v);
    }
    return j_made(m, &t);
}
// What two items are compared by: letters without their case, unless that is asked for.
static jvalue sort_key(jvm *m, const jvalue *of, const jvalue *what, bool case_sensitive) {
    const jvalue v = part_of(m, of, what);
    return v.kind == J_STRING && !case_sensitive ? j_cased(m, v.s, J_LOWER) : v;
}
static jvalue sorted(jvm *m, jlist all, const jvalue *what, bool case_sensitive, bool back) {
    jvalue out = j_list(m, J_LIST, all.n), keys = j_list(m, J_LIST, all.n);
    for (size_t i = 0; i < all.n; i++) {
        const jvalue key = sort_key(m, &all.items[i], what, case_sensitive);
        size_t at = i;
        for (; at && (back ? j_compare(m, &keys.list->items[at - 1], &key) < 0
                           : j_compare(m, &key, &keys.list->items[at - 1]) < 0);
             at--) {
            j_spend(m, 1);
            keys.list->items[at] = keys.list->items[at - 1];
            out.list->items[at] = out.list->items[at - 1];
        }
        keys.list->items[at] = key;
        out.list->items[at] = all.items[i];
    }
    return out;
}
DEFINE(f_sort) {
    return sorted(m, j_items(m, of), attribute(a, 2), flag(a, 1, "case_sensitive"), flag(a, 0, "reverse"));
}
DEFINE(f_dictsort) {
    const jvalue *by = given(a, 1, "by");
    if (of->kind != J_DICT) j_fail(m, LS_E_USAGE, "'dictsort' cannot be applied to %s", j_type(of));
    const jvalue all = pairs(m, of->dict, J_LIST), column = j_int(by && by->kind == J_STRING && j_is(by->s, "value"));
    return sorted(m, *all.list, &column, flag(a, 0, "case_sensitive"), flag(a, 2, "reverse"));
}
DEFINE(f_unique) {
    const jlist all = j_items(m, of);
    jvalue out = j_list(m, J_ITERATOR, all.n), seen = j_dict(m, J_DICT);
    out.list->n = 0;
    for (size_t i = 0; i < all.n; i++) {
        const jvalue key = sort_key(m, &all.items[i], attribute(a, 1), flag(a, 0, "case_sensitive"));
        if (j_get(m, seen.dict, &key)) continue;
        j_put(m, seen.dict, key, j_none());
        out.list->items[out.list->n++] = all.items[i];
    }
    return out;
}
DEFINE(f_extreme) { // how 1: the least, -1: the greatest
    const jlist all = j_items(m, of);
    if (!all.n) return j_undefined(j_lit("the least of nothing"));
    size_t best = 0;
    for (size_t i = 1; i < all.n; i++) {
        const jvalue x = sort_key(m, &all.items[i], attribute(a, 1), flag(a, 0, "case_sensitive")),
                     y = sort_key(m, &all.items[best], attribute(a, 1), flag(a, 0, "case_sensitive"));
        if (how * j_compare(m, &x, &y) < 0) best = i;
    }
    return all.items[best];
}
DEFINE(f_sum) {
    const jvalue *what = attribute(a, 0), *start = given(a, 1, "start");
    const jlist all = j_items(m, of);
    jvalue v = start ? *start : j_int(0);
    for (size_t i = 0; i < all.n; i++) {
        const jvalue x = part_of(m, &all.items[i], what);
        v = j_arithmetic(m, '+', &v, &x);
    }
    return v;
}
static jargs without(const jargs *a, int n) { // its first n
    return a->n > n ? (jargs){a->v + n, a->names + n, a->n - n} : (jargs){0};
}
DEFINE(f_map) {
    const jvalue *what = given(a, -1, "attribute"), *otherwise = given(a, -1, "default");
    const jlist all = j_true(of) ? j_items(m, of) : (jlist){0};
    jvalue out = j_list(m, J_ITERATOR, all.n);
    const jargs rest = without(a, 1);
    for (size_t i = 0; i < all.n; i++) {
        out.list->items[i] =
            what ? part_of(m, &all.items[i], what) : j_filter(m, argument(m, a, 0, NULL), &all.items[i], &rest);
        if (what && otherwise && out.list->items[i].kind == J_UNDEFINED) out.list->items[i] = *otherwise;
    }
    return out;
}
enum { KEEP = 1, BY_ATTRIBUTE = 2 };
// BY_ATTRIBUTE: the first argument says of what; then a test and its arguments (none: truth).
DEFINE(f_chosen) {
    const bool by_attribute = how & BY_ATTRIBUTE, keep = how & KEEP;
    const jlist all = j_true(of) ? j_items(m, of) : (jlist){0};
    const jargs test = without(a, by_attribute), rest = without(&test, 1);
    jvalue out = j_list(m, J_ITERATOR, all.n);
    out.list->n = 0;
    if (by_attribute && !a->n) j_fail(m, LS_E_USAGE, "Missing parameter for attribute name");
    for (size_t i = 0; i < all.n; i++) {
        const jvalue v = part_of(m, &all.items[i], by_attribute ? &a->v[0] : NULL);
        if ((test.n ? j_test(m, argument(m, &test, 0, NULL), &v, &rest) : j_true(&v)) == keep)
            out.list->items[out.list->n++] = all.items[i];
    }
    return out;
}
DEFINE(f_attr) {
    const jstr name = argument(m, a, 0, "name");
    return j_has_method(of, name) || of->kind == J_LOOP || of->kind == J_NAMESPACE ? j_attribute(m, of, name)
                                                                                   : j_undefined(name);
}
DEFINE(f_format) {
    const jvalue values = {.kind = J_TUPLE, .list = &(jlist){a->v, (size_t)a->n}};
    for (int i = 0; i < a->n; i++)
        if (a->names[i].n) j_fail(m, LS_E_UNSUPPORTED, "named arguments of 'format' are not supported");
    return j_percent(m, j_text_of(m, of), &values);
}
DEFINE(f_batch) {
    const jlist all = j_items(m, of);
    const int64_t n = integer(m, a, 0, "linecount", 0);
    const jvalue *fill = given(a, 1, "fill_with");
    if (n < 1) j_fail(m, LS_E_USAGE, "'batch' needs a count");
    const size_t rows = (all.n + (size_t)n - 1) / (size_t)n;
    jvalue out = j_list(m, J_LIST, rows);
    for (size_t i = 0; i < rows; i++) {
        const size_t left = all.n - i * (size_t)n, have = left < (size_t)n ? left : (size_t)n;
        out.list->items[i] = j_list(m, J_LIST, fill ? (size_t)n : have);
        for (size_t k = 0; k < out.list->items[i].list->n; k++)
            out.list->items[i].list->items[k] = k < have ? all.items[i * (size_t)n + k] : fill ? *fill : j_none();
    }
    return out;
}
DEFINE(f_wordcount) {
    return j_int((int64_t)j_split(m, j_text_of(m, of), NULL, -1, false).list->n);
}
DEFINE(f_escape) {
    static const char *const as[][2] = {{"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
    jstr s = j_text_of(m, of);
    for (size_t i = 0; i < sizeof as / sizeof *as; i++) s = j_replaced(m, s, j_lit(as[i][0]), j_lit(as[i][1]), -1).s;
    return j_string(s);
}

static const entry filters[] = {{"abs", f_abs, 0},
                                {"attr", f_attr, 0},
                                {"batch", f_batch, 0},
                                {"capitalize", cased, J_CAPITALIZED},
                                {"count", f_length, 0},
                                {"d", f_default, 0},
                                {"default", f_default, 0},
                                {"dictsort", f_dictsort, 0},
                                {"e", f_escape, 0},
                                {"escape", f_escape, 0},
                                {"first", f_end, 0},
                                {"float", f_float, 0},
                                {"format", f_format, 0},
                                {"indent", f_indent, 0},
                                {"int", f_int, 0},
                                {"items", f_items, 0},
                                {"join", f_join, 0},
                                {"last", f_end, 1},
                                {"length", f_length, 0},
                                {"list", f_list, 0},
                                {"lower", cased, J_LOWER},
                                {"map", f_map, 0},
                                {"max", f_extreme, -1},
                                {"min", f_extreme, 1},
                                {"reject", f_chosen, 0},
                                {"rejectattr", f_chosen, BY_ATTRIBUTE},
                                {"replace", f_replace, 0},
                                {"reverse", f_reverse, 0},
                                {"round", f_round, 0},
                                {"safe", f_same, 0},
                                {"select", f_chosen, KEEP},
                                {"selectattr", f_chosen, BY_ATTRIBUTE | KEEP},
                                {"sort", f_sort, 0},
                                {"string", f_string, 0},
                                {"sum", f_sum, 0},
                                {"title", cased, J_TITLE_WORDS},
                                {"tojson", f_json, 0},
                                {"trim", stripped, LEFT | RIGHT},
                                {"unique", f_unique, 0},
                                {"upper", cased, J_UPPER},
                                {"wordcount", f_wordcount, 0}};

bool j_filter_known(jstr name) {
    return NAMED(filters, name) != NULL;
}

jvalue j_filter(jvm *m, jstr name, const jvalue *of, const jargs *a) {
    const entry *e = NAMED(filters, name);
    if (!e) j_fail(m, LS_E_USAGE, "No filter named '%.*s' found.", J_SHOWN(name));
    return e->run(m, of, a, e->how);
}

// ---- tests

DEFINE(is_kind) { // how: bits of kinds
    return j_bool(how >> of->kind & 1);
}
DEFINE(is_truth) {
    return j_bool(of->kind == J_BOOL && of->i == how);
}
DEFINE(is_odd) { // how 0: even
    if (of->kind != J_INT && of->kind != J_BOOL)
        j_fail(m, LS_E_USAGE, "test '%s' cannot be applied to %s", how ? "odd" : "even", j_type(of));
    return j_bool((of->i % 2 != 0) == how);
}
DEFINE(is_case) {
    const jstr s = j_text_of(m, of), same = j_cased(m, s, (jcase)how).s,
               other = j_cased(m, s, how == J_UPPER ? J_LOWER : J_UPPER).s;
    return j_bool(j_same_text(s, same) && !j_same_text(same, other));
}
DEFINE(is_known) { // how: a filter, else a test
    return j_bool(of->kind == J_STRING && (how ? j_filter_known(of->s) : j_test_known(of->s)));
}
DEFINE(is_compared) { // how: an operator of j_compares
    return j_bool(j_compares(m, (char)how, of, given(a, 0, NULL)));
}
DEFINE(is_divisible) {
    const jvalue rest = j_arithmetic(m, '%', of, given(a, 0, NULL));
    return j_bool(!j_true(&rest));
}

enum {
    NUMBERS = 1 << J_BOOL | 1 << J_INT | 1 << J_FLOAT,
    SEQUENCES = 1 << J_STRING | 1 << J_LIST | 1 << J_TUPLE | 1 << J_DICT | 1 << J_UNDEFINED,
};
static const entry tests[] = {{"defined", is_kind, ~(1 << J_UNDEFINED)},
                              {"undefined", is_kind, 1 << J_UNDEFINED},
                              {"none", is_kind, 1 << J_NONE},
                              {"string", is_kind, 1 << J_STRING},
                              {"number", is_kind, NUMBERS},
                              {"integer", is_kind, 1 << J_INT},
                              {"float", is_kind, 1 << J_FLOAT},
                              {"boolean", is_kind, 1 << J_BOOL},
                              {"mapping", is_kind, 1 << J_DICT},
                              {"sequence", is_kind, SEQUENCES},
                              {"iterable", is_kind, SEQUENCES | 1 << J_ITERATOR | 1 << J_LOOP},
                              {"callable", is_kind, 1 << J_FUNCTION},
                              {"escaped", is_kind, 0},
                              {"true", is_truth, 1},
                              {"false", is_truth, 0},
                              {"odd", is_odd, 1},
                              {"even", is_odd, 0},
                              {"lower", is_case, J_LOWER},
                              {"upper", is_case, J_UPPER},
                              {"filter", is_known, 1},
                              {"test", is_known, 0},
                              {"divisibleby", is_divisible, 0},
                              {"in", is_compared, 'i'},
                              {"eq", is_compared, '='},
                              {"equalto", is_compared, '='},
                              {"==", is_compared, '='},
                              {"sameas", is_compared, '='},
                              {"ne", is_compared, '!'},
                              {"!=", is_compared, '!'},
                              {"lt", is_compared, '<'},
                              {"lessthan", is_compared, '<'},
                              {"<", is_compared, '<'},
                              {"le", is_compared, 'l'},
                              {"<=", is_compared, 'l'},
                              {"gt", is_compared, '>'},
                              {"greaterthan", is_compared, '>'},
                              {">", is_compared, '>'},
                              {"ge", is_compared, 'g'},
                              {">=", is_compared, 'g'}};

bool j_test_known(jstr name) {
    return NAMED(tests, name) != NULL;
}

bool j_test(jvm *m, jstr name, const jvalue *v, const jargs *a) {
    const entry *e = NAMED(tests, name);
    if (!e) j_fail(m, LS_E_USAGE, "No test named '%.*s' found.", J_SHOWN(name));
    if ((e->run == is_compared || e->run == is_divisible) && !given(a, 0, NULL))
        j_fail(m, LS_E_USAGE, "the test '%.*s' needs an argument", J_SHOWN(name));
    const jvalue yes = e->run(m, v, a, e->how);
    return yes.i != 0;
}

// ---- methods

DEFINE(s_split) {
    const jvalue *by = given(a, 0, "sep");
    if (by && by->kind != J_NONE && by->kind != J_STRING)
        j_fail(m, LS_E_USAGE, "must be str or None, not %s", j_type(by));
    return j_split(m, of->s, by && by->kind == J_STRING ? &by->s : NULL, integer(m, a, 1, "maxsplit", -1),
                   how == RIGHT);
}
DEFINE(s_splitlines) {
    return j_lines(m, of->s, flag(a, 0, "keepends"));
}
static bool at_end(jstr s, jstr what, bool end) {
    return what.n <= s.n && !memcmp(end ? s.p + s.n - what.n : s.p, what.p, what.n);
}
DEFINE(s_begins) { // how RIGHT: ends
    const jvalue *what = given(a, 0, NULL);
    if (what && what->kind == J_TUPLE) {
        for (size_t i = 0; i < what->list->n; i++)
            if (what->list->items[i].kind == J_STRING && at_end(of->s, what->list->items[i].s, how == RIGHT))
                return j_bool(true);
        return j_bool(false);
    }
    return j_bool(at_end(of->s, argument(m, a, 0, NULL), how == RIGHT));
}
DEFINE(s_remove) {
    const jstr s = of->s, what = argument(m, a, 0, NULL);
    if (!at_end(s, what, how == RIGHT)) return *of;
    return j_string(how == RIGHT ? j_part(s, 0, s.n - what.n) : j_part(s, what.n, SIZE_MAX));
}
DEFINE(s_replace) {
    return j_replaced(m, of->s, argument(m, a, 0, NULL), argument(m, a, 1, NULL), integer(m, a, 2, "count", -1));
}
DEFINE(s_format) {
    return j_format(m, of->s, a);
}
DEFINE(s_join) {
    if (a->n != 1) j_fail(m, LS_E_USAGE, "join() takes exactly one argument (%d given)", a->n);
    const jlist all = j_items(m, &a->v[0]);
    for (size_t i = 0; i < all.n; i++)
        if (all.items[i].kind != J_STRING)
            j_fail(m, LS_E_USAGE, "sequence item %zu: expected str instance, %s found", i, j_type(&all.items[i]));
    return f_join(m, &a->v[0], &(jargs){(jvalue *)of, &(jstr){0}, 1}, 0);
}
DEFINE(s_find) { // how 0: it must be there
    const jstr s = of->s, what = argument(m, a, 0, NULL);
    const size_t at = j_find(m, s, what, how == RIGHT);
    if (at == SIZE_MAX && !how) j_fail(m, LS_E_USAGE, "substring not found");
    if (at == SIZE_MAX) return j_int(-1);
    const jvalue before = j_string(j_part(s, 0, at));
    return j_int((int64_t)j_length(m, &before));
}
DEFINE(s_count) {
    const jstr what = argument(m, a, 0, NULL);
    if (!what.n) return j_int((int64_t)j_length(m, of) + 1);
    return j_int((int64_t)j_split(m, of->s, &what, -1, false).list->n - 1);
}
DEFINE(s_all_are) { // how: digits, else letters
    jstr s = of->s;
    bool yes = s.n > 0;
    for (uint32_t cp; yes && s.n;) {
        const size_t n = j_char(s, &cp);
        yes = how ? ls_is_digit(cp) : ls_is_letter(cp);
        s = j_part(s, n, SIZE_MAX);
    }
    return j_bool(yes);
}
DEFINE(s_isspace) {
    return j_bool(of->s.n && !j_stripped(of->s, NULL, true, false).n);
}
DEFINE(d_get) {
    if (!a->n) j_fail(m, LS_E_USAGE, "get expected at least 1 argument, got 0");
    const jvalue *v = j_get(m, of->dict, &a->v[0]);
    return v ? *v : a->n > 1 ? a->v[1] : j_none();
}
DEFINE(d_items) {
    return pairs(m, of->dict, J_LIST);
}
DEFINE(d_list) { // how: keys, else values
    jvalue v = j_list(m, J_LIST, 0);
    *v.list = (jlist){how ? of->dict->keys : of->dict->values, of->dict->n};
    return v;
}
DEFINE(d_copy) {
    jvalue v = j_dict(m, J_DICT);
    for (size_t i = 0; i < of->dict->n; i++) j_put(m, v.dict, of->dict->keys[i], of->dict->values[i]);
    return v;
}
DEFINE(l_index) {
    for (size_t i = 0; a->n && i < of->list->n; i++)
        if (j_same(m, &of->list->items[i], &a->v[0])) return j_int((int64_t)i);
    j_fail(m, LS_E_USAGE, "the list does not have this item");
}
DEFINE(l_count) {
    int64_t n = 0;
    for (size_t i = 0; a->n && i < of->list->n; i++) n += j_same(m, &of->list->items[i], &a->v[0]);
    return j_int(n);
}
DEFINE(loop_cycle) {
    if (!a->n) j_fail(m, LS_E_USAGE, "no items for cycling given");
    return a->v[of->loop->i % (size_t)a->n];
}
// The sandbox of the reference allows no method that changes a value.
DEFINE(forbidden) {
    j_fail(m, LS_E_USAGE, "a method that would change a %s is unsafe in a template", j_type(of));
}

static const entry of_strings[] = {{"capitalize", cased, J_CAPITALIZED},
                                   {"count", s_count, 0},
                                   {"endswith", s_begins, RIGHT},
                                   {"find", s_find, LEFT},
                                   {"format", s_format, 0},
                                   {"index", s_find, 0},
                                   {"isalpha", s_all_are, 0},
                                   {"isdecimal", s_all_are, 1},
                                   {"isdigit", s_all_are, 1},
                                   {"islower", is_case, J_LOWER},
                                   {"isnumeric", s_all_are, 1},
                                   {"isspace", s_isspace, 0},
                                   {"isupper", is_case, J_UPPER},
                                   {"join", s_join, 0},
                                   {"lower", cased, J_LOWER},
                                   {"lstrip", stripped, LEFT},
                                   {"removeprefix", s_remove, LEFT},
                                   {"removesuffix", s_remove, RIGHT},
                                   {"replace", s_replace, 0},
                                   {"rfind", s_find, RIGHT},
                                   {"rsplit", s_split, RIGHT},
                                   {"rstrip", stripped, RIGHT},
                                   {"split", s_split, LEFT},
                                   {"splitlines", s_splitlines, 0},
                                   {"startswith", s_begins, LEFT},
                                   {"strip", stripped, LEFT | RIGHT},
                                   {"title", cased, J_TITLE_LETTERS},
                                   {"upper", cased, J_UPPER}};
static const entry of_dicts[] = {{"clear", forbidden, 0},   {"copy", d_copy, 0},          {"get", d_get, 0},
                                 {"items", d_items, 0},     {"keys", d_list, 1},          {"pop", forbidden, 0},
                                 {"popitem", forbidden, 0}, {"setdefault", forbidden, 0}, {"update", forbidden, 0},
                                 {"values", d_list, 0}};
static const entry of_lists[] = {{"append", forbidden, 0},  {"clear", forbidden, 0},  {"copy", f_list, 0},
                                 {"count", l_count, 0},     {"extend", forbidden, 0}, {"index", l_index, 0},
                                 {"insert", forbidden, 0},  {"pop", forbidden, 0},    {"remove", forbidden, 0},
                                 {"reverse", forbidden, 0}, {"sort", forbidden, 0}};
static const entry of_loops[] = {{"cycle", loop_cycle, 0}};

static const entry *method(const jvalue *of, jstr name) {
    switch (of->kind) {
    case J_STRING: return NAMED(of_strings, name);
    case J_DICT: return NAMED(of_dicts, name);
    case J_LIST:
    case J_TUPLE: return NAMED(of_lists, name);
    case J_LOOP: return NAMED(of_loops, name);
    default: return NULL;
    }
}

bool j_has_method(const jvalue *of, jstr name) {
    return method(of, name) != NULL;
}

// ---- functions

DEFINE(g_raise) {
    const jstr why = a->n ? j_text_of(m, &a->v[0]) : (jstr){0};
    j_fail(m, LS_E_USAGE, "%.*s", (int)(why.n < 400 ? why.n : 400), why.n ? why.p : "");
}
DEFINE(g_date) {
    return j_date(m, argument(m, a, 0, "format"));
}
DEFINE(g_dict) {
    jvalue v = j_dict(m, (jkind)how);
    for (int i = 0; i < a->n; i++) {
        if (a->names[i].n) {
            j_put(m, v.dict, j_string(a->names[i]), a->v[i]);
            continue;
        }
        const bool dict = a->v[i].kind == J_DICT;
        const jlist all = dict ? *pairs(m, a->v[i].dict, J_LIST).list : j_items(m, &a->v[i]);
        for (size_t k = 0; k < all.n; k++) {
            const jlist two = j_items(m, &all.items[k]);
            if (two.n != 2) j_fail(m, LS_E_USAGE, "a key and a value are expected");
            j_put(m, v.dict, two.items[0], two.items[1]);
        }
    }
    return v;
}
DEFINE(g_range) {
    enum { MOST = 100000 }; // MAX_RANGE of the reference's sandbox
    const int64_t first = integer(m, a, 0, NULL, 0), from = a->n > 1 ? first : 0,
                  to = a->n > 1 ? integer(m, a, 1, NULL, 0) : first, by = integer(m, a, 2, NULL, 1);
    if (!a->n || !by) j_fail(m, LS_E_USAGE, "range() needs an end, and a step that is not zero");
    if (from < -(1LL << 40) || from > 1LL << 40 || to < -(1LL << 40) || to > 1LL << 40 || by < -(1LL << 40) ||
        by > 1LL << 40)
        j_fail(m, LS_E_RANGE, "the range is too large");
    const int64_t n = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0) : (from > to ? (from - to - 1) / -by + 1 : 0);
    if (n > MOST) j_fail(m, LS_E_RANGE, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MOST);
    jvalue v = j_list(m, J_LIST, (size_t)n);
    for (int64_t i = 0; i < n; i++) v.list->items[i] = j_int(from + i * by);
    return v;
}

static const entry functions[] = {{"dict", g_dict, J_DICT},
                                  {"namespace", g_dict, J_NAMESPACE},
                                  {"raise_exception", g_raise, 0},
                                  {"range", g_range, 0},
                                  {"strftime_now", g_date, 0}};

jvalue j_global(jvm *m, jstr name) {
    return NAMED(functions, name) ? j_function(m, name, (jvalue){0}) : j_undefined(name);
}

jvalue j_call(jvm *m, const jvalue *fn, const jargs *a) {
    if (fn->kind == J_UNDEFINED) j_fail(m, LS_E_USAGE, "'%.*s' is undefined", J_SHOWN(fn->s));
    if (fn->kind != J_FUNCTION) j_fail(m, LS_E_USAGE, "'%s' object is not callable", j_type(fn));
    const jfunction *f = fn->fn;
    const entry *e = f->self.kind == J_UNDEFINED ? NAMED(functions, f->name) : method(&f->self, f->name);
    return e->run(m, &f->self, a, e->how);
}
