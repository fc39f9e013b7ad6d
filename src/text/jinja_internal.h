// Shared by jinja.c (statements), jinja_expr.c (expressions) and jinja_value.c (what can be done with values).
#pragma once
#include "text/jinja.h"

#include <stdbool.h>

typedef enum { J_UNDEFINED, J_NONE, J_BOOL, J_INT, J_STRING, J_LIST, J_DICT } jkind;

typedef struct jvalue jvalue;
typedef struct jdict jdict;
struct jvalue {
    jkind kind;
    int64_t i; // of a bool or an int
    ls_str s;
    jvalue *items; // of a list
    size_t n;
    jdict *dict;
};
struct jdict { // keys in order of coming; few
    ls_str *keys;
    jvalue *values;
    size_t n, cap;
};

typedef struct {
    ls_str name;
    jvalue value;
} jvar;

typedef struct jblock {
    struct jblock *next;
} jblock;

typedef struct {
    const char *text;    // the template, for line numbers
    const char *p, *end; // what is left of the tag being read
    jblock *memory;
    size_t used;
    jvar *vars;                     // innermost last
    size_t n_vars, cap_vars, scope; // where the innermost scope begins
    int depth;
    long fuel;
    ls_code code; // the first error, in msg
    char msg[256];
} jvm;

// Zeroed memory that lives as long as the vm. NULL, with an error set, over the limit; a few bytes are always there.
void *j_alloc(jvm *m, size_t n);
void j_fail(jvm *m, ls_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
jvalue j_str(jvm *m, const char *p, size_t n); // a copy
jvalue j_bool(bool b);
jvalue j_int(int64_t i);
bool j_true(const jvalue *v);
void j_print(jvm *m, const jvalue *v, ls_buf *out);
void j_put(jvm *m, jdict *d, ls_str key, jvalue v);
const jvalue *j_get(const jdict *d, const char *key, size_t n); // NULL: no such key
jvar *j_find(jvm *m, ls_str name);

// Lexing at m->p.
void j_space(jvm *m);
bool j_take(jvm *m, const char *op);     // the operator op, if it is next
bool j_word(jvm *m, const char *word);   // the name `word`, if it is next
ls_str j_name(jvm *m);                   // any name; n 0: none is next
jvalue j_expr(jvm *m, bool conditional); // conditional: "a if b else c" is allowed

// ---- values

enum { J_MAX_ARGS = 8 };
typedef struct { // of a call: (a, b, name=c)
    jvalue v[J_MAX_ARGS];
    ls_str name[J_MAX_ARGS]; // n 0: by position
    int n;
} jarguments;

bool j_equals(ls_str s, const char *what);
bool j_same(const jvalue *a, const jvalue *b);
bool j_contains(jvm *m, const jvalue *in, const jvalue *what);
jvalue j_list(jvm *m, size_t n);
jvalue j_joined(jvm *m, const jvalue *a, const jvalue *b);
jvalue j_function(jvm *m, ls_str name, const jarguments *a);
jvalue j_method(jvm *m, const jvalue *of, ls_str name, const jarguments *a);
jvalue j_filter(jvm *m, const jvalue *of, ls_str name, const jarguments *a);
bool j_test(jvm *m, const jvalue *v, ls_str name);
jvalue j_attribute(jvm *m, const jvalue *of, ls_str name);
jvalue j_element(jvm *m, const jvalue *of, const jvalue *at);
jvalue j_slice(jvm *m, const jvalue *of, const jvalue *from, const jvalue *to, const jvalue *step);
