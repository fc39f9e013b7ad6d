// Text to ids: cuts out added tokens; normalises the text between them, splits it into pieces and encodes them.
// Reference: Hugging Face tokenizers' added_vocabulary.rs (extract_and_normalize).
#include "base/mem.h"
#include "base/utf8.h"
#include "text/vocab_internal.h"

#include <stdlib.h>
#include <string.h>

bool ls_encode_stops(ls_encoder *e) {
    enum { EVERY = 4096 };
    if (++e->asked % EVERY == 0 && e->v->stop && e->v->stop(e->v->stop_ud)) e->stopped = true;
    return e->stopped;
}

void ls_push_id(ls_encoder *e, int32_t id) {
    const bool again = id == e->v->unk && e->out->n > e->piece_start && e->out->p[e->out->n - 1] == id;
    if (!again || !e->v->fuse_unk) ls_ids_push(e->out, id);
}

void ls_push_unknown(ls_encoder *e, const char *p, size_t n) {
    bool all = e->v->byte_fallback;
    for (size_t i = 0; i < n && all; i++) all = e->v->byte_id[(unsigned char)p[i]] >= 0;
    for (size_t i = 0; i < n && all; i++) ls_push_id(e, e->v->byte_id[(unsigned char)p[i]]);
    if (!all && e->v->unk >= 0) ls_push_id(e, e->v->unk);
}

static ls_code on_piece(void *ud, const char *piece, size_t n, ls_err *err) {
    ls_encoder *e = ud;
    e->piece_start = e->out->n;
    if (e->v->kind == LS_UNIGRAM) ls_unigram_encode(e, piece, n);
    else ls_bpe_encode(e, piece, n);
    return ls_encode_stops(e) ? ls_fail(err, LS_E_CANCELLED, "interrupted while a text was tokenized") : LS_OK;
}

typedef struct {
    const char *p, *marks;
    size_t n;
} span;

static bool word_before(const char *p, size_t at) {
    size_t i = at;
    while (i && (p[i - 1] & 0xC0) == 0x80) i--;
    uint32_t cp = 0;
    return i && ls_utf8_decode(p + i - 1, at - i + 1, &cp) > 0 && ls_is_word(cp);
}

static bool word_at(const char *p, size_t n, size_t at) {
    uint32_t cp = 0;
    return at < n && ls_utf8_decode(p + at, n - at, &cp) > 0 && ls_is_word(cp);
}

static size_t blanks_before(const char *p, size_t at, size_t limit) {
    while (at > limit) {
        size_t i = at - 1;
        uint32_t cp = 0;
        while (i > limit && (p[i] & 0xC0) == 0x80) i--;
        if (ls_utf8_decode(p + i, at - i, &cp) <= 0 || !ls_is_space(cp)) break;
        at = i;
    }
    return at;
}

static size_t blanks_after(const char *p, size_t n, size_t at) {
    uint32_t cp = 0;
    int len;
    while (at < n && (len = ls_utf8_decode(p + at, n - at, &cp)) > 0 && ls_is_space(cp)) at += (size_t)len;
    return at;
}

// The longest added token that is allowed at `at`; its length in *len. NULL: none.
static const ls_added *added_at(const ls_vocab *v, const ls_trie *t, span s, size_t at, size_t *len) {
    const ls_added *found = NULL;
    int32_t node = 0;
    bool trusted = true;
    for (size_t i = at; i < s.n && (node = ls_trie_step(t, node, s.p[i])) >= 0; i++) {
        trusted = trusted && s.marks[i] & LS_MARK_TRUSTED;
        const int32_t k = t->value.p[node];
        if (k < 0 || v->added[k].id >= v->n || (v->added[k].special && !trusted)) continue;
        found = &v->added[k];
        *len = i + 1 - at;
    }
    return found;
}

typedef ls_code (*gap_fn)(ls_encoder *e, span s, ls_err *err);

