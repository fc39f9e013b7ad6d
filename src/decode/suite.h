// A suite: conversations to run one after another. JSON Lines, one object a line: {"prompt": "...", "category": "..."},
// or Spec-Bench's {"turns": ["...", ...], "category": "..."}, whose turns follow one another in one conversation.
#pragma once
#include "base/err.h"

#include <stddef.h>

typedef struct {
    char *text;
    size_t n;
} ls_suite_turn;

typedef struct {
    char *name;     // the line's question_id or id, else its number
    char *category; // "" where none is given
    ls_suite_turn *turns;
    size_t n_turns, first; // first: how many turns the items before it have
} ls_suite_item;

typedef struct {
    ls_suite_item *items;
    size_t n, n_turns; // n_turns: of all items
} ls_suite;

// path "-": standard input. Errors name file and line. An empty suite is LS_E_RANGE.
ls_code ls_suite_read(ls_suite *out, const char *path, ls_err *err);
// An item without turns; a turn of the last item.
void ls_suite_add(ls_suite *s, const char *name, const char *category);
void ls_suite_add_turn(ls_suite *s, const char *text, size_t n);
void ls_suite_free(ls_suite *s);
// Leaves of names[0..n), where there is room for one more, each that is not "" once, in order of appearance, then NULL.
void ls_suite_distinct(const char **names, size_t n);
