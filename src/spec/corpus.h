// A corpus: a text of tokens with its suffix array, in one file. For drafts from text that the
// model never saw in this conversation (REST, arXiv 2311.08252).
//
// The file, little-endian: a header (struct in corpus.c), tokens int32[n], suffixes int32[n_suffixes], first
// int32[n_vocab + 1]. LS_CORPUS_BREAK stands between documents. Suffixes are in order of their first LS_CORPUS_DEPTH
// tokens, then of position; those that begin at a break are left out. first[t] .. first[t + 1] are the suffixes that
// begin with t.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_CORPUS_BREAK = -1, LS_CORPUS_DEPTH = 48 };

typedef struct ls_corpus ls_corpus;

typedef struct {
    int64_t n; // tokens, breaks included
    int32_t n_vocab;
    uint64_t tokenizer_id;
    char tokenizer[64]; // name of the vocabulary
} ls_corpus_facts;

// A range of suffixes: all that begin with the same tokens.
typedef struct {
    int32_t lo, hi; // [lo, hi)
} ls_corpus_range;

// progress: as in engine/engine.h, NULL for none; false cancels.
typedef bool (*ls_corpus_progress)(void *ud, const char *stage, double fraction);

// Sorts tokens[0..facts->n) with `threads` threads and writes the file; an older one stays until the new one is whole.
ls_code ls_corpus_write(const char *path, const int32_t *tokens, const ls_corpus_facts *facts, int32_t threads,
                        ls_corpus_progress progress, void *ud, ls_err *err);
// Reads the file into memory. LS_E_PARSE: not a corpus, of another version, or cut short.
ls_code ls_corpus_open(ls_corpus **out, const char *path, ls_err *err);
void ls_corpus_close(ls_corpus *c); // accepts NULL
const ls_corpus_facts *ls_corpus_get_facts(const ls_corpus *c);
// Suffixes that begin with the longest suffix of tail[0..n) that occurs at all, at most `most` tokens of it; *length:
// how many. An empty range and 0 where not even the last token occurs.
ls_corpus_range ls_corpus_find(const ls_corpus *c, const int32_t *tail, int32_t n, int32_t most, int32_t *length);
// Of the range's suffixes from place i on, which agree in their first `depth` tokens: those whose next token is that of
// the one at i; *token: that token, LS_CORPUS_BREAK where the text ends. Takes time by the logarithm of how many these
// are.
ls_corpus_range ls_corpus_next(const ls_corpus *c, ls_corpus_range r, int32_t depth, int32_t i, int32_t *token);
