// A template's text, tags and expressions, read by recursive descent straight from the source: jinja2/parser.py and
// lexer.py say what is meant.
#include "base/utf8.h"
#include "text/jinja_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    jvm *m;
    const char *start, *p, *end;
    const char *counted; // up to here there are `line` - 1 line ends
    int line;
    jnode *macro;    // the innermost
    int depth, soft; // soft: in an `if`, where an unknown filter fails only when it is reached
} parser;

// m->line becomes that of r->p.
static void place(parser *r) {
    if (r->p < r->counted) r->counted = r->start, r->line = 1;
    for (; r->counted < r->p; r->counted++) r->line += *r->counted == '\n';
    r->m->line = r->line;
}

#define FAIL(r, ...) (place(r), j_fail((r)->m, LS_E_PARSE, __VA_ARGS__))

static jnode *new_node(parser *r, jnode_kind kind) {
    jnode *n = j_alloc(r->m, sizeof *n);
    place(r);
    n->kind = kind;
    n->line = r->m->line;
    return n;
}

static void push(parser *r, jnode *to, jnode *item) {
    to->items = j_grown(r->m, to->items, (size_t)to->n, sizeof *to->items);
    to->items[to->n++] = item;
}

static void push_name(parser *r, jnode *to, jstr name) {
    to->names = j_grown(r->m, to->names, (size_t)to->n_names, sizeof *to->names);
    to->names[to->n_names++] = name;
}

// ---- tokens

static void skip_space(parser *r) {
    while (r->p < r->end && isspace((unsigned char)*r->p)) r->p++;
}

// A tag ends here: "}}", "%}", perhaps behind "-" or "+".
static bool at_close(parser *r) {
    const char *q = r->p + (r->p < r->end && (*r->p == '-' || *r->p == '+'));
    return q + 1 < r->end && q[1] == '}' && (*q == '}' || *q == '%');
}

static bool peek(parser *r, const char *op) {
    skip_space(r);
    const size_t n = strlen(op);
    return (size_t)(r->end - r->p) >= n && !memcmp(r->p, op, n) &&
           !((*op == '-' || *op == '+' || *op == '%') && at_close(r));
}

static bool take(parser *r, const char *op) {
    if (!peek(r, op)) return false;
    r->p += strlen(op);
    return true;
}

static void expect(parser *r, const char *op) {
    if (!take(r, op)) FAIL(r, "'%s' is expected", op);
}

static jstr peek_name(parser *r) {
    skip_space(r);
    const char *q = r->p;
    if (q < r->end && (isalpha((unsigned char)*q) || *q == '_'))
        while (q < r->end && (isalnum((unsigned char)*q) || *q == '_')) q++;
    return (jstr){r->p, NULL, (size_t)(q - r->p)};
}

static bool take_word(parser *r, const char *what) {
    const jstr s = peek_name(r);
    if (!j_is(s, what)) return false;
    r->p += s.n;
    return true;
}

static jstr take_name(parser *r) {
    const jstr s = peek_name(r);
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
    skip_space(r);
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
        skip_space(r);
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
    errno = 0;
    const jvalue v = real ? j_float(strtod(digits, &stop)) : j_int(strtoll(digits, &stop, 10));
    if (*stop) FAIL(r, "a broken number");
    if (!real && errno == ERANGE) FAIL(r, "a number does not fit 64 bits");
    return v;
}

// ---- expressions

static jnode *expression(parser *r);
static jnode *unary(parser *r, bool filters);

// Whether another item comes before `close`, behind a comma if there are n before it.
static bool another(parser *r, const char *close, int n) {
    if (n && !peek(r, close)) expect(r, ",");
    return !take(r, close);
}

// The items up to `close`, as a list or a tuple has them.
static void items(parser *r, jnode *n, const char *close) {
    while (another(r, close, n->n)) push(r, n, expression(r));
}

static void arguments(parser *r, jnode *n) {
    while (another(r, ")", n->n)) {
        const char *was = r->p;
        jstr key = peek_name(r);
        r->p += key.n;
        if (key.n && peek(r, "=") && !peek(r, "==")) take(r, "=");
        else r->p = was, key = (jstr){0};
        if (peek(r, "*")) FAIL(r, "'*' before arguments is not supported");
        push(r, n, expression(r));
        push_name(r, n, key);
    }
}

