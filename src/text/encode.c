// Text to ids: cuts out added tokens; normalises the text between them, splits it into pieces and encodes them, by
// Unigram or byte-pair encoding. And ids' bytes to text. Reference: Hugging Face tokenizers' added_vocabulary.rs
// (extract_and_normalize).
#include "base/mem.h"
#include "base/utf8.h"
#include "text/vocab_internal.h"

#include <stdlib.h>
#include <string.h>

// One text.
typedef struct {
    int32_t id;         // -1: the vocabulary lacks this character
    int32_t prev, next; // neighbours by index; -1: none
    uint32_t at, n;     // of the piece; n = 0: joined into its left neighbour
} symbol;

typedef struct {
    int32_t rank, at, id; // join symbol `at` with its right neighbour, to id
} join;

typedef struct {
    double score;
    int32_t id, start; // start -1: nothing ends here yet
} path_end;

typedef struct {
    size_t key, n;       // in encoder.keys
    size_t first, count; // in encoder.cached
} known_stretch;

typedef struct {
    const ls_vocab *v;
    ls_ids *out;
    size_t piece_start; // in out: unknown tokens are fused only within a piece
    uint32_t asked;     // how often stops was
    bool stopped;       // what was encoded since is not whole
    ls_pretok_scratch pretok;
    symbol *sym;
    join *heap;
    size_t cap, n_heap;
    path_end *ends;
    size_t cap_ends;
    // stretches met before in this call: most words of a text repeat
    ls_map cache; // hash of the stretch -> index into entries
    known_stretch *entries;
    size_t n_entries;
    ls_buf keys;
    ls_ids cached;
} encoder;

// To be asked in every loop over a text.
static bool stops(encoder *e) {
    enum { EVERY = 4096 };
    if (++e->asked % EVERY == 0 && e->v->stop && e->v->stop(e->v->stop_ud)) e->stopped = true;
    return e->stopped;
}

// Fuses unknown tokens.
static void push_id(encoder *e, int32_t id) {
    const bool again = id == e->v->unk && e->out->n > e->piece_start && e->out->p[e->out->n - 1] == id;
    if (!again || !e->v->fuse_unk) ls_ids_push(e->out, id);
}

// Bytes, or the unknown token, or nothing.
static void push_unknown(encoder *e, const char *p, size_t n) {
    bool all = e->v->byte_fallback;
    for (size_t i = 0; i < n && all; i++) all = e->v->byte_id[(unsigned char)p[i]] >= 0;
    for (size_t i = 0; i < n && all; i++) push_id(e, e->v->byte_id[(unsigned char)p[i]]);
    if (!all && e->v->unk >= 0) push_id(e, e->v->unk);
}

// ---- Unigram: the segmentation with the greatest sum of scores, by Viterbi's algorithm. Reference: sentencepiece's
// unigram_model.cc (EncodeOptimized) and tokenizers' port of it.

static void reach(const ls_vocab *v, path_end *end, double score, int32_t id, size_t start) {
    if (v->sentencepiece) score = (double)(float)score;
    if (end->start >= 0 && !(score > end->score)) return;
    *end = (path_end){score, id, (int32_t)start};
}

static void encode_unigram(encoder *e, const char *p, size_t n) {
    const ls_vocab *v = e->v;
    if (n + 1 > e->cap_ends) {
        e->cap_ends = 2 * (n + 1);
        e->ends = ls_realloc(e->ends, e->cap_ends * sizeof *e->ends);
    }
    path_end *ends = e->ends;
    for (size_t i = 0; i <= n; i++) ends[i] = (path_end){0, -1, -1};
    for (size_t at = 0; at < n;) {
        if (stops(e)) return;
        const double score = ends[at].score;
        const size_t character = (size_t)ls_utf8_decode(p + at, n - at, NULL);
        bool single = false;
        int32_t node = 0;
        for (size_t i = at; i < n && (node = ls_trie_step(&v->pieces, node, p[i])) >= 0; i++) {
            const int32_t id = v->pieces.value.p[node];
            if (id < 0) continue;
            reach(v, &ends[i + 1], score + v->scores[id], id, at);
            single = single || i + 1 - at == character;
        }
        if (!single) reach(v, &ends[at + character], score + v->unk_score, -1, at);
        at += character;
    }
    // Viterbi gives the path from its end: link it backwards, then walk forwards with `start` as the next place
    size_t next = n;
    for (size_t at = n; at > 0;) {
        const size_t start = (size_t)ends[at].start;
        ends[at].start = (int32_t)next;
        next = at;
        at = start;
    }
    for (size_t at = 0, end = next; at < n;) {
        size_t unknown = end;
        while (unknown < n && ends[unknown].id < 0 && ends[ends[unknown].start].id < 0)
            unknown = (size_t)ends[unknown].start;
        if (ends[end].id >= 0) push_id(e, ends[end].id);
        else push_unknown(e, p + at, unknown - at);
        at = ends[end].id >= 0 ? end : unknown;
        end = (size_t)ends[at].start;
    }
}

