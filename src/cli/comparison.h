// Runs several ways to decode in turn on one engine over the same prompts, and collects the results.
#pragma once
#include "cli/variant.h"
#include "cli/progress.h"
#include "decode/suite.h"
#include "report/bench.h"

typedef struct {
    ls_variant *c;
    int n;
    ls_session **sessions; // one per variant: its drafter keeps its state over all prompts
    ls_model model;
    ls_suite suite;
    ls_bench b;     // the results; reset by ls_comparison_open
    bool lenient;   // a prompt that does not fit the context is skipped and listed in b; else it is an error
    int32_t repeat; // runs of each prompt, whose median counts; 0: one run
    ls_gauge *gauge;
    // Called for every step, unless NULL: for recordings. turn: as the suite counts them.
    void (*on_step)(void *ud, size_t turn, const ls_step *step);
    // Called before the first step of a turn, with all tokens before its output.
    void (*on_begin)(void *ud, size_t turn, const ls_ids *context);
    // Called after each prompt, unless NULL; an error ends the comparison.
    ls_code (*on_prompt)(void *ud, ls_err *err);
    void *ud;
} ls_comparison;

// Reads the prompts of --suite, or the prompt of --prompt or --prompt-file.
ls_code ls_comparison_prompts(ls_comparison *k, const ls_command_line *c, ls_err *err);
// Takes ownership of the variants, loads the model unless it is loaded, and makes the sessions.
ls_code ls_comparison_open(ls_comparison *k, ls_variant *c, int n, ls_err *err);
// Runs all prompts after b.done, the results of an earlier run. If other programs disturb a prompt, runs it up to three
// times and keeps the least disturbed run; with on_step it runs once, because a recording has each step once. Finished
// results stay valid after an error or an interruption.
ls_code ls_comparison_run(ls_comparison *k, ls_err *err);
// Frees variants, sessions and results; keeps model and prompts for another round.
void ls_comparison_close(ls_comparison *k);
void ls_comparison_free(ls_comparison *k);