static jnode *primary(parser *r) {
    skip_space(r);
    if (r->p >= r->end) FAIL(r, "the template ends within a tag");
    jnode *n = new_node(r, J_CONST);
    if (*r->p == '"' || *r->p == '\'') n->value = j_string(quoted(r));
    else if (isdigit((unsigned char)*r->p)) n->value = number(r);
    else if (take(r, "(")) {
        n->kind = J_MAKE_TUPLE;
        if (take(r, ")")) return n;
        jnode *first = expression(r);
        if (take(r, ")")) return first;
        push(r, n, first);
        items(r, n, ")");
    } else if (take(r, "[")) {
        n->kind = J_MAKE_LIST;
        items(r, n, "]");
    } else if (take(r, "{")) {
        n->kind = J_MAKE_DICT;
        while (another(r, "}", n->n)) {
            push(r, n, expression(r));
            expect(r, ":");
            push(r, n, expression(r));
        }
    } else {
        if (!peek_name(r).n) FAIL(r, "'%c' is not expected", *r->p);
        const jstr s = n->name = take_name(r);
        const int word = ls_str_among((ls_str){s.p, s.n}, "true True false False none None");
        if (word < 0) n->kind = J_NAME;
        else n->value = word < 4 ? j_bool(word < 2) : j_none();
        if (r->macro && j_is(s, "varargs")) r->macro->rest = true;
        if (r->macro && j_is(s, "kwargs")) r->macro->named_rest = true;
    }
    return n;
}

static jnode *subscript(parser *r, jnode *of) {
    jnode *n = new_node(r, J_ELEMENT), *parts[3] = {0};
    n->a = of;
    int at = 0;
    while (!peek(r, "]")) {
        if (take(r, ":")) {
            if (++at > 2) FAIL(r, "a slice has at most three parts");
        } else if (parts[at]) FAIL(r, "']' is expected");
        else parts[at] = expression(r);
    }
    expect(r, "]");
    if (!at && !parts[0]) FAIL(r, "an index is expected");
    if (at) n->kind = J_SLICE;
    else n->b = parts[0];
    for (int i = 0; at && i < 3; i++) push(r, n, parts[i]);
    return n;
}

static jnode *attribute(parser *r, jnode *of) { // behind a dot
    skip_space(r);
    const bool digit = r->p < r->end && isdigit((unsigned char)*r->p);
    jnode *n = new_node(r, digit ? J_ELEMENT : J_ATTRIBUTE);
    n->a = of;
    if (digit) n->b = primary(r);
    else n->name = take_name(r);
    return n;
}

static jnode *call(parser *r, jnode *of) {
    jnode *n = new_node(r, J_CALL);
    n->a = of;
    arguments(r, n);
    return n;
}

static jnode *postfix(parser *r, jnode *n) {
    for (;;)
        if (take(r, "[")) n = subscript(r, n);
        else if (take(r, ".")) n = attribute(r, n);
        else if (take(r, "(")) n = call(r, n);
        else return n;
}

static jstr dotted(parser *r) {
    const jstr first = take_name(r);
    jstr s = first;
    while (take(r, ".")) {
        take_name(r);
        s.n = (size_t)(r->p - first.p);
    }
    return s;
}

static jnode *test(parser *r, jnode *of) {
    jnode *n = new_node(r, J_TEST), *no = take_word(r, "not") ? new_node(r, J_NOT) : NULL;
    n->name = dotted(r);
    n->a = of;
    if (!j_test_known(n->name) && !r->soft) FAIL(r, "No test named '%.*s'.", J_SHOWN(n->name));
    if (take(r, "(")) arguments(r, n);
    else {
        const jstr next = peek_name(r);
        const bool ends = ls_str_among((ls_str){next.p, next.n}, "else or and is if in not") >= 0;
        skip_space(r);
        if ((next.n && !ends) ||
            (!next.n && r->p < r->end && *r->p && (isdigit((unsigned char)*r->p) || strchr("\"'([{", *r->p)))) {
            push(r, n, postfix(r, primary(r)));
            push_name(r, n, (jstr){0});
        }
    }
    if (no) no->a = n;
    return no ? no : n;
}

static jnode *one_filter(parser *r, jnode *of) {
    jnode *n = new_node(r, J_FILTER);
    n->name = dotted(r);
    n->a = of;
    if (!j_filter_known(n->name) && !r->soft) FAIL(r, "No filter named '%.*s'.", J_SHOWN(n->name));
    if (take(r, "(")) arguments(r, n);
    return n;
}

static jnode *with_filters(parser *r, jnode *n) {
    for (;;)
        if (take(r, "|")) n = one_filter(r, n);
        else if (take_word(r, "is")) n = test(r, n);
        else if (take(r, "(")) n = call(r, n);
        else return n;
}

