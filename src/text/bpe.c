// Byte-pair encoding: joins the pair of lowest rank in a piece first, the leftmost of equals.
#include "base/mem.h"
#include "base/utf8.h"
#include "text/vocab_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CACHED_BYTES = 128 };

static bool before(const ls_join *a, const ls_join *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(ls_encoder *e, ls_join j) {
    size_t i = e->n_heap++;
    while (i && before(&j, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = j;
}

static ls_join heap_pop(ls_encoder *e) {
    ls_join top = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= e->n_heap) break;
        if (c + 1 < e->n_heap && before(&e->heap[c + 1], &e->heap[c])) c++;
        if (!before(&e->heap[c], &last)) break;
        e->heap[i] = e->heap[c];
        i = c;
    }
    e->heap[i] = last;
    return top;
}

// The join of symbol `at` with its right neighbour; id -1: they do not join.
static ls_join joined(const ls_encoder *e, const char *p, int32_t at) {
    const ls_symbol *a = &e->sym[at], *b = &e->sym[a->next];
    const ls_vocab *v = e->v;
    int32_t rank, id;
    if (v->kind == LS_SCORE_BPE) {
        if (a->n + b->n > v->longest) return (ls_join){0, at, -1};
        id = ls_vocab_find(v, p + a->at, a->n + b->n);
        if (id < 0 || (v->types[id] != LS_NORMAL && v->types[id] != LS_USER_DEFINED)) return (ls_join){0, at, -1};
        return (ls_join){v->score_rank[id], at, id};
    }
    if (a->id < 0 || b->id < 0 || !ls_map_get(&v->merge_rank, ls_pair_key(a->id, b->id), &rank))
        return (ls_join){0, at, -1};
    return (ls_join){rank, at, v->merged_id[rank]};
}

static void offer(ls_encoder *e, const char *p, int32_t at) {
    if (at < 0 || e->sym[at].next < 0) return;
    const ls_join j = joined(e, p, at);
    if (j.id >= 0) heap_push(e, j);
}

static void merge(ls_encoder *e, const char *p, size_t n) {
    if (n > e->cap) { // every join queues at most two more, so twice the symbols and the first pairs suffice
        e->cap = n * 2;
        e->sym = ls_realloc(e->sym, e->cap * sizeof *e->sym);
        e->heap = ls_realloc(e->heap, 3 * e->cap * sizeof *e->heap);
    }
    const ls_vocab *v = e->v;
    int32_t count = 0;
    for (size_t i = 0, len = 1; i < n; i += len) {
        int32_t id;
        if (v->kind == LS_BYTE_BPE) {
            id = v->byte_id[(unsigned char)p[i]];
            if (id < 0 && v->unk < 0) continue; // dropped, as in the reference
        } else {
            len = (size_t)ls_utf8_decode(p + i, n - i, NULL);
            id = ls_vocab_find(v, p + i, len);
            if (id >= 0 && v->types[id] != LS_NORMAL && v->types[id] != LS_USER_DEFINED) id = -1;
        }
        e->sym[count] = (ls_symbol){id, count - 1, count + 1, (uint32_t)i, (uint32_t)len};
        count++;
    }
    if (!count) return;
    e->sym[count - 1].next = -1;
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < count; i++) offer(e, p, i);
    while (e->n_heap && !ls_encode_stops(e)) {
        const ls_join j = heap_pop(e);
        ls_symbol *s = &e->sym[j.at];
        if (!s->n || s->next < 0 || joined(e, p, j.at).id != j.id) continue;
        ls_symbol *gone = &e->sym[s->next];
        s->id = j.id;
        s->n += gone->n;
        s->next = gone->next;
        gone->n = 0;
        if (s->next >= 0) e->sym[s->next].prev = j.at;
        offer(e, p, s->prev);
        offer(e, p, j.at);
    }
    for (int32_t i = 0; i >= 0; i = e->sym[i].next) {
        const ls_symbol *s = &e->sym[i];
        if (s->id >= 0) ls_push_id(e, s->id);
        else ls_push_unknown(e, p + s->at, s->n);
    }
}

