// Strings to numbers, walked byte by byte: the longest string at a place, or all of them.
#pragma once
#include "base/buf.h"
#include "base/map.h"

typedef struct {
    ls_map next;       // node and byte -> node
    ls_ids value;      // [node]; -1: no string ends there
    int32_t root[256]; // the first step, the last one of most walks; 0: none
} ls_trie;

void ls_trie_add(ls_trie *t, const char *p, size_t n, int32_t value); // of two equal strings the first stays
void ls_trie_free(ls_trie *t);
int32_t ls_trie_step(const ls_trie *t, int32_t node, char c); // from node 0, the root; -1: no such string
// Value and length of the longest string at p[0..n); -1: none.
int32_t ls_trie_longest(const ls_trie *t, const char *p, size_t n, size_t *len);
