// Shared by jinja_filter.c and jinja_method.c: functions of a value and arguments, as tables have them.
#pragma once
#include "text/jinja_internal.h"

typedef jvalue (*j_callee)(jvm *m, const jvalue *of, const jargs *a);
typedef struct {
    const char *name;
    j_callee run;
} j_entry;
#define DEFINE(name)                                                                                                   \
    static jvalue name(__attribute__((unused)) jvm *m, __attribute__((unused)) const jvalue *of,                       \
                       __attribute__((unused)) const jargs *a)

static inline j_callee j_named(const j_entry *table, size_t n, jstr name) {
    const char first = name.n ? *name.p : 0;
    for (size_t i = 0; i < n; i++)
        if (*table[i].name == first && j_is(name, table[i].name)) return table[i].run;
    return NULL;
}
#define J_NAMED(table, name) j_named(table, sizeof(table) / sizeof *(table), name)

// Argument i, or that name; NULL: not given.
const jvalue *j_given(const jargs *a, int i, const char *name);
bool j_flag(const jargs *a, int i, const char *name);
int64_t j_integer(jvm *m, const jargs *a, int i, const char *name, int64_t otherwise);
jstr j_argument(jvm *m, const jargs *a, int i, const char *name); // a string, which must be given
jvalue j_pairs(jvm *m, const jdict *d, jkind kind);               // its keys with their values
