// Shared by jinja.c (memory, runs nodes), jinja_parse.c (makes them of the source), jinja_value.c (values),
// jinja_text.c (strings and formats) and jinja_call.c (filters, tests, methods, functions).
//
// Everything lives in an arena. An error ends the call by longjmp; nothing but the arena is to be freed then.
#pragma once
#include "text/jinja.h"

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

typedef enum {
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STRING,
    J_LIST,
    J_TUPLE,
    J_ITERATOR, // gives items once: no length, no elements
    J_DICT,
    J_NAMESPACE,
    J_LOOP,
    J_FUNCTION
} jkind;

// Where a JSON value comes from. Only strings of J_TRUSTED are not marked. Templates make control tokens of the role of
// a message, which is therefore trusted; another `role` (an argument of a tool's call, say) is not.
typedef enum { J_TRUSTED, J_MESSAGES, J_MESSAGE, J_CONVERSATION } jorigin;

typedef struct jvalue jvalue;
typedef struct jnode jnode;
typedef struct jframe jframe;

typedef struct {
    const char *p;
    const unsigned char *marks; // of each byte; NULL: none is marked
    size_t n;
} jstr;

typedef struct { // never changes once it is made
    jvalue *items;
    size_t n;
} jlist;

typedef struct {
    jvalue *keys, *values; // in order of coming; few
    size_t n;
} jdict;

typedef struct { // the variable `loop`
    jlist all;
    size_t i;
} jloop;

typedef struct jfunction jfunction;

struct jvalue {
    jkind kind;
    union {
        int64_t i; // of a bool or an int
        double f;
        jstr s;      // also the name of what is undefined
        jlist *list; // also of a tuple and an iterator
        jdict *dict;
        const jloop *loop;
        const jfunction *fn;
    };
};

struct jfunction {
    jstr name;
    const jnode *macro; // a macro, or the body of a call block
    jframe *frame;      // where that was defined
    jvalue self;        // of a method; J_UNDEFINED: a global function
};

typedef enum {
    // statements
    J_TEXT,
    J_PRINT,   // a; b: a block, which a filters
    J_IF,      // a, then b, else c
    J_FOR,     // names in a if d: b, else c
    J_SET,     // names (a namespace: names[0].names[1]) = a; b: a block, which a filters
    J_MACRO,   // name(names = items): b
    J_CALLING, // a call, whose caller(names = items) is b
    J_WITH,    // names = items: b, in a scope of its own
    J_BREAK,
    J_CONTINUE,
    // expressions
    J_CONST,
    J_NAME,
    J_BODY, // what the block wrote
    J_MAKE_LIST,
    J_MAKE_TUPLE,
    J_MAKE_DICT, // items: key, value, ...
    J_ATTRIBUTE, // a.name
    J_ELEMENT,   // a[b]
    J_SLICE,     // a[items[0]:items[1]:items[2]]
    J_CALL,      // a(items)
    J_FILTER,    // a|name(items)
    J_TEST,      // a is name(items)
    J_NOT,
    J_AND,
    J_OR,
    J_CHOICE,     // b if a else c
    J_COMPARE,    // a, then ops[i] items[i]
    J_ARITHMETIC, // a op b
    J_SIGN        // op a
} jnode_kind;

struct jnode {
    jnode_kind kind;
    int line;
    char op; // of arithmetic: + - ~ * / f(loor division) % p(ower); of J_SET: '.' a namespace's
    jstr name;
    jvalue value;
    jnode *a, *b, *c, *d, *next;
    jnode **items; // NULL in it: absent
    jstr *names;   // of arguments: n 0 where by position
    char *ops;     // of comparisons: = ! < > l(ess or equal) g(reater or equal) i(n) o(ut: not in)
    int n, n_names;
    bool rest, named_rest; // of a macro: it uses varargs, kwargs
};

typedef struct jblock {
    struct jblock *next;
} jblock;

typedef struct {
    jblock *blocks;
    size_t used, room, total; // of the newest block; of all
} jarena;

typedef struct { // text being made
    char *p;
    unsigned char *marks; // NULL: none so far
    size_t n, cap;
} jtext;

enum { J_SPARE = 8 };

typedef struct jvm {
    jarena *memory;
    jtext spare[J_SPARE]; // the newest texts that were made strings: what is added to one may take the room behind it
    int newest;
    jmp_buf failed;
    ls_err *err;
    int line;
    long fuel;
    int depth;  // of blocks and macros, or of values
    int nested; // expressions
    int64_t now;
    jframe *frame;
    jtext *out;
    jvalue body;   // of J_BODY
    char breaking; // 'b', 'c': the innermost loop's turn ends
} jvm;

typedef struct { // of a call
    jvalue *v;
    const jstr *names; // n 0: by position
    int n;
} jargs;

// ---- memory and errors

enum { J_FUEL = 20000000 }; // steps of a rendering

void *j_alloc(jvm *m, size_t n);                               // zeroed
void *j_grown(jvm *m, const void *old, size_t n, size_t size); // room for one more than n items
void j_deeper(jvm *m); // one value within another: m->depth grows, and may not beyond a limit
void j_fail(jvm *m, ls_code code, const char *fmt, ...) __attribute__((noreturn, format(printf, 3, 4)));
void j_exhausted(jvm *m) __attribute__((noreturn));
static inline void j_spend(jvm *m, size_t n) { // work in proportion to n
    m->fuel -= (long)n;
    if (m->fuel < 0) j_exhausted(m);
}
#define J_SHOWN(s) (int)((s).n < 60 ? (s).n : 60), (s).p

