// Answers the conversations of a suite on a session, turn by turn.
#pragma once
#include "decode/session.h"
#include "decode/suite.h"
#include "decode/totals.h"
#include "source/source_live.h"

typedef struct {
    size_t turn; // of the conversation
    size_t kept; // tokens of the conversation before that the prompt keeps
    double prefill_ms;
    const ls_suite_turn *said;
    const ls_ids *context; // all tokens before the output
} ls_turn_begun;

// What is told on the way; each function may be NULL.
typedef struct {
    void (*begin)(void *ud, const ls_turn_begun *t); // the prompt was read
    void (*step)(void *ud, size_t turn, const ls_step *step);
    void (*end)(void *ud, size_t turn, ls_finish finish, const ls_stats *stats); // stats: of this turn
    void *ud;
} ls_item_listener;

// Answers all turns of the item from an empty conversation on, and adds to *r, which begins as zeros. setup: how
// prompts are made. LS_E_CANCELLED once interrupted.
ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_item_listener *listener, ls_result *r, ls_err *err);
