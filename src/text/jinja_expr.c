// Expressions, evaluated as they are read. An error does not stop the reading: it is noted in the vm, and a branch that
// is not taken ("a if b else c", "a and b") takes its error back.
#include "text/jinja_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 100 };

// ---- arguments of a call: (a, b, name=c)

static void read_arguments(jvm *m, jarguments *a) { // after the opening bracket
    a->n = 0;
    while (!j_take(m, ")")) {
        if (m->p >= m->end || a->n == J_MAX_ARGS) {
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

static jvalue subscript(jvm *m, const jvalue *of) { // after the opening bracket
    jvalue part[3] = {{.kind = J_NONE}, {.kind = J_NONE}, {.kind = J_NONE}};
    int n = 0;
    for (;; n++) {
        j_space(m);
        if (m->p < m->end && *m->p != ':' && *m->p != ']') part[n] = j_expr(m, true);
        if (n == 2 || !j_take(m, ":")) break;
    }
    if (!j_take(m, "]")) j_fail(m, LS_E_PARSE, "']' is missing");
    return n ? j_slice(m, of, &part[0], &part[1], &part[2]) : j_element(m, of, &part[0]);
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
    jvalue held[J_MAX_ARGS];
    size_t n = 0;
    while (!j_take(m, "]")) {
        if (m->p >= m->end || n == J_MAX_ARGS) {
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
    jvalue v = j_list(m, n);
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
    if (j_equals(name, "true") || j_equals(name, "True")) return j_bool(true);
    if (j_equals(name, "false") || j_equals(name, "False")) return j_bool(false);
    if (j_equals(name, "none") || j_equals(name, "None")) return (jvalue){.kind = J_NONE};
    if (j_take(m, "(")) {
        jarguments a;
        read_arguments(m, &a);
        return j_function(m, name, &a);
    }
    jvar *v = j_find(m, name);
    return v ? v->value : (jvalue){0};
}

static jvalue postfix(jvm *m) {
    jvalue v = primary(m);
    jarguments a;
    while (m->p < m->end) {
        if (j_take(m, ".")) {
            ls_str name = j_name(m);
            if (!name.n) j_fail(m, LS_E_PARSE, "a name is missing after '.'");
            if (j_take(m, "(")) {
                read_arguments(m, &a);
                v = j_method(m, &v, name, &a);
            } else v = j_attribute(m, &v, name);
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
    jarguments a;
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
            v = j_filter(m, &v, name, &a);
        } else if (j_word(m, "is")) {
            bool negated = j_word(m, "not");
            v = j_bool(j_test(m, &v, j_name(m)) != negated);
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
        v = j_joined(m, &v, &w);
    }
    return v;
}

static jvalue sum(jvm *m) {
    jvalue v = concatenation(m);
    for (;;) {
        bool minus = j_take(m, "-");
        if (!minus && !j_take(m, "+")) return v;
        jvalue w = concatenation(m);
        if (v.kind == J_STRING && w.kind == J_STRING && !minus) v = j_joined(m, &v, &w);
        else if (v.kind == J_INT && w.kind == J_INT && llabs(v.i) < INT32_MAX && llabs(w.i) < INT32_MAX)
            v = j_int(minus ? v.i - w.i : v.i + w.i);
        else { // as in Python, where None or nothing plus a string is an error
            j_fail(m, LS_E_USAGE, "'%c' of values that do not fit", minus ? '-' : '+');
            v = (jvalue){0};
        }
    }
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
        if (in || not_in) yes = j_contains(m, &w, &v) != not_in;
        else if (op < 2) yes = j_same(&v, &w) == (op == 0);
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
