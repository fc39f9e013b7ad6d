// A copy of what a drafter knows, and the way back to it: so that an answer that is given again is drafted as it was
// the first time. A drafter lists its memory once (ls_drafter.memory); the list serves copying and putting back.
#pragma once
#include "base/buf.h"
#include "base/map.h"

typedef struct {
    enum { LS_MEMORY_COPIES, LS_MEMORY_DROPS, LS_MEMORY_RETURNS } does;
    ls_buf *bytes;
    size_t at; // in bytes, while it returns
} ls_memory_visit;

// Lists n bytes that are not on a heap of their own. Counts and pointers of arrays are listed before their arrays.
void ls_memory_part(ls_memory_visit *v, void *part, size_t n);
// Lists an array of n bytes behind *p, which malloc gave; NULL where n is 0.
void ls_memory_array(ls_memory_visit *v, void **p, size_t n);

void ls_memory_ids(ls_memory_visit *v, ls_ids *ids);
void ls_memory_map(ls_memory_visit *v, ls_map *m);

// lists: calls the two functions above for all of `of`, the same ones in the same order each time.
void ls_memory_copy(ls_buf *out, void (*lists)(void *of, ls_memory_visit *v), void *of); // replaces what out holds
void ls_memory_return(const ls_buf *bytes, void (*lists)(void *of, ls_memory_visit *v), void *of);
