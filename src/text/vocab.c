#include "text/vocab_internal.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { CONTROL = 3, USER_DEFINED = 4 };

// GPT-2's byte alphabet (encoder.py, bytes_to_unicode): printable Latin-1 stands for itself, the others in
// order for U+0100 onwards. Fills cp_of[byte].
static void byte_alphabet(uint32_t cp_of[256]) {
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
        cp_of[b] = itself ? b : next++;
    }
}

int32_t ls_vocab_find(const ls_vocab *v, const char *raw, size_t n) {
    int32_t id;
    if (!ls_map_get(&v->by_raw, ls_hash_bytes(raw, n), &id)) return -1;
    return v->raw[id].n == n && !memcmp(v->raw[id].p, raw, n) ? id : -1;
}

static ls_code add_token(ls_vocab *v, int32_t id, ls_str raw, const int16_t byte_of[512], ls_err *err) {
    size_t start = v->bytes.n;
    v->starts[id] = start;
    if (!ls_utf8_valid(raw.p, raw.n)) return ls_fail(err, LS_E_PARSE, "token %d is not valid UTF-8", id);
    if (v->special[id]) ls_buf_add(&v->bytes, raw.p, raw.n);
    else
        for (size_t i = 0; i < raw.n;) {
            uint32_t cp = 0;
            i += (size_t)ls_utf8_decode(raw.p + i, raw.n - i, &cp);
            if (cp >= 512 || byte_of[cp] < 0)
                return ls_fail(err, LS_E_PARSE, "token %d ('%.*s') is not spelled in the byte alphabet", id,
                               (int)(raw.n < 40 ? raw.n : 40), raw.p);
            ls_buf_char(&v->bytes, (char)byte_of[cp]);
        }
    if (!raw.n) return LS_OK; // an empty token can never be produced by encoding
    if (ls_vocab_find(v, raw.p, raw.n) < 0) ls_map_put(&v->by_raw, ls_hash_bytes(raw.p, raw.n), id);
    if (v->special[id]) ls_ids_push(&v->specials, id);
    else if (v->bytes.n == start + 1) v->byte_id[(unsigned char)v->bytes.p[start]] = id;
    return LS_OK;
}

static ls_code add_merge(ls_vocab *v, size_t rank, ls_str m, ls_err *err) {
    const char *space = m.n > 2 ? memchr(m.p + 1, ' ', m.n - 1) : NULL;
    int32_t left = -1, right = -1, joined = -1;
    char both[512];
    if (space && m.n <= sizeof both) {
        size_t nl = (size_t)(space - m.p), nr = m.n - nl - 1;
        left = ls_vocab_find(v, m.p, nl);
        right = ls_vocab_find(v, space + 1, nr);
        memcpy(both, m.p, nl);
        memcpy(both + nl, space + 1, nr);
        joined = ls_vocab_find(v, both, nl + nr);
    }
    if (left < 0 || right < 0 || joined < 0)
        return ls_fail(err, LS_E_PARSE, "merge %zu ('%.*s') names tokens that the vocabulary lacks", rank,
                       (int)(m.n < 60 ? m.n : 60), m.p);
    int32_t other;
    uint64_t key = ls_pair_key(left, right);
    if (!ls_map_get(&v->merge_rank, key, &other)) ls_map_put(&v->merge_rank, key, (int32_t)rank);
    v->merged_id[rank] = joined;
    return LS_OK;
}

// Longest first, so that at one place the longest spelling wins.
static void sort_specials(ls_vocab *v) {
    for (size_t i = 1; i < v->specials.n; i++)
        for (size_t j = i; j > 0 && v->raw[v->specials.p[j]].n > v->raw[v->specials.p[j - 1]].n; j--) {
            int32_t t = v->specials.p[j];
            v->specials.p[j] = v->specials.p[j - 1];
            v->specials.p[j - 1] = t;
        }
}

