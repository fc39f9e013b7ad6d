// Jinja's expressions, read by recursive descent straight from the source: jinja2/parser.py and lexer.py say what is
// meant.
#include "base/utf8.h"
#include "text/jinja_parser.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void j_place(parser *r) {
    if (r->p < r->counted) r->counted = r->start, r->line = 1;
    for (; r->counted < r->p; r->counted++) r->line += *r->counted == '\n';
    r->m->line = r->line;
}

#define FAIL(r, ...) (j_place(r), j_fail((r)->m, LS_E_PARSE, __VA_ARGS__))

jnode *j_node(parser *r, jnode_kind kind) {
    jnode *n = j_alloc(r->m, sizeof *n);
    j_place(r);
    n->kind = kind;
    n->line = r->m->line;
    return n;
}

static void *grown(parser *r, const void *old, int n, size_t size) { // room for one more than n
    if (n & (n - 1)) return (void *)old;
    char *p = j_alloc(r->m, (size_t)(n ? 2 * n : 1) * size);
    if (n) memcpy(p, old, (size_t)n * size);
    return p;
}

void j_push(parser *r, jnode *to, jnode *item) {
    to->items = grown(r, to->items, to->n, sizeof *to->items);
    to->items[to->n++] = item;
}

void j_push_name(parser *r, jnode *to, jstr name) {
    to->names = grown(r, to->names, to->n_names, sizeof *to->names);
    to->names[to->n_names++] = name;
}

// ---- tokens

void j_space(parser *r) {
    while (r->p < r->end && isspace((unsigned char)*r->p)) r->p++;
}

bool j_at_close(parser *r) {
    const char *q = r->p + (r->p < r->end && (*r->p == '-' || *r->p == '+'));
    return q + 1 < r->end && q[1] == '}' && (*q == '}' || *q == '%');
}

bool j_peek(parser *r, const char *op) {
    j_space(r);
    const size_t n = strlen(op);
    return (size_t)(r->end - r->p) >= n && !memcmp(r->p, op, n) &&
           !((*op == '-' || *op == '+' || *op == '%') && j_at_close(r));
}

bool j_take(parser *r, const char *op) {
    if (!j_peek(r, op)) return false;
    r->p += strlen(op);
    return true;
}

void j_expect(parser *r, const char *op) {
    if (!j_take(r, op)) FAIL(r, "'%s' is expected", op);
}

jstr j_peek_name(parser *r) {
    j_space(r);
    const char *q = r->p;
    if (q < r->end && (isalpha((unsigned char)*q) || *q == '_'))
        while (q < r->end && (isalnum((unsigned char)*q) || *q == '_')) q++;
    return (jstr){r->p, NULL, (size_t)(q - r->p)};
}

bool j_word(parser *r, const char *what) {
    const jstr s = j_peek_name(r);
    if (!j_is(s, what)) return false;
    r->p += s.n;
    return true;
}

jstr j_take_name(parser *r) {
    const jstr s = j_peek_name(r);
    if (!s.n) FAIL(r, "a name is expected");
    r->p += s.n;
    return s;
}

// Python's escapes in a string literal.
static void unescape(parser *r, jtext *t) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = ++r->p < r->end && *r->p ? strchr(from, *r->p) : NULL;
    if (r->p >= r->end) FAIL(r, "a string that is not closed");
    char out[4] = "";
    int n = 1;
    if (at) out[0] = to[at - from];
    else if (*r->p == '\n') n = 0;
    else if (strchr("xuU", *r->p)) {
        const int digits = *r->p == 'x' ? 2 : *r->p == 'u' ? 4 : 8;
        char hex[9] = "", *stop;
        if (r->end - r->p <= digits) FAIL(r, "a broken escape");
        memcpy(hex, r->p + 1, (size_t)digits);
        const unsigned long cp = strtoul(hex, &stop, 16);
        if (stop != hex + digits || !isxdigit((unsigned char)*hex)) FAIL(r, "a broken escape");
        n = cp <= 0x10ffff ? ls_utf8_encode((uint32_t)cp, out) : 0;
        if (!n) FAIL(r, "an escape of an invalid character");
        r->p += digits;
    } else if (*r->p >= '0' && *r->p <= '7') {
        unsigned v = 0;
        const char *q = r->p;
        while (q < r->end && q < r->p + 3 && *q >= '0' && *q <= '7') v = v * 8 + (unsigned)(*q++ - '0');
        n = ls_utf8_encode(v, out);
        r->p = q - 1;
    } else {
        j_add_lit(r->m, t, "\\");
        out[0] = *r->p;
    }
    j_add(r->m, t, (jstr){out, NULL, (size_t)n});
    r->p++;
}

