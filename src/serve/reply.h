// What a client reads: bodies and events of answers and errors, in the form of its API. One thread for each reply.
#pragma once
#include "decode/stats.h"
#include "serve/request.h"
#include "text/vocab.h"

// A token of the answer and its alternatives.
typedef struct {
    int32_t id;
    double logprob;
    int n_top;
    ls_top_entry top[LS_ROW_TOP]; // logit: the logarithm of the probability
} ls_token_logprob;

typedef struct {
    const ls_request *request; // borrowed, as all pointers here
    const ls_vocab *vocab;
    const char *model;
    bool calls; // calls of tools are written as <tool_call>JSON</tool_call>
    // zero at first
    char id[17];
    int64_t created;
    size_t sent; // bytes of the text that events have
    ls_token_logprob *logprobs;
    size_t n_logprobs;
} ls_reply;
void ls_reply_free(ls_reply *r);

// An answer that has ended.
typedef struct {
    const ls_ids *prompt, *output;
    ls_str text;
    size_t kept; // tokens of the prompt that were not read again
    ls_finish finish;
    const ls_stats *stats;
    double prefill_ms, queued_ms;
    const char *method, *guarantee;
    bool exact;
} ls_outcome;

// Notes the tokens of a step, if their probabilities are asked for.
void ls_reply_note(ls_reply *r, const ls_step *s);
// Each appends to out. Events: at first, for each new part of the text (text: so far; settled: bytes that are final),
// and at the end. Whole: the body instead.
void ls_reply_first(ls_reply *r, size_t prompt_tokens, ls_buf *out);
void ls_reply_more(ls_reply *r, ls_str text, size_t settled, ls_buf *out);
void ls_reply_last(ls_reply *r, const ls_outcome *a, ls_buf *out);
void ls_reply_whole(ls_reply *r, const ls_outcome *a, ls_buf *out);
void ls_reply_error(ls_api api, int status, const char *message, ls_buf *out);
void ls_reply_error_event(ls_api api, int status, const char *message, ls_buf *out); // after events have begun
