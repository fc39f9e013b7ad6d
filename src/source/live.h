// The state of live decoding, for source_live.c and live_rival.c. Only the decoder thread uses it.
#pragma once
#include "source/channel.h"
#include "source/source_live.h"
#include "trace/turns.h"
#include "trace/trace.h"

typedef struct {
    ls_channel c; // first: a source is one of these
    ls_live_options opt;
    ls_setup *setup; // in force
    ls_model model;
    ls_session *session;
    ls_runner run;        // of the session
    ls_trace *trace;      // NULL: none
    ls_conversation *log; // the conversation as it is saved; NULL: no model is loaded
    ls_seen seen;
    bool waited;          // the user was told that the reader of the trace is slow
    bool autosave_failed; // opt.autosave could not be written, and the user was told
    char *left;           // file of an earlier process from which this conversation was loaded; NULL: none
    // What ends the current work: LS_CMD_STOP, but not while the model is loaded; any command while the source is idle.
    bool (*ends)(ls_channel *c);
    bool measured; // measuring costs failed: it is not tried again
    bool asked;    // the model's bigrams were asked, or asking failed
    // who answers the prompt of the last turn too
    ls_runner rival;   // its session is NULL: nobody
    ls_setup *variant; // its setup; NULL: that of the session, because it is a what-if; or no rival
} live;

void ls_live_free_setup(live *l, ls_setup *s); // accepts NULL
void ls_live_tokens(live *l, ls_ids *fresh);   // sends the bytes of ids that are new to the listener; takes them

// Another method answers the last prompt too, step by step while l->rival has a session.
void ls_live_begin_rival(live *l, const char *method);
void ls_live_begin_fork(live *l, const char *text, int n); // LS_CMD_FORK
// The tokens of `text`, which follow the first n of the last answer, as LS_CMD_FORK has them. False: it has no such
// place, and a message was sent.
bool ls_live_read_fork(live *l, const char *text, int n, ls_ids *out);
void ls_live_run_rival(live *l);
void ls_live_end_rival(live *l, ls_finish finish); // where there is one
