// The common part of sizing and acceptance rules: a name, a published source, and up to two numbers. The syntax is
// NAME, NAME:VALUE or NAME:VALUE:VALUE.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { LS_RULE_NUMBERS = 2 };

typedef struct {
    const char *name, *summary, *source;
    struct {
        const char *name; // its name in capitals; NULL: the rule has no more numbers
        double fallback, lo, hi;
        bool whole; // it is an integer
    } number[LS_RULE_NUMBERS];
} ls_rule;

typedef const ls_rule *(*ls_rule_list)(int i); // the i-th rule of a table; NULL: no more

// Finds the rule and its numbers. The message of LS_E_USAGE has the error and the allowed values; what: the name in the
// message; also: allowed values besides the rules, such as "default, ", or "".
ls_code ls_rule_read(ls_rule_list list, const char *also, const char *what, const char *text, int *index,
                     double values[LS_RULE_NUMBERS], ls_err *err);
void ls_rule_usage(ls_rule_list list, char *out, size_t size); // "fixed[:ROWS], paper, fly[:ENTROPY[:WINDOW]], ..."
void ls_rule_write(const ls_rule *r, const double values[LS_RULE_NUMBERS], char *out, size_t size);
