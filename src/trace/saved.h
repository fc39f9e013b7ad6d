// A conversation that was saved, read so that a session can go on with it.
#pragma once
#include "engine/dialog.h"
#include "trace/conversation.h"
#include "trace/turns.h"

typedef struct {
    ls_turns turns;        // what ls_session_restore takes
    ls_dialog *dialog;     // the same
    ls_conversation *kept; // the same turns, as they stand in the file
} ls_saved;

// The last conversation of a trace. stop (may be NULL) ends the reading of a silent pipe. LS_E_USAGE: another
// vocabulary; LS_E_RANGE: there is none in it. Nothing is owned after an error.
// format, system: of the prompts that are to come.
ls_code ls_saved_read(ls_saved *out, const char *path, const ls_model *model, ls_prompt_format format,
                      const char *system, bool (*stop)(void *ud), void *ud, ls_err *err);
void ls_saved_free(ls_saved *v);
