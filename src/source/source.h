// A stream of events with a remote control. Live decoding, and later replay, implement it; screens use it
// and cannot tell which they have. Functions are called by one thread (the screen's) only.
#pragma once
#include "base/err.h"
#include "decode/step.h"

typedef enum {
    LS_CMD_PROMPT, // text: send a user message; while loading it waits, during a turn it is refused
    LS_CMD_RUN,    // leave pause
    LS_CMD_PAUSE,  // stop before the next step; before a turn: start it paused
    LS_CMD_STEP,   // n steps, then pause
    LS_CMD_STOP,   // end the turn now, keep what was emitted
    LS_CMD_GO_ON,  // the last answer, which ended by its length, goes on for as many tokens more
    LS_CMD_SET,    // text: "key=value", takes effect from the next step
    LS_CMD_RESET,  // forget the conversation; the header comes again
    LS_CMD_EDIT,   // text, n: forget turn n and those after it, and send this message in its place
    LS_CMD_SAVE,   // text: the conversation into that file, a trace
    LS_CMD_LOAD,   // text: the last conversation of that trace takes the place of this one
    LS_CMD_FORK,   // text, n: what if the last answer went on otherwise behind its first n tokens? text: token ids,
                   // separated by blanks, and behind a newline what else is to stand there; see LS_EV_RIVAL
    LS_CMD_KEEP,   // text, n: turn n, whose prompt was this, is answered anew, beginning as the last fork did
    LS_CMD_RIVAL,  // text: a way to decode, such as "ar"; it answers the last prompt too, see LS_EV_RIVAL
} ls_command_kind;

// What changes the conversation, or answers a turn once more: it waits for the end of an answer that is being written.
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
    // Queues a command; never waits for a forward. LS_E_UNSUPPORTED with the reason when it makes no sense.
    ls_code (*command)(ls_source *s, const ls_command *c, ls_err *err);
    // Stops everything, joins threads, frees s. At most one forward is waited for.
    void (*close)(ls_source *s);
};
