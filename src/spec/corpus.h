// A corpus: a text of tokens with its suffix array, in one file. It gives drafts from text outside the conversation
// (REST, arXiv 2311.08252).
//
// The file, little-endian: a header (struct in corpus.c), tokens int32[n], suffixes int32[n_suffixes], first
// int32[n_vocab + 1]. LS_CORPUS_BREAK separates documents. Suffixes are sorted by their first LS_CORPUS_DEPTH tokens,
// then by position; suffixes that begin at a break are not included. first[t] .. first[t + 1] are the suffixes that
// begin with t.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { LS_CORPUS_BREAK = -1, LS_CORPUS_DEPTH = 48 };

typedef struct {        // as in the file
    int64_t n;          // tokens, including breaks
    int64_t n_suffixes; // ls_corpus_write counts them
    int32_t n_vocab, unused;
    uint64_t tokenizer_id;
    char tokenizer[64]; // name of the vocabulary
} ls_corpus_facts;

typedef struct {
    ls_buf file;
    ls_corpus_facts facts;
    const int32_t *tokens, *suffixes, *first; // in the file
} ls_corpus;

// A range of suffixes: all that begin with the same tokens.
typedef struct {
    int32_t lo, hi; // [lo, hi)
} ls_corpus_range;

// Sorts tokens[0..facts->n) with `threads` threads and writes the file; replaces an older file at the end. progress:
// NULL for none.
ls_code ls_corpus_write(const char *path, const int32_t *tokens, const ls_corpus_facts *facts, int32_t threads,
                        ls_progress progress, void *ud, ls_err *err);
// Reads the file into memory. LS_E_PARSE: not a corpus, of another version, or cut short.
ls_code ls_corpus_open(ls_corpus **out, const char *path, ls_err *err);
void ls_corpus_close(ls_corpus *c); // accepts NULL
// The suffixes that begin with the longest ending of tail[0..n) that occurs in the corpus, of at most `most` tokens.
// *length: the ending's tokens. If the last token does not occur, the range is empty and *length is 0.
ls_corpus_range ls_corpus_find(const ls_corpus *c, const int32_t *tail, int32_t n, int32_t most, int32_t *length);
// All suffixes of the range agree in their first `depth` tokens. Returns those from place i on with the same next token
// as the suffix at i. *token: that token; LS_CORPUS_BREAK: the text ends. The time is logarithmic in their number.
ls_corpus_range ls_corpus_next(const ls_corpus *c, ls_corpus_range r, int32_t depth, int32_t i, int32_t *token);
