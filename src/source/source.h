// A source sends events and accepts commands. Live decoding and replay implement it; screens use both in the
// same way. Functions are called by one thread (the screen's) only.
#pragma once
#include "base/err.h"
#include "decode/step.h"

typedef enum {
    LS_CMD_PROMPT, // text: send a user message; while loading it waits, during a turn it is refused
    LS_CMD_RUN,    // leave pause
    LS_CMD_PAUSE,  // stop before the next step; before a turn: start it paused
    LS_CMD_STEP,   // n steps, then pause
    LS_CMD_STOP,   // end the turn now, keep what was emitted
    LS_CMD_GO_ON,  // continue the last answer, which was cut by max_tokens, by up to max_tokens more
    LS_CMD_SET,    // text: "key=value", takes effect from the next step
    LS_CMD_RESET,  // forget the conversation; the header comes again
    LS_CMD_EDIT,   // text, n: forget turn n and those after it, and send this message in its place
    LS_CMD_SAVE,   // text: the conversation into that file, a trace
    LS_CMD_LOAD,   // text: the last conversation of that trace takes the place of this one
    LS_CMD_FORK,   // text, n: what-if: continue the last answer after its first n tokens with text: token ids
                   // separated by blanks, then optionally a newline and more text; see LS_EV_RIVAL
    LS_CMD_KEEP,   // text, n: answer turn n (its prompt: text) again, beginning with the tokens of the last what-if
    LS_CMD_RIVAL,  // text: a way to decode, such as "ar"; it answers the last prompt too, see LS_EV_RIVAL
} ls_command_kind;

// A command that changes the conversation or answers a turn again. A source refuses it during an answer, so a sender
// that wants it carried out waits for the end of the answer.
static inline bool ls_command_waits(ls_command_kind kind) {
    return kind == LS_CMD_PROMPT || kind == LS_CMD_EDIT || kind == LS_CMD_LOAD || kind == LS_CMD_RIVAL ||
           kind == LS_CMD_FORK || kind == LS_CMD_KEEP || kind == LS_CMD_GO_ON;
}

typedef struct {
    ls_command_kind kind;
    const char *text; // borrowed for the call
    int n;
} ls_command;

typedef struct ls_source ls_source;
struct ls_source {
    // The next event, owned by the caller, or NULL when none is waiting. Never blocks.
    ls_event *(*next)(ls_source *s);
    // A file descriptor that polls readable while events wait.
    int (*wake_fd)(ls_source *s);
    // Queues a command; never waits for a forward. LS_E_UNSUPPORTED: it is not possible now, and err has the reason.
    ls_code (*command)(ls_source *s, const ls_command *c, ls_err *err);
    // Stops all work, joins threads, frees s. Waits for at most one forward.
    void (*close)(ls_source *s);
};
