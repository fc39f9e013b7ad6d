// The target's earlier predictions: its best tokens the last time that a verified row, accepted or rejected, ended
// these one, two or three tokens. The size is bounded: when it is full, it evicts an entry that was not put recently
// (second chance algorithm). Memory is allocated as it fills.
#pragma once
#include "spec/memory.h"
#include "spec/tree.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_SUCCESSORS_ORDER = 3 }; // largest number of tokens in a key

// Small, so that an entry is one line of the cache.
typedef struct {
    int32_t id[LS_ROW_TOP];     // best first; -1: no more
    uint16_t share[LS_ROW_TOP]; // their probabilities, in parts of LS_ALL
} ls_successor;
enum { LS_ALL = UINT16_MAX };

static inline float ls_successor_p(const ls_successor *s, int32_t i) {
    return (float)s->share[i] * (1.0f / LS_ALL);
}
static inline void ls_successor_set(ls_successor *s, int32_t i, int32_t id, float p) { // p: 0 .. 1
    s->id[i] = id;
    s->share[i] = (uint16_t)((p < 1 ? p : 1) * LS_ALL + 0.5f);
}

typedef struct {
    size_t limit; // largest size in bytes; set it before the first put
    struct ls_successor_entry *entries;
    int32_t *buckets; // first entry of each chain; -1: none
    int32_t n, cap, n_buckets, hand;
} ls_successors;

ls_successor ls_successors_of(const ls_node *n); // the target's prediction after a verified row
// Stores the prediction after tail[0..n), n from 1 to LS_SUCCESSORS_ORDER, tokens below 2^21 - 1. Ignored if
// successor->id[0] is -1.
void ls_successors_put(ls_successors *s, const int32_t *tail, int32_t n, const ls_successor *successor);
const ls_successor *ls_successors_get(const ls_successors *s, const int32_t *tail, int32_t n); // NULL: no entry
// Fetch into the caches what a get or put after the last 1 .. n tokens of tail[0..n) reads: first the buckets, and when
// they may have come, the entries.
void ls_successors_fetch(const ls_successors *s, const int32_t *tail, int32_t n);
void ls_successors_fetch_entries(const ls_successors *s, const int32_t *tail, int32_t n);
void ls_successors_arrays(ls_successors *s, ls_memory_visit *v); // lists its arrays
