// What the target said before: its best tokens the last time that these one, two or three tokens ended with a verified
// row, accepted or rejected. Bounded: when it is full, what was neither put nor put again for longest is forgotten
// (second chance). Memory is taken as it fills, in one piece after another.
#pragma once
#include "spec/memory.h"
#include "spec/tree.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_SUCCESSORS_ORDER = 3 }; // tokens that are looked back at, at most

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
// What was said after tail[0..n), n of 1 to LS_SUCCESSORS_ORDER tokens below 2^21 - 1. Nothing is put where said->id[0]
// is -1.
void ls_successors_put(ls_successors *s, const int32_t *tail, int32_t n, const ls_successor *said);
const ls_successor *ls_successors_get(const ls_successors *s, const int32_t *tail, int32_t n); // NULL: nothing known
void ls_successors_memory(ls_successors *s, ls_memory_visit *v);                               // lists all of it
size_t ls_successors_bytes(const ls_successors *s);                                            // memory taken
