// Chat prompts by named frame (text/chat_frames.h), recognised from the model's own template: we run the template
// (text/jinja.h) on a few conversations and take a frame only if it writes the same text for each of them. So a
// template is refused if no frame knows it, never written differently.
//
// Intended differences from the reference:
// - a context only grows: an answer stays as generated, although some templates trim old answers, remove their thinking
//   (Qwen 3, DeepSeek R1), or put the system message into the latest user message (Mistral v3: here every turn carries
//   it, and earlier turns keep theirs);
// - today's date is always 26 July 2024, as in the Llama 3.x templates without a clock: the same prompt gives the same
//   tokens;
// - special tokens that a user or a system message spells out are plain text.
#pragma once
#include "text/vocab.h"

typedef struct ls_chat ls_chat;

// Recognises `tmpl` (the model's Jinja chat template, n bytes), with its own default system message. LS_E_UNSUPPORTED
// names the unknown construct or the missing special token.
ls_code ls_chat_new(ls_chat **out, const ls_vocab *v, const char *tmpl, size_t n, ls_err *err);
void ls_chat_free(ls_chat *c);
const char *ls_chat_name(const ls_chat *c); // "chatml"
const char *ls_chat_end(const ls_chat *c);  // the spelling of the token that ends an answer: "<|im_end|>"
void ls_chat_list(char *out, size_t size);  // "chatml, phi-4, ...", for messages

// Appends the ids that one more user turn adds to a conversation: on the first turn the system message
// (system NULL: the template's default; "": none at all) and the user message with the generation prompt;
// on later turns the end of the previous answer (its end-of-turn token is not in the context), then the user
// message and the generation prompt. Spelled-out special tokens inside system or user stay plain text.
// LS_E_USAGE: the template has no place for a system message.
ls_code ls_chat_turn(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user, ls_ids *out,
                     ls_err *err);
// Appends the text of the same turn, special tokens spelled out (a system message without a place is left out).
void ls_chat_render(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user, ls_buf *text);
