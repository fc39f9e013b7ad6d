#include "spec/drafter.h"

#include <string.h>

const ls_method ls_methods[] = {
    {"ar", "plain decoding, one token a step", 1, false, NULL},
#define METHOD(name, make, budget, summary) {name, summary, budget, true, make},
#include "spec/methods.def"
#undef METHOD
    {0},
};

const char ls_method_names[] = "ar"
#define METHOD(name, make, budget, summary) "|" name
#include "spec/methods.def"
#undef METHOD
    ;

const ls_method *ls_method_find(const char *name) {
    for (const ls_method *m = ls_methods; m->name; m++)
        if (!strcmp(m->name, name)) return m;
    return NULL;
}
