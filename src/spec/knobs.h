// Knobs: the numbers, switches and file names that set a drafter or a sizing rule. Each method and each rule declares
// its own (ls_method.knobs, ls_sizing_rule.knobs). This file joins them in one list, the methods' knobs first.
#pragma once
#include "base/err.h"

#include <stddef.h>

typedef enum { LS_KNOB_INT, LS_KNOB_NUMBER, LS_KNOB_SWITCH, LS_KNOB_FILE } ls_knob_kind; // a switch: on or off

typedef struct {
    const char *key; // "pld.ngram": the method's or rule's name, a dot, the knob's name; NULL ends a list
    ls_knob_kind kind;
    double fallback, lo, hi; // LS_KNOB_FILE: unused, its default is no file
    const char *help;
    size_t at; // its field in the drafter or the ls_sizing: an int32_t, a double, a bool or a const char *
} ls_knob;

typedef struct {
    double number;    // of a switch: 1 is on, 0 off
    const char *text; // LS_KNOB_FILE: a path, NULL or "" for none; borrowed
} ls_knob_value;

struct ls_method;
struct ls_sizing_rule;
size_t ls_knob_count(void);          // of all methods and rules
const ls_knob *ls_knob_at(size_t i); // of that list
// Index of the method's first knob in that list.
size_t ls_knob_offset(const struct ls_method *m);
size_t ls_knob_of_sizing(const struct ls_sizing_rule *r); // the same of a sizing rule; NULL: how many there are in all
void ls_knob_defaults(ls_knob_value *values);             // ls_knob_count() of them
// Sets the fields of these knobs (NULL: none). values: theirs; NULL: the defaults.
void ls_knobs_set(void *of, const ls_knob *knobs, const ls_knob_value *values);
// Reads a value. The message of LS_E_USAGE has the range and begins with `where`. out->text borrows from text.
ls_code ls_knob_read(const ls_knob *k, const char *where, const char *text, ls_knob_value *out, ls_err *err);
