#include "spec/successors.h"
#include "base/mem.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct ls_successor_entry {
    uint64_t key;
    ls_successor successor;
    int32_t chain; // next entry of the bucket; -1: none
    bool again;    // put again since the eviction hand (s->hand) passed: gets a second chance
} entry;
_Static_assert(sizeof(entry) == 64, "a line of the cache");

static uint64_t successors_key(const int32_t *tail,
                               int32_t n) { // ids are stored + 1, so that leading zeros mark a shorter tail
    uint64_t key = 0;
    for (int32_t i = 0; i < n; i++) key = key << 21 | (uint32_t)(tail[i] + 1);
    return key;
}

static int32_t *successors_bucket(const ls_successors *s, uint64_t key) {
    const uint64_t h = key * 0x9E3779B97F4A7C15u;
    return &s->buckets[(h ^ h >> 32) & (uint64_t)(s->n_buckets - 1)];
}

static int32_t successors_find(const ls_successors *s, uint64_t key) { // -1: not found
    if (!s->n_buckets) return -1;
    int32_t i = *successors_bucket(s, key);
    while (i >= 0 && s->entries[i].key != key) i = s->entries[i].chain;
    return i;
}

static int32_t most(const ls_successors *s) { // entries that the limit allows, with as many buckets
    const size_t n = s->limit / (sizeof(entry) + 2 * sizeof(int32_t));
    return n < 64 ? 64 : n > INT32_MAX / 2 ? INT32_MAX / 2 : (int32_t)n;
}

static void link_all(ls_successors *s) {
    s->n_buckets = s->n_buckets ? s->n_buckets * 2 : 1024;
    s->buckets = ls_realloc(s->buckets, (size_t)s->n_buckets * sizeof *s->buckets);
    memset(s->buckets, -1, (size_t)s->n_buckets * sizeof *s->buckets);
    for (int32_t i = 0; i < s->n; i++) {
        int32_t *bucket = successors_bucket(s, s->entries[i].key);
        s->entries[i].chain = *bucket;
        *bucket = i;
    }
}

static int32_t successors_take(ls_successors *s) { // index of a new or evicted entry
    if (s->n < most(s)) {
        if (s->n == s->cap) {
            s->cap = s->cap ? s->cap + s->cap / 4 : 1024;
            if (s->cap > most(s)) s->cap = most(s);
            s->entries =
                ls_realloc_lines(s->entries, (size_t)s->n * sizeof *s->entries, (size_t)s->cap * sizeof *s->entries);
        }
        if (s->n >= s->n_buckets) link_all(s);
        return s->n++;
    }
    while (s->entries[s->hand].again) {
        s->entries[s->hand].again = false;
        s->hand = (s->hand + 1) % s->n;
    }
    const int32_t i = s->hand;
    int32_t *p = successors_bucket(s, s->entries[i].key);
    while (*p != i) p = &s->entries[*p].chain;
    *p = s->entries[i].chain;
    s->hand = (s->hand + 1) % s->n;
    return i;
}

ls_successor ls_successors_of(const ls_node *n) {
    ls_successor successor;
    for (int j = 0; j < LS_ROW_TOP; j++) ls_successor_set(&successor, j, n->top[j].id, expf(n->top[j].logit - n->lse));
    return successor;
}

void ls_successors_put(ls_successors *s, const int32_t *tail, int32_t n, const ls_successor *successor) {
    if (successor->id[0] < 0) return;
    const uint64_t key = successors_key(tail, n);
    int32_t i = successors_find(s, key);
    if (i >= 0) s->entries[i].again = true;
    else {
        i = successors_take(s);
        int32_t *bucket = successors_bucket(s, key);
        s->entries[i].key = key;
        s->entries[i].chain = *bucket;
        s->entries[i].again = false;
        *bucket = i;
    }
    s->entries[i].successor = *successor;
}

const ls_successor *ls_successors_get(const ls_successors *s, const int32_t *tail, int32_t n) {
    const int32_t i = successors_find(s, successors_key(tail, n));
    return i < 0 ? NULL : &s->entries[i].successor;
}

void ls_successors_fetch(const ls_successors *s, const int32_t *tail, int32_t n) {
    for (int32_t order = 1; order <= n && s->n_buckets; order++)
        __builtin_prefetch(successors_bucket(s, successors_key(tail + n - order, order)));
}

void ls_successors_fetch_entries(const ls_successors *s, const int32_t *tail, int32_t n) {
    for (int32_t order = 1; order <= n && s->n_buckets; order++) {
        const int32_t i = *successors_bucket(s, successors_key(tail + n - order, order));
        if (i >= 0) __builtin_prefetch(&s->entries[i]);
    }
}

void ls_successors_arrays(ls_successors *s, ls_memory_visit *v) {
    ls_memory_array(v, (void **)&s->entries, (size_t)s->cap * sizeof *s->entries);
    ls_memory_array(v, (void **)&s->buckets, (size_t)s->n_buckets * sizeof *s->buckets);
}
