// Runs several ways to decode in turn on one engine over the same prompts, and collects the results.
#pragma once
#include "cli/variant.h"
#include "decode/runner.h"
#include "decode/suite.h"
#include "report/bench.h"

typedef struct {
    ls_variant *c; // owned, n of them
    int n;
    ls_session **sessions; // one per variant: its drafter keeps its state over all prompts
    ls_model model;
    ls_suite suite;
    ls_bench b;              // the results; the caller fills in manifest and settings
    bool lenient;            // a prompt that does not fit the context is skipped and listed in b; else it is an error
    int32_t repeat;          // runs of each prompt, whose median counts; 0: one run
    const ls_run_sink *also; // for recordings: is told of all turns of the item b.done; NULL: nobody
    const char *file;        // gets the results as JSON after each prompt, so that it is always complete; NULL: none
} ls_comparison;

// Reads the prompts of --suite, or the prompt of --prompt or --prompt-file.
ls_code ls_comparison_prompts(ls_comparison *k, const ls_command_line *c, ls_err *err);
// With the variants: loads the model unless it is loaded, and makes the sessions.
ls_code ls_comparison_open(ls_comparison *k, ls_err *err);
// Runs all prompts after b.done, the results of an earlier run. If other programs disturb a prompt, runs it up to three
// times and keeps the least disturbed run; with `also` it runs once, because a recording has each step once. Finished
// results stay valid after an error or an interruption.
ls_code ls_comparison_run(ls_comparison *k, ls_err *err);
// Frees variants, sessions and results; keeps model and prompts for another round.
void ls_comparison_close(ls_comparison *k);
void ls_comparison_free(ls_comparison *k);

// Decodes all turns of the item, from an empty conversation, and adds to *r, which must begin as zeros. setup: format
// and system message of the prompts. also: is told of the turns; NULL: nobody. LS_E_CANCELLED: interrupted.
ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_run_sink *also, ls_result *r, ls_err *err);
