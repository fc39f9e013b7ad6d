// A conversation: its turns and their tokens, the only place that has both. The decoder's thread owns it, in a session
// (decode/session.h), whose operations change it as a whole or not at all. Whoever hears of it (a recording that is
// read, trace/turns.h; the screen, ui/state.h) makes one too, by the same functions. The log (trace/conversation_log.h)
// is a file.
#pragma once
#include "decode/step.h"
#include "engine/load.h"

typedef enum { LS_FORMAT_AUTO, LS_FORMAT_CHAT, LS_FORMAT_RAW } ls_prompt_format;

// The first prompt of a conversation; appends to out. Formats: auto uses the chat template if the model has one; chat
// requires it; raw uses the text as it is, between the vocabulary's begin and end tokens, and converts spelled-out
// special tokens to their ids. LS_E_USAGE: chat without a template, or a template that cannot be used. system: NULL for
// the template's own message; "" for an empty one, or for none if the template does not accept a system message.
ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, const char *text, size_t n,
                         ls_ids *out, ls_err *err);

// The text between the vocabulary's begin and end tokens. special: spelled-out special tokens become their ids.
ls_code ls_prompt_raw(const ls_vocab *v, ls_str text, bool special, ls_ids *out, ls_err *err);

// The template renders the whole conversation for each prompt. If the result begins with the text so far, only the rest
// is prefilled. If the template rewrites earlier turns (drops their thinking, moves the system message), prefill
// restarts at the first difference. Without a template each prompt begins a new text, but the format raw continues the
// previous text. If the text so far is not known (a recording made with another template), the tokens are kept, and the
// prompt is the part after the last answer.
typedef struct {
    ls_buf user, answer;  // messages; the answer is empty until it has ended
    size_t kept;          // number of tokens of the conversation with which its prompt begins
    size_t answer_at;     // number of tokens before its answer
    size_t n_begun;       // tokens of its answer, the first ones: the user chose them
    uint32_t n_steps;     // of its answer
    ls_finish finish;     // how the answer ended; LS_GOING: it is being decoded
    size_t bytes, places; // of the conversation before the answer
} ls_turn;

// A position where a prefix of the template's text corresponds to a prefix of the tokens.
typedef struct {
    size_t bytes, tokens;
} ls_text_place;

typedef struct {
    ls_ids context;      // committed tokens; -1: a recording left it out
    int32_t uncommitted; // the last token, if it was emitted without a forward; -1: none
    ls_turn *turns;
    size_t n_turns;
    ls_buf text;           // the template's text of all tokens, with the answers as generated
    ls_text_place *places; // in order; none: the text is not known
    size_t n_places;
} ls_conversation;

typedef struct {
    ls_str text;    // the user's, borrowed
    size_t kept;    // number of tokens so far that are kept
    ls_ids ids;     // tokens to prefill after them
    size_t n_begun; // of these, the last: the answer begins with them
    ls_buf whole;   // the template's text without these; empty if no template was used
} ls_next_prompt;
void ls_next_prompt_free(ls_next_prompt *p);

ls_conversation *ls_conversation_new(void);
void ls_conversation_free(ls_conversation *c); // accepts NULL
void ls_conversation_clear(ls_conversation *c);
size_t ls_conversation_tokens(const ls_conversation *c);       // all, the uncommitted one included
const ls_turn *ls_conversation_last(const ls_conversation *c); // NULL: there is no turn
size_t ls_conversation_output(const ls_conversation *c); // emitted tokens of the last turn, end of sequence included
size_t ls_turn_output_at(const ls_turn *t);              // number of tokens before its first emitted one
// The prompt of turn `turn`: the next turn, or an earlier turn to be answered again. Does not change the conversation.
ls_code ls_conversation_prompt(const ls_conversation *c, const ls_model *m, ls_prompt_format format, const char *system,
                               size_t turn, const char *text, size_t n, ls_next_prompt *out, ls_err *err);
// Turn `turn` begins in the place of this turn and all later ones: its prompt was prefilled.
void ls_conversation_begin(ls_conversation *c, size_t turn, const ls_next_prompt *p);
// A step of the last turn: adds what it emitted, except the end-of-sequence token, which the next prompt brings back.
// If the turn had ended, it goes on.
void ls_conversation_step(ls_conversation *c, const ls_step *s);
void ls_conversation_commit(ls_conversation *c); // a forward saw the uncommitted token
// The last turn has ended. text: of its output, without special tokens, cut before a stop string; NULL: the whole text.
void ls_conversation_end(ls_conversation *c, const ls_vocab *vocab, const ls_buf *text, ls_finish finish);
// The answer continues; ls_conversation_end will pass the text of the whole output again.
void ls_conversation_go_on(ls_conversation *c);

// Checks that there is memory for the KV cache of n more tokens; the message of LS_E_RANGE has both sizes. Without this
// check the machine would swap, or the system would kill the process without a message.
ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err);
// Describes the prefill of n tokens: "reading 131072 tokens (1.2 GiB)".
void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size);
