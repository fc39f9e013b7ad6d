// Splitting text into the pieces that BPE works on, with PCRE2 (its only user). Reference: Hugging Face tokenizers'
// ByteLevel (GPT-2's pattern) and, for "smollm", Digits(individual_digits) before it.
#pragma once
#include "base/err.h"

#include <stddef.h>

typedef struct ls_pretok ls_pretok;
typedef ls_code (*ls_piece_fn)(void *ud, const char *piece, size_t n, ls_err *err);

// LS_E_UNSUPPORTED for an unknown name, listing those known. Immutable afterwards: threads may share it.
ls_code ls_pretok_new(ls_pretok **out, const char *name, ls_err *err);
void ls_pretok_free(ls_pretok *p);
// Calls fn for each piece in order; together the pieces are the text. Any bytes are allowed: a run of bytes that are
// not UTF-8 is a piece of its own, and splits the text around it as an end of text would.
ls_code ls_pretok_split(const ls_pretok *p, const char *text, size_t n, ls_piece_fn fn, void *ud, ls_err *err);
