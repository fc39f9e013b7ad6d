// A turn's output: emitted tokens, the text that they make, and what ends it.
#pragma once
#include "base/buf.h"
#include "decode/step.h"
#include "text/vocab.h"

// Answers in channels, as gpt-oss writes them (harmony):
// "<|channel|>analysis<|message|>thinking<|end|><|start|>assistant
// <|channel|>final<|message|>the answer". The signs are special tokens. Templates drop what is not in the final channel
// from earlier turns, and refuse messages that contain it.
typedef struct {               // zero before the first token of an answer
    bool used;                 // there was a channel
    bool header, named, other; // within a header; within a channel's name; in another channel than the final one
    int n;
    char name[8]; // the beginning of the channel's name
} ls_channels;

// Takes the next token of an answer. Whether its bytes are text of the answer: it is no special token, and is in no
// header and no other channel. Without channels this is any token that is not special.
bool ls_channels_take(ls_channels *c, const ls_vocab *v, int32_t id);

// Zero-initialise, then ls_answer_ends; ls_answer_free releases it.
typedef struct {
    ls_ids ids;
    ls_buf text; // UTF-8, of the final channel; an unfinished sequence at the end is held back
    ls_detok detok;
    ls_channels channels;
    int32_t max_tokens; // counted from `from`
    size_t from;        // number of tokens when the answer was continued after max_tokens; else 0
    ls_detok held;      // detok before the flush ...
    size_t held_n;      // ... and the bytes of text then
    ls_ids stop_ends;   // end of each stop string in stop_bytes
    ls_buf stop_bytes;
} ls_answer;

void ls_answer_ends(ls_answer *a, int32_t max_tokens, const char *const *stops); // stops: NULL-terminated; NULL: none
void ls_answer_free(ls_answer *a);
void ls_answer_begin(ls_answer *a); // empty again
// One that was decoded earlier. begun: the first tokens, which the user chose: they are no part of it.
void ls_answer_take(ls_answer *a, const ls_vocab *vocab, const int32_t *ids, size_t n, size_t begun);
// Whether the next token is the last one, whatever it is.
bool ls_answer_ends_next(const ls_answer *a);
// Adds tokens until something ends the turn. Returns how many were added; *finish says why it stopped.
int32_t ls_answer_add(ls_answer *a, const ls_vocab *vocab, const int32_t *ids, int32_t n, ls_finish *finish);
void ls_answer_flush(ls_answer *a); // the turn is over: nothing is held back
void ls_answer_go_on(ls_answer *a); // continues an answer that max_tokens has cut: as many more tokens may follow
// Bytes of the text that no stop string can take back.
size_t ls_answer_settled(const ls_answer *a);
