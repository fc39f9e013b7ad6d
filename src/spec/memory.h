// Counts, copies and restores a drafter's memory, so that an answer that is repeated gets the same drafts as the first
// time. A drafter's memory is its struct and the arrays that one function lists (ls_drafter.arrays), which serves all
// three.
#pragma once
#include "base/buf.h"
#include "base/map.h"

typedef struct {
    enum { LS_MEMORY_COUNTS, LS_MEMORY_COPIES, LS_MEMORY_DROPS, LS_MEMORY_RESTORES } does;
    ls_buf *bytes;
    size_t at; // bytes counted; position in bytes during a restore
} ls_memory_visit;

// Lists n bytes that are not an array of its own. A struct must be listed before the arrays that it points to.
void ls_memory_part(ls_memory_visit *v, void *part, size_t n);
// Lists an array of n bytes at *p, allocated by malloc; NULL if n is 0.
void ls_memory_array(ls_memory_visit *v, void **p, size_t n);
void ls_memory_map(ls_memory_visit *v, ls_map *m); // its array

// lists: calls the two functions above for all memory of `of`, always in the same order.
size_t ls_memory_bytes(void (*lists)(void *of, ls_memory_visit *v), void *of);
void ls_memory_drop(void (*lists)(void *of, ls_memory_visit *v), void *of);              // frees its arrays
void ls_memory_copy(ls_buf *out, void (*lists)(void *of, ls_memory_visit *v), void *of); // replaces the content of out
void ls_memory_restore(const ls_buf *bytes, void (*lists)(void *of, ls_memory_visit *v), void *of);
