// Converts the user's messages to the token ids that each turn appends to the conversation.
#pragma once
#include "engine/load.h"

typedef enum { LS_FORMAT_AUTO, LS_FORMAT_CHAT, LS_FORMAT_RAW } ls_prompt_format;

// The first prompt of a conversation; appends to out. Formats: auto uses the chat template if the model has one; chat
// requires it; raw uses the text as it is, between the vocabulary's begin and end tokens, and converts spelled-out
// special tokens to their ids. LS_E_USAGE: chat without a template, or a template that cannot be used. system: NULL for
// the template's own message; "" for an empty one, or for none if the template does not accept a system message.
ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, const char *text, size_t n,
                         ls_ids *out, ls_err *err);

// A conversation as messages, and the tokens of its text. The template renders the whole conversation for each prompt.
// If the result begins with the text so far, only the rest is prefilled. If the template rewrites earlier turns (drops
// their thinking, moves the system message), prefill restarts at the first difference. Without a template each prompt
// begins a new text, but the format raw continues the previous text. If the text so far is not known (a recording made
// with another template), the tokens are kept, and the prompt is the part after the last answer.
typedef struct ls_dialog ls_dialog;

typedef struct {
    size_t kept;  // number of tokens so far that are kept
    ls_ids ids;   // tokens to prefill after them
    ls_buf whole; // the template's text; empty if no template was used
} ls_next_prompt;
void ls_next_prompt_free(ls_next_prompt *p);

ls_dialog *ls_dialog_new(void);
void ls_dialog_free(ls_dialog *d); // accepts NULL
// The prompt of turn `turn`: the next turn, or an earlier turn to be answered again. Does not change the dialog.
ls_code ls_dialog_prompt(const ls_dialog *d, const ls_model *m, ls_prompt_format format, const char *system,
                         size_t turn, const char *text, size_t n, ls_next_prompt *out, ls_err *err);
// Call after the prompt was prefilled: turn `turn` begins.
void ls_dialog_begin(ls_dialog *d, size_t turn, const char *text, size_t n, const ls_next_prompt *p);
// Call after the turn was answered by n tokens, without the end-of-text token. text: their text without special tokens,
// cut before a stop string; NULL: their whole text.
void ls_dialog_answer(ls_dialog *d, const ls_model *m, const ls_buf *text, const int32_t *ids, size_t n);
void ls_dialog_unanswer(ls_dialog *d);         // the last answer continues: the caller will pass the whole answer again
size_t ls_dialog_tokens(const ls_dialog *d);   // so far
void ls_dialog_cut(ls_dialog *d, size_t turn); // removes turn `turn` and all later turns

// Checks that there is memory for the KV cache of n more tokens; the message of LS_E_RANGE has both sizes. Without this
// check the machine would swap, or the system would kill the process without a message.
ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err);
// Describes the prefill of n tokens: "reading 131072 tokens (1.2 GiB)".
void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size);
