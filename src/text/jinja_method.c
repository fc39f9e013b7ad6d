// Python's methods of strings, dictionaries and lists, and a template's functions.
#include "text/jinja_call.h"
#include "text/normalize.h"

#include <string.h>

DEFINE(s_upper) {
    return j_cased(m, of->s, J_UPPER);
}
DEFINE(s_lower) {
    return j_cased(m, of->s, J_LOWER);
}
DEFINE(s_capitalize) {
    return j_cased(m, j_cased(m, of->s, J_LOWER).s, J_CAPITALIZED);
}
DEFINE(l_copy) {
    jvalue v = j_list(m, J_LIST, 0);
    *v.list = *of->list;
    return v;
}

static jvalue stripped(jvm *m, const jvalue *of, const jargs *a, bool left, bool right) {
    const jvalue *chars = j_given(a, 0, NULL);
    if (chars && chars->kind != J_NONE && chars->kind != J_STRING)
        j_fail(m, LS_E_USAGE, "strip arg must be None or str");
    return j_string(j_stripped(of->s, chars && chars->kind == J_STRING ? &chars->s : NULL, left, right));
}
DEFINE(s_strip) {
    return stripped(m, of, a, true, true);
}
DEFINE(s_lstrip) {
    return stripped(m, of, a, true, false);
}
DEFINE(s_rstrip) {
    return stripped(m, of, a, false, true);
}
static jvalue split(jvm *m, const jvalue *of, const jargs *a, bool from_right) {
    const jvalue *by = j_given(a, 0, "sep");
    if (by && by->kind != J_NONE && by->kind != J_STRING)
        j_fail(m, LS_E_USAGE, "must be str or None, not %s", j_type(by));
    return j_split(m, of->s, by && by->kind == J_STRING ? &by->s : NULL, j_integer(m, a, 1, "maxsplit", -1),
                   from_right);
}
DEFINE(s_split) {
    return split(m, of, a, false);
}
DEFINE(s_rsplit) {
    return split(m, of, a, true);
}
DEFINE(s_splitlines) {
    return j_lines(m, of->s, j_flag(a, 0, "keepends"));
}
static bool at_end(jstr s, jstr what, bool end) {
    return what.n <= s.n && !memcmp(end ? s.p + s.n - what.n : s.p, what.p, what.n);
}
static jvalue begins(jvm *m, const jvalue *of, const jargs *a, bool end) {
    const jvalue *what = j_given(a, 0, NULL);
    if (what && what->kind == J_TUPLE) {
        for (size_t i = 0; i < what->list->n; i++)
            if (what->list->items[i].kind == J_STRING && at_end(of->s, what->list->items[i].s, end))
                return j_bool(true);
        return j_bool(false);
    }
    return j_bool(at_end(of->s, j_argument(m, a, 0, NULL), end));
}
DEFINE(s_startswith) {
    return begins(m, of, a, false);
}
DEFINE(s_endswith) {
    return begins(m, of, a, true);
}
DEFINE(s_removeprefix) {
    const jstr what = j_argument(m, a, 0, NULL);
    return j_string(at_end(of->s, what, false) ? j_part(of->s, what.n, SIZE_MAX) : of->s);
}
DEFINE(s_removesuffix) {
    const jstr what = j_argument(m, a, 0, NULL);
    return j_string(at_end(of->s, what, true) ? j_part(of->s, 0, of->s.n - what.n) : of->s);
}
DEFINE(s_replace) {
    return j_replaced(m, of->s, j_argument(m, a, 0, NULL), j_argument(m, a, 1, NULL), j_integer(m, a, 2, "count", -1));
}
DEFINE(s_title) {
    return j_cased(m, j_cased(m, of->s, J_LOWER).s, J_TITLE_LETTERS);
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
    return j_filter(m, j_lit("join"), &a->v[0], &(jargs){(jvalue *)of, &(jstr){0}, 1});
}
static int64_t found(jvm *m, jstr s, jstr what, bool last) {
    size_t at = j_find(m, s, what), more;
    if (at == SIZE_MAX) return -1;
    while (last && at < s.n && (more = j_find(m, j_part(s, at + 1, SIZE_MAX), what)) != SIZE_MAX) at += 1 + more;
    const jvalue before = j_string(j_part(s, 0, at));
    return (int64_t)j_length(m, &before);
}
DEFINE(s_find) {
    return j_int(found(m, of->s, j_argument(m, a, 0, NULL), false));
}
DEFINE(s_rfind) {
    return j_int(found(m, of->s, j_argument(m, a, 0, NULL), true));
}
DEFINE(s_index) {
    const int64_t at = found(m, of->s, j_argument(m, a, 0, NULL), false);
    if (at < 0) j_fail(m, LS_E_USAGE, "substring not found");
    return j_int(at);
}
DEFINE(s_count) {
    const jstr what = j_argument(m, a, 0, NULL);
    if (!what.n) return j_int((int64_t)j_length(m, of) + 1);
    return j_int((int64_t)j_split(m, of->s, &what, -1, false).list->n - 1);
}
static jvalue all_are(const jvalue *of, bool (*is)(uint32_t c)) {
    jstr s = of->s;
    bool yes = s.n > 0;
    for (uint32_t cp; yes && s.n;) {
        const size_t n = j_char(s, &cp);
        yes = is(cp);
        s = j_part(s, n, SIZE_MAX);
    }
    return j_bool(yes);
}
DEFINE(s_isdigit) {
    return all_are(of, ls_is_digit);
}
DEFINE(s_isalpha) {
    return all_are(of, ls_is_letter);
}
DEFINE(s_isspace) {
    return j_bool(of->s.n && !j_stripped(of->s, NULL, true, false).n);
}
DEFINE(s_isupper) {
    return j_bool(j_test(m, j_lit("upper"), of, a));
}
DEFINE(s_islower) {
    return j_bool(j_test(m, j_lit("lower"), of, a));
}
DEFINE(d_get) {
    if (!a->n) j_fail(m, LS_E_USAGE, "get expected at least 1 argument, got 0");
    const jvalue *v = j_get(m, of->dict, &a->v[0]);
    return v ? *v : a->n > 1 ? a->v[1] : j_none();
}
DEFINE(d_items) {
    return j_pairs(m, of->dict, J_LIST);
}
static jvalue d_list(jvm *m, const jvalue *items, size_t n) {
    jvalue v = j_list(m, J_LIST, 0);
    *v.list = (jlist){(jvalue *)items, n};
    return v;
}
DEFINE(d_keys) {
    return d_list(m, of->dict->keys, of->dict->n);
}
DEFINE(d_values) {
    return d_list(m, of->dict->values, of->dict->n);
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

static const j_entry of_strings[] = {{"capitalize", s_capitalize},
                                     {"count", s_count},
                                     {"endswith", s_endswith},
                                     {"find", s_find},
                                     {"format", s_format},
                                     {"index", s_index},
                                     {"isalpha", s_isalpha},
                                     {"isdecimal", s_isdigit},
                                     {"isdigit", s_isdigit},
                                     {"islower", s_islower},
                                     {"isnumeric", s_isdigit},
                                     {"isspace", s_isspace},
                                     {"isupper", s_isupper},
                                     {"join", s_join},
                                     {"lower", s_lower},
                                     {"lstrip", s_lstrip},
                                     {"removeprefix", s_removeprefix},
                                     {"removesuffix", s_removesuffix},
                                     {"replace", s_replace},
                                     {"rfind", s_rfind},
                                     {"rsplit", s_rsplit},
                                     {"rstrip", s_rstrip},
                                     {"split", s_split},
                                     {"splitlines", s_splitlines},
                                     {"startswith", s_startswith},
                                     {"strip", s_strip},
                                     {"title", s_title},
                                     {"upper", s_upper}},
                     of_dicts[] = {{"clear", forbidden},   {"copy", d_copy},          {"get", d_get},
                                   {"items", d_items},     {"keys", d_keys},          {"pop", forbidden},
                                   {"popitem", forbidden}, {"setdefault", forbidden}, {"update", forbidden},
                                   {"values", d_values}},
                     of_lists[] = {{"append", forbidden},  {"clear", forbidden},  {"copy", l_copy},
                                   {"count", l_count},     {"extend", forbidden}, {"index", l_index},
                                   {"insert", forbidden},  {"pop", forbidden},    {"remove", forbidden},
                                   {"reverse", forbidden}, {"sort", forbidden}},
                     of_loops[] = {{"cycle", loop_cycle}};

static j_callee method(const jvalue *of, jstr name) {
    switch (of->kind) {
    case J_STRING: return J_NAMED(of_strings, name);
    case J_DICT: return J_NAMED(of_dicts, name);
    case J_LIST:
    case J_TUPLE: return J_NAMED(of_lists, name);
    case J_LOOP: return J_NAMED(of_loops, name);
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
    return j_date(m, j_argument(m, a, 0, "format"));
}
static jvalue filled(jvm *m, const jargs *a, jkind kind) {
    jvalue v = j_dict(m, kind);
    for (int i = 0; i < a->n; i++) {
        if (a->names[i].n) {
            j_put(m, v.dict, j_string(a->names[i]), a->v[i]);
            continue;
        }
        const bool dict = a->v[i].kind == J_DICT;
        const jlist all = dict ? *j_pairs(m, a->v[i].dict, J_LIST).list : j_items(m, &a->v[i]);
        for (size_t k = 0; k < all.n; k++) {
            const jlist two = j_items(m, &all.items[k]);
            if (two.n != 2) j_fail(m, LS_E_USAGE, "a key and a value are expected");
            j_put(m, v.dict, two.items[0], two.items[1]);
        }
    }
    return v;
}
DEFINE(g_namespace) {
    return filled(m, a, J_NAMESPACE);
}
DEFINE(g_dict) {
    return filled(m, a, J_DICT);
}
DEFINE(g_range) {
    enum { MOST = 100000 }; // MAX_RANGE of the reference's sandbox
    const int64_t first = j_integer(m, a, 0, NULL, 0), from = a->n > 1 ? first : 0,
                  to = a->n > 1 ? j_integer(m, a, 1, NULL, 0) : first, by = j_integer(m, a, 2, NULL, 1);
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

static const j_entry functions[] = {{"dict", g_dict},
                                    {"namespace", g_namespace},
                                    {"raise_exception", g_raise},
                                    {"range", g_range},
                                    {"strftime_now", g_date}};

jvalue j_global(jvm *m, jstr name) {
    return J_NAMED(functions, name) ? j_function(m, name, (jvalue){0}) : j_undefined(name);
}

jvalue j_call(jvm *m, const jvalue *fn, const jargs *a) {
    if (fn->kind == J_UNDEFINED) j_fail(m, LS_E_USAGE, "'%.*s' is undefined", J_SHOWN(fn->s));
    if (fn->kind != J_FUNCTION) j_fail(m, LS_E_USAGE, "'%s' object is not callable", j_type(fn));
    const jfunction *f = fn->fn;
    const j_callee run = f->self.kind == J_UNDEFINED ? J_NAMED(functions, f->name) : method(&f->self, f->name);
    return run(m, &f->self, a);
}
