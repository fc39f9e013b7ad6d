// Counts, copies and restores a drafter's memory, so that an answer that is repeated gets the same drafts as the first
// time. A drafter's memory is its struct and the arrays that one function lists (ls_drafter.arrays), which serves all
// three.
#pragma once
#include "base/buf.h"
#include "base/map.h"

typedef struct {
    enum { LS_MEMORY_COUNTS, LS_MEMORY_COPIES, LS_MEMORY_DROPS, LS_MEMORY_RESTORES } does;
    ls_buf *bytes;
    size_t at;         // bytes counted; position in bytes during a restore
    char *whole, *old; // during a restore: of ls_memory_whole, and what was there before
} ls_memory_visit;

// Lists the struct, of n bytes: first and once.
void ls_memory_whole(ls_memory_visit *v, void *whole, size_t n);
// A field of the struct that is no memory, such as a pointer to a file's name: a restore, which may be into another
// struct than the copied one, leaves it as it is.
void ls_memory_own(ls_memory_visit *v, void *field, size_t n);
// Lists n bytes elsewhere that are not an array of its own.
void ls_memory_part(ls_memory_visit *v, void *part, size_t n);
// Lists an array of n bytes at *p, allocated by malloc; NULL if n is 0.
void ls_memory_array(ls_memory_visit *v, void **p, size_t n);
void ls_memory_map(ls_memory_visit *v, ls_map *m); // its array

// lists: calls the functions above for all memory of `of`, always in the same order.
size_t ls_memory_bytes(void (*lists)(void *of, ls_memory_visit *v), void *of);
void ls_memory_drop(void (*lists)(void *of, ls_memory_visit *v), void *of);              // frees its arrays
void ls_memory_copy(ls_buf *out, void (*lists)(void *of, ls_memory_visit *v), void *of); // replaces the content of out
void ls_memory_restore(const ls_buf *bytes, void (*lists)(void *of, ls_memory_visit *v), void *of);