// A stretch that nothing outside it can join.
static void stretch(ls_encoder *e, const char *p, size_t n) {
    int32_t i;
    if (n > CACHED_BYTES) {
        merge(e, p, n);
        return;
    }
    const uint64_t h = ls_hash_bytes(p, n);
    const bool met = ls_map_get(&e->cache, h, &i);
    if (met && e->entries[i].n == n && !memcmp(e->keys.p + e->entries[i].key, p, n)) {
        for (size_t k = 0; k < e->entries[i].count; k++) ls_push_id(e, e->cached.p[e->entries[i].first + k]);
        return;
    }
    const size_t first = e->out->n, piece_start = e->piece_start;
    e->piece_start = first; // the cached ids do not depend on the text before
    merge(e, p, n);
    e->piece_start = piece_start;
    const size_t count = e->out->n - first;
    if (!met) {
        if (e->n_entries == e->cap_entries) {
            e->cap_entries = e->cap_entries * 2 + 64;
            e->entries = ls_realloc(e->entries, e->cap_entries * sizeof *e->entries);
        }
        e->entries[e->n_entries].key = e->keys.n;
        e->entries[e->n_entries].n = n;
        e->entries[e->n_entries].first = e->cached.n;
        e->entries[e->n_entries].count = count;
        ls_buf_add(&e->keys, p, n);
        if (count) ls_ids_add(&e->cached, e->out->p + first, count);
        ls_map_put(&e->cache, h, (int32_t)e->n_entries++);
    }
    if (e->v->fuse_unk && count && first > piece_start && e->out->p[first] == e->v->unk &&
        e->out->p[first - 1] == e->v->unk) {
        memmove(e->out->p + first, e->out->p + first + 1, (count - 1) * sizeof *e->out->p);
        e->out->n--;
    }
}

static int32_t whole_token(const ls_vocab *v, const char *p, size_t n) {
    char spelled[1024];
    size_t len = 0;
    if (v->kind == LS_BYTE_BPE) {
        for (size_t i = 0; i < n; i++) {
            const char *s = v->spelled[(unsigned char)p[i]];
            if (len + 2 > sizeof spelled) return -1;
            memcpy(spelled + len, s, 2);
            len += (size_t)s[2];
        }
        p = spelled;
        n = len;
    }
    const int32_t id = n <= v->longest ? ls_vocab_find(v, p, n) : -1;
    return id >= 0 && v->types[id] == LS_NORMAL ? id : -1;
}

void ls_bpe_encode(ls_encoder *e, const char *p, size_t n) {
    const ls_vocab *v = e->v;
    const int32_t whole = v->whole ? whole_token(v, p, n) : -1;
    if (whole >= 0) {
        ls_push_id(e, whole);
        return;
    }
    if (v->kind == LS_BYTE_BPE) {
        stretch(e, p, n);
        return;
    }
    size_t start = 0, kept_len;
    uint32_t last = 0, cp = 0;
    for (size_t at = 0; at < n && !ls_encode_stops(e);) {
        const int32_t kept = v->kept.value.n ? ls_trie_longest(&v->kept, p + at, n - at, &kept_len) : -1;
        const size_t len = (size_t)ls_utf8_decode(p + at, n - at, &cp);
        int32_t side_by_side;
        if (at > start && (kept >= 0 || !ls_map_get(&v->neighbours, (uint64_t)last << 32 | cp, &side_by_side))) {
            stretch(e, p + start, at - start);
            start = at;
        }
        if (kept >= 0) {
            ls_push_id(e, kept);
            start = at += kept_len;
        } else {
            last = cp;
            at += len;
        }
    }
    if (n > start) stretch(e, p + start, n - start);
}
