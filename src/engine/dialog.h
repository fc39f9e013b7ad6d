// From what the user typed to the ids that a turn appends to the conversation.
#pragma once
#include "engine/load.h"

typedef enum { LS_FORMAT_AUTO, LS_FORMAT_CHAT, LS_FORMAT_RAW } ls_prompt_format;

// The first prompt of a conversation. auto: the chat template where the model has one. chat without a template, and
// auto with one that cannot be used, is LS_E_USAGE with the reason. raw: the bytes as they are, between what the
// vocabulary's texts begin and end with; spelled-out special tokens become their ids. system: NULL for the template's
// own message, "" for an empty one, or none where the template takes none. Appends to out.
ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, const char *text, size_t n,
                         ls_ids *out, ls_err *err);

// A conversation, and which tokens its texts became. A prompt is what the template writes of all of it; where that
// begins with what was read and answered so far, only the rest is read. A model without a template has no conversation:
// each prompt begins a new text, unless the format is raw, which goes on with the text before. Templates that rewrite
// earlier turns (drop their thinking, move the system message) make it go back to where the two texts part. Where it is
// not known what the template wrote (a recording of another template), the conversation stays as it is, and the prompt
// is what follows the last answer.
typedef struct ls_dialog ls_dialog;

typedef struct {
    size_t kept;  // tokens so far that stay
    ls_ids ids;   // those that follow
    ls_buf whole; // what the template wrote; nothing where it was not used
} ls_next_prompt;
void ls_next_prompt_free(ls_next_prompt *p);

ls_dialog *ls_dialog_new(void);
void ls_dialog_free(ls_dialog *d); // accepts NULL
// The prompt of turn `turn` (that comes next, or one that is to be answered anew). Changes nothing.
ls_code ls_dialog_prompt(const ls_dialog *d, const ls_model *m, ls_prompt_format format, const char *system,
                         size_t turn, const char *text, size_t n, ls_next_prompt *out, ls_err *err);
// It was read: turn `turn` begins.
void ls_dialog_begin(ls_dialog *d, size_t turn, const char *text, size_t n, const ls_next_prompt *p);
// It was answered by n tokens, of which the one that ends the text is none. text: what they say, without special tokens
// and cut before a stop string; NULL: all that they say.
void ls_dialog_answer(ls_dialog *d, const ls_model *m, const ls_buf *text, const int32_t *ids, size_t n);
void ls_dialog_unanswer(ls_dialog *d);         // the last answer goes on: it will be told anew, whole
size_t ls_dialog_tokens(const ls_dialog *d);   // so far
void ls_dialog_cut(ls_dialog *d, size_t turn); // forgets turn `turn` and those after it
