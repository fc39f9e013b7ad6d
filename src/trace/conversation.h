// The conversation, kept so that it can be saved at any moment as a trace: turns one after another, each of which can
// be cut off again. Steps are kept packed and shared with the screen, so there is one copy of them; `:save` writes
// their lines. The lines around them, and steps that this program would write otherwise, are kept as they stand, in
// Zstandard frames, each begun with a turn or after a mebibyte of text.
//
// One thread writes. If the process ends against its will, ls_conversation_rescue saves in any thread what there is.
#pragma once
#include "decode/packed.h"
#include "trace/trace_write.h"

typedef struct ls_conversation ls_conversation;

ls_conversation *ls_conversation_new(const ls_vocab *vocab); // borrowed
void ls_conversation_free(ls_conversation *c);               // accepts NULL
// A turn begins, in place of the turns from h->turn on.
void ls_conversation_begin(ls_conversation *c, const ls_trace_header *h);
void ls_conversation_step(ls_conversation *c, const ls_step *s, ls_packed *packed); // packed: s; takes it
// The last turn has ended; a step of it that comes all the same lets it go on.
void ls_conversation_end(ls_conversation *c, uint32_t turn, ls_finish reason, const ls_stats *totals);
// Takes over the line that r read last, of that kind, so that it will be saved as it stands: a turn keeps what another
// program or version recorded. turn: the number of the turn that a header begins.
void ls_conversation_copy(ls_conversation *c, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn);
// Forgets turn `turn` (from 0) and those after it; where there is none, nothing.
void ls_conversation_cut(ls_conversation *c, size_t turn);
size_t ls_conversation_turns(const ls_conversation *c);
// Reads all of it, its steps shared (ls_trace_read_packed); valid until the conversation changes.
ls_trace_reader *ls_conversation_read(ls_conversation *c, const char *name);
// Writes a trace file, whole or not at all; a name that ends in .zst is compressed. LS_E_RANGE where there is nothing
// to save, LS_E_IO with path and reason.
ls_code ls_conversation_save(const ls_conversation *c, const char *path, ls_err *err);
// The same at the moment when memory ran out in whichever thread; nothing is changed afterwards.
ls_code ls_conversation_rescue(ls_conversation *c, const char *path, ls_err *err);
