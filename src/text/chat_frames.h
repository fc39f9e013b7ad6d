// The named frames of chat prompts, one row each. A template has a frame if both write the same for a few conversations
// (text/chat.c). A new frame is a row here and its template in tests/vectors/chat.
#pragma once
#include <stddef.h>

typedef enum {
    LS_SYSTEM_BLOCK,  // a message of its own, before the first user message
    LS_SYSTEM_FIRST,  // inside the first user message, before its text
    LS_SYSTEM_LATEST, // the same, in the latest user message
} ls_system_place;

// Strings as the template writes them; "\1" is the model's begin-of-text token, "\2" its end-of-text token. chat.c
// reads the variations within a frame off the template: a begin-of-text token in front, contents trimmed or not, a
// system message refused or left out, the default system message, and a "<think>" at the beginning of the answer.
typedef struct {
    const char *name;
    ls_system_place place;
    const char *system[2]; // before and after its text
    const char *user[2];   // before and after the text; the latter up to where the model's answer begins
    const char *answer;    // after an answer, when another turn follows
    const char *end;       // the token that ends an answer
    const char *needs;     // tokens that the vocabulary must have as special ones, with blanks between
} ls_chat_frame;

extern const ls_chat_frame ls_chat_frames[];
extern const size_t ls_n_chat_frames;
