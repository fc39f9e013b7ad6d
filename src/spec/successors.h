// What the target said before: its best tokens the last time that a pair of tokens (else a single token) was a verified
// row, accepted or rejected. Bounded: when it is full, what was neither put nor put again for longest is forgotten
// (second chance). Memory is taken as it fills, in one piece after another.
#pragma once
#include "spec/memory.h"
#include "spec/tree.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t id[LS_ROW_TOP]; // best first; -1: no more
    float p[LS_ROW_TOP];
} ls_successor;

typedef struct {
    size_t limit; // bytes at most; set before the first put
    struct ls_successor_entry *entries;
    int32_t *buckets; // first entry of each chain; -1: none
    int32_t n, cap, n_buckets, hand;
} ls_successors;

void ls_successors_free(ls_successors *s);
ls_successor ls_successors_of(const ls_node *n); // what the target said after a verified row
// before: the token before `token`; -1: a single token's entry. Nothing is put where said->id[0] is -1.
void ls_successors_put(ls_successors *s, int32_t before, int32_t token, const ls_successor *said);
const ls_successor *ls_successors_get(const ls_successors *s, int32_t before, int32_t token); // NULL: nothing known
void ls_successors_memory(ls_successors *s, ls_memory_visit *v);                              // lists all of it
size_t ls_successors_bytes(const ls_successors *s);                                           // memory taken