static jstr quoted(parser *r) {
    jtext t = {0};
    j_space(r);
    while (r->p < r->end && (*r->p == '"' || *r->p == '\'')) { // neighbours are one
        const char quote = *r->p++;
        while (r->p < r->end && *r->p != quote) {
            const char *q = r->p;
            while (q < r->end && *q != quote && *q != '\\') q++;
            j_add(r->m, &t, (jstr){r->p, NULL, (size_t)(q - r->p)});
            r->p = q;
            if (q < r->end && *q == '\\') unescape(r, &t);
        }
        if (r->p >= r->end) FAIL(r, "a string that is not closed");
        r->p++;
        j_space(r);
    }
    return (jstr){t.p ? t.p : "", NULL, t.n};
}

static jvalue number(parser *r) {
    char digits[64];
    size_t n = 0;
    bool real = false;
    for (; r->p < r->end && n + 1 < sizeof digits; r->p++) {
        const char c = *r->p;
        const bool after_e = n && (digits[n - 1] == 'e' || digits[n - 1] == 'E');
        if (c == '_') continue;
        if (c == '.' && (real || r->p + 1 >= r->end || !isdigit((unsigned char)r->p[1]))) break;
        if (!isdigit((unsigned char)c) && c != '.' && c != 'e' && c != 'E' && !(after_e && (c == '-' || c == '+')))
            break;
        real |= c == '.' || c == 'e' || c == 'E';
        digits[n++] = c;
    }
    digits[n] = 0;
    char *stop;
    const jvalue v = real ? j_float(strtod(digits, &stop)) : j_int(strtoll(digits, &stop, 10));
    if (*stop) FAIL(r, "a broken number");
    return v;
}

// ---- expressions

static jnode *unary(parser *r, bool filters);

// The items up to `close`, as a list or a tuple has them.
static jnode *items(parser *r, jnode *n, const char *close) {
    while (!j_take(r, close)) {
        j_push(r, n, j_expression(r));
        if (!j_peek(r, close)) j_expect(r, ",");
    }
    return n;
}

static void arguments(parser *r, jnode *n) {
    while (!j_take(r, ")")) {
        const char *was = r->p;
        jstr key = j_peek_name(r);
        r->p += key.n;
        if (key.n && j_peek(r, "=") && !j_peek(r, "==")) j_take(r, "=");
        else r->p = was, key = (jstr){0};
        if (j_peek(r, "*")) FAIL(r, "'*' before arguments is not supported");
        j_push(r, n, j_expression(r));
        j_push_name(r, n, key);
        if (!j_peek(r, ")")) j_expect(r, ",");
    }
}

static jnode *primary(parser *r) {
    j_space(r);
    if (r->p >= r->end) FAIL(r, "the template ends within a tag");
    jnode *n;
    if (*r->p == '"' || *r->p == '\'') {
        n = j_node(r, J_CONST);
        n->value = j_string(quoted(r));
    } else if (isdigit((unsigned char)*r->p)) {
        n = j_node(r, J_CONST);
        n->value = number(r);
    } else if (j_take(r, "(")) {
        n = j_node(r, J_MAKE_TUPLE);
        if (j_take(r, ")")) return n;
        jnode *first = j_expression(r);
        if (j_take(r, ")")) return first;
        j_push(r, n, first);
        j_expect(r, ",");
        items(r, n, ")");
    } else if (j_take(r, "[")) n = items(r, j_node(r, J_MAKE_LIST), "]");
    else if (j_take(r, "{")) {
        n = j_node(r, J_MAKE_DICT);
        while (!j_take(r, "}")) {
            j_push(r, n, j_expression(r));
            j_expect(r, ":");
            j_push(r, n, j_expression(r));
            if (!j_peek(r, "}")) j_expect(r, ",");
        }
    } else {
        if (!j_peek_name(r).n) FAIL(r, "'%c' is not expected", *r->p);
        n = j_node(r, J_NAME);
        n->name = j_take_name(r);
        const jstr s = n->name;
        const bool yes = j_is(s, "true") || j_is(s, "True"), no = j_is(s, "false") || j_is(s, "False");
        if (yes || no) n->kind = J_CONST, n->value = j_bool(yes);
        if (j_is(s, "none") || j_is(s, "None")) n->kind = J_CONST, n->value = j_none();
        if (r->macro && j_is(s, "varargs")) r->macro->rest = true;
        if (r->macro && j_is(s, "kwargs")) r->macro->named_rest = true;
    }
    return n;
}

