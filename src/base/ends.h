// The tokens that end an answer.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_MAX_ENDS = 32 };

typedef struct {
    int32_t ids[LS_MAX_ENDS], n;
} ls_ends;

static inline bool ls_ends_has(const ls_ends *e, int32_t id) {
    for (int32_t i = 0; i < e->n; i++)
        if (e->ids[i] == id) return true;
    return false;
}

// Does nothing if the id is in the list already or the list is full.
static inline void ls_ends_add(ls_ends *e, int32_t id) {
    if (e->n < LS_MAX_ENDS && !ls_ends_has(e, id)) e->ids[e->n++] = id;
}
