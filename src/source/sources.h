// The sources of events: live decoding, a recording, the requests of a server.
#pragma once
#include "decode/runner.h"
#include "source/source.h"
#include "trace/feed.h"
#include "trace/trace_read.h"

// ---- live decoding: a thread owns the model and the session; commands go in and events come out by queues, so the
// listener never waits for a forward

typedef struct {
    ls_setup *setup;   // the source owns it, and frees it with free_setup
    const char *trace; // file to record into; NULL: none
    ls_trace_level trace_level;
    // File in which the conversation is recorded from its first turn on (trace/conversation_log.h, trace/autosave.h);
    // NULL: none, and no_autosave is the reason for the user, or NULL. forget: it is not saved at an unexpected end
    // either.
    const char *autosave, *no_autosave;
    bool forget;
    // Set before close returns if the trace is incomplete, or if a requested file was not written and no event told so.
    // NULL: not wanted.
    bool *failed;
    // Both make another setup of `now`, in the source's thread; NULL: refused. The first for LS_CMD_SET ("key=value"),
    // the second for LS_CMD_RIVAL, from its text. NULL: not possible here.
    ls_setup *(*changed)(const ls_setup *now, const char *assignment, ls_err *err);
    ls_setup *(*variant)(const ls_setup *now, const char *text, ls_err *err);
    void (*free_setup)(ls_setup *s); // NULL: setups need not be freed
} ls_live_options;

// Starts loading at once; failures arrive as an error message and the state LS_STATE_FAILED.
// NULL: the system has no resources for a thread.
ls_source *ls_source_live(const ls_live_options *opt);

// ---- a trace: the same events as the live run sent, at the recorded pace or another, without a model or the compute
// library

typedef struct {
    const char *path;  // /dev/fd/N: what comes through a pipe. The paths must stay until the source is closed
    const char *rival; // another recording of the same prompt; NULL: none
    double speed;      // 1: as recorded, 2: twice as fast; 0: as fast as it is read
    bool paused;
} ls_replay_options;

// A file that cannot be opened is an error at once; what is wrong further on arrives as a message. NULL: see err.
// Commands: run, pause, step; set "replay.speed=X"; reset plays it again.
ls_source *ls_source_replay(const ls_replay_options *opt, ls_err *err);

// ---- a server's requests: facts of all of them, and the events of the one that is shown

// The feed must stay until the source is closed. Follows the request that is being answered until LS_CMD_OPEN, the only
// command, names another. NULL: the system has no resources for a thread.
ls_source *ls_source_feed(ls_feed *feed);
