// Regular expressions as tokenizers write them, with PCRE2 (its only user). Reference: Oniguruma with Ruby's syntax and
// Unicode, which Hugging Face tokenizers uses.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct pcre2_real_code_8 ls_regex;               // immutable: threads may share it
typedef struct pcre2_real_match_data_8 ls_regex_scratch; // one a thread, for any expression
// RUBY: as above. LITERAL: a plain string. BYTES: in PCRE2's own syntax on single bytes; the text need not be UTF-8.
typedef enum { LS_REGEX_RUBY, LS_REGEX_LITERAL, LS_REGEX_BYTES } ls_regex_kind;

// LS_E_UNSUPPORTED with the place that cannot be compiled.
ls_code ls_regex_new(ls_regex **out, const char *pattern, size_t n, ls_regex_kind kind, ls_err *err);
void ls_regex_free(ls_regex *r); // accepts NULL, as the next
ls_regex_scratch *ls_regex_scratch_new(void);
void ls_regex_scratch_free(ls_regex_scratch *s);
// The first match in text[0..n), which must be UTF-8 (but for BYTES), that begins at `at` or later and is not empty.
// 1; 0: there is none; -1: it takes more steps than PCRE2 allows.
int ls_regex_find(const ls_regex *r, ls_regex_scratch *s, const char *text, size_t n, size_t at, size_t *start,
                  size_t *end);
void ls_regex_version(char out[32]); // of the library
