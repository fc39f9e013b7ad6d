// A file that is written behind its owner's back: what is handed over is kept, and a thread writes it. A disk or pipe
// that fails does not stop the owner.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_sink ls_sink;

// "-": standard output. A regular file keeps its contents until the first bytes come; a name that ends in .zst is
// written as a Zstandard stream. LS_E_IO with the reason.
ls_code ls_sink_open(ls_sink **out, const char *path, ls_err *err);
// Copies p[0..n) and returns; waits only while 64 MiB are unwritten. After a failure the bytes are dropped.
void ls_sink_put(ls_sink *s, const void *p, size_t n);
int ls_sink_error(ls_sink *s); // errno of the first write that failed, else 0
// Writes what is left and frees s (NULL is accepted). errno of the first write that failed, else 0.
int ls_sink_close(ls_sink *s);
