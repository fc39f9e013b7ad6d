// What a drafter remembers across conversations and, if a file is named, across runs, as one stream of tokens: the
// text, or text with predictions (spec/recall.h), with LS_STREAM_BREAK between conversations, limited to its newest
// part.
//
// The file has a text header, then little-endian int32 tokens. If it is incomplete or damaged, it is not used, the user
// gets a message, and the file is replaced at the end. Several programs may use one file: each appends its own tokens.
// A file of another version or vocabulary is not used and not changed, so the tokens of this run are not saved. A file
// of any other kind is an error.
#pragma once
#include "base/buf.h"
#include "spec/drafter.h"

enum { LS_STREAM_BREAK = -1 };

typedef struct ls_stream {
    const char *kind; // of the file, as its first line says
    ls_ids ids;       // at most twice the limit
    size_t limit;     // number of newest tokens that are always kept, and saved
    size_t context;   // tokens of the current conversation that are in the stream (ls_stream_observe)
    size_t fresh;     // tokens of this run, at the end of ids; if larger than ids, all of them
    uint64_t sum;     // of the file's tokens when it was opened; 0: none were read
    bool damaged;     // its file is damaged, and will be replaced
    char *path;       // NULL: not on disk
    ls_draft_setup setup;
} ls_stream;

// path NULL or "": memory only. LS_E_USAGE: the file is of another kind, or cannot be read.
ls_code ls_stream_open(ls_stream *h, const char *kind, const char *path, size_t limit, const ls_draft_setup *setup,
                       ls_err *err);
// Appends the new tokens of the conversation. Returns the number of tokens added to ids, including a break.
size_t ls_stream_observe(ls_stream *h, const int32_t *context, size_t n, bool reset);
void ls_stream_add(ls_stream *h, const int32_t *ids, size_t n); // appends them as they are
// Reads such a file without ever writing it. LS_E_USAGE: it cannot be used.
ls_code ls_stream_read(ls_stream *h, const char *kind, const char *path, size_t limit, const ls_draft_setup *setup,
                       ls_err *err);
void ls_stream_arrays(ls_stream *h, ls_memory_visit *v); // lists its arrays
void ls_stream_keep(ls_stream *h);                       // does not write its file
void ls_stream_close(ls_stream *h);                      // saves it if it has a file
