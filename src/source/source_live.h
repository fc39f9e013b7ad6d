// Live decoding as a source: a thread owns the model and the session; commands go in and events come out by queues,
// so the listener never waits for a forward.
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
    // File to which the conversation is saved every few seconds, after each answer and at the end (trace/kept.h); NULL:
    // none. forget: it is not saved at an unexpected end either.
    const char *keep;
    bool forget;
    // Set before close returns if the trace is incomplete, or if a requested file was not written and no event told so.
    // NULL: not wanted.
    bool *failed;
    // Applies LS_CMD_SET ("key=value") and fills setup again; assignment NULL undoes the last change, which could not
    // be applied. Called in the source's thread, between steps.
    ls_code (*set)(void *ud, const char *assignment, ls_setup *setup, ls_err *err);
    // Reads the text of LS_CMD_RIVAL, and sets *out to setup->decode with these changes. What out borrows lives until
    // the next call. NULL: no comparisons.
    ls_code (*rival)(void *ud, const char *text, const ls_setup *setup, ls_decode_options *out, ls_err *err);
    void *ud;
} ls_live_options;

// Starts loading at once; failures arrive as an error message and the state LS_STATE_FAILED.
// NULL: the system has no resources for a thread.
ls_source *ls_source_live(const ls_live_options *opt);
