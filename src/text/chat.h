// Chat prompts by named frame, recognised from the model's own template.
#pragma once
#include "text/vocab.h"

typedef struct ls_chat ls_chat;

// Recognises `tmpl` (the model's Jinja chat template, n bytes). LS_E_UNSUPPORTED names what was not recognised.
// The default system message is the template's own.
ls_code ls_chat_new(ls_chat **out, const ls_vocab *v, const char *tmpl, size_t n, ls_err *err);
void ls_chat_free(ls_chat *c);
const char *ls_chat_name(const ls_chat *c); // "chatml"

// Appends the ids that one more user turn adds to a conversation: on the first turn the system message
// (system NULL: the template's default; "": none at all) and the user message with the generation prompt;
// on later turns the end of the previous answer (its end-of-turn token is not in the context), then the user
// message and the generation prompt. Spelled-out special tokens inside system or user stay plain text.
ls_code ls_chat_turn(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user, ls_ids *out,
                     ls_err *err);
