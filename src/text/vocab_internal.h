// A vocabulary's insides, shared by its builders (vocab.c, tokenizer_json.c, tokenizer_files.c) and its encoder
// (encode.c).
#pragma once
#include "base/map.h"
#include "text/normalize.h"
#include "text/pretok.h"
#include "text/vocab.h"

typedef enum {
    LS_BYTE_BPE,  // merges over bytes, tokens spelled in GPT-2's byte alphabet
    LS_CHAR_BPE,  // merges over characters
    LS_SCORE_BPE, // sentencepiece: two neighbours join if they form a token, the best score first
    LS_UNIGRAM
} ls_subwords;

struct ls_vocab {
    // what its source says; the rest is built
    ls_subwords kind;
    int32_t eos, unk;      // -1: none
    ls_ids prefix, suffix; // of raw text
    ls_buf variables;      // of chat templates
    bool byte_fallback, fuse_unk, whole;
    bool spaces;        // in decoded bytes U+2581 is a space
    bool sentencepiece; // its own encoder: user-defined symbols inside the text, sums of scores in single precision
    ls_normalizer *normalizer;
    ls_pretok *pretok;
    int32_t n;
    uint64_t id;            // see ls_vocab_id
    bool (*stop)(void *ud); // NULL: never
    void *stop_ud;
    ls_buf bytes;        // decoded bytes of all tokens, one after another
    size_t *starts;      // [n + 1] into bytes
    uint8_t *special;    // [n]
    uint8_t *types;      // [n]
    ls_buf raw_bytes;    // the file's spelling
    ls_str *raw;         // [n] into raw_bytes
    size_t longest;      // bytes of the longest spelling
    ls_map by_raw;       // hash of the spelling -> id
    ls_map merge_rank;   // pair of ids -> rank
    int32_t *merged_id;  // [rank] id of the joined token
    int32_t *score_rank; // [n] LS_SCORE_BPE: 0 for the best score, equal for equal ones
    double *scores;      // [n] LS_UNIGRAM
    double unk_score;
    ls_trie pieces;       // LS_UNIGRAM: spelling -> id
    ls_trie kept;         // sentencepiece's user-defined symbols -> id
    ls_map neighbours;    // characters that are neighbours in some token: no others ever join
    int32_t byte_id[256]; // id of the one-byte token; -1: none
    char spelled[256][3]; // LS_BYTE_BPE: the byte alphabet, each with its length last
    ls_added *added;
    size_t n_added;
    ls_trie plain, normalized; // spelling -> index into added, for text before and after normalisation
    ls_map ends;               // ids of the tokens that end a text
};

ls_vocab *ls_vocab_begin(void); // without tokens, for its source to fill in
// The rest, of the source's tokens, their types and scores (NULL: none), and the added tokens; merges: of
// src->n_merges.
ls_code ls_vocab_build(ls_vocab *v, const ls_vocab_source *src, const ls_str (*merges)[2], ls_err *err);
static inline uint64_t ls_pair_key(int32_t left, int32_t right) { // of ls_vocab.merge_rank
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}
bool ls_merge_halves(ls_str m, ls_str halves[2]); // of "left right"; false: it has no blank between two
int32_t ls_vocab_find(const ls_vocab *v, const char *raw, size_t n); // by the file's spelling; -1: none
