// Open-addressing hash map uint64 -> int32 (linear probing, grows at 60% load). Any key is allowed.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t *keys;
    int32_t *values;
    uint8_t *used;
    size_t n, cap; // cap is zero or a power of two
} ls_map;

void ls_map_put(ls_map *m, uint64_t key, int32_t value); // replaces an earlier value
// The key's value; a missing key is added with `fallback`. Valid until the next put.
int32_t *ls_map_at(ls_map *m, uint64_t key, int32_t fallback);
bool ls_map_get(const ls_map *m, uint64_t key, int32_t *value);
void ls_map_clear(ls_map *m); // keeps the memory
void ls_map_free(ls_map *m);
uint64_t ls_hash_bytes(const void *p, size_t n); // FNV-1a, finished with a mixer
// For names from files: the seed is random in every process, so that no file can provoke collisions.
uint64_t ls_hash_name(const char *name, size_t n);
