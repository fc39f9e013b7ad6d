// Connects the thread of a source with its listener: a queue of events, a queue of commands, and a descriptor that
// polls readable while events are queued. A source begins with an ls_channel, so that it is an ls_source.
#pragma once
#include "source/source.h"

#include <pthread.h>

typedef struct {
    ls_source base;
    enum { LS_CHANNEL_LIVE, LS_CHANNEL_RECORDING, LS_CHANNEL_SERVER } kind; // which commands it takes; set before open
    bool paused;                                                            // these three by the source's thread
    int steps_left;                                                         // in pause: steps to make
    ls_command *taken;                                                      // by ls_channel_take; NULL: none
    pthread_t thread;
    pthread_mutex_t lock; // protects the fields below
    pthread_cond_t changed;
    ls_event *events, **events_end;
    ls_command *commands, **commands_end;
    int n_events;
    ls_run_state state;     // the last one that was sent
    bool worked;            // a command that waits was taken
    bool owes;              // one was, and LS_STATE_IDLE was not sent since, or another state after it
    bool woken;             // see ls_channel_wake
    bool closing, stopping; // stopping: a LS_CMD_STOP is queued, so long work must end at once
    bool *failed;           // set if close finds an error result that was not read; NULL: not wanted
} ls_channel;

// ---- by the listener's thread

// Starts run(c) in a thread that takes no signals. Closing the source joins the thread, which frees what it owns, and
// frees c. NULL: the system has no resources; nothing was started, and c was freed.
ls_source *ls_channel_open(ls_channel *c, void *(*run)(void *channel));

// ---- by the source's thread

void ls_channel_send(ls_channel *c, ls_event *e); // takes e; blocks while the listener is far behind
void ls_channel_tell(ls_channel *c, ls_event e);  // the same for a copy of e
void ls_channel_status(ls_channel *c, ls_run_state state, const char *stage, double fraction);
void ls_channel_message(ls_channel *c, bool is_error, const char *text);
void ls_channel_result(ls_channel *c, bool is_error, const char *text); // a message that is a result (decode/step.h)
// The answer to LS_CMD_SET with n assignments, as events and in words. refusal: why they are not in force; NULL: they
// are.
void ls_channel_setting(ls_channel *c, const char *text, int n, const char *refusal);
// The next command, which stays until the next call, or NULL; waits for one at most wait_ms (negative: as long as it
// takes). False: the source is being closed; what was queued before can still be taken. If the last command waits
// (ls_command_waits) and nothing runs, sends LS_STATE_IDLE first: so each such command ends, whatever became of it.
bool ls_channel_take(ls_channel *c, const ls_command **out, double wait_ms);
// LS_CMD_RUN, LS_CMD_PAUSE and LS_CMD_STEP. active: there are steps to make.
void ls_channel_pace(ls_channel *c, const ls_command *q, bool active);
bool ls_channel_goes(const ls_channel *c); // a step may be made
bool ls_channel_stepped(ls_channel *c);    // a step was made; true: it was the last one before the pause
// Ends the wait of ls_channel_take, or the next one. Any thread.
void ls_channel_wake(void *channel);
// Whether the listener closes the source; or also, whether a stop is queued; or also, whether any command is.
typedef enum { LS_WANTS_CLOSE, LS_WANTS_STOP, LS_WANTS_ANY } ls_wants;
bool ls_channel_wants(ls_channel *c, ls_wants what);
