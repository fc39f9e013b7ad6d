// The memory of `logitspec` that outlives a session: the tokens of answers, each with the target's best tokens after
// it, in a file (spec/stream.h) from which the next session fills its remembered choices and averages.
#pragma once
#include "spec/search.h"
#include "spec/stream.h"

enum { LS_RECALL_TOKENS = 60000 }; // the newest ones, 68 bytes each

typedef struct {
    ls_stream stream; // of each token: the token, then ids and probabilities of the target's best tokens after it
    bool on;          // it has a file
    bool broken;      // the next token begins another answer
} ls_recall;

// Reads the file, and fills s. path NULL or "": there is none; "auto": the default place of the model. Errors are those
// of ls_stream_open.
ls_code ls_recall_open(ls_recall *r, ls_searcher *s, const char *path, const ls_draft_setup *setup, ls_err *err);
void ls_recall_learn(ls_recall *r, const ls_draft_result *result); // keeps the accepted rows
void ls_recall_break(ls_recall *r);                                // another conversation begins
