// Decodes a conversation: a turn begins, is decoded step by step, and ends. Whoever wants to know of it (the screen, a
// trace, statistics, a printer) is a sink of these three events. One thread.
#pragma once
#include "decode/session.h"
#include "decode/stats.h"

// What to run, and how. Everything is borrowed, also by its copies.
typedef struct {
    ls_model_options model; // progress is set by whoever loads it
    ls_decode_options decode;
    ls_prompt_format format;
    const char *system;        // as in ls_prompt_encode
    const char *const *config; // key, value, ..., NULL: the effective configuration, for traces
} ls_setup;

typedef struct ls_runner ls_runner;

// Each function may be NULL. A turn that was cut by max_tokens may go on after its end (ls_session_go_on), and ends
// again.
typedef struct {
    void (*begin)(void *ud, const ls_runner *run, double prefill_ms); // the last turn of the conversation: it was read
    void (*step)(void *ud, const ls_step *step);                      // a shared step
    void (*end)(void *ud, uint32_t turn, ls_finish reason, const ls_stats *totals); // totals: of this turn
    void *ud;
} ls_run_sink;

enum { LS_RUN_SINKS = 4 };

// Set the first part and zero the rest; free with ls_runner_free. Sinks are told in order.
struct ls_runner {
    ls_session *session; // borrowed, as are the next two
    ls_model *model;
    const ls_setup *setup; // in force; may be replaced between steps
    ls_run_sink sinks[LS_RUN_SINKS];
    int n_sinks;
    ls_progress progress; // of reading a prompt, which is told in words; may be NULL
    void *ud;
    char history[20]; // what the drafter was shown before this conversation, as a hash, "fresh" or ""; for traces
    // read only
    ls_stats stats;   // of the turn
    bool full;        // the context has no room for the last prompt and an answer
    size_t reread;    // tokens of earlier turns that the template changed, and that were read again for the last prompt
    size_t n_read;    // tokens of the text that is being read
    char reading[64]; // that in words
    ls_step *step;    // room for one
    ls_reading other; // of ls_runner_begin_other
};
void ls_runner_free(ls_runner *r);

// Begins a turn: the next one, or an earlier one that is answered again (it and the turns after it are replaced).
// system: NULL: that of the setup. begun: tokens with which the answer begins; NULL: none. Errors are those of
// ls_conversation_prompt and ls_session_begin_at; they change nothing.
ls_code ls_runner_begin(ls_runner *r, size_t turn, ls_str text, const char *system, const ls_ids *begun, ls_err *err);
// Begins the only turn of another conversation, as ls_session_begin_other. Call again until ls_runner_active.
ls_code ls_runner_begin_other(ls_runner *r, ls_str text, const ls_ids *ids, size_t most, ls_err *err);
bool ls_runner_active(const ls_runner *r); // a turn is being decoded; false without a session
size_t ls_runner_turns(const ls_runner *r);
ls_finish ls_runner_finish(const ls_runner *r); // of the last turn; LS_GOING: it is being decoded, or there is none
// One step; the turn ends with the last one. LS_E_CANCELLED: it did not happen. After another error the turn is to be
// ended by ls_runner_stop.
ls_code ls_runner_step(ls_runner *r, ls_err *err);
void ls_runner_stop(ls_runner *r, ls_finish reason); // ends the turn that is being decoded, if one is
// As ls_session_replace. stats: of the last turn of *conversation.
ls_code ls_runner_replace(ls_runner *r, ls_conversation **conversation, const ls_stats *stats, ls_err *err);
