// One way to decode, written as a word: METHOD[:ROWS][/SIZING][@ACCEPTANCE][+KNOB=VALUE]..., such as "pld+ngram=2",
// "logitspec/specdec++:0.8" or "suffix:16"; or the name of a YAML file, as for --config.
#pragma once
#include "cli/commands.h"
#include "spec/drafter.h"

typedef struct {
    char label[80]; // as it was written
    const ls_method *method;
    ls_options options; // the setup borrows from them, so a variant must not move
    ls_run_setup setup;
} ls_variant;

// Starts from `base`. LS_E_USAGE says what is wrong; out then needs no freeing.
ls_code ls_variant_read(ls_variant *out, const char *text, const ls_options *base, ls_err *err);
void ls_variant_free(ls_variant *c);
// Reads a list separated by commas. "all" as its first word: every method that needs no file, or whose file is set in
// the options. *out is an array of *n, owned by the caller. LS_E_USAGE: nothing is owned.
ls_code ls_variants_read(ls_variant **out, int *n, const char *what, const char *list, const ls_options *base,
                         ls_err *err);
void ls_variants_free(ls_variant *c, int n);
