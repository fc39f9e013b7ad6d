// The token table: bytes of every id, special tokens, and the merges of byte-level BPE.
// Source: GGUF metadata tokenizer.ggml.{tokens,token_type,merges,pre}; byte alphabet of GPT-2's encoder.py.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

typedef struct {
    const ls_str *tokens; // as the file stores them (GPT-2 byte alphabet for normal tokens); borrowed for the call
    size_t n_tokens;
    const int32_t *types; // GGUF token types: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
    const ls_str *merges; // "left right"
    size_t n_merges;
    const char *pre;  // pre-tokenizer name, e.g. "smollm", "gpt-2"
    int32_t bos, eos; // -1: none
} ls_vocab_source;

typedef struct ls_vocab ls_vocab;

// Errors: LS_E_PARSE / LS_E_RANGE / LS_E_UNSUPPORTED with what and which entry.
ls_code ls_vocab_new(ls_vocab **out, const ls_vocab_source *src, ls_err *err);
void ls_vocab_free(ls_vocab *v);
int32_t ls_vocab_size(const ls_vocab *v);
int32_t ls_vocab_eos(const ls_vocab *v);
int32_t ls_vocab_bos(const ls_vocab *v); // the token that raw text begins with; -1: none
// Tells vocabularies apart: a hash of every token's bytes and kind. Takes about a millisecond.
uint64_t ls_vocab_id(const ls_vocab *v);
// Decoded bytes of a token, borrowed for v's life; *n = 0 and "" for an id out of range.
const char *ls_vocab_bytes(const ls_vocab *v, int32_t id, size_t *n);
bool ls_vocab_is_special(const ls_vocab *v, int32_t id);
// Id of the special token spelled s[0..n), or -1.
int32_t ls_vocab_special(const ls_vocab *v, const char *s, size_t n);

// Appends the ids of text[0..n) (any bytes) to out. With parse_special, spelled-out special tokens in the
// text become their id (longest first, as Hugging Face's added tokens); without, they are plain text. Bytes that
// the vocabulary has no token for (the default model: some control characters and bytes that UTF-8 never uses) are
// left out, as the reference does.
ls_code ls_encode(const ls_vocab *v, const char *text, size_t n, bool parse_special, ls_ids *out, ls_err *err);

// Encodes parts that are one text together. A spelled-out special token is recognised only where it lies wholly inside
// a trusted part; everything between recognised ones is one run, across the borders of parts.
typedef struct {
    const char *p;
    size_t n;
    bool trusted;
} ls_text_part;
ls_code ls_encode_parts(const ls_vocab *v, const ls_text_part *parts, size_t n_parts, ls_ids *out, ls_err *err);

// Streaming decoding: bytes of tokens in, whole UTF-8 characters out. Bytes that can never become a character
// come out as U+FFFD, one per maximal invalid prefix; an incomplete character waits for the next token.
typedef struct {
    char pending[4];
    int n_pending;
} ls_detok;
void ls_detok_push(ls_detok *d, const char *bytes, size_t n, ls_buf *out);
void ls_detok_flush(ls_detok *d, ls_buf *out); // end of stream: a waiting fragment becomes U+FFFD
