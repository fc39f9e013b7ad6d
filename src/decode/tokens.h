// Bytes of token ids, as tokens events tell them: what a listener shows without a tokenizer.
#pragma once
#include "decode/step.h"

typedef struct {
    char *bytes; // n of them, then NUL; NULL: not known
    int32_t n;
    bool special; // a control token such as <|im_end|>
} ls_token;

typedef struct {
    ls_token *p; // by id
    int32_t n;
} ls_tokens;

void ls_tokens_learn(ls_tokens *t, const ls_event *e); // LS_EV_TOKENS
void ls_tokens_free(ls_tokens *t);
const ls_token *ls_token_of(const ls_tokens *t, int32_t id); // never NULL: "?" where it is not known
