// Decodes the conversations of a suite on a session, turn by turn.
#pragma once
#include "decode/session.h"
#include "decode/suite.h"
#include "decode/totals.h"
#include "source/source_live.h"

typedef struct {
    size_t turn; // number within the conversation
    size_t kept; // tokens of the earlier turns that stay in the KV cache
    double prefill_ms;
    const ls_suite_turn *said;
    const ls_ids *context; // all tokens before the output
} ls_turn_begun;

// Callbacks; each may be NULL.
typedef struct {
    void (*begin)(void *ud, const ls_turn_begun *t); // after prefill
    void (*step)(void *ud, size_t turn, const ls_step *step);
    void (*end)(void *ud, size_t turn, ls_finish finish, const ls_stats *stats); // stats: of this turn
    void *ud;
} ls_item_listener;

// Decodes all turns of the item, from an empty conversation, and adds to *r, which must begin as zeros. setup: format
// and system message of the prompts. LS_E_CANCELLED: interrupted.
ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_item_listener *listener, ls_result *r, ls_err *err);