static jnode *subscript(parser *r, jnode *of) {
    jnode *n = j_node(r, J_ELEMENT), *parts[3] = {0};
    n->a = of;
    int at = 0;
    while (!j_peek(r, "]")) {
        if (j_take(r, ":")) {
            if (++at > 2) FAIL(r, "a slice has at most three parts");
        } else if (parts[at]) FAIL(r, "']' is expected");
        else parts[at] = j_expression(r);
    }
    j_expect(r, "]");
    n->b = parts[0];
    if (!at && !n->b) FAIL(r, "an index is expected");
    if (at) {
        n->kind = J_SLICE;
        for (int i = 0; i < 3; i++) j_push(r, n, parts[i]);
    }
    return n;
}

static jnode *postfix(parser *r, jnode *n) {
    for (;;) {
        jnode *of = n;
        if (j_peek(r, ".") || j_peek(r, "[")) {
            if (j_take(r, "[")) {
                n = subscript(r, of);
                continue;
            }
            j_take(r, ".");
            j_space(r);
            if (r->p < r->end && isdigit((unsigned char)*r->p)) {
                n = j_node(r, J_ELEMENT);
                n->b = j_node(r, J_CONST);
                n->b->value = number(r);
            } else {
                n = j_node(r, J_ATTRIBUTE);
                n->name = j_take_name(r);
            }
        } else if (j_take(r, "(")) {
            n = j_node(r, J_CALL);
            arguments(r, n);
        } else return n;
        n->a = of;
    }
}

static jstr dotted(parser *r) {
    const jstr first = j_take_name(r);
    jstr s = first;
    while (j_take(r, ".")) {
        j_take_name(r);
        s.n = (size_t)(r->p - first.p);
    }
    return s;
}

static jnode *test(parser *r, jnode *of) {
    jnode *n = j_node(r, J_TEST), *no = j_word(r, "not") ? j_node(r, J_NOT) : NULL;
    n->name = dotted(r);
    n->a = of;
    if (!j_test_known(n->name) && !r->soft) FAIL(r, "No test named '%.*s'.", J_SHOWN(n->name));
    if (j_take(r, "(")) arguments(r, n);
    else {
        const jstr next = j_peek_name(r);
        const bool ends = j_is(next, "else") || j_is(next, "or") || j_is(next, "and") || j_is(next, "is") ||
                          j_is(next, "if") || j_is(next, "in") || j_is(next, "not");
        j_space(r);
        if ((next.n && !ends) ||
            (!next.n && r->p < r->end && *r->p && (isdigit((unsigned char)*r->p) || strchr("\"'([{", *r->p)))) {
            j_push(r, n, postfix(r, primary(r)));
            j_push_name(r, n, (jstr){0});
        }
    }
    if (no) no->a = n;
    return no ? no : n;
}

jnode *j_one_filter(parser *r, jnode *of) {
    jnode *n = j_node(r, J_FILTER);
    n->name = dotted(r);
    n->a = of;
    if (!j_filter_known(n->name) && !r->soft) FAIL(r, "No filter named '%.*s'.", J_SHOWN(n->name));
    if (j_take(r, "(")) arguments(r, n);
    return n;
}

jnode *j_filters(parser *r, jnode *n) {
    for (;;)
        if (j_take(r, "|")) n = j_one_filter(r, n);
        else if (j_word(r, "is")) n = test(r, n);
        else if (j_take(r, "(")) {
            jnode *call = j_node(r, J_CALL);
            call->a = n;
            arguments(r, call);
            n = call;
        } else return n;
}

static jnode *unary(parser *r, bool filters) {
    jnode *n;
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "expressions nested more than %d deep", J_MAX_DEPTH);
    if (j_peek(r, "-") || j_peek(r, "+")) {
        n = j_node(r, *r->p == '-' ? J_NEGATIVE : J_POSITIVE);
        r->p++;
        n->a = unary(r, false);
    } else n = primary(r);
    n = postfix(r, n);
    r->depth--;
    return filters ? j_filters(r, n) : n;
}