// ---- byte-pair encoding: joins the pair of lowest rank in a piece first, the leftmost of equals

enum { CACHED_BYTES = 128 };

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

// The join of symbol `at` with its right neighbour; id -1: they do not join.
static join joined(const encoder *e, const char *p, int32_t at) {
    const symbol *a = &e->sym[at], *b = &e->sym[a->next];
    const ls_vocab *v = e->v;
    int32_t rank, id;
    if (v->kind == LS_SCORE_BPE) {
        if (a->n + b->n > v->longest) return (join){0, at, -1};
        id = ls_vocab_find(v, p + a->at, a->n + b->n);
        if (id < 0 || (v->types[id] != LS_NORMAL && v->types[id] != LS_USER_DEFINED)) return (join){0, at, -1};
        return (join){v->score_rank[id], at, id};
    }
    if (a->id < 0 || b->id < 0 || !ls_map_get(&v->merge_rank, ls_pair_key(a->id, b->id), &rank))
        return (join){0, at, -1};
    return (join){rank, at, v->merged_id[rank]};
}

static void offer(encoder *e, const char *p, int32_t at) {
    if (at < 0 || e->sym[at].next < 0) return;
    const join j = joined(e, p, at);
    if (j.id >= 0) heap_push(e, j);
}

static void merge(encoder *e, const char *p, size_t n) {
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
        e->sym[count] = (symbol){id, count - 1, count + 1, (uint32_t)i, (uint32_t)len};
        count++;
    }
    if (!count) return;
    e->sym[count - 1].next = -1;
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < count; i++) offer(e, p, i);
    while (e->n_heap && !stops(e)) {
        const join j = heap_pop(e);
        symbol *s = &e->sym[j.at];
        if (!s->n || s->next < 0 || joined(e, p, j.at).id != j.id) continue;
        symbol *gone = &e->sym[s->next];
        s->id = j.id;
        s->n += gone->n;
        s->next = gone->next;
        gone->n = 0;
        if (s->next >= 0) e->sym[s->next].prev = j.at;
        offer(e, p, s->prev);
        offer(e, p, j.at);
    }
    for (int32_t i = 0; i >= 0; i = e->sym[i].next) {
        const symbol *s = &e->sym[i];
        if (s->id >= 0) push_id(e, s->id);
        else push_unknown(e, p + s->at, s->n);
    }
}

