// Reads a saved conversation, so that a session can continue it.
#pragma once
#include "engine/dialog.h"
#include "trace/conversation.h"
#include "trace/turns.h"

typedef struct {
    ls_turns turns;        // for ls_session_restore
    ls_dialog *dialog;     // for ls_session_restore
    ls_conversation *kept; // the same turns, verbatim from the file
} ls_saved;

// Reads the last conversation of a trace. stop (may be NULL): cancels the wait for a pipe. LS_E_USAGE: another
// vocabulary; LS_E_RANGE: no conversation in the trace. After an error there is nothing to free.
// format, system: for the next prompts.
ls_code ls_saved_read(ls_saved *out, const char *path, const ls_model *model, ls_prompt_format format,
                      const char *system, bool (*stop)(void *ud), void *ud, ls_err *err);
void ls_saved_free(ls_saved *v);
