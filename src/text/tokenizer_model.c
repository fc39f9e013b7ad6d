// sentencepiece's tokenizer.model. Reference: sentencepiece_model.proto; only the fields that encoding needs are read.
#include "base/mem.h"
#include "text/tokenizer_config.h"

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
    ls_vocab_source src;
    ls_token_table table;
    size_t n;      // of the model itself
    ls_map pieces; // hash -> id
    int32_t model_type, bos, eos;
} reader;

static bool read_piece(reader *r, wire w) {
    ls_token_table *t = &r->table;
    const size_t i = t->n;
    if (!ls_token_table_reach(t, (int64_t)i + 1)) return false;
    t->types[i] = LS_NORMAL;
    field f;
    while (next_field(&w, &f)) {
        if (f.number == 1 && f.kind == 2) t->tokens[i] = (ls_str){(const char *)f.bytes.p, f.bytes.n};
        if (f.number == 2 && f.kind == 5) t->scores[i] = as_float(f.value);
        if (f.number == 3 && f.kind == 0) t->types[i] = f.value <= LS_BYTE ? (int32_t)f.value : 0;
    }
    return !w.bad && t->types[i] >= LS_NORMAL;
}

static bool read_trainer(reader *r, wire w) {
    field f;
    while (next_field(&w, &f)) {
        if (f.kind) continue;
        if (f.number == 3) r->model_type = (int32_t)f.value;
        if (f.number == 24) r->src.rules.suffix = f.value != 0;
        if (f.number == 35) r->src.byte_fallback = f.value != 0;
        if (f.number == 41) r->bos = (int32_t)f.value;
        if (f.number == 42) r->eos = (int32_t)f.value;
    }
    return !w.bad;
}

static bool read_rules(reader *r, wire w) {
    field f;
    while (next_field(&w, &f)) {
        if (f.number == 2 && f.kind == 2) r->src.rules.charsmap = f.bytes.p, r->src.rules.n_charsmap = f.bytes.n;
        if (f.kind) continue;
        if (f.number == 3) r->src.rules.dummy_prefix = f.value != 0;
        if (f.number == 4) r->src.rules.remove_extra = f.value != 0;
        if (f.number == 5) r->src.rules.escape = f.value != 0;
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
    r->n = r->table.n;
    if (!good || w.bad || !r->n)
        return ls_fail(err, LS_E_PARSE, "tokenizer.model is not a sentencepiece model (token %zu)", r->n);
    if (r->model_type != UNIGRAM && r->model_type != BPE)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "tokenizer.model has kind %d, which is not supported (supported: unigram, bpe)", r->model_type);
    r->src.unigram = r->model_type == UNIGRAM;
    return LS_OK;
}

static int32_t find_piece(const void *ud, ls_str s) {
    const reader *r = ud;
    int32_t at;
    if (!ls_map_get(&r->pieces, ls_hash_name(s.p, s.n), &at)) return -1;
    return ls_str_same(r->table.tokens[at], s) ? at : -1;
}

// What stands beside the model: added tokens, names, what a text begins and ends with. A model alone has its own.
static ls_code configure(reader *r, ls_tokenizer_config *c, ls_err *err) {
    ls_token_table *t = &r->table;
    for (size_t i = 0; i < r->n; i++)
        if (t->tokens[i].n) ls_map_at(&r->pieces, ls_hash_name(t->tokens[i].p, t->tokens[i].n), (int32_t)i);
    ls_code code = ls_token_table_configure(t, c, err);
    for (size_t i = 0; i < t->n_added && !code; i++) {
        ls_added *a = &t->added[i];
        a->normalized = false; // PreTrainedTokenizer searches the text as it is
        if (a->special && (size_t)a->id < r->n && t->types[a->id] == LS_USER_DEFINED)
            t->types[a->id] = LS_CONTROL; // it may not come from a user's text
    }
    r->src.bos = ls_token_table_named(t, c, "bos_token");
    r->src.eos = ls_token_table_named(t, c, "eos_token");
    const int32_t n = (int32_t)r->n;
    if (r->src.bos < 0 && r->bos >= 0 && r->bos < n && t->types[r->bos] == LS_CONTROL) r->src.bos = r->bos;
    if (r->src.eos < 0 && r->eos >= 0 && r->eos < n && t->types[r->eos] == LS_CONTROL) r->src.eos = r->eos;
    r->src.bare = c->own_rule ? !c->add_bos : r->src.unigram;
    r->src.ended = c->add_eos;
    if (c->llama && c->prefix_space >= 0) r->src.rules.dummy_prefix = c->prefix_space;
    r->src.rules.first_only = !c->legacy;
    r->src.tokens = t->tokens;
    r->src.types = t->types;
    r->src.scores = t->scores;
    r->src.n_tokens = t->n;
    r->src.added = t->added;
    r->src.n_added = t->n_added;
    return code;
}

ls_code ls_tokenizer_model(ls_vocab **out, ls_str model, const ls_tokenizer_files *beside, ls_err *err) {
    // the format's defaults
    reader r = {
        .model_type = 1, .bos = 1, .eos = 2, .src.rules = {.dummy_prefix = true, .remove_extra = true, .escape = true}};
    ls_tokenizer_config config;
    ls_buf variables = {0};
    *out = NULL;
    r.table = (ls_token_table){.limit = model.n + beside->config.n + beside->added.n + beside->special_map.n + 64,
                               .scored = true,
                               .renames = true,
                               .find = find_piece,
                               .ud = &r};
    ls_code code = ls_tokenizer_config_read(&config, beside, err);
    if (!code) code = read_all(&r, (wire){(const unsigned char *)model.p, model.n, false}, err);
    if (!code) code = configure(&r, &config, err);
    ls_tokenizer_config_variables(&config, &variables);
    ls_buf_char(&variables, 0);
    r.src.variables = variables.p;
    if (!code) code = ls_vocab_new(out, &r.src, err);
    ls_token_table_free(&r.table);
    ls_map_free(&r.pieces);
    ls_tokenizer_config_free(&config);
    ls_buf_free(&variables);
    return code;
}
