// Live decoding as a source: a thread owns the model and the session; commands go in and events come out by queues,
// so whoever listens never waits for a forward.
#pragma once
#include "engine/dialog.h"
#include "decode/session.h"
#include "source/source.h"
#include "trace/trace_level.h"

// What to run. Everything is borrowed.
typedef struct {
    ls_model_options model; // progress is set by the source
    ls_decode_options decode;
    ls_prompt_format format;
    const char *system;        // as in ls_prompt_encode
    const char *const *config; // key, value, ..., NULL: the effective configuration, for traces
} ls_setup;

typedef struct {
    ls_setup setup;
    const char *trace; // file to record into; NULL: none
    ls_trace_level trace_level;
    // File that has the conversation as it is every few seconds, after each answer and at the end (trace/kept.h); NULL:
    // none. forget: nor is it saved at a sudden end.
    const char *keep;
    bool forget;
    // Set by the time the source is closed, where the trace is not whole, or a file that was asked for is not written
    // and no event said so. NULL: nobody asks.
    bool *failed;
    // Carries out LS_CMD_SET ("key=value") and fills setup anew; NULL takes the last change back (it could not be put
    // into effect). Called in the source's thread, between steps.
    ls_code (*set)(void *ud, const char *assignment, ls_setup *setup, ls_err *err);
    // Reads the text of LS_CMD_RIVAL: how it differs from setup. What out borrows lives until the next call. NULL: no
    // comparisons.
    ls_code (*rival)(void *ud, const char *text, const ls_setup *setup, ls_decode_options *out, ls_err *err);
    void *ud;
} ls_live_options;

// Starts loading at once; failures arrive as an error message and the state LS_STATE_FAILED.
// NULL where the system refuses a thread.
ls_source *ls_source_live(const ls_live_options *opt);
