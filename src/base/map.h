// Open-addressing hash map uint64 -> int32 (linear probing, grows at 60% load); any key is allowed. And tries.
#pragma once
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t key;
    int32_t value;
    bool used;
} ls_map_slot;

typedef struct {
    ls_map_slot *slots;
    size_t n, cap; // cap is zero or a power of two
} ls_map;

void ls_map_put(ls_map *m, uint64_t key, int32_t value); // replaces an earlier value
// The key's value; a missing key is added with `fallback`. Valid until the next put.
int32_t *ls_map_at(ls_map *m, uint64_t key, int32_t fallback);
bool ls_map_get(const ls_map *m, uint64_t key, int32_t *value);
void ls_map_fetch(const ls_map *m, uint64_t key); // begins to fetch what a get reads from memory
void ls_map_clear(ls_map *m);                     // keeps the memory
void ls_map_free(ls_map *m);
uint64_t ls_hash_bytes(const void *p, size_t n); // FNV-1a, finished with a mixer
// For names from files: the seed is random in every process, so that no file can provoke collisions.
uint64_t ls_hash_name(const char *name, size_t n);

// Strings to numbers, walked byte by byte: the longest string at a place, or all of them.

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
