// Filters (jinja2/filters.py) and tests (jinja2/tests.py).
#include "text/jinja_call.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- arguments

const jvalue *j_given(const jargs *a, int i, const char *name) {
    for (int k = 0, at = 0; k < a->n; k++)
        if (a->names[k].n ? name && j_is(a->names[k], name) : at++ == i) return &a->v[k];
    return NULL;
}

bool j_flag(const jargs *a, int i, const char *name) {
    const jvalue *v = j_given(a, i, name);
    return v && j_true(v);
}

int64_t j_integer(jvm *m, const jargs *a, int i, const char *name, int64_t otherwise) {
    const jvalue *v = j_given(a, i, name);
    if (!v || v->kind == J_NONE) return otherwise;
    if (v->kind != J_INT && v->kind != J_BOOL)
        j_fail(m, LS_E_USAGE, "'%s' object cannot be interpreted as an integer", j_type(v));
    return v->i;
}

jstr j_argument(jvm *m, const jargs *a, int i, const char *name) {
    const jvalue *v = j_given(a, i, name);
    if (!v) j_fail(m, LS_E_USAGE, "an argument is missing");
    if (v->kind != J_STRING) j_fail(m, LS_E_USAGE, "a string is expected, not %s", j_type(v));
    return v->s;
}

static const jargs nothing;

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
DEFINE(f_first) {
    const jlist all = j_items(m, of);
    return all.n ? all.items[0] : j_undefined(j_lit("the first item of nothing"));
}
DEFINE(f_last) {
    const jlist all = j_items(m, of);
    return all.n ? all.items[all.n - 1] : j_undefined(j_lit("the last item of nothing"));
}
DEFINE(f_default) {
    const jvalue *v = j_given(a, 0, "default_value");
    if (of->kind != J_UNDEFINED && !(j_flag(a, 1, "boolean") && !j_true(of))) return *of;
    return v ? *v : j_string((jstr){"", NULL, 0});
}
DEFINE(f_upper) {
    return j_cased(m, j_text_of(m, of), J_UPPER);
}
DEFINE(f_lower) {
    return j_cased(m, j_text_of(m, of), J_LOWER);
}
DEFINE(f_capitalize) {
    return j_cased(m, j_cased(m, j_text_of(m, of), J_LOWER).s, J_CAPITALIZED);
}
DEFINE(f_title) {
    return j_cased(m, j_cased(m, j_text_of(m, of), J_LOWER).s, J_TITLE_WORDS);
}
DEFINE(f_trim) {
    const jvalue *chars = j_given(a, 0, "chars");
    return j_string(j_stripped(j_text_of(m, of), chars && chars->kind == J_STRING ? &chars->s : NULL, true, true));
}
DEFINE(f_replace) {
    const jvalue *from = j_given(a, 0, "old"), *to = j_given(a, 1, "new");
    if (!from || !to) j_fail(m, LS_E_USAGE, "'replace' needs two strings");
    return j_replaced(m, j_text_of(m, of), j_text_of(m, from), j_text_of(m, to), j_integer(m, a, 2, "count", -1));
}
DEFINE(f_indent) {
    const jvalue *width = j_given(a, 0, "width");
    const int64_t n = width && width->kind == J_STRING ? 0 : j_integer(m, a, 0, "width", 4);
    jtext by = {0};
    if (width && width->kind == J_STRING) j_add(m, &by, width->s);
    for (int64_t i = 0; i < n; i++) j_add_lit(m, &by, " ");
    return j_indented(m, j_text_of(m, of), j_made(m, &by).s, j_flag(a, 1, "first"), j_flag(a, 2, "blank"));
}
jvalue j_pairs(jvm *m, const jdict *d, jkind kind) {
    jvalue v = j_list(m, kind, d->n);
    for (size_t i = 0; i < d->n; i++) v.list->items[i] = j_pair(m, d->keys[i], d->values[i]);
    return v;
}
DEFINE(f_items) {
    if (of->kind == J_UNDEFINED) return j_list(m, J_ITERATOR, 0);
    if (of->kind != J_DICT) j_fail(m, LS_E_USAGE, "Can only get item pairs from a mapping.");
    return j_pairs(m, of->dict, J_ITERATOR);
}
DEFINE(f_reverse) {
    const jvalue none = j_none(), back = j_int(-1);
    jvalue v = *of;
    if (v.kind != J_STRING) v = f_list(m, of, a);
    return j_slice(m, &v, &none, &none, &back);
}
DEFINE(f_abs) {
    if (!j_is_number(of)) j_fail(m, LS_E_USAGE, "bad operand type for abs(): '%s'", j_type(of));
    return of->kind == J_FLOAT ? j_float(fabs(of->f))
           : of->i < 0         ? j_arithmetic(m, '-', &(jvalue){.kind = J_INT}, of)
                               : j_int(of->i);
}
DEFINE(f_float) {
    const jvalue *otherwise = j_given(a, 0, "default");
    if (j_is_number(of)) return j_float(j_number(of));
    char number[64] = "", *end = number;
    const jstr s = of->kind == J_STRING ? j_stripped(of->s, NULL, true, true) : (jstr){0};
    if (s.n && s.n < sizeof number) memcpy(number, s.p, s.n);
    const double v = strtod(number, &end);
    return end > number && !*end ? j_float(v) : otherwise ? *otherwise : j_float(0);
}
DEFINE(f_int) {
    const jvalue *otherwise = j_given(a, 0, "default");
    const int64_t base = j_integer(m, a, 1, "base", 10);
    if (of->kind == J_INT || of->kind == J_BOOL) return j_int(of->i);
    if (of->kind == J_STRING && base >= 2 && base <= 36) {
        char number[80] = "", *end = number;
        const jstr s = j_stripped(of->s, NULL, true, true);
        if (s.n && s.n < sizeof number) memcpy(number, s.p, s.n);
        const int64_t v = strtoll(number, &end, (int)base);
        if (end > number && !*end) return j_int(v);
    }
    const jvalue real = f_float(m, of, &nothing); // "3.7" is 3
    if ((of->kind == J_FLOAT || (of->kind == J_STRING && real.f != 0)) && fabs(real.f) < 9e18)
        return j_int((int64_t)real.f);
    return otherwise ? *otherwise : j_int(0);
}
DEFINE(f_round) {
    const int64_t places = j_integer(m, a, 0, "precision", 0);
    const jvalue *method = j_given(a, 1, "method");
    const double scale = pow(10, (double)places), v = j_number(of) * scale;
    if (!j_is_number(of)) j_fail(m, LS_E_USAGE, "'round' cannot be applied to %s", j_type(of));
    const bool up = method && method->kind == J_STRING && j_is(method->s, "ceil"),
               down = method && method->kind == J_STRING && j_is(method->s, "floor");
    return j_float((up ? ceil(v) : down ? floor(v) : rint(v)) / scale);
}
DEFINE(f_json) {
    const jvalue *indent = j_given(a, 1, "indent"), *separators = j_given(a, 2, "separators");
    jtext t = {0}, by = {0};
    jjson how = {.ascii = j_flag(a, 0, "ensure_ascii"),
                 .sorted = j_flag(a, 3, "sort_keys"),
                 .comma = j_lit(", "),
                 .colon = j_lit(": ")};
    if (indent && indent->kind != J_NONE) {
        const int64_t n = indent->kind == J_STRING ? 0 : j_integer(m, a, 1, "indent", 0);
        if (indent->kind == J_STRING) j_add(m, &by, indent->s);
        for (int64_t i = 0; i < n; i++) j_add_lit(m, &by, " ");
        how.indent = j_made(m, &by).s;
        how.comma = j_lit(",");
    }
    if (separators && separators->kind != J_NONE) {
        const jlist two = j_items(m, separators);
        if (two.n != 2 || two.items[0].kind != J_STRING || two.items[1].kind != J_STRING)
            j_fail(m, LS_E_USAGE, "separators must be two strings");
        how.comma = two.items[0].s;
        how.colon = two.items[1].s;
    }
    const int depth = m->depth;
    m->depth = 0; // of the indentation
    j_json(m, &t, of, &how);
    m->depth = depth;
    return j_made(m, &t);
}

