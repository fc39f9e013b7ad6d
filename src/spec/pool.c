#include "spec/pool.h"

// An n-gram of at most three tokens as a key; token ids must be below 2^21.
static uint64_t ls_gram_key(const int32_t *gram, size_t n) {
    uint64_t key = 0;
    for (size_t i = 0; i < n; i++) key = key << 21 | (uint32_t)gram[i];
    return key;
}

void ls_pool_clear(ls_pool *p) {
    for (int i = 0; i < LS_POOL_ORDER; i++) ls_map_clear(&p->tables[i]);
    p->indexed = 0;
}

void ls_pool_update(ls_pool *p, const int32_t *text, size_t n) {
    const size_t span = (size_t)p->span, window = 2 * span, old = p->indexed;
    const size_t settled = p->earliest ? 1 : span; // length of a continuation from which on its entry stays
    // A decode step re-indexes the window before the new end, as the reference does; a longer addition (a
    // prompt) re-indexes the window before the old end.
    const size_t end = n - old > span + 1 ? old : n, first = end > window ? end - window : 0;
    for (size_t k = 1; k <= (size_t)p->order; k++) {
        // skip positions whose continuation already had so many tokens at the last update
        const size_t whole = old > settled + k ? old - settled - k + 1 : 0;
        for (size_t i = first > whole ? first : whole; i + k < n; i++) {
            const size_t pos = i + k, len = n - pos < span ? n - pos : span;
            int32_t *value = ls_map_at(&p->tables[k - 1], ls_gram_key(text + i, k), 0);
            if (p->earliest && *value) continue;
            if ((*value & 31) <= (int32_t)len) *value = (int32_t)(pos << 5 | len);
        }
    }
    p->indexed = n;
}

ls_match ls_pool_find(const ls_pool *p, const int32_t *tail, size_t n) {
    for (size_t k = n < (size_t)p->order ? n : (size_t)p->order; k > 0; k--) {
        int32_t v;
        if (ls_map_get(&p->tables[k - 1], ls_gram_key(tail + n - k, k), &v))
            return (ls_match){(int32_t)k, v >> 5, v & 31};
    }
    return (ls_match){0, -1, 0};
}

void ls_pool_fetch(const ls_pool *p, const int32_t *tail, size_t n) {
    for (size_t k = 1; k <= n && k <= (size_t)p->order; k++)
        ls_map_fetch(&p->tables[k - 1], ls_gram_key(tail + n - k, k));
}

ls_miss ls_pool_miss(const ls_pool *p, const ls_draft_question *q, ls_miss miss) {
    int32_t tail[LS_POOL_ORDER], v;
    const size_t n = (size_t)ls_question_tail(q, tail, LS_POOL_ORDER);
    for (size_t k = 1; k <= n && k <= (size_t)p->order; k++) {
        if (!ls_map_get(&p->tables[k - 1], ls_gram_key(tail + n - k, k), &v)) continue;
        if (q->state->context[v >> 5] == q->token) return LS_MISS_TAKEN;
        if (miss < LS_MISS_OTHERWISE) miss = LS_MISS_OTHERWISE;
    }
    return miss;
}

void ls_pool_arrays(ls_pool *p, ls_memory_visit *v) {
    for (int i = 0; i < LS_POOL_ORDER; i++) ls_memory_map(v, &p->tables[i]);
}

int32_t ls_pool_size(const ls_pool *p) {
    size_t n = 0;
    for (int i = 0; i < LS_POOL_ORDER; i++) n += p->tables[i].n;
    return (int32_t)n;
}

void ls_copier_observe(ls_drafter *d, const int32_t *context, size_t n, bool reset) {
    ls_pool *p = &((ls_copier *)d)->pool;
    if (reset) ls_pool_clear(p);
    ls_pool_update(p, context, n);
}

void ls_copier_arrays(void *d, ls_memory_visit *v) {
    ls_pool_arrays(&((ls_copier *)d)->pool, v);
}

int32_t ls_copier_pool_size(const ls_drafter *d) {
    return ls_pool_size(&((const ls_copier *)d)->pool);
}
