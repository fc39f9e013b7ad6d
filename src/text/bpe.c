// Byte-pair encoding: in each piece the pair of lowest rank is joined first, of equals the leftmost.
#include "base/mem.h"
#include "text/vocab_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t id, prev, next; // neighbours by index; -1: none. id -1: joined into its left neighbour
} symbol;

typedef struct {
    int32_t rank, at;    // join symbol `at` with its right neighbour
    int32_t left, right; // ids when this was queued: stale entries are recognised by them
} join;

typedef struct {
    const ls_vocab *v;
    ls_ids *out;
    symbol *sym;
    join *heap;
    size_t cap, n_heap;
    // pieces met before in this call: most words of a text repeat
    ls_map cache; // hash of the piece -> index into entries
    struct {
        const char *piece;
        size_t n;
        size_t first, count; // ids in out
    } * entries;
    size_t n_entries, cap_entries;
} encoder;

static bool before(const join *a, const join *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(encoder *e, join j) {
    size_t i = e->n_heap++;
    while (i && before(&j, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = j;
}

static join heap_pop(encoder *e) {
    join top = e->heap[0], last = e->heap[--e->n_heap];
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

static void offer(encoder *e, int32_t at) {
    int32_t rank, next = at >= 0 ? e->sym[at].next : -1;
    if (next < 0) return;
    if (ls_map_get(&e->v->merge_rank, ls_pair_key(e->sym[at].id, e->sym[next].id), &rank))
        heap_push(e, (join){rank, at, e->sym[at].id, e->sym[next].id});
}

static void encode_piece(encoder *e, const char *piece, size_t n) {
    if (n > e->cap) { // every join queues at most two more, so twice the symbols and the first pairs suffice
        e->cap = n * 2;
        e->sym = ls_realloc(e->sym, e->cap * sizeof *e->sym);
        e->heap = ls_realloc(e->heap, 3 * e->cap * sizeof *e->heap);
    }
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) { // a byte that the vocabulary cannot say is left out, as the reference does
        int32_t id = e->v->byte_id[(unsigned char)piece[i]];
        if (id < 0) continue;
        e->sym[count] = (symbol){id, count - 1, count + 1};
        count++;
    }
    if (!count) return;
    e->sym[count - 1].next = -1;
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < count; i++) offer(e, i);
    while (e->n_heap) {
        join j = heap_pop(e);
        symbol *s = &e->sym[j.at];
        if (s->id != j.left || s->next < 0 || e->sym[s->next].id != j.right) continue;
        int32_t gone = s->next;
        s->id = e->v->merged_id[j.rank];
        s->next = e->sym[gone].next;
        e->sym[gone].id = -1;
        if (s->next >= 0) e->sym[s->next].prev = j.at;
        offer(e, s->prev);
        offer(e, j.at);
    }
    for (int32_t i = 0; i >= 0; i = e->sym[i].next) ls_ids_push(e->out, e->sym[i].id);
}

static ls_code on_piece(void *ud, const char *piece, size_t n, ls_err *err) {
    (void)err;
    encoder *e = ud;
    int32_t i;
    uint64_t h = ls_hash_bytes(piece, n);
    bool met = ls_map_get(&e->cache, h, &i);
    if (met && e->entries[i].n == n && !memcmp(e->entries[i].piece, piece, n)) {
        for (size_t k = 0; k < e->entries[i].count; k++) ls_ids_push(e->out, e->out->p[e->entries[i].first + k]);
        return LS_OK;
    }
    size_t first = e->out->n;
    encode_piece(e, piece, n);
    if (met) return LS_OK;
    if (e->n_entries == e->cap_entries) {
        e->cap_entries = e->cap_entries * 2 + 64;
        e->entries = ls_realloc(e->entries, e->cap_entries * sizeof *e->entries);
    }
    e->entries[e->n_entries].piece = piece;
    e->entries[e->n_entries].n = n;
    e->entries[e->n_entries].first = first;
    e->entries[e->n_entries].count = e->out->n - first;
    ls_map_put(&e->cache, h, (int32_t)e->n_entries++);
    return LS_OK;
}

// The first spelled-out special token at or after `at`; its id, with *where set, or -1.
static int32_t next_special(const ls_vocab *v, const char *text, size_t n, size_t at, size_t *where) {
    for (size_t i = at; i < n; i++)
        for (size_t k = 0; k < v->specials.n; k++) {
            ls_str s = v->raw[v->specials.p[k]];
            if (s.p[0] == text[i] && s.n <= n - i && !memcmp(s.p, text + i, s.n)) {
                *where = i;
                return v->specials.p[k];
            }
        }
    *where = n;
    return -1;
}

ls_code ls_encode(const ls_vocab *v, const char *text, size_t n, bool parse_special, ls_ids *out, ls_err *err) {
    if (n > INT32_MAX / 2) return ls_fail(err, LS_E_RANGE, "a text of %zu bytes is too long", n);
    const size_t had = out->n;
    encoder e = {.v = v, .out = out};
    ls_code code = LS_OK;
    for (size_t at = 0; at < n && !code;) {
        size_t end = n;
        int32_t special = parse_special ? next_special(v, text, n, at, &end) : -1;
        code = ls_pretok_split(v->pretok, text + at, end - at, on_piece, &e, err);
        if (special >= 0 && !code) {
            ls_ids_push(out, special);
            end += v->raw[special].n;
        }
        at = end;
    }
    if (code) out->n = had;
    free(e.sym);
    free(e.heap);
    free(e.entries);
    ls_map_free(&e.cache);
    return code;
}

ls_code ls_encode_parts(const ls_vocab *v, const ls_text_part *parts, size_t n_parts, ls_ids *out, ls_err *err) {
    const size_t had = out->n;
    ls_buf run = {0}; // what has come since the last special token
    ls_code code = LS_OK;
    for (size_t i = 0; i < n_parts && !code; i++)
        for (size_t at = 0; at < parts[i].n && !code;) {
            size_t end = parts[i].n;
            int32_t special = parts[i].trusted ? next_special(v, parts[i].p, parts[i].n, at, &end) : -1;
            ls_buf_add(&run, parts[i].p + at, end - at);
            if (special >= 0) {
                code = ls_encode(v, run.n ? run.p : "", run.n, false, out, err);
                ls_buf_clear(&run);
                if (!code) ls_ids_push(out, special);
                end += v->raw[special].n;
            }
            at = end;
        }
    if (!code) code = ls_encode(v, run.n ? run.p : "", run.n, false, out, err);
    if (code) out->n = had;
    ls_buf_free(&run);
    return code;
}