// A stretch that nothing outside it can join.
static void stretch(encoder *e, const char *p, size_t n) {
    int32_t i;
    if (n > CACHED_BYTES) {
        merge(e, p, n);
        return;
    }
    const uint64_t h = ls_hash_bytes(p, n);
    const bool met = ls_map_get(&e->cache, h, &i);
    if (met && e->entries[i].n == n && !memcmp(e->keys.p + e->entries[i].key, p, n)) {
        for (size_t k = 0; k < e->entries[i].count; k++) push_id(e, e->cached.p[e->entries[i].first + k]);
        return;
    }
    const size_t first = e->out->n, piece_start = e->piece_start;
    e->piece_start = first; // the cached ids do not depend on the text before
    merge(e, p, n);
    e->piece_start = piece_start;
    const size_t count = e->out->n - first;
    if (!met) {
        e->entries = ls_grown(e->entries, e->n_entries, sizeof *e->entries);
        e->entries[e->n_entries] = (known_stretch){e->keys.n, n, e->cached.n, count};
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

static void encode_bpe(encoder *e, const char *p, size_t n) {
    const ls_vocab *v = e->v;
    const int32_t whole = v->whole ? whole_token(v, p, n) : -1;
    if (whole >= 0) {
        push_id(e, whole);
        return;
    }
    if (v->kind == LS_BYTE_BPE) {
        stretch(e, p, n);
        return;
    }
    size_t start = 0, kept_len;
    uint32_t last = 0, cp = 0;
    for (size_t at = 0; at < n && !stops(e);) {
        const int32_t kept = v->kept.value.n ? ls_trie_longest(&v->kept, p + at, n - at, &kept_len) : -1;
        const size_t len = (size_t)ls_utf8_decode(p + at, n - at, &cp);
        int32_t side_by_side;
        if (at > start && (kept >= 0 || !ls_map_get(&v->neighbours, (uint64_t)last << 32 | cp, &side_by_side))) {
            stretch(e, p + start, at - start);
            start = at;
        }
        if (kept >= 0) {
            push_id(e, kept);
            start = at += kept_len;
        } else {
            last = cp;
            at += len;
        }
    }
    if (n > start) stretch(e, p + start, n - start);
}

// ---- texts

static ls_code on_piece(void *ud, const char *piece, size_t n, ls_err *err) {
    encoder *e = ud;
    e->piece_start = e->out->n;
    if (e->v->kind == LS_UNIGRAM) encode_unigram(e, piece, n);
    else encode_bpe(e, piece, n);
    return stops(e) ? ls_fail(err, LS_E_CANCELLED, "interrupted while a text was tokenized") : LS_OK;
}

typedef struct {
    const char *p, *marks;
    size_t n;
} span;

// The bytes of the character that begins at p[at]; 0: none.
static size_t char_at(const char *p, size_t n, size_t at, uint32_t *cp) {
    const int len = at < n ? ls_utf8_decode(p + at, n - at, cp) : 0;
    return len > 0 ? (size_t)len : 0;
}

// The same of the one that ends there and begins at `from` or later.
static size_t char_before(const char *p, size_t from, size_t at, uint32_t *cp) {
    size_t i = at;
    while (i > from && (p[--i] & 0xC0) == 0x80) continue;
    return char_at(p, at, i, cp) ? at - i : 0;
}

// The longest added token that is allowed at `at`; its length in *len. NULL: none.
static const ls_added *added_at(const ls_vocab *v, const ls_trie *t, span s, size_t at, size_t *len) {
    const ls_added *found = NULL;
    int32_t node = 0;
    bool trusted = true;
    for (size_t i = at; i < s.n && (node = ls_trie_step(t, node, s.p[i])) >= 0; i++) {
        trusted = trusted && !(s.marks[i] & LS_MARK_TEXT);
        const int32_t k = t->value.p[node];
        if (k < 0 || v->added[k].id >= v->n || (v->added[k].special && !trusted)) continue;
        found = &v->added[k];
        *len = i + 1 - at;
    }
    return found;
}

typedef ls_code (*gap_fn)(encoder *e, span s, ls_err *err);

// Cuts the added tokens of t out of s; the gaps between them go to fn.
static ls_code cut(encoder *e, const ls_trie *t, span s, gap_fn fn, ls_err *err) {
    if (!t->value.n) return s.n ? fn(e, s, err) : LS_OK;
    size_t done = 0, len = 0;
    uint32_t cp = 0;
    ls_code code = LS_OK;
    for (size_t at = 0; at < s.n && !code;) {
        const ls_added *a = t->root[(unsigned char)s.p[at]] ? added_at(e->v, t, s, at, &len) : NULL;
        if (!a) {
            at++;
            continue;
        }
        size_t start = at, stop = at + len;
        at = stop;
        if (a->single_word &&
            ((char_before(s.p, 0, start, &cp) && ls_is_word(cp)) || (char_at(s.p, s.n, stop, &cp) && ls_is_word(cp))))
            continue;
        while (a->lstrip && (len = char_before(s.p, done, start, &cp)) && ls_is_space(cp)) start -= len;
        while (a->rstrip && (len = char_at(s.p, s.n, stop, &cp)) && ls_is_space(cp)) stop += len;
        if (start > done) code = fn(e, (span){s.p + done, s.marks + done, start - done}, err);
        if (!code) ls_ids_push(e->out, a->id);
        done = at = stop;
    }
    if (done < s.n && !code) code = fn(e, (span){s.p + done, s.marks + done, s.n - done}, err);
    return code;
}

static ls_code split(encoder *e, span s, ls_err *err) {
    return ls_pretok_split(e->v->pretok, &e->pretok, s.p, s.n, s.marks[0] & LS_MARK_FIRST, on_piece, e, err);
}

static ls_code normalise(encoder *e, span s, ls_err *err) {
    const ls_vocab *v = e->v;
    if (ls_normalizer_is_empty(v->normalizer)) return cut(e, &v->normalized, s, split, err);
    if (!e->pretok.regex) e->pretok.regex = ls_regex_scratch_new();
    ls_marked m = {0};
    ls_buf_add(&m.text, s.p, s.n);
    ls_buf_add(&m.marks, s.marks, s.n);
    ls_code code = LS_OK;
    if (!ls_normalize(v->normalizer, e->pretok.regex, &v->kept, &m))
        code = ls_fail(err, LS_E_RANGE, "the tokenizer's rules make a text of %zu bytes too long", s.n);
    else if (m.text.n) code = cut(e, &v->normalized, (span){m.text.p, m.marks.p, m.text.n}, split, err);
    ls_marked_free(&m);
    return code;
}

// Bytes that are not UTF-8 are a piece of their own and end the text before them.
static ls_code stretches(encoder *e, span s, ls_err *err) {
    ls_code code = LS_OK;
    for (size_t at = 0; at < s.n && !code;) {
        size_t valid = at;
        int len;
        while (valid < s.n && (len = ls_utf8_decode(s.p + valid, s.n - valid, NULL)) > 0) valid += (size_t)len;
        if (valid > at) code = normalise(e, (span){s.p + at, s.marks + at, valid - at}, err);
        size_t bad = valid;
        while (bad < s.n && ls_utf8_decode(s.p + bad, s.n - bad, NULL) <= 0) bad++;
        if (!code && bad > valid) code = on_piece(e, s.p + valid, bad - valid, err);
        at = bad;
    }
    return code;
}

// Only byte-level BPE can encode bytes that are not UTF-8.
static void prepare(const ls_vocab *v, ls_marked *m) {
    if (v->kind != LS_BYTE_BPE && !ls_utf8_valid(m->text.p, m->text.n)) {
        ls_marked good = {0};
        for (size_t at = 0; at < m->text.n;) {
            const int len = ls_utf8_decode(m->text.p + at, m->text.n - at, NULL);
            if (len > 0) ls_marked_add(&good, m->text.p + at, (size_t)len, m->marks.p[at]);
            else ls_marked_add(&good, "\uFFFD", 3, m->marks.p[at]);
            at += len > 0 ? (size_t)len : 1;
        }
        ls_marked_free(m);
        *m = good;
    }
    for (size_t i = 0; i < m->text.n && (!i || (m->text.p[i] & 0xC0) == 0x80); i++) m->marks.p[i] |= LS_MARK_FIRST;
}

static ls_code encode(const ls_vocab *v, ls_marked *text, ls_ids *out, ls_err *err) { // frees the text
    const size_t had = out->n, n = text->text.n;
    encoder e = {.v = v, .out = out};
    ls_code code = LS_OK;
    if (n > INT32_MAX / 8) code = ls_fail(err, LS_E_RANGE, "a text of %zu bytes is too long", n);
    else if (n) {
        prepare(v, text);
        code = cut(&e, &v->plain, (span){text->text.p, text->marks.p, text->text.n}, stretches, err);
    }
    if (code) out->n = had;
    ls_marked_free(text);
    ls_pretok_scratch_free(&e.pretok);
    free(e.sym);
    free(e.heap);
    free(e.ends);
    free(e.entries);
    ls_map_free(&e.cache);
    ls_buf_free(&e.keys);
    ls_ids_free(&e.cached);
    return code;
}

ls_code ls_encode_marked(const ls_vocab *v, const ls_marked *text, size_t from, ls_ids *out, ls_err *err) {
    ls_marked m = {0};
    if (from < text->text.n) ls_marked_slice(&m, text, from, text->text.n);
    return encode(v, &m, out, err);
}

ls_code ls_encode(const ls_vocab *v, const char *text, size_t n, bool parse_special, ls_ids *out, ls_err *err) {
    ls_marked m = {0};
    ls_marked_add(&m, text, n, parse_special ? 0 : LS_MARK_TEXT);
    return encode(v, &m, out, err);
}

// ---- decoding

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

void ls_detok_push(ls_detok *d, const char *bytes, size_t n, ls_buf *out) {
    for (size_t i = 0; i < n;) {
        d->pending[d->n_pending++] = bytes[i];
        const int len = ls_utf8_decode(d->pending, (size_t)d->n_pending, NULL);
        // invalid: the bytes before the last were a proper prefix, one maximal invalid part; the last starts anew
        i += len >= 0 || d->n_pending == 1;
        if (len < 0) ls_buf_str(out, replacement);
        else ls_buf_add(out, d->pending, (size_t)len);
        if (len) d->n_pending = 0;
    }
}

void ls_detok_flush(ls_detok *d, ls_buf *out) {
    if (d->n_pending) ls_buf_str(out, replacement);
    d->n_pending = 0;
}
