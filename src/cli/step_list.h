// Lists of step numbers in options: 5 or 5,17,20-22.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    struct {
        size_t first, last;
    } * ranges; // in the order written
    size_t n;
} ls_step_list;

// Numbers must be from least to most; SIZE_MAX: no limit. LS_E_USAGE names the allowed numbers; out then needs no
// freeing.
ls_code ls_step_list_read(ls_step_list *out, const char *text, size_t least, size_t most, ls_err *err);
void ls_step_list_free(ls_step_list *l);
bool ls_step_list_has(const ls_step_list *l, size_t step);
