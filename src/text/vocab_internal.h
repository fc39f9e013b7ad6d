// The token table's insides, shared by vocab.c (building) and bpe.c (encoding).
#pragma once
#include "base/map.h"
#include "text/pretok.h"
#include "text/vocab.h"

struct ls_vocab {
    int32_t n, bos, eos;
    ls_pretok *pretok;
    ls_buf bytes;         // decoded bytes of all tokens, one after another
    size_t *starts;       // [n + 1] into bytes
    uint8_t *special;     // [n] control and user-defined tokens
    ls_buf raw_bytes;     // the file's spelling
    ls_str *raw;          // [n] into raw_bytes
    ls_map by_raw;        // hash of the spelling -> id
    ls_map merge_rank;    // pair of ids -> rank
    int32_t *merged_id;   // [rank] id of the joined token
    int32_t byte_id[256]; // id of the one-byte token; -1: none
    ls_ids specials;      // longest spelling first
};

static inline uint64_t ls_pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}
int32_t ls_vocab_find(const ls_vocab *v, const char *raw, size_t n); // by the file's spelling; -1: none
