// Answers in channels, as gpt-oss writes them (harmony):
// "<|channel|>analysis<|message|>thinking<|end|><|start|>assistant
// <|channel|>final<|message|>the answer". The signs are special tokens. Templates drop what is not in the final channel
// from earlier turns, and refuse messages that contain it.
#pragma once
#include "text/vocab.h"

typedef struct {               // zero before the first token of an answer
    bool used;                 // there was a channel
    bool header, named, other; // within a header; within a channel's name; in another channel than the final one
    int n;
    char name[8]; // the beginning of the channel's name
} ls_channels;

// Takes the next token of an answer. Whether its bytes are text of the answer: it is no special token, and is in no
// header and no other channel. Without channels this is any token that is not special.
bool ls_channels_take(ls_channels *c, const ls_vocab *v, int32_t id);