static jnode *binary(parser *r, jnode_kind kind, char op, jnode *a, jnode *b) {
    jnode *n = j_node(r, kind);
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

static jnode *power(parser *r) {
    jnode *n = unary(r, true);
    while (j_take(r, "**")) n = binary(r, J_ARITHMETIC, 'p', n, unary(r, true));
    return n;
}

static jnode *product(parser *r) {
    jnode *n = power(r);
    for (;;)
        if (j_peek(r, "**")) return n;
        else if (j_take(r, "//")) n = binary(r, J_ARITHMETIC, 'f', n, power(r));
        else if (j_take(r, "*")) n = binary(r, J_ARITHMETIC, '*', n, power(r));
        else if (j_take(r, "/")) n = binary(r, J_ARITHMETIC, '/', n, power(r));
        else if (j_take(r, "%")) n = binary(r, J_ARITHMETIC, '%', n, power(r));
        else return n;
}

static jnode *concatenation(parser *r) {
    jnode *n = product(r), *all = NULL;
    while (j_take(r, "~")) {
        if (!all) j_push(r, all = j_node(r, J_CONCAT), n);
        j_push(r, all, product(r));
    }
    return all ? all : n;
}

static jnode *sum(parser *r) {
    jnode *n = concatenation(r);
    for (;;)
        if (j_take(r, "+")) n = binary(r, J_ARITHMETIC, '+', n, concatenation(r));
        else if (j_take(r, "-")) n = binary(r, J_ARITHMETIC, '-', n, concatenation(r));
        else return n;
}

static char comparison(parser *r) {
    if (j_take(r, "==")) return '=';
    if (j_take(r, "!=")) return '!';
    if (j_take(r, "<=")) return 'l';
    if (j_take(r, ">=")) return 'g';
    if (j_take(r, "<")) return '<';
    if (j_take(r, ">")) return '>';
    if (j_word(r, "in")) return 'i';
    const char *was = r->p;
    if (j_word(r, "not") && j_word(r, "in")) return 'o';
    r->p = was;
    return 0;
}

static jnode *compare(parser *r) {
    jnode *n = sum(r), *all = NULL;
    for (char op; (op = comparison(r));) {
        if (!all) {
            all = j_node(r, J_COMPARE);
            all->a = n;
        }
        all->ops = grown(r, all->ops, all->n, 1);
        all->ops[all->n] = op;
        j_push(r, all, sum(r));
    }
    return all ? all : n;
}

static jnode *negation(parser *r) {
    if (!j_word(r, "not")) return compare(r);
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "expressions nested more than %d deep", J_MAX_DEPTH);
    jnode *n = binary(r, J_NOT, 0, negation(r), NULL);
    r->depth--;
    return n;
}

static jnode *conjunction(parser *r) {
    jnode *n = negation(r);
    while (j_word(r, "and")) n = binary(r, J_AND, 0, n, negation(r));
    return n;
}

static jnode *disjunction(parser *r) {
    jnode *n = conjunction(r);
    while (j_word(r, "or")) n = binary(r, J_OR, 0, n, conjunction(r));
    return n;
}

jnode *j_expression(parser *r) {
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "expressions nested more than %d deep", J_MAX_DEPTH);
    jnode *n = disjunction(r);
    while (j_word(r, "if")) {
        jnode *choice = binary(r, J_CHOICE, 0, NULL, n);
        choice->a = disjunction(r);
        if (j_word(r, "else")) choice->c = j_expression(r);
        n = choice;
    }
    r->depth--;
    return n;
}

// What a tag holds: one expression, or several as a tuple.
jnode *j_expressions(parser *r, bool conditional) {
    jnode *n = conditional ? j_expression(r) : disjunction(r), *all = NULL;
    while (j_take(r, ",")) {
        if (!all) j_push(r, all = j_node(r, J_MAKE_TUPLE), n);
        j_space(r);
        if (j_at_close(r)) break;
        j_push(r, all, conditional ? j_expression(r) : disjunction(r));
    }
    return all ? all : n;
}

jnode *j_operand(parser *r) {
    return unary(r, true);
}
