// Shared by jinja_expr.c (tokens and expressions) and jinja_parse.c (the template, tags and statements).
#pragma once
#include "text/jinja_internal.h"

typedef struct {
    jvm *m;
    const char *start, *p, *end;
    const char *counted; // up to here there are `line` - 1 line ends
    int line;
    jnode *macro;    // the innermost
    int depth, soft; // soft: in an `if`, where an unknown filter fails only when it is reached
} parser;

void j_place(parser *r); // m->line becomes that of r->p
#define FAIL(r, ...) (j_place(r), j_fail((r)->m, LS_E_PARSE, __VA_ARGS__))

jnode *j_node(parser *r, jnode_kind kind);
void j_push(parser *r, jnode *to, jnode *item);
void j_push_name(parser *r, jnode *to, jstr name);

void j_space(parser *r);
bool j_at_close(parser *r); // a tag ends here: "}}", "%}", perhaps behind "-" or "+"
bool j_peek(parser *r, const char *op);
bool j_take(parser *r, const char *op);
void j_expect(parser *r, const char *op);
jstr j_peek_name(parser *r);
bool j_word(parser *r, const char *what);
jstr j_take_name(parser *r);

jnode *j_expression(parser *r);
jnode *j_expressions(parser *r, bool conditional); // one, or several as a tuple; conditional: "a if b else c" is one
jnode *j_operand(parser *r);                       // with what is behind it: calls, filters, tests
jnode *j_filters(parser *r, jnode *n);             // filters and tests behind n
jnode *j_one_filter(parser *r, jnode *of);
