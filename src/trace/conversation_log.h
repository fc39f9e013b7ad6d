// The log of a conversation: a trace at level full that is always recorded, so that saving copies it and a sudden end
// loses nothing. It can be cut at a turn and continued after an answer's end. The caller only hands over what happened:
// a thread formats, compresses and writes. The file is in memory (not in this process's) until it gets a path.
// Of the turns it has only where they begin in the file; what it holds is what a sink heard.
// If the thread falls behind, at most 1024 steps wait for it (52 MiB if each has 256 rows). If the disk does not
// respond for 5 s then, the log is lost, and the caller goes on; all functions but ls_conversation_log_free wait no
// longer either.
#pragma once
#include "trace/trace.h"

typedef struct ls_conversation_log ls_conversation_log;

// LS_E_IO: the system has no thread or no file descriptor for it. vocab is borrowed.
ls_code ls_conversation_log_new(ls_conversation_log **out, const ls_vocab *vocab, ls_err *err);
void ls_conversation_log_free(ls_conversation_log *c); // accepts NULL; a file with a path stays

// Adds what a runner does; a turn replaces that of its number and those after it. A shared step is shared, not copied.
ls_run_sink ls_conversation_log_sink(ls_conversation_log *c);
// Adds the last line read by r, of that kind, verbatim, so that a turn keeps the data of another program or version.
// turn: for a header, the number of its turn.
void ls_conversation_log_copy(ls_conversation_log *c, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn);
size_t ls_conversation_log_turns(const ls_conversation_log *c);

// From now on the file has this path, which must not exist; a second call changes nothing. On an error the log stays in
// memory.
ls_code ls_conversation_log_autosave(ls_conversation_log *c, const char *path, ls_err *err);
// True once after the file could not be written or exceeded LS_AUTOSAVE_BYTES: it was deleted, and the log is in memory
// again. last: waits for everything to be written, at most a second for a disk that does not respond.
bool ls_conversation_log_failed(ls_conversation_log *c, bool last, ls_err *err);
// True once after not even memory could be written: nothing can be saved until ls_conversation_log_clear.
bool ls_conversation_log_lost(ls_conversation_log *c, ls_err *err);
void ls_conversation_log_clear(ls_conversation_log *c); // removes all turns, and the file at the path
// Opens a reader of the log as it is; valid until the log changes. name: for messages.
ls_code ls_conversation_log_read(ls_conversation_log *c, const char *name, ls_trace_reader **out, ls_err *err);
// Writes a trace file atomically. If the name ends in .zst, the file is compressed. LS_E_RANGE: there is nothing to
// save. LS_E_IO: the message has the path and the reason; a FIFO that no program reads is one.
ls_code ls_conversation_log_save(ls_conversation_log *c, const char *path, ls_err *err);
// In any thread, when the process must end: waits at most a second for what was handed over, and writes the path of the
// file to `where`; false: it has none. With `path`, a file in memory is copied there first.
bool ls_conversation_log_rescue(ls_conversation_log *c, const char *path, char *where, size_t size);
