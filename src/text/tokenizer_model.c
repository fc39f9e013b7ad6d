// sentencepiece's tokenizer.model. Reference: sentencepiece_model.proto; only the fields that encoding needs are read.
#include "base/mem.h"
#include "text/vocab_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const unsigned char *p;
    size_t n;
    bool bad;
} wire;

typedef struct {
    uint32_t number, kind; // 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes
    uint64_t value;
    wire bytes; // kind 2
} field;

static uint64_t varint(wire *w) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && w->n; shift += 7) {
        const unsigned char c = *w->p;
        w->p++;
        w->n--;
        v |= (uint64_t)(c & 0x7F) << shift;
        if (!(c & 0x80)) return v;
    }
    w->bad = true;
    return 0;
}

static bool next_field(wire *w, field *f) {
    if (!w->n || w->bad) return false;
    const uint64_t key = varint(w);
    *f = (field){.number = (uint32_t)(key >> 3), .kind = key & 7};
    size_t size = 0;
    switch (f->kind) {
    case 0: f->value = varint(w); break;
    case 1: size = 8; break;
    case 2: {
        const uint64_t n = varint(w);
        if (n > w->n) w->bad = true;
        else size = (size_t)n;
        break;
    }
    case 5: size = 4; break;
    default: w->bad = true;
    }
    if (size > w->n || key >> 32) w->bad = true;
    if (w->bad) return false;
    if (f->kind == 5)
        f->value = (uint64_t)w->p[0] | (uint64_t)w->p[1] << 8 | (uint64_t)w->p[2] << 16 | (uint64_t)w->p[3] << 24;
    f->bytes = (wire){w->p, size, false};
    w->p += size;
    w->n -= size;
    return true;
}

static double as_float(uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return (double)x;
}

typedef struct {
    ls_sentencepiece_source src;
    ls_str *tokens;
    int32_t *types;
    double *scores;
    size_t cap;
    int32_t model_type, bos, eos;
} reader;

static bool read_piece(reader *r, wire w) {
    if (r->src.n_tokens == r->cap) {
        r->cap = r->cap * 2 + 256;
        r->tokens = ls_realloc(r->tokens, r->cap * sizeof *r->tokens);
        r->types = ls_realloc(r->types, r->cap * sizeof *r->types);
        r->scores = ls_realloc(r->scores, r->cap * sizeof *r->scores);
    }
    const size_t i = r->src.n_tokens++;
    r->tokens[i] = (ls_str){NULL, 0};
    r->types[i] = LS_NORMAL;
    r->scores[i] = 0;
    field f;
    while (next_field(&w, &f)) {
        if (f.number == 1 && f.kind == 2) r->tokens[i] = (ls_str){(const char *)f.bytes.p, f.bytes.n};
        if (f.number == 2 && f.kind == 5) r->scores[i] = as_float(f.value);
        if (f.number == 3 && f.kind == 0) r->types[i] = f.value <= LS_BYTE ? (int32_t)f.value : 0;
    }
    return !w.bad && r->types[i] >= LS_NORMAL;
}

static bool read_trainer(reader *r, wire w) {
    field f;
    while (next_field(&w, &f)) {
        if (f.kind) continue;
        if (f.number == 3) r->model_type = (int32_t)f.value;
        if (f.number == 24) r->src.suffix = f.value != 0;
        if (f.number == 35) r->src.byte_fallback = f.value != 0;
        if (f.number == 41) r->bos = (int32_t)f.value;
        if (f.number == 42) r->eos = (int32_t)f.value;
    }
    return !w.bad;
}

static bool read_rules(reader *r, wire w) {
    field f;
    while (next_field(&w, &f)) {
        if (f.number == 2 && f.kind == 2) r->src.charsmap = f.bytes.p, r->src.n_charsmap = f.bytes.n;
        if (f.kind) continue;
        if (f.number == 3) r->src.dummy_prefix = f.value != 0;
        if (f.number == 4) r->src.remove_extra = f.value != 0;
        if (f.number == 5) r->src.escape = f.value != 0;
    }
    return !w.bad;
}

static ls_code read_all(reader *r, wire w, ls_err *err) {
    enum { UNIGRAM = 1, BPE = 2 };
    bool good = true;
    field f;
    while (good && next_field(&w, &f)) {
        if (f.kind != 2) continue;
        if (f.number == 1) good = read_piece(r, f.bytes);
        if (f.number == 2) good = read_trainer(r, f.bytes);
        if (f.number == 3) good = read_rules(r, f.bytes);
    }
    if (!good || w.bad || !r->src.n_tokens)
        return ls_fail(err, LS_E_PARSE, "tokenizer.model is no sentencepiece model (token %zu)", r->src.n_tokens);
    if (r->model_type != UNIGRAM && r->model_type != BPE)
        return ls_fail(err, LS_E_UNSUPPORTED, "tokenizer.model is of the kind %d (supported: unigram, bpe)",
                       r->model_type);
    const int32_t n = (int32_t)r->src.n_tokens;
    r->src.unigram = r->model_type == UNIGRAM;
    r->src.bos = !r->src.unigram && r->bos >= 0 && r->bos < n && r->types[r->bos] == LS_CONTROL ? r->bos : -1;
    r->src.eos = r->eos >= 0 && r->eos < n && r->types[r->eos] == LS_CONTROL ? r->eos : -1;
    r->src.tokens = r->tokens;
    r->src.types = r->types;
    r->src.scores = r->scores;
    return LS_OK;
}

ls_code ls_tokenizer_model(ls_vocab **out, const void *p, size_t n, ls_err *err) {
    // the format's defaults
    reader r = {
        .model_type = 1, .bos = 1, .eos = 2, .src = {.dummy_prefix = true, .remove_extra = true, .escape = true}};
    *out = NULL;
    ls_code code = read_all(&r, (wire){p, n, false}, err);
    if (!code) code = ls_vocab_new_sentencepiece(out, &r.src, err);
    free(r.tokens);
    free(r.types);
    free(r.scores);
    return code;
}
