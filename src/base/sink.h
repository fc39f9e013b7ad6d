// A file that is written behind its owner's back: what is handed over is kept, and a thread writes it. A disk or pipe
// that fails, or that nobody reads any more, does not stop the owner.
#pragma once
#include "base/err.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_sink ls_sink;

// "-": standard output. A regular file keeps its contents until the first bytes come, is locked until the sink is
// closed, and if it is new, is for its owner alone; a name that ends in .zst is written as a Zstandard stream. LS_E_IO
// with the reason, also where another sink, of any process, has it; LS_E_CANCELLED.
// go_on (NULL: none) is asked while somebody must read before it can go on; once it says no, little time is left.
ls_code ls_sink_open(ls_sink **out, const char *path, ls_file_wait go_on, void *ud, ls_err *err);
// Copies p[0..n) and returns; waits only while 64 MiB are unwritten. After a failure the bytes are dropped.
void ls_sink_put(ls_sink *s, const void *p, size_t n);
int ls_sink_error(ls_sink *s); // errno of the first write that failed, else 0; ETIMEDOUT: nobody reads
// Writes what is left and frees s (NULL is accepted). errno of the first write that failed, else 0; *dropped: bytes
// that were handed over and are not in the file.
int ls_sink_close(ls_sink *s, uint64_t *dropped);
