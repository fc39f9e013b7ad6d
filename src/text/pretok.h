// Splitting text into the pieces that BPE or Unigram works on, in steps. Reference: Hugging Face tokenizers'
// pre_tokenizers.
#pragma once
#include "base/buf.h"
#include "text/regex.h"

typedef enum { LS_ISOLATED, LS_REMOVED, LS_MERGED_WITH_PREVIOUS, LS_MERGED_WITH_NEXT, LS_CONTIGUOUS } ls_behavior;
typedef enum { LS_PREPEND_NEVER, LS_PREPEND_FIRST, LS_PREPEND_ALWAYS } ls_prepend;

enum { LS_PRETOK_STEPS = 16 };
typedef struct ls_pretok ls_pretok;
typedef ls_code (*ls_piece_fn)(void *ud, const char *piece, size_t n, ls_err *err);

ls_pretok *ls_pretok_new(void); // no steps: the text is one piece
void ls_pretok_free(ls_pretok *p);
// Each step works on every piece of the step before. LS_E_UNSUPPORTED: an expression that cannot be compiled, or more
// than LS_PRETOK_STEPS steps. LS_REGEX_BYTES, as a step after ByteLevel sees the text: it may cut characters, so only
// such steps may follow.
ls_code ls_pretok_add_split(ls_pretok *p, const char *pattern, size_t n, ls_regex_kind kind, ls_behavior behavior,
                            bool invert, ls_err *err);
// Replaces spaces by mark (UTF-8) and puts mark before each piece that does not begin with it, or only before the piece
// that begins the whole text. A blank as the mark: ByteLevel's add_prefix_space.
ls_code ls_pretok_add_metaspace(ls_pretok *p, const char *mark, size_t n, ls_prepend prepend, ls_err *err);

extern const char ls_gpt2_pattern[], ls_qwen2_pattern[]; // of ByteLevel with use_regex; of Qwen2Converter
// The steps that a GGUF file's tokenizer.ggml.pre stands for (text/pretok.def). LS_E_UNSUPPORTED for a name that is not
// known, or that is an encoder's.
ls_code ls_pretok_named(ls_pretok *p, const char *name, ls_err *err);
enum {
    LS_PRE_NFC = 1,    // texts are normalised
    LS_PRE_WHOLE = 2,  // a piece that is a token becomes that token without merges
    LS_PRE_BEGINS = 4, // a text begins with the BOS token where the file does not say
    LS_PRE_CHARS = 8,  // BPE over characters, spaces as U+2581
};
unsigned ls_pretok_traits(const char *name); // of an unknown name: none

// Memory of one caller's splitting.
typedef struct {
    ls_regex_scratch *regex;
    ls_buf text[LS_PRETOK_STEPS];
} ls_pretok_scratch;
void ls_pretok_scratch_free(ls_pretok_scratch *s);
// Calls fn for each piece of text[0..n), which must be UTF-8, in order. first: the whole text begins here.
ls_code ls_pretok_split(const ls_pretok *p, ls_pretok_scratch *s, const char *text, size_t n, bool first,
                        ls_piece_fn fn, void *ud, ls_err *err);
