// The conversation in memory, which can be saved as a trace at any time. The last turns can be removed again. Steps are
// shared with the screen, so there is one copy; `:save` writes their lines. Other lines, and steps
// that do not round-trip byte for byte, are kept verbatim in Zstandard frames. A frame begins with each turn and after
// each mebibyte of text.
//
// One thread writes. If memory runs out, ls_conversation_rescue saves the conversation from any thread.
#pragma once
#include "decode/step.h"
#include "trace/trace_write.h"

typedef struct ls_conversation ls_conversation;

ls_conversation *ls_conversation_new(const ls_vocab *vocab); // borrowed
void ls_conversation_free(ls_conversation *c);               // accepts NULL
// Begins a turn, which replaces the turns from h->turn on.
void ls_conversation_begin(ls_conversation *c, const ls_trace_header *h);
void ls_conversation_step(ls_conversation *c, const ls_step *s); // keeps it (ls_step_keep)
// Ends the last turn; another step of the same turn continues it.
void ls_conversation_end(ls_conversation *c, uint32_t turn, ls_finish reason, const ls_stats *totals);
// Adds the last line read by r, of that kind, verbatim, so that a turn keeps the data of another program or version.
// turn: for a header, the number of its turn.
void ls_conversation_copy(ls_conversation *c, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn);
// Removes turn `turn` (from 0) and all later turns, if there are any.
void ls_conversation_cut(ls_conversation *c, size_t turn);
size_t ls_conversation_turns(const ls_conversation *c);
// Opens a reader of the whole conversation with shared steps; valid until the conversation changes.
ls_trace_reader *ls_conversation_read(ls_conversation *c, const char *name);
// Writes a trace file atomically. If the name ends in .zst, the file is compressed. LS_E_RANGE: there is nothing to
// save. LS_E_IO: the message has the path and the reason.
ls_code ls_conversation_save(const ls_conversation *c, const char *path, ls_err *err);
// The same after memory ran out in any thread; the conversation must not be changed afterwards.
ls_code ls_conversation_rescue(ls_conversation *c, const char *path, ls_err *err);
