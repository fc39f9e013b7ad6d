// A template's text, tags and statements: jinja2/parser.py and lexer.py say what is meant.
#include "text/jinja_parser.h"

#include <ctype.h>
#include <string.h>

static jnode *body(parser *r, const char *const *ends, jstr *ended);

// mark: "%}" or "}}"; trims: a line end that follows is not text (trim_blocks).
static void close_tag_as(parser *r, const char *mark, bool trims) {
    j_space(r);
    const bool minus = r->p < r->end && *r->p == '-', plus = r->p < r->end && *r->p == '+';
    const char *q = r->p + (minus || plus);
    if (q + 1 >= r->end || memcmp(q, mark, 2)) {
        if (r->p >= r->end) FAIL(r, "a tag that is not closed");
        FAIL(r, "'%c' is not expected", *r->p);
    }
    r->p = q + 2;
    if (minus) j_space(r);
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

static jnode *parse_if(parser *r) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jnode *n = j_node(r, J_IF);
    jstr ended;
    n->a = j_expressions(r, false);
    close_tag(r, "%}");
    r->soft++;
    n->b = body(r, ends, &ended);
    if (j_is(ended, "elif")) n->c = parse_if(r);
    else {
        close_tag(r, "%}");
        if (j_is(ended, "else")) n->c = closed(r, "endif");
    }
    r->soft--;
    return n;
}

// name or (name, name) or name, name
static void targets(parser *r, jnode *n) {
    const bool bracket = j_take(r, "(");
    do j_push_name(r, n, j_take_name(r));
    while (j_take(r, ",") && j_peek_name(r).n && !j_is(j_peek_name(r), "in"));
    if (bracket) j_expect(r, ")");
}

static jnode *parse_for(parser *r) {
    static const char *const ends[] = {"else", "endfor", NULL};
    jnode *n = j_node(r, J_FOR);
    jstr ended;
    targets(r, n);
    if (!j_word(r, "in")) FAIL(r, "'in' is expected");
    n->a = j_expressions(r, false);
    if (j_word(r, "if")) n->d = j_expression(r);
    if (j_word(r, "recursive")) FAIL(r, "recursive loops are not supported");
    close_tag(r, "%}");
    n->b = body(r, ends, &ended);
    close_tag(r, "%}");
    if (j_is(ended, "else")) n->c = closed(r, "endfor");
    return n;
}

static jnode *parse_set(parser *r) {
    jnode *n = j_node(r, J_SET);
    targets(r, n);
    n->op = n->n_names > 1 ? ',' : 0;
    if (!n->op && j_take(r, ".")) {
        n->op = '.';
        j_push_name(r, n, j_take_name(r));
    }
    if (j_take(r, "=")) {
        n->a = j_expressions(r, true);
        close_tag(r, "%}");
        return n;
    }
    n->a = j_filters(r, j_node(r, J_BODY));
    close_tag(r, "%}");
    n->b = closed(r, "endset");
    return n;
}

static void signature(parser *r, jnode *n) {
    j_expect(r, "(");
    while (!j_take(r, ")")) {
        j_push_name(r, n, j_take_name(r));
        j_push(r, n, j_take(r, "=") ? j_expression(r) : NULL);
        if (!j_peek(r, ")")) j_expect(r, ",");
    }
}

static jnode *parse_macro(parser *r, jnode *n, const char *end) {
    jnode *outer = r->macro;
    r->macro = n;
    if (n->kind == J_MACRO) n->name = j_take_name(r);
    if (n->kind == J_MACRO || j_peek(r, "(")) signature(r, n);
    if (n->kind == J_CALLING) {
        r->macro = outer;
        n->a = j_operand(r);
        if (n->a->kind != J_CALL) FAIL(r, "'call' needs a call expression");
        r->macro = n;
    }
    close_tag(r, "%}");
    n->b = closed(r, end);
    r->macro = outer;
    return n;
}

static jnode *parse_raw(parser *r) {
    jnode *n = j_node(r, J_TEXT);
    close_tag_as(r, "%}", false);
    const char *from = r->p;
    for (; r->p < r->end; r->p++) {
        const char *to = r->p;
        if (r->end - r->p < 2 || memcmp(r->p, "{%", 2)) continue;
        r->p += 2;
        const bool minus = r->p < r->end && *r->p == '-';
        r->p += minus || (r->p < r->end && *r->p == '+');
        if (!j_word(r, "endraw")) {
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
    if (j_is(tag, "macro")) return parse_macro(r, j_node(r, J_MACRO), "endmacro");
    if (j_is(tag, "call")) return parse_macro(r, j_node(r, J_CALLING), "endcall");
    if (j_is(tag, "raw")) return parse_raw(r);
    if (j_is(tag, "break") || j_is(tag, "continue")) {
        n = j_node(r, j_is(tag, "break") ? J_BREAK : J_CONTINUE);
        close_tag(r, "%}");
    } else if (j_is(tag, "generation")) {
        n = j_node(r, J_SCOPE);
        close_tag(r, "%}");
        n->b = closed(r, "endgeneration");
    } else if (j_is(tag, "filter")) {
        n = j_node(r, J_FILTERED);
        n->a = j_filters(r, j_one_filter(r, j_node(r, J_BODY)));
        close_tag(r, "%}");
        n->b = closed(r, "endfilter");
    } else if (j_is(tag, "with")) {
        n = j_node(r, J_WITH);
        for (j_space(r); !j_at_close(r); j_space(r)) {
            j_push_name(r, n, j_take_name(r));
            j_expect(r, "=");
            j_push(r, n, j_expression(r));
            if (!j_take(r, ",")) break;
        }
        close_tag(r, "%}");
        n->b = closed(r, "endwith");
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
    jnode *n = j_node(r, J_TEXT);
    n->name = (jstr){from, NULL, (size_t)(to - from)};
    return n;
}

static void comment(parser *r) {
    const char *close = memmem(r->p, (size_t)(r->end - r->p), "#}", 2);
    if (!close) FAIL(r, "a comment that is not closed");
    const char last = close > r->p ? close[-1] : 0;
    r->p = close + 2;
    if (last == '-') j_space(r);
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
        const char *tag_at = r->p;
        r->p += 2;
        r->p += r->p < r->end && (*r->p == '-' || *r->p == '+') && !(kind != '#' && j_at_close(r));
        if (kind == '#') {
            comment(r);
            continue;
        }
        if (kind == '{') {
            n = j_node(r, J_PRINT);
            n->a = j_expressions(r, true);
            close_tag(r, "}}");
        } else {
            const jstr tag = j_take_name(r);
            for (int i = 0; ends && ends[i]; i++)
                if (j_is(tag, ends[i])) {
                    *ended = tag;
                    r->depth--;
                    return first;
                }
            if (tag.n > 3 && (!memcmp(tag.p, "end", 3) || j_is(tag, "else") || j_is(tag, "elif"))) {
                r->p = tag_at;
                FAIL(r, "Encountered unknown tag '%.*s'.", J_SHOWN(tag));
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
