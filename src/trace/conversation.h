// The conversation as the lines of its trace, kept in memory so that it can be saved at any moment: turns one after
// another, each of which can be cut off again. Zstandard frames, each begun with a turn or after a mebibyte of text, so
// that a long conversation takes about a third of its text's size.
//
// One thread writes. Out of memory in any thread, ls_conversation_rescue saves what there is.
#pragma once
#include "base/err.h"
#include "base/lines.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ls_conversation ls_conversation;

ls_conversation *ls_conversation_new(void);
void ls_conversation_free(ls_conversation *c); // accepts NULL
// The next turn begins: what is added from now on belongs to it.
void ls_conversation_begin(ls_conversation *c);
void ls_conversation_add(ls_conversation *c, const void *lines, size_t n); // whole lines; a turn was begun
// Forgets turn `turn` (from 0) and those after it; where there is none, nothing.
void ls_conversation_cut(ls_conversation *c, size_t turn);
size_t ls_conversation_turns(const ls_conversation *c);
// All lines so far, valid until the conversation changes; ls_lines_close frees the reader.
ls_lines *ls_conversation_lines(ls_conversation *c, const char *name);
// Writes a trace file, whole or not at all; a name that ends in .zst is compressed. LS_E_RANGE where there is nothing
// to save, LS_E_IO with path and reason.
ls_code ls_conversation_save(ls_conversation *c, const char *path, ls_err *err);
// The same, compressed, at the moment when memory ran out in whichever thread; nothing is changed afterwards.
ls_code ls_conversation_rescue(ls_conversation *c, const char *path, ls_err *err);