// ---- nodes

enum { J_MAX_DEPTH = 200 };
jnode *j_parse(jvm *m, const char *p, size_t n);
bool j_filter_known(jstr name);
bool j_test_known(jstr name);

// ---- values

static inline jstr j_lit(const char *s) {
    return (jstr){s, NULL, __builtin_strlen(s)};
}
static inline bool j_same_text(jstr a, jstr b) {
    return a.n == b.n && (!a.n || (*a.p == *b.p && !memcmp(a.p, b.p, a.n)));
}
static inline bool j_is(jstr s, const char *what) {
    return j_same_text(s, j_lit(what));
}
static inline jvalue j_string(jstr s) {
    return (jvalue){.kind = J_STRING, .s = s};
}
static inline jvalue j_bool(bool b) {
    return (jvalue){.kind = J_BOOL, .i = b};
}
static inline jvalue j_int(int64_t i) {
    return (jvalue){.kind = J_INT, .i = i};
}
static inline jvalue j_float(double f) {
    return (jvalue){.kind = J_FLOAT, .f = f};
}
static inline jvalue j_none(void) {
    return (jvalue){.kind = J_NONE};
}
static inline jvalue j_undefined(jstr name) {
    return (jvalue){.kind = J_UNDEFINED, .s = name};
}
jstr j_copied(jvm *m, const char *p, size_t n, bool marked);
jvalue j_list(jvm *m, jkind kind, size_t n); // with room for n items
jvalue j_dict(jvm *m, jkind kind);
void j_put(jvm *m, jdict *d, jvalue key, jvalue v);
const jvalue *j_get(jvm *m, const jdict *d, const jvalue *key); // NULL: no such key
jvalue j_from_json(jvm *m, const ls_json *v, jorigin of);
jvalue j_function(jvm *m, jstr name, jvalue self);

const char *j_type(const jvalue *v); // as Python names it
bool j_true(const jvalue *v);
bool j_same(jvm *m, const jvalue *a, const jvalue *b);
int j_compare(jvm *m, const jvalue *a, const jvalue *b);            // <0, 0, >0; fails where Python does
bool j_compares(jvm *m, char op, const jvalue *a, const jvalue *b); // op: of jnode.ops
size_t j_length(jvm *m, const jvalue *v);
jlist j_items(jvm *m, const jvalue *v); // what iterating gives
bool j_is_number(const jvalue *v);
double j_number(const jvalue *v);
jvalue j_arithmetic(jvm *m, char op, const jvalue *a, const jvalue *b);
jvalue j_attribute(jvm *m, const jvalue *of, jstr name);
jvalue j_element(jvm *m, const jvalue *of, const jvalue *at);
jvalue j_slice(jvm *m, const jvalue *of, const jvalue *from, const jvalue *to, const jvalue *step);

// ---- text

void j_add(jvm *m, jtext *t, jstr s);
void j_add_lit(jvm *m, jtext *t, const char *s);
void j_print(jvm *m, jtext *t, const jvalue *v); // as str()
jvalue j_made(jvm *m, const jtext *t);
jstr j_text_of(jvm *m, const jvalue *v); // str()
jstr j_part(jstr s, size_t from, size_t n);
size_t j_char(jstr s, uint32_t *cp);                               // bytes of the first character; s is not empty
size_t j_find(jvm *m, jstr s, jstr what, bool last);               // SIZE_MAX: it is not there
jstr j_stripped(jstr s, const jstr *chars, bool left, bool right); // chars NULL: white space
jvalue j_replaced(jvm *m, jstr s, jstr from, jstr to, int64_t most);
jvalue j_split(jvm *m, jstr s, const jstr *by, int64_t most, bool from_right);
jvalue j_lines(jvm *m, jstr s, bool keep_ends);
typedef enum { J_UPPER, J_LOWER, J_CAPITALIZED, J_TITLE_WORDS, J_TITLE_LETTERS } jcase;
jvalue j_cased(jvm *m, jstr s, jcase how);
typedef struct {
    bool ascii, sorted;
    jstr indent; // p NULL: on one line
    jstr comma, colon;
} jjson;
void j_json(jvm *m, jtext *t, const jvalue *v, const jjson *how);
jvalue j_percent(jvm *m, jstr format, const jvalue *values); // format % values
jvalue j_format(jvm *m, jstr format, const jargs *a);        // format.format(...)
jvalue j_indented(jvm *m, jstr s, jstr by, bool first, bool blank);
jvalue j_date(jvm *m, jstr format);

// ---- calls

jvalue j_filter(jvm *m, jstr name, const jvalue *of, const jargs *a);
bool j_test(jvm *m, jstr name, const jvalue *v, const jargs *a);
jvalue j_call(jvm *m, const jvalue *fn, const jargs *a); // not of macros
bool j_has_method(const jvalue *of, jstr name);
jvalue j_global(jvm *m, jstr name); // a function, or undefined
