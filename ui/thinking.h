// Which tokens of an answer are thinking: from "<think>" to "</think>" or what other models write (ui/thinking.c has
// the pairs), spelled by any number of tokens. A prompt may end with the beginning.
#pragma once
#include "decode/tokens.h"

#include <stdbool.h>

enum { UI_THINKING_TAIL = 40 }; // bytes; the longest sign is shorter

typedef struct {
    int32_t from, to; // tokens of the answer; from -1: none so far; to -1: it has not ended
    int pair;         // how it began
    int n;            // bytes of what was written last:
    char tail[UI_THINKING_TAIL];
    int32_t token[UI_THINKING_TAIL]; // each byte's
} ui_thinking;

void ui_thinking_begin(ui_thinking *t, const ls_tokens *tokens, const int32_t *prompt, int32_t n);
void ui_thinking_add(ui_thinking *t, const ls_token *token, int32_t at); // token `at` of the answer
bool ui_thinking_at(const ui_thinking *t, int32_t at);
