#include "spec/successors.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 4 };

typedef struct ls_successor_set {
    uint64_t key[WAYS]; // 0: empty
    uint32_t put[WAYS]; // when: the count of puts
    ls_successor entry[WAYS];
} set;

static uint64_t key_of(int32_t before, int32_t token) {
    return ((uint64_t)(uint32_t)(before + 1) << 32 | (uint32_t)token) + 1;
}

static set *set_of(const ls_successors *s, uint64_t key) {
    return &s->sets[(key * 0x9E3779B97F4A7C15u >> 32) * s->n_sets >> 32];
}

void ls_successors_free(ls_successors *s) {
    free(s->sets);
    *s = (ls_successors){.limit = s->limit};
}

void ls_successors_put(ls_successors *s, int32_t before, int32_t token, const int32_t *id, const float *p) {
    if (id[0] < 0) return;
    if (!s->sets) { // zeroed pages cost nothing until they are used
        s->n_sets = s->limit > sizeof(set) ? (uint32_t)(s->limit / sizeof(set)) : 1;
        s->sets = ls_calloc(s->n_sets, sizeof *s->sets);
    }
    const uint64_t key = key_of(before, token);
    set *e = set_of(s, key);
    int way = 0; // its own place, else an empty one, else the oldest
    for (int i = 0; i < WAYS; i++) {
        if (e->key[i] == key) {
            way = i;
            break;
        }
        if (e->put[i] < e->put[way]) way = i;
    }
    e->key[way] = key;
    e->put[way] = ++s->puts;
    memcpy(e->entry[way].id, id, sizeof e->entry[way].id);
    memcpy(e->entry[way].p, p, sizeof e->entry[way].p);
}

const ls_successor *ls_successors_get(const ls_successors *s, int32_t before, int32_t token) {
    if (!s->sets) return NULL;
    const uint64_t key = key_of(before, token);
    const set *e = set_of(s, key);
    for (int i = 0; i < WAYS; i++)
        if (e->key[i] == key) return &e->entry[i];
    return NULL;
}

size_t ls_successors_bytes(const ls_successors *s) {
    size_t used = 0;
    for (uint32_t i = 0; i < s->n_sets; i++) used += s->sets[i].key[0] ? sizeof(set) : 0;
    return used;
}
