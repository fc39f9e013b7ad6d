// The memory of `logitspec` that outlives a session, in files (spec/stream.h) of tokens, each with the target's best
// tokens after it, from which a session fills its remembered choices and averages: the tokens of earlier answers, and
// bigrams, which the target itself gave, asked once after each token alone (model-derived bigrams, "The N-Grammys",
// arXiv 2411.03786; there they are the drafts of a method of their own).
#pragma once
#include "spec/search.h"
#include "spec/stream.h"

enum { LS_RECALL_TOKENS = 60000 }; // the newest ones, 68 bytes each

typedef struct {
    ls_stream stream; // of each token: the token, then ids and probabilities of the target's best tokens after it
    bool broken;      // the next token begins another answer
} ls_recall;

// Reads the file, and fills s. path NULL or "": there is none; "auto": the default place of the model. Errors are those
// of ls_stream_open.
ls_code ls_recall_open(ls_recall *r, ls_searcher *s, const char *path, const ls_draft_setup *setup, ls_err *err);
void ls_recall_learn(ls_recall *r, const ls_draft_result *result); // keeps the accepted rows

// ---- bigrams

enum { LS_BIGRAMS = 1 << 15 }; // the first tokens of a vocabulary at most: made by the earliest merges, the usual ones

// Fills s. path NULL or "": the model's own file, if there is one; "none": no file. *sum: the file's, 0 without one.
// *lacks: the own file has not all tokens. LS_E_USAGE: a named file cannot be used.
ls_code ls_bigrams_read(ls_searcher *s, const char *path, const ls_draft_setup *setup, uint64_t *sum, bool *lacks,
                        ls_err *err);
int32_t ls_bigrams_kept(const ls_draft_setup *setup); // tokens of the model's own file: 0 .. ; 0: it cannot be used
// Writes next[0..n), the predictions after tokens `from` on, behind those that the model's own file has; from 0: in
// place of them. *path is the file then (the caller frees it). LS_E_IO.
ls_code ls_bigrams_write(const ls_successor *next, int32_t from, int32_t n, const ls_draft_setup *setup, char **path,
                         ls_err *err);
