// Pool of n-grams (n = 1..3 at most) over a growing text: each maps to the tokens that followed it, as a position and a
// length in that text. LogitSpec, arXiv 2507.01449, section 3.2, and the authors' program: a later occurrence replaces
// an entry only if its continuation is at least as long, so near the end of the text an older, full continuation is
// kept. After each step the last 2 x span positions are indexed again, so that short continuations grow.
#pragma once
#include "base/map.h"
#include "spec/drafter.h"

enum {
    LS_POOL_ORDER = 3,
    LS_POOL_SPAN = 20,
    LS_POOL_MAX_SPAN = 31
}; // as published; MAX_SPAN: an entry has 5 bits for the length

typedef struct {
    ls_map tables[LS_POOL_ORDER]; // packed n-gram -> position << 5 | length
    size_t indexed;               // length of the text at the last update
    int32_t order, span;          // longest n-gram, 1 .. LS_POOL_ORDER; longest continuation, 1 .. LS_POOL_MAX_SPAN
    bool earliest;                // keeps the first occurrence, whatever comes later
} ls_pool;

// A drafter that copies from a pool begins with this, and has these functions.
typedef struct {
    ls_drafter base;
    ls_pool pool;
} ls_copier;

void ls_copier_observe(ls_drafter *d, const int32_t *context, size_t n, bool reset);
void ls_copier_arrays(void *d, ls_memory_visit *v);
int32_t ls_copier_pool_size(const ls_drafter *d);

typedef struct {
    int32_t n;   // length of the matched n-gram; 0: no match
    int32_t pos; // where its continuation starts in the text
    int32_t len; // 1 .. span
} ls_match;

// An empty pool begins as {.order = ..., .span = ...}. The text must be shorter than 2^26 tokens.
void ls_pool_clear(ls_pool *p);
// Indexes the tokens that were appended since the last update; text is the whole text.
void ls_pool_update(ls_pool *p, const int32_t *text, size_t n);
// The continuation of the longest known n-gram that ends tail (the last n tokens; at most `order` of them are used).
ls_match ls_pool_find(const ls_pool *p, const int32_t *tail, size_t n);
void ls_pool_fetch(const ls_pool *p, const int32_t *tail, size_t n); // begins to fetch from memory what find reads
// What the pool knows of a token at a question's row, by any n-gram that ends there: LS_MISS_TAKEN if one is followed
// by it, at least LS_MISS_OTHERWISE if one is known, else `miss`.
ls_miss ls_pool_miss(const ls_pool *p, const ls_draft_question *q, ls_miss miss);
void ls_pool_arrays(ls_pool *p, ls_memory_visit *v); // lists its arrays
int32_t ls_pool_size(const ls_pool *p);              // number of n-grams
