// A suite: prompts to run one after another. JSON Lines, one object a line: {"prompt": "...", "category": "..."}, or
// Spec-Bench's {"turns": ["...", ...], "category": "..."}, of which the first turn is taken.
#pragma once
#include "base/err.h"

#include <stddef.h>

typedef struct {
    char *name;     // the line's question_id or id, else its number
    char *category; // "" where none is given
    char *prompt;
    size_t n_prompt;
} ls_suite_item;

typedef struct {
    ls_suite_item *items;
    size_t n;
} ls_suite;

// path "-": standard input. Errors name file and line. An empty suite is LS_E_RANGE.
ls_code ls_suite_read(ls_suite *out, const char *path, ls_err *err);
void ls_suite_add(ls_suite *s, const char *name, const char *category, const char *prompt, size_t n);
void ls_suite_free(ls_suite *s);
