// Finds the turns of a recording that form one conversation, and makes that conversation again. A recording has all
// turns in the order of decoding, including turns replaced by an edit or by another conversation.
#pragma once
#include "decode/stats.h"
#include "trace/conversation_log.h"

typedef struct {
    ls_conversation *conversation; // NULL: no turn yet; its answers have no text
    uint32_t first;                // number of the first turn in its header
    char sha256[65], model[64];
} ls_turns;

void ls_turns_free(ls_turns *t);
// Adds the turn of a header. Removes the turns that it replaces, or all turns if it continues none of them. Returns its
// index among the turns of the conversation, from 0.
uint32_t ls_turns_begin(ls_turns *t, const ls_trace_header *h);

// A saved conversation, so that a runner can continue it.
typedef struct {
    ls_conversation *conversation;
    ls_stats stats;           // of the last turn
    ls_conversation_log *log; // the same turns, verbatim from the file
    ls_trace_gaps gaps;
} ls_saved;

// Reads the last conversation of a trace. stop (may be NULL): cancels the wait for a pipe. LS_E_USAGE: another
// vocabulary; LS_E_RANGE: no conversation in the trace. After an error there is nothing to free.
// format, system: for the next prompts.
ls_code ls_saved_read(ls_saved *out, const char *path, const ls_model *model, ls_prompt_format format,
                      const char *system, bool (*stop)(void *ud), void *ud, ls_err *err);
void ls_saved_free(ls_saved *v);
