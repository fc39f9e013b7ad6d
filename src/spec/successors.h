// What the target said before: its best tokens the last time that a pair of tokens (else a single token) was a verified
// row, accepted or rejected. A fixed table: an entry that collides replaces the older one.
#pragma once
#include <stdint.h>

enum { LS_SUCCESSORS = 8 };

typedef struct {
    uint64_t key;              // 0: empty
    int32_t id[LS_SUCCESSORS]; // best first; -1: no more
    float p[LS_SUCCESSORS];
} ls_successor;

typedef struct {
    ls_successor *slots; // allocated at the first put
} ls_successors;

void ls_successors_free(ls_successors *s);
// before: the token before `token`; -1: a single token's entry.
void ls_successors_put(ls_successors *s, int32_t before, int32_t token, const int32_t *id, const float *p);
const ls_successor *ls_successors_get(const ls_successors *s, int32_t before, int32_t token); // NULL: nothing known