static jnode *unary(parser *r, bool filters) {
    jnode *n;
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "expressions nested more than %d deep", J_MAX_DEPTH);
    if (peek(r, "-") || peek(r, "+")) {
        n = new_node(r, J_SIGN);
        n->op = *r->p++;
        n->a = unary(r, false);
    } else n = primary(r);
    n = postfix(r, n);
    r->depth--;
    return filters ? with_filters(r, n) : n;
}

static jnode *binary(parser *r, jnode_kind kind, char op, jnode *a, jnode *b) {
    jnode *n = new_node(r, kind);
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

enum { COMPARED, SUM, CONCATENATION, PRODUCT, POWER, OPERAND }; // levels: each binds its operands closer

static char operator_of(parser *r, int level) { // its letter in jnode.op or ops; 0: none comes
    static const struct {
        int level;
        char text[3], letter;
    } all[] = {{COMPARED, "==", '='}, {COMPARED, "!=", '!'},     {COMPARED, "<=", 'l'}, {COMPARED, ">=", 'g'},
               {COMPARED, "<", '<'},  {COMPARED, ">", '>'},      {SUM, "+", '+'},       {SUM, "-", '-'},
               {PRODUCT, "//", 'f'},  {CONCATENATION, "~", '~'}, {PRODUCT, "*", '*'},   {PRODUCT, "/", '/'},
               {PRODUCT, "%", '%'},   {POWER, "**", 'p'}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].level == level && take(r, all[i].text)) return all[i].letter;
    return 0;
}

// Operators of a level and those that bind closer, from left to right.
static jnode *arithmetic(parser *r, int level) {
    if (level == OPERAND) return unary(r, true);
    jnode *n = arithmetic(r, level + 1);
    for (char op; (op = operator_of(r, level));) n = binary(r, J_ARITHMETIC, op, n, arithmetic(r, level + 1));
    return n;
}

static char comparison(parser *r) {
    const char op = operator_of(r, COMPARED), *was = r->p;
    if (op) return op;
    if (take_word(r, "in")) return 'i';
    if (take_word(r, "not") && take_word(r, "in")) return 'o';
    r->p = was;
    return 0;
}

static jnode *compare(parser *r) {
    jnode *n = arithmetic(r, SUM), *all = NULL;
    for (char op; (op = comparison(r));) {
        if (!all) {
            all = new_node(r, J_COMPARE);
            all->a = n;
        }
        all->ops = j_grown(r->m, all->ops, (size_t)all->n, 1);
        all->ops[all->n] = op;
        push(r, all, arithmetic(r, SUM));
    }
    return all ? all : n;
}

static jnode *negation(parser *r) {
    if (!take_word(r, "not")) return compare(r);
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "expressions nested more than %d deep", J_MAX_DEPTH);
    jnode *n = binary(r, J_NOT, 0, negation(r), NULL);
    r->depth--;
    return n;
}

static jnode *conjunction(parser *r) {
    jnode *n = negation(r);
    while (take_word(r, "and")) n = binary(r, J_AND, 0, n, negation(r));
    return n;
}

static jnode *disjunction(parser *r) {
    jnode *n = conjunction(r);
    while (take_word(r, "or")) n = binary(r, J_OR, 0, n, conjunction(r));
    return n;
}

static jnode *expression(parser *r) {
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "expressions nested more than %d deep", J_MAX_DEPTH);
    jnode *n = disjunction(r);
    while (take_word(r, "if")) {
        jnode *choice = binary(r, J_CHOICE, 0, NULL, n);
        choice->a = disjunction(r);
        if (take_word(r, "else")) choice->c = expression(r);
        n = choice;
    }
    r->depth--;
    return n;
}

// What a tag holds: one expression, or several as a tuple; conditional: "a if b else c" is one.
static jnode *expressions(parser *r, bool conditional) {
    jnode *n = conditional ? expression(r) : disjunction(r), *all = NULL;
    while (take(r, ",")) {
        if (!all) push(r, all = new_node(r, J_MAKE_TUPLE), n);
        skip_space(r);
        if (at_close(r)) break;
        push(r, all, conditional ? expression(r) : disjunction(r));
    }
    return all ? all : n;
}

// ---- the template, tags and statements

static jnode *body(parser *r, const char *const *ends, jstr *ended);

