// An output file that a background thread writes: the owner's bytes go into a queue. If the disk or pipe fails, or no
// program reads the pipe any more, the owner continues.
#pragma once
#include "base/err.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_sink ls_sink;

// "-": standard output. A regular file keeps its contents until the first write and is locked until the sink is closed;
// a new file is for its owner only. If the name ends in .zst, the output is a Zstandard stream. LS_E_IO with the
// reason, also if another sink of any process has the file; LS_E_CANCELLED. go_on (NULL: none) is called while a pipe
// must be read before the sink can continue; after it returns false, the sink gives up within 2 s.
ls_code ls_sink_open(ls_sink **out, const char *path, ls_file_wait go_on, void *ud, ls_err *err);
// Copies p[0..n) and returns; waits only while 64 MiB are unwritten. After a failure the bytes are dropped.
void ls_sink_put(ls_sink *s, const void *p, size_t n);
int ls_sink_error(ls_sink *s); // errno of the first write that failed, else 0; ETIMEDOUT: no program reads
// Writes the rest and frees s (NULL is accepted). Returns the errno of the first write that failed, else 0. *dropped:
// bytes of ls_sink_put that are not in the file.
int ls_sink_close(ls_sink *s, uint64_t *dropped);
