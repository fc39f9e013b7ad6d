#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x) { // splitmix64's finaliser
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static size_t first_slot(const ls_map *m, uint64_t key) {
    return mix(key) & (m->cap - 1);
}

static ls_map_slot *slot_of(const ls_map *m, uint64_t key) {
    size_t i = first_slot(m, key);
    while (m->slots[i].used && m->slots[i].key != key) i = (i + 1) & (m->cap - 1);
    return &m->slots[i];
}

static void grow(ls_map *m) {
    const ls_map old = *m;
    m->cap = old.cap ? old.cap * 2 : 64;
    m->slots = ls_calloc(m->cap, sizeof *m->slots);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].used) *slot_of(m, old.slots[i].key) = old.slots[i];
    free(old.slots);
}

int32_t *ls_map_at(ls_map *m, uint64_t key, int32_t fallback) {
    if ((m->n + 1) * 5 > m->cap * 3) grow(m);
    ls_map_slot *slot = slot_of(m, key);
    if (!slot->used) {
        *slot = (ls_map_slot){key, fallback, true};
        m->n++;
    }
    return &slot->value;
}

void ls_map_put(ls_map *m, uint64_t key, int32_t value) {
    *ls_map_at(m, key, value) = value;
}

bool ls_map_get(const ls_map *m, uint64_t key, int32_t *value) {
    const ls_map_slot *slot = m->cap ? slot_of(m, key) : NULL;
    if (!slot || !slot->used) return false;
    *value = slot->value;
    return true;
}

void ls_map_fetch(const ls_map *m, uint64_t key) {
    if (m->cap) __builtin_prefetch(&m->slots[first_slot(m, key)]);
}

void ls_map_clear(ls_map *m) {
    if (m->cap) memset(m->slots, 0, m->cap * sizeof *m->slots);
    m->n = 0;
}

void ls_map_free(ls_map *m) {
    free(m->slots);
    *m = (ls_map){0};
}

static uint64_t hash_from(uint64_t h, const unsigned char *s, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 0x100000001b3u;
    return mix(h);
}

uint64_t ls_hash_bytes(const void *p, size_t n) {
    return hash_from(0xcbf29ce484222325u, p, n);
}

static uint64_t secret;

static void draw_secret(void) {
    secret = ls_seed_draw();
}

uint64_t ls_hash_name(const char *name, size_t n) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw_secret);
    return hash_from(secret, (const unsigned char *)name, n);
}

// ---- tries

static uint64_t edge(int32_t node, char c) {
    return (uint64_t)(uint32_t)node << 8 | (unsigned char)c;
}

int32_t ls_trie_step(const ls_trie *t, int32_t node, char c) {
    int32_t next;
    if (!node) return t->root[(unsigned char)c] ? t->root[(unsigned char)c] : -1;
    return ls_map_get(&t->next, edge(node, c), &next) ? next : -1;
}

void ls_trie_add(ls_trie *t, const char *p, size_t n, int32_t value) {
    if (!t->value.n) ls_ids_push(&t->value, -1);
    int32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t next = ls_trie_step(t, node, p[i]);
        if (next < 0) {
            next = (int32_t)t->value.n;
            ls_ids_push(&t->value, -1);
            if (!node) t->root[(unsigned char)p[i]] = next;
            else ls_map_put(&t->next, edge(node, p[i]), next);
        }
        node = next;
    }
    if (n && t->value.p[node] < 0) t->value.p[node] = value;
}

void ls_trie_free(ls_trie *t) {
    ls_map_free(&t->next);
    ls_ids_free(&t->value);
}

int32_t ls_trie_longest(const ls_trie *t, const char *p, size_t n, size_t *len) {
    int32_t best = -1;
    for (size_t i = 0, node = 0; i < n; i++) {
        const int32_t next = ls_trie_step(t, (int32_t)node, p[i]);
        if (next < 0) break;
        node = (size_t)next;
        if (t->value.p[node] >= 0) {
            best = t->value.p[node];
            *len = i + 1;
        }
    }
    return best;
}