// mark: "%}" or "}}"; trims: a line end that follows is not text (trim_blocks).
static void close_tag_as(parser *r, const char *mark, bool trims) {
    skip_space(r);
    const bool minus = r->p < r->end && *r->p == '-', plus = r->p < r->end && *r->p == '+';
    const char *q = r->p + (minus || plus);
    if (q + 1 >= r->end || memcmp(q, mark, 2)) {
        if (r->p >= r->end) FAIL(r, "a tag that is not closed");
        FAIL(r, "'%c' is not expected", *r->p);
    }
    r->p = q + 2;
    if (minus) skip_space(r);
    else if (trims && !plus && r->p < r->end && *r->p == '\n') r->p++;
}

static void close_tag(parser *r, const char *mark) {
    close_tag_as(r, mark, *mark == '%');
}

// A body up to the tag `end`, which is read too.
static jnode *closed(parser *r, const char *end) {
    const char *const ends[] = {end, NULL};
    jstr ended;
    jnode *n = body(r, ends, &ended);
    close_tag(r, "%}");
    return n;
}

// The body of a tag, whose own end is read first.
static jnode *block(parser *r, const char *end) {
    close_tag(r, "%}");
    return closed(r, end);
}

// Behind the tag `ended`: what an else holds.
static jnode *otherwise(parser *r, jstr ended, const char *end) {
    close_tag(r, "%}");
    return j_is(ended, "else") ? closed(r, end) : NULL;
}

static jnode *parse_if(parser *r) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jnode *n = new_node(r, J_IF);
    jstr ended;
    n->a = expressions(r, false);
    close_tag(r, "%}");
    r->soft++;
    n->b = body(r, ends, &ended);
    n->c = j_is(ended, "elif") ? parse_if(r) : otherwise(r, ended, "endif");
    r->soft--;
    return n;
}

// name or (name, name) or name, name
static void targets(parser *r, jnode *n) {
    const bool bracket = take(r, "(");
    do push_name(r, n, take_name(r));
    while (take(r, ",") && peek_name(r).n && !j_is(peek_name(r), "in"));
    if (bracket) expect(r, ")");
}

static jnode *parse_for(parser *r) {
    static const char *const ends[] = {"else", "endfor", NULL};
    jnode *n = new_node(r, J_FOR);
    jstr ended;
    targets(r, n);
    if (!take_word(r, "in")) FAIL(r, "'in' is expected");
    n->a = expressions(r, false);
    if (take_word(r, "if")) n->d = expression(r);
    if (take_word(r, "recursive")) FAIL(r, "recursive loops are not supported");
    close_tag(r, "%}");
    n->b = body(r, ends, &ended);
    n->c = otherwise(r, ended, "endfor");
    return n;
}

static jnode *parse_set(parser *r) {
    jnode *n = new_node(r, J_SET);
    targets(r, n);
    if (n->n_names == 1 && take(r, ".")) {
        n->op = '.';
        push_name(r, n, take_name(r));
    }
    if (take(r, "=")) {
        n->a = expressions(r, true);
        close_tag(r, "%}");
        return n;
    }
    n->a = with_filters(r, new_node(r, J_BODY));
    n->b = block(r, "endset");
    return n;
}

static void signature(parser *r, jnode *n) {
    expect(r, "(");
    while (another(r, ")", n->n)) {
        push_name(r, n, take_name(r));
        push(r, n, take(r, "=") ? expression(r) : NULL);
    }
}

static jnode *parse_macro(parser *r, jnode *n, const char *end) {
    jnode *outer = r->macro;
    r->macro = n;
    if (n->kind == J_MACRO) n->name = take_name(r);
    if (n->kind == J_MACRO || peek(r, "(")) signature(r, n);
    if (n->kind == J_CALLING) {
        r->macro = outer;
        n->a = unary(r, true);
        if (n->a->kind != J_CALL) FAIL(r, "'call' needs a call expression");
        r->macro = n;
    }
    n->b = block(r, end);
    r->macro = outer;
    return n;
}

static jnode *parse_raw(parser *r) {
    jnode *n = new_node(r, J_TEXT);
    close_tag_as(r, "%}", false);
    const char *from = r->p;
    for (; r->p < r->end; r->p++) {
        const char *to = r->p;
        if (r->end - r->p < 2 || memcmp(r->p, "{%", 2)) continue;
        r->p += 2;
        const bool minus = r->p < r->end && *r->p == '-';
        r->p += minus || (r->p < r->end && *r->p == '+');
        if (!take_word(r, "endraw")) {
            r->p = to;
            continue;
        }
        while (minus && to > from && isspace((unsigned char)to[-1])) to--;
        close_tag(r, "%}");
        n->name = (jstr){from, NULL, (size_t)(to - from)};
        return n;
    }
    FAIL(r, "'endraw' is missing");
}

