#include "spec/successors.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 15 };

static uint64_t key_of(int32_t before, int32_t token) {
    return ((uint64_t)(uint32_t)(before + 1) << 32 | (uint32_t)token) + 1;
}

static uint32_t slot_of(uint64_t key) {
    return (uint32_t)(key * 0x9E3779B97F4A7C15u >> 49); // the upper 15 bits
}

void ls_successors_free(ls_successors *s) {
    free(s->slots);
    s->slots = NULL;
}

void ls_successors_put(ls_successors *s, int32_t before, int32_t token, const int32_t *id, const float *p) {
    if (!s->slots) s->slots = ls_calloc(SLOTS, sizeof *s->slots);
    const uint64_t key = key_of(before, token);
    ls_successor *e = &s->slots[slot_of(key)];
    e->key = key;
    memcpy(e->id, id, sizeof e->id);
    memcpy(e->p, p, sizeof e->p);
}

const ls_successor *ls_successors_get(const ls_successors *s, int32_t before, int32_t token) {
    const uint64_t key = key_of(before, token);
    if (!s->slots) return NULL;
    const ls_successor *e = &s->slots[slot_of(key)];
    return e->key == key ? e : NULL;
}
