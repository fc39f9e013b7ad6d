// What the two halves of a session share: session.c has conversations, session_step.c the step loop.
#pragma once
#include "base/system.h"
#include "decode/ahead.h"
#include "decode/answer.h"
#include "decode/session.h"

struct ls_session {
    ls_model *model;
    const ls_engine *e;
    ls_kv_cache *kv;
    bool borrowed; // kv is another session's
    // settings
    ls_drafting drafting;
    ls_ahead *ahead;
    ls_overlap overlap;
    ls_accept accept;
    ls_ids reflection; // the prompt of a probe
    lst_sampling sampling;
    void (*note)(void *ud, const char *text); // NULL: not wanted
    void *ud;
    // conversation
    ls_conversation *conversation;
    size_t held; // tokens of it that the KV cache has kept; SIZE_MAX: all of its context
    ls_answer answer;
    lst_row last;        // row that predicts the next root
    bool corrected;      // that row's draft children were all rejected
    ls_routing *routing; // which experts rows take; NULL: no mixture
    ls_cost_curve costs;
    ls_plain_cost plain;
    ls_cpu_wait waits;
    double host_us; // smoothed host work of a step
    lst_row rows[LST_MAX_ROWS];
};

// The experts of the last forward; false: the engine does not tell them.
bool ls_session_experts(const ls_session *s, lst_experts_seen *seen);
void ls_session_complete(ls_node *n, const lst_row *r); // copies the results of the forward for a row