static jnode *statement(parser *r, jstr tag) {
    jnode *n;
    if (j_is(tag, "if")) return parse_if(r);
    if (j_is(tag, "for")) return parse_for(r);
    if (j_is(tag, "set")) return parse_set(r);
    if (j_is(tag, "macro")) return parse_macro(r, new_node(r, J_MACRO), "endmacro");
    if (j_is(tag, "call")) return parse_macro(r, new_node(r, J_CALLING), "endcall");
    if (j_is(tag, "raw")) return parse_raw(r);
    if (j_is(tag, "break") || j_is(tag, "continue")) {
        n = new_node(r, j_is(tag, "break") ? J_BREAK : J_CONTINUE);
        close_tag(r, "%}");
    } else if (j_is(tag, "generation")) {
        n = new_node(r, J_WITH);
        n->b = block(r, "endgeneration");
    } else if (j_is(tag, "filter")) {
        n = new_node(r, J_PRINT);
        n->a = with_filters(r, one_filter(r, new_node(r, J_BODY)));
        n->b = block(r, "endfilter");
    } else if (j_is(tag, "with")) {
        n = new_node(r, J_WITH);
        for (skip_space(r); !at_close(r); skip_space(r)) {
            push_name(r, n, take_name(r));
            expect(r, "=");
            push(r, n, expression(r));
            if (!take(r, ",")) break;
        }
        n->b = block(r, "endwith");
    } else FAIL(r, "Encountered unknown tag '%.*s'.", J_SHOWN(tag));
    return n;
}

// The text up to the next tag, as a node (NULL: none); the source then stands at the tag.
static jnode *plain(parser *r) {
    const char *from = r->p, *to = from;
    while (to + 1 < r->end && !(*to == '{' && (to[1] == '{' || to[1] == '%' || to[1] == '#'))) to++;
    const bool tag = to + 1 < r->end;
    if (!tag) to = r->end;
    r->p = to;
    if (tag) {
        const char mark = to + 2 < r->end ? to[2] : 0;
        if (mark == '-')
            while (to > from && isspace((unsigned char)to[-1])) to--;
        else if (to[1] != '{' &&
                 mark != '+') { // lstrip_blocks: blanks between the line's start and a block are not text
            const char *q = to;
            while (q > from && (q[-1] == ' ' || q[-1] == '\t')) q--;
            if (q == r->start || q[-1] == '\n') to = q;
        }
    }
    if (to == from) return NULL;
    jnode *n = new_node(r, J_TEXT);
    n->name = (jstr){from, NULL, (size_t)(to - from)};
    return n;
}

static void comment(parser *r) {
    const char *close = memmem(r->p, (size_t)(r->end - r->p), "#}", 2);
    if (!close) FAIL(r, "a comment that is not closed");
    const char last = close > r->p ? close[-1] : 0;
    r->p = close + 2;
    if (last == '-') skip_space(r);
    else if (last != '+' && r->p < r->end && *r->p == '\n') r->p++;
}

// Statements up to one of the tags `ends` (NULL: up to the end), of which the name is read.
static jnode *body(parser *r, const char *const *ends, jstr *ended) {
    jnode *first = NULL, **last = &first;
    if (++r->depth > J_MAX_DEPTH) FAIL(r, "blocks nested more than %d deep", J_MAX_DEPTH);
    for (;;) {
        jnode *n = plain(r);
        if (n) *last = n, last = &n->next;
        if (r->p >= r->end) {
            if (ends) FAIL(r, "'%s' is missing", ends[0]);
            break;
        }
        const char kind = r->p[1];
        r->p += 2;
        r->p += r->p < r->end && (*r->p == '-' || *r->p == '+') && !(kind != '#' && at_close(r));
        if (kind == '#') {
            comment(r);
            continue;
        }
        if (kind == '{') {
            n = new_node(r, J_PRINT);
            n->a = expressions(r, true);
            close_tag(r, "}}");
        } else {
            const jstr tag = take_name(r);
            for (int i = 0; ends && ends[i]; i++)
                if (j_is(tag, ends[i])) {
                    *ended = tag;
                    r->depth--;
                    return first;
                }
            n = statement(r, tag);
        }
        *last = n;
        last = &n->next;
    }
    r->depth--;
    return first;
}

jnode *j_parse(jvm *m, const char *p, size_t n) {
    parser r = {.m = m, .start = p, .p = p, .end = p + n, .counted = p, .line = 1};
    return body(&r, NULL, NULL);
}