// A value's part by "name" or "a.b.0".
static jvalue part_of(jvm *m, const jvalue *of, const jvalue *path) {
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
    const jvalue *v = j_given(a, i, "attribute");
    return v && v->kind != J_NONE ? v : NULL;
}
DEFINE(f_join) {
    const jvalue *by = j_given(a, 0, "d"), *what = attribute(a, 1);
    const jlist all = j_items(m, of);
    jtext t = {0};
    for (size_t i = 0; i < all.n; i++) {
        const jvalue v = what ? part_of(m, &all.items[i], what) : all.items[i];
        if (i && by) j_print(m, &t, by);
        j_print(m, &t, &v);
    }
    return j_made(m, &t);
}
// What two items are compared by: letters without their case, unless that is asked for.
static jvalue sort_key(jvm *m, const jvalue *of, const jvalue *what, bool case_sensitive) {
    const jvalue v = what ? part_of(m, of, what) : *of;
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
    return sorted(m, j_items(m, of), attribute(a, 2), j_flag(a, 1, "case_sensitive"), j_flag(a, 0, "reverse"));
}
DEFINE(f_dictsort) {
    const jvalue *by = j_given(a, 1, "by");
    if (of->kind != J_DICT) j_fail(m, LS_E_USAGE, "'dictsort' cannot be applied to %s", j_type(of));
    const jvalue all = j_pairs(m, of->dict, J_LIST), column = j_int(by && by->kind == J_STRING && j_is(by->s, "value"));
    return sorted(m, *all.list, &column, j_flag(a, 0, "case_sensitive"), j_flag(a, 2, "reverse"));
}
DEFINE(f_unique) {
    const jlist all = j_items(m, of);
    jvalue out = j_list(m, J_ITERATOR, all.n), seen = j_dict(m, J_DICT);
    out.list->n = 0;
    for (size_t i = 0; i < all.n; i++) {
        const jvalue key = sort_key(m, &all.items[i], attribute(a, 1), j_flag(a, 0, "case_sensitive"));
        if (j_get(m, seen.dict, &key)) continue;
        j_put(m, seen.dict, key, j_none());
        out.list->items[out.list->n++] = all.items[i];
    }
    return out;
}
static jvalue extreme(jvm *m, const jvalue *of, const jargs *a, int sign) {
    const jlist all = j_items(m, of);
    if (!all.n) return j_undefined(j_lit("the least of nothing"));
    size_t best = 0;
    for (size_t i = 1; i < all.n; i++) {
        const jvalue x = sort_key(m, &all.items[i], attribute(a, 1), j_flag(a, 0, "case_sensitive")),
                     y = sort_key(m, &all.items[best], attribute(a, 1), j_flag(a, 0, "case_sensitive"));
        if (sign * j_compare(m, &x, &y) < 0) best = i;
    }
    return all.items[best];
}
DEFINE(f_min) {
    return extreme(m, of, a, 1);
}
DEFINE(f_max) {
    return extreme(m, of, a, -1);
}
DEFINE(f_sum) {
    const jvalue *what = attribute(a, 0), *start = j_given(a, 1, "start");
    const jlist all = j_items(m, of);
    jvalue v = start ? *start : j_int(0);
    for (size_t i = 0; i < all.n; i++) {
        const jvalue x = what ? part_of(m, &all.items[i], what) : all.items[i];
        v = j_arithmetic(m, '+', &v, &x);
    }
    return v;
}
static jargs without(const jargs *a, int n) { // its first n
    return a->n > n ? (jargs){a->v + n, a->names + n, a->n - n} : (jargs){0};
}
DEFINE(f_map) {
    const jvalue *what = j_given(a, -1, "attribute"), *otherwise = j_given(a, -1, "default");
    const jlist all = j_true(of) ? j_items(m, of) : (jlist){0};
    jvalue out = j_list(m, J_ITERATOR, all.n);
    const jargs rest = without(a, 1);
    for (size_t i = 0; i < all.n; i++) {
        out.list->items[i] =
            what ? part_of(m, &all.items[i], what) : j_filter(m, j_argument(m, a, 0, NULL), &all.items[i], &rest);
        if (what && otherwise && out.list->items[i].kind == J_UNDEFINED) out.list->items[i] = *otherwise;
    }
    return out;
}
// by_attribute: the first argument says of what; then a test and its arguments (none: truth).
static jvalue chosen(jvm *m, const jvalue *of, const jargs *a, bool by_attribute, bool keep) {
    const jlist all = j_true(of) ? j_items(m, of) : (jlist){0};
    const jargs test = without(a, by_attribute), rest = without(&test, 1);
    jvalue out = j_list(m, J_ITERATOR, all.n);
    out.list->n = 0;
    if (by_attribute && !a->n) j_fail(m, LS_E_USAGE, "Missing parameter for attribute name");
    for (size_t i = 0; i < all.n; i++) {
        const jvalue v = by_attribute ? part_of(m, &all.items[i], &a->v[0]) : all.items[i];
        if ((test.n ? j_test(m, j_argument(m, &test, 0, NULL), &v, &rest) : j_true(&v)) == keep)
            out.list->items[out.list->n++] = all.items[i];
    }
    return out;
}
DEFINE(f_select) {
    return chosen(m, of, a, false, true);
}
DEFINE(f_reject) {
    return chosen(m, of, a, false, false);
}
DEFINE(f_selectattr) {
    return chosen(m, of, a, true, true);
}
DEFINE(f_rejectattr) {
    return chosen(m, of, a, true, false);
}
DEFINE(f_attr) {
    const jstr name = j_argument(m, a, 0, "name");
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
    const int64_t n = j_integer(m, a, 0, "linecount", 0);
    const jvalue *fill = j_given(a, 1, "fill_with");
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

static const j_entry filters[] = {{"abs", f_abs},
                                  {"attr", f_attr},
                                  {"batch", f_batch},
                                  {"capitalize", f_capitalize},
                                  {"count", f_length},
                                  {"d", f_default},
                                  {"default", f_default},
                                  {"dictsort", f_dictsort},
                                  {"e", f_escape},
                                  {"escape", f_escape},
                                  {"first", f_first},
                                  {"float", f_float},
                                  {"format", f_format},
                                  {"indent", f_indent},
                                  {"int", f_int},
                                  {"items", f_items},
                                  {"join", f_join},
                                  {"last", f_last},
                                  {"length", f_length},
                                  {"list", f_list},
                                  {"lower", f_lower},
                                  {"map", f_map},
                                  {"max", f_max},
                                  {"min", f_min},
                                  {"reject", f_reject},
                                  {"rejectattr", f_rejectattr},
                                  {"replace", f_replace},
                                  {"reverse", f_reverse},
                                  {"round", f_round},
                                  {"safe", f_same},
                                  {"select", f_select},
                                  {"selectattr", f_selectattr},
                                  {"sort", f_sort},
                                  {"string", f_string},
                                  {"sum", f_sum},
                                  {"title", f_title},
                                  {"tojson", f_json},
                                  {"trim", f_trim},
                                  {"unique", f_unique},
                                  {"upper", f_upper},
                                  {"wordcount", f_wordcount}};

bool j_filter_known(jstr name) {
    return J_NAMED(filters, name) != NULL;
}

jvalue j_filter(jvm *m, jstr name, const jvalue *of, const jargs *a) {
    const j_callee run = J_NAMED(filters, name);
    if (!run) j_fail(m, LS_E_USAGE, "No filter named '%.*s' found.", J_SHOWN(name));
    return run(m, of, a);
}

// ---- tests

static const char *const tests[] = {"defined", "undefined", "none",    "string",   "number",      "integer",
                                    "float",   "boolean",   "mapping", "sequence", "iterable",    "callable",
                                    "true",    "false",     "odd",     "even",     "divisibleby", "eq",
                                    "equalto", "==",        "ne",      "!=",       "lt",          "lessthan",
                                    "<",       "le",        "<=",      "gt",       "greaterthan", ">",
                                    "ge",      ">=",        "in",      "sameas",   "lower",       "upper",
                                    "filter",  "test",      "escaped"};

bool j_test_known(jstr name) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (j_is(name, tests[i])) return true;
    return false;
}

