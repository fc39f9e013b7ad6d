// Decodes the conversations of a suite on a session, turn by turn.
#pragma once
#include "decode/runner.h"
#include "decode/suite.h"
#include "decode/totals.h"

// Decodes all turns of the item, from an empty conversation, and adds to *r, which must begin as zeros. setup: format
// and system message of the prompts. also: is told of the turns; NULL: nobody. LS_E_CANCELLED: interrupted.
ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_run_sink *also, ls_result *r, ls_err *err);