// Cuts the added tokens of t out of s; the gaps between them go to fn.
static ls_code cut(ls_encoder *e, const ls_trie *t, span s, gap_fn fn, ls_err *err) {
    if (!t->value.n) return s.n ? fn(e, s, err) : LS_OK;
    size_t done = 0, len = 0;
    ls_code code = LS_OK;
    for (size_t at = 0; at < s.n && !code;) {
        const ls_added *a = t->root[(unsigned char)s.p[at]] ? added_at(e->v, t, s, at, &len) : NULL;
        if (!a) {
            at++;
            continue;
        }
        size_t start = at, stop = at + len;
        at = stop;
        if (a->single_word && (word_before(s.p, start) || word_at(s.p, s.n, stop))) continue;
        if (a->lstrip) start = blanks_before(s.p, start, done);
        if (a->rstrip) stop = blanks_after(s.p, s.n, stop);
        if (start > done) code = fn(e, (span){s.p + done, s.marks + done, start - done}, err);
        if (!code) ls_ids_push(e->out, a->id);
        done = at = stop;
    }
    if (done < s.n && !code) code = fn(e, (span){s.p + done, s.marks + done, s.n - done}, err);
    return code;
}

static ls_code split(ls_encoder *e, span s, ls_err *err) {
    return ls_pretok_split(e->v->pretok, &e->pretok, s.p, s.n, s.marks[0] & LS_MARK_FIRST, on_piece, e, err);
}

static ls_code normalise(ls_encoder *e, span s, ls_err *err) {
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
static ls_code stretches(ls_encoder *e, span s, ls_err *err) {
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

// The parts as one text. Only byte-level BPE can encode bytes that are not UTF-8.
static void gather(const ls_vocab *v, const ls_text_part *parts, size_t n_parts, ls_marked *out) {
    for (size_t i = 0; i < n_parts; i++) {
        const char mark = parts[i].trusted ? LS_MARK_TRUSTED : 0;
        if (parts[i].n) ls_marked_add(out, parts[i].p, parts[i].n, mark);
    }
    if (v->kind != LS_BYTE_BPE && !ls_utf8_valid(out->text.n ? out->text.p : "", out->text.n)) {
        ls_marked good = {0};
        for (size_t at = 0; at < out->text.n;) {
            const int len = ls_utf8_decode(out->text.p + at, out->text.n - at, NULL);
            if (len > 0) ls_marked_add(&good, out->text.p + at, (size_t)len, out->marks.p[at]);
            else ls_marked_add(&good, "\uFFFD", 3, out->marks.p[at]);
            at += len > 0 ? (size_t)len : 1;
        }
        ls_marked_free(out);
        *out = good;
    }
    for (size_t i = 0; i < out->text.n && (!i || (out->text.p[i] & 0xC0) == 0x80); i++)
        out->marks.p[i] |= LS_MARK_FIRST;
}

ls_code ls_encode_parts(const ls_vocab *v, const ls_text_part *parts, size_t n_parts, ls_ids *out, ls_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < n_parts; i++) {
        n += parts[i].n;
        if (n > INT32_MAX / 8 || parts[i].n > INT32_MAX / 8)
            return ls_fail(err, LS_E_RANGE, "a text of %zu bytes is too long", n);
    }
    const size_t had = out->n;
    ls_encoder e = {.v = v, .out = out};
    ls_marked text = {0};
    gather(v, parts, n_parts, &text);
    ls_code code = LS_OK;
    if (text.text.n) code = cut(&e, &v->plain, (span){text.text.p, text.marks.p, text.text.n}, stretches, err);
    if (code) out->n = had;
    ls_marked_free(&text);
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

ls_code ls_encode(const ls_vocab *v, const char *text, size_t n, bool parse_special, ls_ids *out, ls_err *err) {
    return ls_encode_parts(v, &(ls_text_part){text, n, parse_special}, 1, out, err);
}
