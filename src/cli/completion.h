// Completions for a flag or a command, from the tables of commands and flags.
#pragma once
#include "cli/options.h"

typedef struct {
    char **words; // owned; n of them, without blanks
    size_t n;
    bool files; // ... and names of files
    bool open;  // a word is not complete: KEY= needs a value
} ls_offer;
void ls_offer_free(ls_offer *o);
// *out is owned by the caller, also after an error. Errors: the list of models or templates cannot be read.
ls_code ls_offer_of_flag(ls_offer *out, const ls_flag_info *f, ls_err *err);
ls_code ls_offer_of_command(ls_offer *out, const ls_command_info *c, ls_err *err); // arguments, not flags