static bool is_case(jvm *m, const jvalue *v, jcase how) {
    const jstr s = j_text_of(m, v), same = j_cased(m, s, how).s,
               other = j_cased(m, s, how == J_UPPER ? J_LOWER : J_UPPER).s;
    return j_same_text(s, same) && !j_same_text(same, other);
}

bool j_test(jvm *m, jstr name, const jvalue *v, const jargs *a) {
    const jkind k = v->kind;
    if (j_is(name, "defined")) return k != J_UNDEFINED;
    if (j_is(name, "undefined")) return k == J_UNDEFINED;
    if (j_is(name, "none")) return k == J_NONE;
    if (j_is(name, "string")) return k == J_STRING;
    if (j_is(name, "number")) return j_is_number(v);
    if (j_is(name, "integer")) return k == J_INT;
    if (j_is(name, "float")) return k == J_FLOAT;
    if (j_is(name, "boolean")) return k == J_BOOL;
    if (j_is(name, "mapping")) return k == J_DICT;
    if (j_is(name, "sequence")) return k == J_STRING || k == J_LIST || k == J_TUPLE || k == J_DICT || k == J_UNDEFINED;
    if (j_is(name, "iterable"))
        return k == J_STRING || k == J_LIST || k == J_TUPLE || k == J_DICT || k == J_UNDEFINED || k == J_ITERATOR ||
               k == J_LOOP;
    if (j_is(name, "callable")) return k == J_FUNCTION;
    if (j_is(name, "true") || j_is(name, "false")) return k == J_BOOL && (v->i != 0) == j_is(name, "true");
    if (j_is(name, "escaped")) return false;
    if (j_is(name, "lower")) return is_case(m, v, J_LOWER);
    if (j_is(name, "upper")) return is_case(m, v, J_UPPER);
    if (j_is(name, "odd") || j_is(name, "even")) {
        if (k != J_INT && k != J_BOOL)
            j_fail(m, LS_E_USAGE, "test '%.*s' cannot be applied to %s", J_SHOWN(name), j_type(v));
        return (v->i % 2 != 0) == j_is(name, "odd");
    }
    if (j_is(name, "filter") || j_is(name, "test"))
        return k == J_STRING && (j_is(name, "filter") ? j_filter_known(v->s) : j_test_known(v->s));
    if (!j_test_known(name)) j_fail(m, LS_E_USAGE, "No test named '%.*s' found.", J_SHOWN(name));
    const jvalue *with = j_given(a, 0, NULL);
    if (!with) j_fail(m, LS_E_USAGE, "the test '%.*s' needs an argument", J_SHOWN(name));
    if (j_is(name, "in")) return j_contains(m, with, v);
    if (j_is(name, "divisibleby")) {
        const jvalue rest = j_arithmetic(m, '%', v, with);
        return !j_true(&rest);
    }
    if (j_is(name, "eq") || j_is(name, "equalto") || j_is(name, "==") || j_is(name, "sameas"))
        return j_same(m, v, with);
    if (j_is(name, "ne") || j_is(name, "!=")) return !j_same(m, v, with);
    const int c = j_compare(m, v, with);
    if (j_is(name, "lt") || j_is(name, "lessthan") || j_is(name, "<")) return c < 0;
    if (j_is(name, "le") || j_is(name, "<=")) return c <= 0;
    return j_is(name, "ge") || j_is(name, ">=") ? c >= 0 : c > 0;
}
