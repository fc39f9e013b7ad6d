#include "text/trie.h"

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