ls_code ls_vocab_new(ls_vocab **out, const ls_vocab_source *src, ls_err *err) {
    *out = NULL;
    if (src->n_tokens < 1 || src->n_tokens >= INT32_MAX / 2 || src->n_merges >= INT32_MAX / 2)
        return ls_fail(err, LS_E_RANGE, "a vocabulary of %zu tokens and %zu merges", src->n_tokens, src->n_merges);
    ls_vocab *v = ls_calloc(1, sizeof *v);
    v->n = (int32_t)src->n_tokens;
    v->bos = src->bos;
    v->eos = src->eos;
    v->starts = ls_calloc(src->n_tokens + 1, sizeof *v->starts);
    v->special = ls_calloc(src->n_tokens, 1);
    v->merged_id = ls_calloc(src->n_merges, sizeof *v->merged_id);
    v->raw = ls_calloc(src->n_tokens, sizeof *v->raw);
    uint32_t cp_of[256];
    int16_t byte_of[512];
    byte_alphabet(cp_of);
    memset(byte_of, -1, sizeof byte_of);
    for (int b = 0; b < 256; b++) {
        byte_of[cp_of[b]] = (int16_t)b;
        v->byte_id[b] = -1;
    }
    ls_code code = ls_pretok_new(&v->pretok, src->pre, err);
    for (size_t i = 0; i < src->n_tokens; i++) ls_buf_add(&v->raw_bytes, src->tokens[i].p, src->tokens[i].n);
    for (size_t i = 0, at = 0; i < src->n_tokens; at += src->tokens[i++].n)
        v->raw[i] = (ls_str){v->raw_bytes.p + at, src->tokens[i].n};
    for (int32_t i = 0; i < v->n && !code; i++) {
        v->special[i] = src->types[i] == CONTROL || src->types[i] == USER_DEFINED;
        code = add_token(v, i, v->raw[i], byte_of, err);
    }
    v->starts[v->n] = v->bytes.n;
    for (size_t i = 0; i < src->n_merges && !code; i++) code = add_merge(v, i, src->merges[i], err);
    if (code) {
        ls_vocab_free(v);
        return code;
    }
    sort_specials(v);
    *out = v;
    return LS_OK;
}

void ls_vocab_free(ls_vocab *v) {
    if (!v) return;
    ls_pretok_free(v->pretok);
    ls_buf_free(&v->bytes);
    ls_buf_free(&v->raw_bytes);
    ls_map_free(&v->by_raw);
    ls_map_free(&v->merge_rank);
    ls_ids_free(&v->specials);
    free(v->starts);
    free(v->special);
    free(v->merged_id);
    free(v->raw);
    free(v);
}

int32_t ls_vocab_size(const ls_vocab *v) {
    return v->n;
}
uint64_t ls_vocab_id(const ls_vocab *v) {
    const uint64_t parts[] = {ls_hash_bytes(v->bytes.p, v->bytes.n),
                              ls_hash_bytes(v->starts, ((size_t)v->n + 1) * sizeof *v->starts),
                              ls_hash_bytes(v->special, (size_t)v->n)};
    return ls_hash_bytes(parts, sizeof parts);
}

int32_t ls_vocab_eos(const ls_vocab *v) {
    return v->eos;
}

int32_t ls_vocab_bos(const ls_vocab *v) {
    return v->bos;
}

const char *ls_vocab_bytes(const ls_vocab *v, int32_t id, size_t *n) {
    if (id < 0 || id >= v->n || !v->bytes.p) {
        *n = 0;
        return "";
    }
    *n = v->starts[id + 1] - v->starts[id];
    return v->bytes.p + v->starts[id];
}

bool ls_vocab_is_special(const ls_vocab *v, int32_t id) {
    return id >= 0 && id < v->n && v->special[id];
}

int32_t ls_vocab_special(const ls_vocab *v, const char *s, size_t n) {
    int32_t id = ls_vocab_find(v, s, n);
    return id >= 0 && v->special[id] ? id : -1;
}
