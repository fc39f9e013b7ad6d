// Trees of a fixed size: the given number of rows, or the number in the method's paper.
#include "spec/sizing.h"

static int32_t ask_value(const ls_sizing *z, const ls_method *m) {
    (void)m;
    return (int32_t)z->values[0];
}

int32_t ls_sizing_paper_rows(const ls_sizing *z, const ls_method *m) {
    (void)z;
    return m->rows;
}

const ls_sizing_rule ls_size_fixed = {
    .is = {.name = "fixed",
           .summary = "exactly ROWS rows, if there are enough candidates",
           .source = "",
           .number = {{"ROWS", 64, 1, LS_MAX_ROWS, true}}},
    .ask = ask_value,
};

const ls_sizing_rule ls_size_paper = {
    .is = {.name = "paper", .summary = "the number of rows that the method's paper uses", .source = ""},
    .ask = ls_sizing_paper_rows,
};
