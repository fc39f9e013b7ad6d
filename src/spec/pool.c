#include "spec/pool.h"

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

bool ls_pool_ask(const ls_pool *p, const int32_t *text, const int32_t *tail, size_t n, int32_t token, bool *has) {
    bool any = false;
    *has = false;
    for (size_t k = 1; k <= n && k <= (size_t)p->order; k++) {
        int32_t v;
        if (!ls_map_get(&p->tables[k - 1], ls_gram_key(tail + n - k, k), &v)) continue;
        any = true;
        *has |= text[v >> 5] == token;
    }
    return any;
}

void ls_pool_arrays(ls_pool *p, ls_memory_visit *v) {
    for (int i = 0; i < LS_POOL_ORDER; i++) ls_memory_map(v, &p->tables[i]);
}

int32_t ls_pool_size(const ls_pool *p) {
    size_t n = 0;
    for (int i = 0; i < LS_POOL_ORDER; i++) n += p->tables[i].n;
    return (int32_t)n;
}
