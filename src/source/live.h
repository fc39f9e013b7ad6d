// A live run, as the parts of source_live see it. One thread, the decoder's.
#pragma once
#include "source/channel.h"
#include "source/source_live.h"
#include "trace/conversation.h"
#include "trace/seen.h"
#include "trace/trace.h"

typedef struct {
    ls_channel c; // first: a source is one of these
    ls_live_options opt;
    ls_model model;
    ls_session *session;
    ls_trace *trace;       // NULL: none
    ls_conversation *kept; // to be saved; NULL: no model is loaded
    ls_dialog *dialog;     // the same as texts
    ls_seen seen;
    ls_stats stats;
    uint32_t turn;
    bool paused, waited;
    bool keep_due, keep_failed; // the file opt.keep is behind; it could not be written, and that was said
    char *left;                 // file that an earlier process left, and this conversation was loaded from; NULL: none
    uint64_t kept_ns, keep_ns;  // when it was written last, and how long that took
    bool holding;               // what runs now is needed whatever is stopped: only closing ends it
    bool idles;                 // what runs now gives way to any command
    bool measured;              // no more costs are to be measured: it failed
    int steps_left;             // in pause: steps to run
    char reading[64];           // what a prompt's reading takes, in words
    // the last turn, and who answers its prompt too
    size_t turn_context; // tokens before its output
    size_t turn_output;
    ls_ids begun; // what the user had the turn's answer begin with
    ls_ids fork;  // the first tokens of the answer that a fork was given, and those that the user chose
    ls_finish turn_finish;
    bool end_due;       // the turn's end is not in the trace yet: it was cut by its length, and may go on
    ls_session *rival;  // NULL: nobody
    bool forks;         // it goes on from within the answer, and does not race it
    bool lent;          // it uses the session's timeline
    uint64_t worked_ns; // when the last step ended
} live;

void ls_live_note(void *channel, const char *text);
void ls_live_tokens(live *l, ls_ids *fresh); // sends the bytes of ids that are new to the listener; takes them

// Another method answers the last prompt too, step by step while l->rival is there.
void ls_live_begin_rival(live *l, const char *method);
void ls_live_begin_fork(live *l, const char *text, int n); // LS_CMD_FORK
void ls_live_run_rival(live *l, ls_step *step);
void ls_live_end_rival(live *l, ls_finish finish); // where there is one
