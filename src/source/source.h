// A source sends events and accepts commands. Live decoding and replay implement it; screens use both in the
// same way. Functions are called by one thread (the screen's) only.
#pragma once
#include "base/err.h"
#include "decode/step.h"

typedef enum {
#define COMMAND(name, ...) LS_CMD_##name,
#include "source/commands.def"
#undef COMMAND
} ls_command_kind;

// A command that is refused during an answer, so a sender that wants it carried out waits for the end of the answer,
// and for the LS_STATE_IDLE that ends the command.
bool ls_command_waits(ls_command_kind kind);
// Why live decoding cannot carry out this command in this state; NULL: it can.
const char *ls_command_refusal(ls_command_kind kind, ls_run_state state);

// The text is owned by whoever has queued the command.
typedef struct ls_command {
    ls_command_kind kind;
    int n;
    char *text;              // NULL: none
    struct ls_command *next; // in a queue
} ls_command;

typedef struct ls_source ls_source;
struct ls_source {
    int wake_fd; // polls readable while events wait
    // The next event, owned by the caller, or NULL when none is waiting. Never blocks.
    ls_event *(*next)(ls_source *s);
    // Queues a copy of the command; never waits for a forward. LS_E_UNSUPPORTED: it is not possible now, and err has
    // the reason.
    ls_code (*command)(ls_source *s, const ls_command *c, ls_err *err);
    // Stops all work, joins threads, frees s. Waits for at most one forward.
    void (*close)(ls_source *s);
};
