// A suite: conversations to run one after another, as JSON Lines or as one JSON document (an array, also as "data"):
// {"prompt": "..."}, or Spec-Bench's {"turns": ["...", ...]}, whose turns follow one another in one conversation, with
// a "category" each. By their keys it also reads MT-Bench, HumanEval, GSM8K ("question"), Alpaca ("instruction" and
// "input", a blank line between them), OpenAI's "messages" (batch files too) and ShareGPT's "conversations": what the
// user says and the system message; answers in a file are not used.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

typedef struct {
    char *name;       // the first of the ids that suite.c lists, else the number of the line or the element
    char *category;   // "" where none is given
    char *system;     // message of the conversation; NULL: none is given
    const char *task; // as Spec-Bench counts: "mt_bench" for the eight kinds of MT-Bench, else the category; borrowed
    ls_buf *turns;    // their texts
    size_t n_turns, first; // first: how many turns the items before it have
} ls_suite_item;

typedef struct {
    ls_suite_item *items;
    size_t n, n_turns; // n_turns: of all items
    char **left_out;   // why: one line for each malformed one of the file
    size_t n_left_out;
} ls_suite;

// path "-": standard input. Errors name file and line. strict: a malformed line of the file is an error; else it is
// left out. An empty suite is LS_E_RANGE; so is a file of which nothing is a conversation: one message, with the reason
// of its first line.
ls_code ls_suite_read(ls_suite *out, const char *path, bool strict, ls_err *err);
// Keeps the first items: so many in all, so many of each task, and of each so many turns; 0: all.
void ls_suite_cut(ls_suite *s, size_t items, size_t of_each_task, size_t turns);
// Appends the texts of its turns, with their lengths: for a sum that tells conversations apart.
void ls_suite_text(const ls_suite_item *item, ls_buf *out);
void ls_suite_drop(ls_suite *s, size_t item); // leaves one out
// An item without turns; a turn of the last item.
void ls_suite_add(ls_suite *s, const char *name, const char *category);
void ls_suite_add_turn(ls_suite *s, const char *text, size_t n);
void ls_suite_free(ls_suite *s);
// Leaves of names[0..n), where there is room for one more, each that is not "" once, in order of appearance, then NULL.
void ls_suite_distinct(const char **names, size_t n);
