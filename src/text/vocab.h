// The token table: bytes of every id, special tokens, and the encoder: byte-level BPE, BPE over characters or Unigram.
// Sources: GGUF metadata tokenizer.ggml.* (engine/vocab_gguf.c), Hugging Face's tokenizer.json,
// sentencepiece's tokenizer.model.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

// Token types, by the numbers that GGUF and sentencepiece share.
enum { LS_NORMAL = 1, LS_UNKNOWN, LS_CONTROL, LS_USER_DEFINED, LS_UNUSED, LS_BYTE };

void ls_byte_alphabet(uint32_t cp_of[256]); // GPT-2's: the character that stands for each byte

typedef struct { // a token that is searched in the text first of all
    int32_t id;
    bool special, lstrip, rstrip, single_word;
    bool normalized; // searched in normalised text instead
} ls_added;

typedef struct {          // normalizer_spec of a sentencepiece model
    const void *charsmap; // precompiled_charsmap; NULL: none
    size_t n_charsmap;
    bool dummy_prefix, remove_extra, escape, suffix; // suffix: the dummy space comes last
    bool first_only; // the dummy space only where the text itself begins, and not before another
} ls_sentencepiece_rules;

// The contents of a file; pointers are borrowed for the call.
typedef struct {
    const ls_str *tokens; // as the file stores them (GPT-2 byte alphabet for normal tokens of byte-level BPE)
    const int32_t *types; // LS_NORMAL ... LS_BYTE
    size_t n_tokens;
    int32_t bos, eos;      // -1: none
    bool bare;             // raw text does not begin with bos
    bool ended;            // raw text ends with eos
    const char *variables; // of chat templates, see ls_vocab_variables; NULL: none
    // byte-level BPE, or BPE over characters where the name says so
    const char *pre;      // a name of text/pretok.def; NULL: the rest is read, not this
    const ls_str *merges; // "left right"
    size_t n_merges;
    // a sentencepiece model, or a GGUF file of the kind llama or t5
    const double *scores;
    bool unigram; // else BPE by scores
    bool byte_fallback;
    ls_sentencepiece_rules rules;
    const ls_added *added; // tokens that are searched first, beside those of control and the unknown one
    size_t n_added;
} ls_vocab_source;

typedef struct ls_vocab ls_vocab;

// Errors: LS_E_PARSE, LS_E_RANGE or LS_E_UNSUPPORTED with the problem and the entry.
ls_code ls_vocab_new(ls_vocab **out, const ls_vocab_source *src, ls_err *err);

// The contents of what may stand beside a tokenizer in a Hugging Face folder; n 0: no such file.
typedef struct {
    ls_str config;           // tokenizer_config.json
    ls_str special_map;      // special_tokens_map.json
    ls_str added;            // added_tokens.json
    const char *usual_class; // of the model's architecture: if tokenizer_config.json names no class; NULL: none
} ls_tokenizer_files;

// What chat templates are given by these files, see ls_vocab_variables.
ls_code ls_tokenizer_variables(const ls_tokenizer_files *files, ls_buf *out, ls_err *err);
// From the contents of tokenizer.json. What the files beside it say of a token overrides it, as in AutoTokenizer.
ls_code ls_tokenizer_json(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err);
// From the contents of sentencepiece's tokenizer.model. Without tokenizer_config.json, texts of a BPE model begin with
// its BOS.
ls_code ls_tokenizer_model(ls_vocab **out, ls_str model, const ls_tokenizer_files *beside, ls_err *err);
// From the contents of vocab.json and merges.txt (GPT-2's and Qwen2's classes), and of Mistral's tekken.json.
ls_code ls_tokenizer_merges(ls_vocab **out, ls_str vocab, ls_str merges, const ls_tokenizer_files *beside, ls_err *err);
ls_code ls_tokenizer_tekken(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err);
void ls_vocab_free(ls_vocab *v);
// Encoding asks now and then whether to stop (LS_E_CANCELLED): texts of many megabytes take seconds. NULL: never.
void ls_vocab_stop(ls_vocab *v, bool (*stop)(void *ud), void *ud);
int32_t ls_vocab_size(const ls_vocab *v);
const char *ls_vocab_kind(const ls_vocab *v); // "byte-level BPE", ...
// What raw text begins and ends with, which ls_encode never adds.
const ls_ids *ls_vocab_prefix(const ls_vocab *v);
const ls_ids *ls_vocab_suffix(const ls_vocab *v);
// What chat templates are given: an object of names (bos_token, ...) and spellings, as JSON text.
const char *ls_vocab_variables(const ls_vocab *v);
int32_t ls_vocab_eos(const ls_vocab *v); // -1: none
// Tokens that end an answer: the vocabulary's eos, and those that the caller adds.
bool ls_vocab_is_end(const ls_vocab *v, int32_t id);
ls_eos_set ls_vocab_ends(const ls_vocab *v);    // LS_MAX_EOS at most
void ls_vocab_add_end(ls_vocab *v, int32_t id); // becomes the eos if there is none; ignores an id out of range
// Fits the vocabulary to an embedding. Ids beyond the tokens become empty special tokens that no text encodes to. If
// rows are fewer than tokens, added tokens without a row are dropped; another token without one is LS_E_PARSE.
ls_code ls_vocab_pad(ls_vocab *v, int32_t n_rows, ls_err *err);
// Tells vocabularies apart: a hash of every token's bytes and kind.
uint64_t ls_vocab_id(const ls_vocab *v);
// Decoded bytes of a token, borrowed for v's life or until ls_vocab_pad; *n = 0 and "" for an id out of range.
const char *ls_vocab_bytes(const ls_vocab *v, int32_t id, size_t *n);
bool ls_vocab_is_special(const ls_vocab *v, int32_t id);
// Id of the special token spelled s[0..n), or -1.
int32_t ls_vocab_special(const ls_vocab *v, const char *s, size_t n);

// A spelled-out special token becomes its id only where none of its bytes has this mark (longest first, as Hugging
// Face's added tokens); elsewhere it is plain text. Added tokens that are not special (a `<think>`) are recognised
// anywhere. Text between recognised tokens is encoded as one run, whatever its marks.
enum { LS_MARK_TEXT = 1 };

// Appends the ids of the text (any bytes) from byte `from` on to out. Bytes that are not UTF-8 stay as they are in
// byte-level BPE; in the others each is U+FFFD, as sentencepiece does. Bytes that a byte-level vocabulary has no token
// for (the default model: some control characters and bytes that UTF-8 never uses) are left out, as in the reference.
ls_code ls_encode_marked(const ls_vocab *v, const ls_marked *text, size_t from, ls_ids *out, ls_err *err);
// A text without marks; all of it has the mark without parse_special.
ls_code ls_encode(const ls_vocab *v, const char *text, size_t n, bool parse_special, ls_ids *out, ls_err *err);

// Streaming decoding: bytes of tokens in, whole UTF-8 characters out. Bytes that can never become a character
// come out as U+FFFD, one per maximal invalid prefix; an incomplete character waits for the next token.
typedef struct {
    char pending[4];
    int n_pending;
} ls_detok;
void ls_detok_push(ls_detok *d, const char *bytes, size_t n, ls_buf *out);
void ls_detok_flush(ls_detok *d, ls_buf *out); // end of stream: a waiting fragment becomes U+FFFD
