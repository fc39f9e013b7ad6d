// Texts of any size: read line by line, written by a thread in the background; plain or Zstandard streams.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- a text line by line, in bounded memory: plain or a Zstandard stream (recognised by its first bytes), from a
// regular file, a pipe or memory. One thread.

typedef struct {
    const char *p; // without its newline; NULL: there are no more
    size_t n;
    bool whole;      // it had a newline
    uint64_t offset; // bytes of text before it
    size_t number;   // from 1
} ls_line;

typedef struct ls_lines ls_lines;

// path "-": standard input. LS_E_IO with the reason.
ls_code ls_lines_open(ls_lines **out, const char *path, ls_err *err);
ls_code ls_lines_of(ls_lines **out, int fd, const char *name, ls_err *err); // takes the descriptor
ls_lines *ls_lines_in(const void *p, size_t n, const char *name);           // borrows p[0..n) until it is closed
void ls_lines_close(ls_lines *l);                                           // accepts NULL
const char *ls_lines_name(const ls_lines *l);                               // for messages
int ls_lines_fd(const ls_lines *l);                                         // borrowed
// Reading fails with LS_E_CANCELLED when stop() returns true. It is called before each piece and while a pipe is idle.
void ls_lines_stop(ls_lines *l, bool (*stop)(void *ud), void *ud);
// The same for all readers of the process without a stop of their own; NULL ends it. show() gets a text with the name,
// and the fraction read (negative: not known); if it returns false, reading fails.
void ls_lines_watch(ls_progress show, void *ud);
// The next line, valid until the next call. A line of more than 16 MiB is LS_E_PARSE.
ls_code ls_lines_next(ls_lines *l, ls_line *out, ls_err *err);
double ls_lines_progress(const ls_lines *l); // fraction read of a regular file, 0..1; negative: not known
// Whether lines can be read in any order: not in pipes and compressed files. Known once a line was read.
bool ls_lines_seek_works(const ls_lines *l);
ls_code ls_lines_seek(ls_lines *l, uint64_t offset, size_t number, ls_err *err); // the next line is that one

// ---- an output file that a background thread writes: the owner's bytes go into a queue. If the disk or pipe fails, or
// no program reads the pipe any more, the owner continues.

typedef struct ls_sink ls_sink;

// "-": standard output. A regular file keeps its contents until the first write and is locked until the sink is closed;
// a new file is for its owner only. If the name ends in .zst, the output is a Zstandard stream. LS_E_IO with the
// reason, also if another sink of any process has the file; LS_E_CANCELLED. go_on (NULL: none) is called while a pipe
// must be read before the sink can continue; after it returns false, the sink gives up within 2 s.
ls_code ls_sink_open(ls_sink **out, const char *path, ls_progress go_on, void *ud, ls_err *err);
// Copies p[0..n) and returns; waits only while 64 MiB are unwritten. After a failure the bytes are dropped.
void ls_sink_put(ls_sink *s, const void *p, size_t n);
int ls_sink_error(ls_sink *s); // errno of the first write that failed, else 0; ETIMEDOUT: no program reads
// Writes the rest and frees s (NULL is accepted). Returns the errno of the first write that failed, else 0. *dropped:
// bytes of ls_sink_put that are not in the file.
int ls_sink_close(ls_sink *s, uint64_t *dropped);

// ---- Zstandard streams (RFC 8878), by libzstd (its only user): what ls_lines and ls_sink do not do

typedef struct ZSTD_CCtx_s ls_zst_encoder;

ls_zst_encoder *ls_zst_encoder_new(void);
void ls_zst_encoder_free(ls_zst_encoder *z); // accepts NULL
// Compresses p[0..n) and appends it to out, flushed: a decoder gets all bytes so far. last: ends the stream.
void ls_zst_encode(ls_zst_encoder *z, const void *p, size_t n, bool last, ls_buf *out);

bool ls_zst_is(const void *p, size_t n); // whether these bytes begin a Zstandard stream
const char *ls_zst_version(void);        // of the library
