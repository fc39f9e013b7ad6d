#include "text/tokenizer_config.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double UNKNOWN_PENALTY = 10; // sentencepiece's kUnkPenalty, below the worst score

// GPT-2's byte alphabet (encoder.py, bytes_to_unicode): printable Latin-1 stands for itself, the others in
// order for U+0100 onwards. Fills cp_of[byte].
void ls_byte_alphabet(uint32_t cp_of[256]) {
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
        cp_of[b] = itself ? b : next++;
    }
}

int32_t ls_vocab_find(const ls_vocab *v, const char *raw, size_t n) {
    int32_t id;
    if (!ls_map_get(&v->by_raw, ls_hash_bytes(raw, n), &id)) return -1;
    return id < v->n && v->raw[id].n == n && !memcmp(v->raw[id].p, raw, n) ? id : -1;
}

static int hex_byte(ls_str s) { // <0x0A>; -1: another spelling
    static const char digits[] = "0123456789ABCDEF";
    if (s.n != 6 || memcmp(s.p, "<0x", 3) || s.p[5] != '>' || !s.p[3] || !s.p[4]) return -1;
    const char *high = strchr(digits, s.p[3]), *low = strchr(digits, s.p[4]);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

static void add_bytes_of(ls_vocab *v, int32_t id, bool as_spelled, const int16_t byte_of[512]) {
    const ls_str raw = v->raw[id];
    const size_t start = v->bytes.n;
    if (as_spelled) ls_buf_add(&v->bytes, raw.p, raw.n);
    else if (v->kind == LS_BYTE_BPE) {
        for (size_t i = 0; i < raw.n;) {
            uint32_t cp = 0;
            i += (size_t)ls_utf8_decode(raw.p + i, raw.n - i, &cp);
            if (cp >= 512 || byte_of[cp] < 0) { // not in the alphabet: no text encodes to it, and it decodes to itself
                v->bytes.n = start;
                ls_buf_add(&v->bytes, raw.p, raw.n);
                return;
            }
            ls_buf_char(&v->bytes, (char)byte_of[cp]);
        }
        if (v->types[id] == LS_NORMAL && v->bytes.n == start + 1) {
            int32_t *one = &v->byte_id[(unsigned char)v->bytes.p[start]];
            if (*one < 0) *one = id;
        }
    } else if (v->types[id] == LS_BYTE || (v->byte_fallback && v->types[id] == LS_NORMAL && hex_byte(raw) >= 0)) {
        const int b = hex_byte(raw);
        if (b < 0) ls_buf_add(&v->bytes, raw.p, raw.n);
        else {
            ls_buf_char(&v->bytes, (char)b);
            v->byte_id[b] = id;
        }
    } else
        for (size_t i = 0; i < raw.n;) {
            const bool space = v->spaces && raw.n - i >= 3 && !memcmp(raw.p + i, "\u2581", 3);
            ls_buf_char(&v->bytes, space ? ' ' : raw.p[i]);
            i += space ? 3 : 1;
        }
}

static ls_code add_tokens(ls_vocab *v, const ls_vocab_source *src, ls_err *err) {
    uint32_t cp_of[256];
    int16_t byte_of[512];
    ls_byte_alphabet(cp_of);
    memset(byte_of, -1, sizeof byte_of);
    for (int b = 0; b < 256; b++) {
        byte_of[cp_of[b]] = (int16_t)b;
        v->byte_id[b] = -1;
        v->spelled[b][2] = (char)ls_utf8_encode(cp_of[b], v->spelled[b]);
    }
    for (size_t i = 0; i < src->n_tokens; i++) ls_buf_add(&v->raw_bytes, src->tokens[i].p, src->tokens[i].n);
    uint8_t *as_spelled = ls_calloc(src->n_tokens, 1);
    for (size_t i = 0; i < src->n_added; i++) {
        as_spelled[src->added[i].id] = 1;
        v->special[src->added[i].id] = src->added[i].special;
    }
    ls_code code = LS_OK;
    size_t at = 0;
    for (int32_t i = 0; i < v->n && !code; i++) {
        v->raw[i] = (ls_str){v->raw_bytes.p + at, src->tokens[i].n};
        at += src->tokens[i].n;
        v->types[i] = (uint8_t)(src->types[i] >= LS_NORMAL && src->types[i] <= LS_BYTE ? src->types[i] : LS_UNUSED);
        if (v->types[i] == LS_CONTROL || v->types[i] == LS_UNKNOWN) v->special[i] = as_spelled[i] = 1;
        v->starts[i] = v->bytes.n;
        if (!ls_utf8_valid(v->raw[i].n ? v->raw[i].p : "", v->raw[i].n))
            code = ls_fail(err, LS_E_PARSE, "token %d is not valid UTF-8", i);
        else if (v->raw[i].n) { // an empty token can never be produced by encoding
            add_bytes_of(v, i, as_spelled[i], byte_of);
            if (ls_vocab_find(v, v->raw[i].p, v->raw[i].n) < 0)
                ls_map_put(&v->by_raw, ls_hash_bytes(v->raw[i].p, v->raw[i].n), i);
            if (v->raw[i].n > v->longest) v->longest = v->raw[i].n;
        }
    }
    v->starts[v->n] = v->bytes.n;
    free(as_spelled);
    return code;
}

bool ls_merge_halves(ls_str m, ls_str halves[2]) {
    const char *space = m.n > 2 ? memchr(m.p + 1, ' ', m.n - 1) : NULL;
    if (!space) return false;
    halves[0] = (ls_str){m.p, (size_t)(space - m.p)};
    halves[1] = (ls_str){space + 1, m.n - halves[0].n - 1};
    return true;
}

static ls_code add_merge(ls_vocab *v, size_t rank, const ls_str m[2], ls_err *err) {
    char both[1024];
    int32_t left = -1, right = -1, joined = -1;
    if (m[0].n && m[1].n && m[0].n + m[1].n <= sizeof both) {
        left = ls_vocab_find(v, m[0].p, m[0].n);
        right = ls_vocab_find(v, m[1].p, m[1].n);
        memcpy(both, m[0].p, m[0].n);
        memcpy(both + m[0].n, m[1].p, m[1].n);
        joined = ls_vocab_find(v, both, m[0].n + m[1].n);
    }
    if (left < 0 || right < 0 || joined < 0)
        return ls_fail(err, LS_E_PARSE, "merge %zu ('%.*s %.*s') names tokens that are not in the vocabulary", rank,
                       (int)(m[0].n < 30 ? m[0].n : 30), m[0].n ? m[0].p : "", (int)(m[1].n < 30 ? m[1].n : 30),
                       m[1].n ? m[1].p : "");
    ls_map_put(&v->merge_rank, ls_pair_key(left, right), (int32_t)rank);
    v->merged_id[rank] = joined;
    return LS_OK;
}

static int by_score(const void *a, const void *b, void *scores) {
    const double x = ((const double *)scores)[*(const int32_t *)a], y = ((const double *)scores)[*(const int32_t *)b];
    return x > y ? -1 : x < y;
}

static void rank_scores(ls_vocab *v, const double *scores) {
    v->score_rank = ls_calloc((size_t)v->n, sizeof *v->score_rank);
    int32_t *order = ls_calloc((size_t)v->n, sizeof *order);
    for (int32_t i = 0; i < v->n; i++) order[i] = i;
    qsort_r(order, (size_t)v->n, sizeof *order, by_score, (void *)scores);
    for (int32_t i = 1; i < v->n; i++)
        v->score_rank[order[i]] = scores[order[i]] == scores[order[i - 1]] ? v->score_rank[order[i - 1]] : i;
    free(order);
}

static bool in_text(const ls_vocab *v, int32_t id) { // the model itself may encode text to it
    return v->raw[id].n && (v->types[id] == LS_NORMAL || v->types[id] == LS_USER_DEFINED);
}

static void add_neighbours(ls_vocab *v, ls_str s) {
    uint32_t last = 0, cp = 0;
    for (size_t i = 0; i < s.n; last = cp) {
        const size_t at = i;
        i += (size_t)ls_utf8_decode(s.p + i, s.n - i, &cp);
        if (at) ls_map_put(&v->neighbours, (uint64_t)last << 32 | cp, 1);
    }
}

static ls_code add_scores(ls_vocab *v, const ls_vocab_source *src, ls_err *err) {
    for (int32_t i = 0; i < v->n; i++)
        if (!isfinite(src->scores[i])) return ls_fail(err, LS_E_PARSE, "token %d has no finite score", i);
    if (v->kind == LS_SCORE_BPE) {
        rank_scores(v, src->scores);
        return LS_OK;
    }
    v->scores = ls_calloc((size_t)v->n, sizeof *v->scores);
    double worst = INFINITY;
    for (int32_t i = 0; i < v->n; i++) {
        v->scores[i] = src->scores[i];
        if (!in_text(v, i)) continue;
        ls_trie_add(&v->pieces, v->raw[i].p, v->raw[i].n, i);
        if (v->sentencepiece && v->types[i] != LS_NORMAL) continue;
        worst = fmin(worst, src->scores[i]);
    }
    v->unk_score = v->sentencepiece ? (double)((float)worst - (float)UNKNOWN_PENALTY) : worst - UNKNOWN_PENALTY;
    return LS_OK;
}

static ls_code add_added(ls_vocab *v, const ls_vocab_source *src, ls_err *err) {
    ls_code code = LS_OK;
    v->added = ls_calloc(src->n_added + 1, sizeof *v->added);
    v->n_added = src->n_added;
    ls_regex_scratch *scratch = ls_regex_scratch_new();
    for (size_t i = 0; i < src->n_added && !code; i++) {
        v->added[i] = src->added[i];
        const ls_str s = v->raw[src->added[i].id];
        if (!src->added[i].normalized) {
            ls_trie_add(&v->plain, s.p, s.n, (int32_t)i);
            continue;
        }
        ls_marked m = {0};
        ls_marked_add(&m, s.p, s.n, 0);
        if (!ls_normalize(v->normalizer, scratch, NULL, &m) || m.text.n > 16 * s.n + 64)
            code = ls_fail(err, LS_E_RANGE, "the tokenizer's rules make token %d too long", src->added[i].id);
        else if (m.text.n) ls_trie_add(&v->normalized, m.text.p, m.text.n, (int32_t)i);
        ls_marked_free(&m);
    }
    ls_regex_scratch_free(scratch);
    return code;
}

// Once, because it takes about a millisecond.
static void identify(ls_vocab *v) {
    const uint64_t parts[] = {ls_hash_bytes(v->bytes.p, v->bytes.n),
                              ls_hash_bytes(v->starts, ((size_t)v->n + 1) * sizeof *v->starts),
                              ls_hash_bytes(v->special, (size_t)v->n)};
    v->id = ls_hash_bytes(parts, sizeof parts);
}

ls_vocab *ls_vocab_begin(void) {
    ls_vocab *v = ls_calloc(1, sizeof *v);
    v->eos = v->unk = -1;
    v->normalizer = ls_normalizer_new();
    v->pretok = ls_pretok_new();
    return v;
}

ls_code ls_vocab_build(ls_vocab *v, const ls_vocab_source *src, const ls_str (*merges)[2], ls_err *err) {
    if (src->n_tokens < 1 || src->n_tokens >= INT32_MAX / 2 || src->n_merges >= INT32_MAX / 2)
        return ls_fail(err, LS_E_RANGE, "a vocabulary of %zu tokens and %zu merges is not supported", src->n_tokens,
                       src->n_merges);
    v->n = (int32_t)src->n_tokens;
    v->starts = ls_calloc(src->n_tokens + 1, sizeof *v->starts);
    v->special = ls_calloc(src->n_tokens, 1);
    v->types = ls_calloc(src->n_tokens, 1);
    v->raw = ls_calloc(src->n_tokens, sizeof *v->raw);
    v->merged_id = ls_calloc(src->n_merges, sizeof *v->merged_id);
    ls_code code = add_tokens(v, src, err);
    for (size_t i = 0; i < src->n_merges && !code; i++) code = add_merge(v, i, merges[i], err);
    if (!code && src->scores) code = add_scores(v, src, err);
    if (!code) code = add_added(v, src, err);
    if (code) return code;
    for (int32_t i = 0; i < v->n; i++) {
        if (v->kind != LS_BYTE_BPE && v->kind != LS_UNIGRAM && in_text(v, i)) add_neighbours(v, v->raw[i]);
        if (v->sentencepiece && v->types[i] == LS_USER_DEFINED) ls_trie_add(&v->kept, v->raw[i].p, v->raw[i].n, i);
    }
    ls_vocab_add_end(v, v->eos);
    identify(v);
    return LS_OK;
}

// Tokens as the escaped text spells them. A tokenizer.model has U+2581 for the blanks of a user-defined symbol, and the
// same symbol in a GGUF file has plain blanks. `spelled` owns what differs.
static ls_str *tokens_as_escaped(const ls_vocab_source *src, ls_buf *spelled) {
    ls_str *tokens = ls_calloc(src->n_tokens, sizeof *tokens);
    size_t most = 0, used = 0;
    for (size_t i = 0; i < src->n_tokens; i++)
        if (src->types[i] == LS_USER_DEFINED) most += 3 * src->tokens[i].n;
    ls_buf_room(spelled, most); // so that it does not move
    for (size_t i = 0; i < src->n_tokens; i++, used = spelled->n) {
        const ls_str t = tokens[i] = src->tokens[i];
        if (!src->rules.escape || src->types[i] != LS_USER_DEFINED || !t.n || !memchr(t.p, ' ', t.n)) continue;
        for (size_t k = 0; k < t.n; k++)
            if (t.p[k] == ' ') ls_buf_add(spelled, "\u2581", 3);
            else ls_buf_char(spelled, t.p[k]);
        tokens[i] = (ls_str){spelled->p + used, spelled->n - used};
    }
    return tokens;
}

// Sets up the steps of a pre-tokenizer's name. merges has room for src->n_merges, added for src->n_tokens.
static ls_code with_merges(ls_vocab *v, ls_vocab_source *src, ls_str (*merges)[2], ls_added *added, ls_err *err) {
    const unsigned traits = ls_pretok_traits(src->pre);
    const bool chars = traits & LS_PRE_CHARS;
    v->kind = chars ? LS_CHAR_BPE : LS_BYTE_BPE;
    v->whole = traits & LS_PRE_WHOLE;
    v->fuse_unk = v->spaces = chars;
    if (!chars) v->unk = -1;
    src->added = added;
    src->n_added = 0;
    for (size_t i = 0; i < src->n_merges; i++)
        if (!ls_merge_halves(src->merges[i], merges[i])) merges[i][0] = src->merges[i]; // no token has this name
    for (size_t i = 0; i < src->n_tokens; i++) {
        if (src->types[i] >= LS_UNKNOWN && src->types[i] <= LS_USER_DEFINED)
            added[src->n_added++] = (ls_added){.id = (int32_t)i, .special = src->types[i] != LS_USER_DEFINED};
        v->byte_fallback = v->byte_fallback || (chars && src->types[i] == LS_BYTE);
    }
    ls_code code = ls_pretok_named(v->pretok, src->pre, err);
    if (!code && traits & LS_PRE_NFC) code = ls_normalizer_add_form(v->normalizer, LS_NFC, err);
    if (!code && chars) code = ls_normalizer_add_replace(v->normalizer, " ", 1, LS_REGEX_LITERAL, "\u2581", 3, err);
    return code;
}

// The same for sentencepiece's rules; added has room for src->n_added + src->n_tokens.
static ls_code with_scores(ls_vocab *v, ls_vocab_source *src, ls_added *added, ls_err *err) {
    uint8_t *listed = ls_calloc(src->n_tokens, 1);
    v->kind = src->unigram ? LS_UNIGRAM : LS_SCORE_BPE;
    v->byte_fallback = src->byte_fallback;
    v->fuse_unk = v->sentencepiece = true;
    v->spaces = src->rules.escape;
    for (size_t i = 0; i < src->n_added; i++) {
        added[i] = src->added[i];
        listed[added[i].id] = 1;
    }
    src->added = added;
    for (size_t i = 0; i < src->n_tokens; i++)
        if (!listed[i] && (src->types[i] == LS_CONTROL || src->types[i] == LS_UNKNOWN))
            added[src->n_added++] = (ls_added){.id = (int32_t)i, .special = true};
    free(listed);
    return ls_normalizer_add_sentencepiece(v->normalizer, &src->rules, err);
}

ls_code ls_vocab_new(ls_vocab **out, const ls_vocab_source *of, ls_err *err) {
    ls_vocab_source src = *of;
    ls_buf spelled = {0};
    ls_str *tokens = src.pre ? NULL : tokens_as_escaped(of, &spelled),
           (*merges)[2] = ls_calloc(src.n_merges, sizeof *merges);
    ls_added *added = ls_calloc(src.n_tokens + src.n_added, sizeof *added);
    ls_vocab *v = ls_vocab_begin();
    *out = NULL;
    if (tokens) src.tokens = tokens;
    v->eos = src.eos;
    if (!src.bare && src.bos >= 0) ls_ids_push(&v->prefix, src.bos);
    if (src.ended && src.eos >= 0) ls_ids_push(&v->suffix, src.eos);
    ls_buf_str(&v->variables, src.variables ? src.variables : "{}");
    for (size_t i = src.n_tokens; i-- > 0;)
        if (src.types[i] == LS_UNKNOWN) v->unk = (int32_t)i; // the first
    ls_code code = src.pre ? with_merges(v, &src, merges, added, err) : with_scores(v, &src, added, err);
    if (!code) code = ls_vocab_build(v, &src, (const ls_str(*)[2])merges, err);
    if (code) ls_vocab_free(v);
    else *out = v;
    free(merges);
    free(added);
    free(tokens);
    ls_buf_free(&spelled);
    return code;
}

void ls_vocab_stop(ls_vocab *v, bool (*stop)(void *ud), void *ud) {
    v->stop = stop;
    v->stop_ud = ud;
}

void ls_vocab_free(ls_vocab *v) {
    if (!v) return;
    ls_pretok_free(v->pretok);
    ls_normalizer_free(v->normalizer);
    ls_buf_free(&v->bytes);
    ls_buf_free(&v->raw_bytes);
    ls_map_free(&v->by_raw);
    ls_map_free(&v->merge_rank);
    ls_map_free(&v->neighbours);
    ls_trie_free(&v->pieces);
    ls_trie_free(&v->kept);
    ls_trie_free(&v->plain);
    ls_trie_free(&v->normalized);
    ls_map_free(&v->ends);
    ls_ids_free(&v->prefix);
    ls_ids_free(&v->suffix);
    ls_buf_free(&v->variables);
    free(v->starts);
    free(v->special);
    free(v->types);
    free(v->merged_id);
    free(v->score_rank);
    free(v->scores);
    free(v->added);
    free(v->raw);
    free(v);
}

const char *ls_vocab_kind(const ls_vocab *v) {
    static const char *const names[] = {"byte-level BPE", "BPE over characters", "sentencepiece BPE", "Unigram"};
    return names[v->kind];
}

int32_t ls_vocab_size(const ls_vocab *v) {
    return v->n;
}
const ls_ids *ls_vocab_prefix(const ls_vocab *v) {
    return &v->prefix;
}
const ls_ids *ls_vocab_suffix(const ls_vocab *v) {
    return &v->suffix;
}
const char *ls_vocab_variables(const ls_vocab *v) {
    return v->variables.p;
}
int32_t ls_vocab_eos(const ls_vocab *v) {
    return v->eos;
}

bool ls_vocab_is_end(const ls_vocab *v, int32_t id) {
    int32_t yes;
    return ls_map_get(&v->ends, (uint64_t)id, &yes);
}

ls_eos_set ls_vocab_ends(const ls_vocab *v) {
    ls_eos_set e = {0};
    for (size_t i = 0; i < v->ends.cap; i++)
        if (v->ends.slots[i].used) ls_eos_set_add(&e, (int32_t)v->ends.slots[i].key);
    return e;
}

void ls_vocab_add_end(ls_vocab *v, int32_t id) {
    if (v->eos < 0 && id >= 0 && id < v->n) v->eos = id;
    if (id >= 0 && id < v->n) ls_map_put(&v->ends, (uint64_t)id, 1);
}

static void forget_beyond(ls_trie *t, int32_t n_rows) {
    for (size_t i = 0; i < t->value.n; i++)
        if (t->value.p[i] >= n_rows) t->value.p[i] = -1;
}

static void drop_beyond(ls_ids *ids, int32_t n_rows) {
    size_t kept = 0;
    for (size_t i = 0; i < ids->n; i++)
        if (ids->p[i] < n_rows) ids->p[kept++] = ids->p[i];
    ids->n = kept;
}

ls_code ls_vocab_pad(ls_vocab *v, int32_t n_rows, ls_err *err) {
    if (n_rows < v->n) { // drops added tokens without a row (a [PAD] of a fine-tune, a place for pictures)
        int32_t beyond = 0;
        for (size_t i = 0; i < v->n_added; i++) beyond += v->added[i].id >= n_rows;
        if (n_rows < 1 || beyond != v->n - n_rows || v->eos >= n_rows || v->unk >= n_rows)
            return ls_fail(err, LS_E_PARSE, "the vocabulary has %d tokens, but the embedding has only %d rows", v->n,
                           n_rows);
        drop_beyond(&v->prefix, n_rows);
        drop_beyond(&v->suffix, n_rows);
        forget_beyond(&v->pieces, n_rows);
        forget_beyond(&v->kept, n_rows);
    } else {
        const size_t n = (size_t)n_rows;
        v->starts = ls_realloc(v->starts, (n + 1) * sizeof *v->starts);
        v->special = ls_realloc(v->special, n);
        v->types = ls_realloc(v->types, n);
        v->raw = ls_realloc(v->raw, n * sizeof *v->raw);
        for (size_t i = (size_t)v->n; i < n; i++) {
            v->starts[i + 1] = v->bytes.n;
            v->special[i] = 1;
            v->types[i] = LS_UNUSED;
            v->raw[i] = (ls_str){NULL, 0};
        }
    }
    v->n = n_rows;
    identify(v);
    return LS_OK;
}

uint64_t ls_vocab_id(const ls_vocab *v) {
    return v->id;
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
