// What sizing and acceptance rules have in common: a name, a published source, and perhaps one number. Written NAME or
// NAME:VALUE.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name, *summary, *source;
    const char *value;       // what its number means; NULL: it has none
    double fallback, lo, hi; // of that number
    bool whole;              // it is an integer
} ls_rule;

typedef const ls_rule *(*ls_rule_list)(int i); // the i-th rule of a table; NULL: no more

// Finds the rule and its number. LS_E_USAGE names what is wrong and what is allowed; what: for the message.
ls_code ls_rule_read(ls_rule_list list, const char *what, const char *text, int *index, double *value, ls_err *err);
void ls_rule_usage(ls_rule_list list, char *out, size_t size); // "fixed[:ROWS], paper, ..."
void ls_rule_write(const ls_rule *r, double value, char *out, size_t size);
