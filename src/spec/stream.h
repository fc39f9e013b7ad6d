// The text that a drafter remembers across conversations, and across runs where a file is named: what `observe` is told
// becomes one stream of tokens, with LS_STREAM_BREAK between conversations, cut to its newest part.
//
// The file: a text header, then little-endian int32 tokens. One that was cut short or damaged is left out with one line
// to the user, and replaced at the end. Several programs may use one file: each adds what it learned behind what the
// others wrote. One of another version or vocabulary is left out too, and kept: what this run brings is not saved. A
// file of any other kind is refused.
#pragma once
#include "base/buf.h"
#include "spec/drafter.h"

enum { LS_STREAM_BREAK = -1 };

typedef struct {
    ls_ids ids;     // at most twice the limit
    size_t limit;   // newest tokens that are kept for certain, and saved
    size_t context; // tokens of the current conversation that were taken
    size_t fresh;   // tokens that this run brought, at the end of ids; more than there are: all
    bool damaged;   // its file, which is written anew in any case
    char *path;     // NULL: not on disk
    char *tokenizer;
    ls_draft_setup setup;
} ls_stream;

// path NULL or "": memory only. LS_E_USAGE: what is there is no history, or cannot be read.
ls_code ls_stream_open(ls_stream *h, const char *path, size_t limit, const ls_draft_setup *setup, ls_err *err);
// Takes what is new in the conversation. Returns how many tokens that put at the end of ids (a break counts).
size_t ls_stream_observe(ls_stream *h, const int32_t *context, size_t n, bool reset);
// Reads such a file, which is never written. LS_E_USAGE: why it cannot be used.
ls_code ls_stream_read(ls_stream *h, const char *path, size_t limit, const ls_draft_setup *setup, ls_err *err);
void ls_stream_memory(ls_stream *h, ls_memory_visit *v); // lists its tokens
void ls_stream_keep(ls_stream *h);                       // its file stays as it is
void ls_stream_close(ls_stream *h);                      // saves it where it has a file
