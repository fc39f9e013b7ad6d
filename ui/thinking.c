#include "ui/thinking.h"

#include <string.h>

static const char *const pairs[][2] = {
    {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<|channel|>analysis<|message|>", "<|end|>"}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static void push(ui_thinking *t, char byte, int32_t at) {
    if (t->n == UI_THINKING_TAIL) {
        t->n--;
        memmove(t->tail, t->tail + 1, (size_t)t->n);
        memmove(t->token, t->token + 1, (size_t)t->n * sizeof *t->token);
    }
    t->tail[t->n] = byte;
    t->token[t->n++] = at;
}

static bool ends_with(const ui_thinking *t, const char *sign) {
    const size_t n = strlen(sign);
    return (size_t)t->n >= n && !memcmp(t->tail + t->n - n, sign, n);
}

static void begins(ui_thinking *t) {
    for (int i = 0; i < PAIRS && t->from < 0; i++)
        if (ends_with(t, pairs[i][0])) {
            t->from = t->token[t->n - (int)strlen(pairs[i][0])];
            t->pair = i;
        }
}

void ui_thinking_begin(ui_thinking *t, const ls_tokens *tokens, const int32_t *prompt, int32_t n) {
    *t = (ui_thinking){.from = -1, .to = -1};
    for (int32_t i = n > UI_THINKING_TAIL ? n - UI_THINKING_TAIL : 0; i < n; i++) {
        const ls_token *token = ls_token_of(tokens, prompt[i]);
        for (int32_t k = 0; k < token->n; k++) push(t, token->bytes[k], 0);
    }
    while (t->n && strchr(" \n", t->tail[t->n - 1])) t->n--;
    begins(t);
    t->n = 0;
}

void ui_thinking_add(ui_thinking *t, const ls_token *token, int32_t at) {
    for (int32_t k = 0; k < token->n && t->to < 0; k++) { // one stretch of an answer
        push(t, token->bytes[k], at);
        if (t->from < 0) begins(t);
        else if (ends_with(t, pairs[t->pair][1])) t->to = at + 1;
    }
}

bool ui_thinking_at(const ui_thinking *t, int32_t at) {
    return t->from >= 0 && at >= t->from && (t->to < 0 || at < t->to);
}
