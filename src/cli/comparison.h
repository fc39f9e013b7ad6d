// Several ways to decode, run in turn on one engine over the same prompts, and their results.
#pragma once
#include "cli/contender.h"
#include "cli/progress.h"
#include "decode/suite.h"
#include "decode/totals.h"

typedef struct {
    ls_contender *c;
    int n;
    ls_session **sessions; // of each contender: a drafter keeps what it learned on earlier prompts
    ls_model model;
    ls_suite suite;
    int reference;      // the contender whose output the others must equal: the first that is exact; -1: none
    int ar;             // the contender that decodes plainly; -1: none
    ls_result *results; // [prompt][contender]
    size_t done;        // prompts
    size_t disturbed;   // of these: other programs had the processors, each time that they were run
    ls_gauge *gauge;
    // Called for every step, unless NULL: for recordings. turn: as the suite counts them.
    void (*on_step)(void *ud, size_t turn, const ls_step *step);
    // Called before the first step of a turn, with all tokens before its output.
    void (*on_begin)(void *ud, size_t turn, const ls_ids *context);
    void *ud;
} ls_comparison;

// The prompts of --suite, or the one of --prompt or --prompt-file.
ls_code ls_comparison_prompts(ls_comparison *k, const ls_command_line *c, ls_err *err);
// Takes the contenders (owned from now on), loads the model if none is loaded, makes the sessions.
ls_code ls_comparison_open(ls_comparison *k, ls_contender *c, int n, ls_err *err);
// Runs every prompt; one that other programs disturbed is run up to three times, and the quietest counts (where steps
// are watched it is run once: a recording holds each step once). The results that are `done` stay valid after an error
// or an interruption.
ls_code ls_comparison_run(ls_comparison *k, ls_err *err);
// Frees contenders, sessions and results; keeps model and prompts for another round.
void ls_comparison_close(ls_comparison *k);
void ls_comparison_free(ls_comparison *k);

ls_result *ls_comparison_result(const ls_comparison *k, size_t prompt, int contender);
ls_promise ls_comparison_promise(const ls_comparison *k, int contender);

// Appends a line where other programs disturbed prompts.
void ls_comparison_tell_busy(const ls_comparison *k, ls_buf *out);
// Sums the prompts of a category (NULL: all).
ls_total ls_comparison_total(const ls_comparison *k, int contender, const char *category);
// The categories in order of appearance, NULL-terminated; owned by the caller, the names borrowed.
const char **ls_comparison_categories(const ls_comparison *k);
