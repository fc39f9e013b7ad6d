// Tokenizers that come in other files than tokenizer.json.
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- sentencepiece's tokenizer.model. Reference: sentencepiece_model.proto; only the fields that encoding needs are
// read.

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
    size_t n; // of the model itself
    int32_t model_type, bos, eos;
} reader;

static bool read_piece(reader *r, wire w) {
    ls_token_table *t = &r->table;
    const size_t i = t->n;
    if (!ls_token_table_reach(t, (int64_t)i + 1)) return false;
    ls_str text = {0};
    int32_t type = LS_NORMAL;
    field f;
    while (next_field(&w, &f)) {
        if (f.number == 1 && f.kind == 2) text = (ls_str){(const char *)f.bytes.p, f.bytes.n};
        if (f.number == 2 && f.kind == 5) t->scores[i] = as_float(f.value);
        if (f.number == 3 && f.kind == 0) type = f.value <= LS_BYTE ? (int32_t)f.value : 0;
    }
    ls_token_table_put(t, (int64_t)i, text, type);
    return !w.bad && type >= LS_NORMAL;
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

// What stands beside the model: added tokens, names, what a text begins and ends with. A model alone has its own.
static ls_code configure(reader *r, ls_tokenizer_config *c, ls_err *err) {
    ls_token_table *t = &r->table;
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
    ls_token_table_lend(t, &r->src);
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
                               .renames = true};
    ls_code code = ls_tokenizer_config_read(&config, beside, err);
    if (!code) code = read_all(&r, (wire){(const unsigned char *)model.p, model.n, false}, err);
    if (!code) code = configure(&r, &config, err);
    ls_tokenizer_config_variables(&config, &variables);
    r.src.variables = variables.p;
    if (!code) code = ls_vocab_new(out, &r.src, err);
    ls_token_table_free(&r.table);
    ls_tokenizer_config_free(&config);
    ls_buf_free(&variables);
    return code;
}

// ---- GPT-2's vocab.json and merges.txt, and Mistral's tekken.json, written as a tokenizer.json, as transformers 4.57
// and mistral-common build them

static void add_split(ls_buf *out, const char *pattern, size_t n, bool prefix_space) {
    ls_jsonw w = {.out = out};
    ls_buf_str(
        out,
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
        "\"invert\":false,\"pattern\":{\"Regex\":");
    ls_jw_strn(&w, pattern, n);
    ls_buf_fmt(out, "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":false}]}",
               prefix_space ? "true" : "false");
}

// Lines of merges.txt; the first may be "#version: ...".
static void add_merges(ls_jsonw *w, ls_str text) {
    ls_jw_field_open(w, "merges", '[');
    for (size_t at = 0; at < text.n;) {
        const char *line = text.p + at, *end = memchr(line, '\n', text.n - at);
        size_t n = end ? (size_t)(end - line) : text.n - at;
        const bool version = !at && n >= 8 && !memcmp(line, "#version", 8);
        at += n + 1;
        if (n && line[n - 1] == '\r') n--;
        if (!version && n) ls_jw_strn(w, line, n);
    }
    ls_jw_close(w, ']');
}

ls_code ls_tokenizer_merges(ls_vocab **out, ls_str vocab, ls_str merges, const ls_tokenizer_files *beside,
                            ls_err *err) {
    ls_tokenizer_config config;
    ls_buf text = {0};
    ls_jsonw w = {.out = &text};
    *out = NULL;
    ls_code code = ls_tokenizer_config_read(&config, beside, err);
    const char *class = config.class ? config.class : "GPT2Tokenizer";
    const bool qwen = !strcmp(class, "Qwen2Tokenizer");
    if (!code && !qwen && strcmp(class, "GPT2Tokenizer") != 0 && strcmp(class, "PreTrainedTokenizer") != 0)
        code =
            ls_fail(err, LS_E_UNSUPPORTED,
                    "a %s of vocab.json and merges.txt is not supported (supported: GPT2Tokenizer, Qwen2Tokenizer, and "
                    "any with tokenizer.json)",
                    class);
    ls_buf_str(&text, "{\"added_tokens\":[],");
    if (qwen) ls_buf_str(&text, "\"normalizer\":{\"type\":\"NFC\"},");
    if (qwen) add_split(&text, ls_qwen2_pattern, strlen(ls_qwen2_pattern), config.prefix_space > 0);
    else ls_buf_str(&text, "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}");
    ls_buf_str(&text, ",\"model\":{\"type\":\"BPE\",");
    add_merges(&w, merges);
    ls_buf_str(&text, ",\"vocab\":");
    ls_buf_add(&text, vocab.p, vocab.n); // JSON already; anything else is found when it is read
    ls_buf_str(&text, "}}");
    if (!code) code = ls_tokenizer_document(out, (ls_str){text.p, text.n}, "vocab.json", beside, true, err);
    ls_tokenizer_config_free(&config);
    ls_buf_free(&text);
    return code;
}

// ---- tekken.json. Reference: mistral-common's Tekkenizer: ids of special tokens come first, then those of the
// vocabulary by rank, cut to default_vocab_size; pieces are joined by the rank of what they become.

typedef struct {
    const ls_json *doc, *vocab, *special;
    int64_t n_special, n; // n: of the vocabulary that is used
    ls_buf bytes;
    size_t *starts;  // [n + 1]
    ls_map by_bytes; // hash -> rank
    uint32_t alphabet[256];
    ls_err *err;
} tekken;

static ls_str token_of(const tekken *t, int32_t rank) {
    return (ls_str){t->bytes.p + t->starts[rank], t->starts[rank + 1] - t->starts[rank]};
}

static int32_t rank_of(const tekken *t, const char *p, size_t n) {
    int32_t rank;
    if (!ls_map_get(&t->by_bytes, ls_hash_name(p, n), &rank)) return -1;
    return ls_str_same(token_of(t, rank), (ls_str){p, n}) ? rank : -1;
}

static ls_code read_tekken(tekken *t) {
    enum { MOST_BYTES = 1024 }; // of a token: its merges are searched in time that grows with the square
    const ls_json *config = ls_json_get(t->doc, "config");
    int64_t size = 0;
    t->vocab = ls_json_get(t->doc, "vocab");
    t->special = ls_json_get(t->doc, "special_tokens");
    const int64_t listed = (int64_t)ls_json_size(t->vocab), named = (int64_t)ls_json_size(t->special);
    if (!ls_json_int(ls_json_get(config, "default_vocab_size"), &size) ||
        !ls_json_int(ls_json_get(config, "default_num_special_tokens"), &t->n_special) || t->n_special < named ||
        t->n_special > 1 << 16 || size <= t->n_special || size > listed + t->n_special)
        return ls_fail(
            t->err, LS_E_PARSE,
            "tekken.json: 'config' and the lists disagree: %lld tokens and %lld special tokens, expected %lld",
            (long long)listed, (long long)named, (long long)size);
    t->n = size - t->n_special;
    t->starts = ls_calloc((size_t)t->n + 1, sizeof *t->starts);
    for (int64_t i = 0; i < t->n; i++) {
        const ls_json *one = ls_json_at(t->vocab, (size_t)i);
        int64_t rank = -1;
        size_t n = 0;
        const char *p = ls_json_str(ls_json_get(one, "token_bytes"), &n);
        if (!p || !ls_json_int(ls_json_get(one, "rank"), &rank) || rank != i ||
            !ls_buf_unbase64(&t->bytes, (ls_str){p, n}) || t->bytes.n == t->starts[i])
            return ls_fail(t->err, LS_E_PARSE, "tekken.json: entry %lld of 'vocab' is not a token with that rank",
                           (long long)i);
        if (t->bytes.n - t->starts[i] > MOST_BYTES)
            return ls_fail(t->err, LS_E_UNSUPPORTED, "tekken.json: entry %lld of 'vocab' is longer than %d bytes",
                           (long long)i, MOST_BYTES);
        t->starts[i + 1] = t->bytes.n;
        ls_map_at(&t->by_bytes, ls_hash_name(t->bytes.p + t->starts[i], t->bytes.n - t->starts[i]), (int32_t)i);
    }
    return LS_OK;
}

static void spell(const tekken *t, ls_str bytes, ls_buf *out) {
    char one[4];
    ls_buf_clear(out);
    for (size_t i = 0; i < bytes.n; i++)
        ls_buf_add(out, one, (size_t)ls_utf8_encode(t->alphabet[(unsigned char)bytes.p[i]], one));
}

typedef struct {
    int32_t left, right;
} pair;

static int by_ranks(const void *a, const void *b) {
    const pair *x = a, *y = b;
    return x->left != y->left ? (x->left > y->left) - (x->left < y->left)
                              : (x->right > y->right) - (x->right < y->right);
}

static void add_tekken_merges(const tekken *t, ls_jsonw *w) {
    ls_buf left = {0}, right = {0};
    pair *pairs = NULL;
    ls_jw_field_open(w, "merges", '[');
    for (int32_t i = 0; i < t->n; i++) {
        const ls_str s = token_of(t, i);
        size_t n = 0;
        pairs = ls_realloc(pairs, (s.n + 1) * sizeof *pairs);
        for (size_t cut = 1; cut < s.n; cut++) {
            const pair p = {rank_of(t, s.p, cut), rank_of(t, s.p + cut, s.n - cut)};
            if (p.left >= 0 && p.right >= 0) pairs[n++] = p;
        }
        if (n > 1) qsort(pairs, n, sizeof *pairs, by_ranks);
        for (size_t k = 0; k < n; k++) {
            spell(t, token_of(t, pairs[k].left), &left);
            spell(t, token_of(t, pairs[k].right), &right);
            ls_jw_open(w, '[');
            ls_jw_strn(w, left.p, left.n);
            ls_jw_strn(w, right.p, right.n);
            ls_jw_close(w, ']');
        }
    }
    ls_jw_close(w, ']');
    free(pairs);
    ls_buf_free(&left);
    ls_buf_free(&right);
}

static void add_special(const tekken *t, ls_jsonw *w) {
    const char *usual = "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] "
                        "[/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
                        "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]";
    const bool listed = ls_json_size(t->special) > 0;
    ls_jw_field_open(w, "added_tokens", '[');
    for (int64_t i = 0; i < t->n_special; i++) {
        size_t n;
        const char *text = ls_json_str(ls_json_get(ls_json_at(t->special, (size_t)i), "token_str"), &n);
        if (!text && !listed) text = ls_next_word(&usual, " ", &n);
        char filler[40];
        if (!text) n = (size_t)snprintf(filler, sizeof filler, "<SPECIAL_%lld>", (long long)i);
        ls_jw_open(w, '{');
        ls_jw_field_int(w, "id", i);
        ls_jw_key(w, "content"), ls_jw_strn(w, text ? text : filler, n);
        ls_jw_field_bool(w, "special", true); // none of them may come from a user's text
        ls_jw_field_bool(w, "normalized", false);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}

static void write_tekken(const tekken *t, const char *pattern, size_t n_pattern, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_buf spelled = {0};
    ls_jw_open(&w, '{');
    add_special(t, &w);
    ls_buf_char(out, ',');
    add_split(out, pattern, n_pattern, false);
    ls_jw_field_open(&w, "model", '{');
    ls_jw_field_str(&w, "type", "BPE");
    ls_jw_field_bool(&w, "ignore_merges", true);
    ls_jw_field_open(&w, "vocab", '{');
    for (int32_t i = 0; i < t->n; i++) {
        spell(t, token_of(t, i), &spelled);
        ls_jw_any_key(&w, spelled.p, spelled.n);
        ls_jw_int(&w, t->n_special + i);
    }
    ls_jw_close(&w, '}');
    add_tekken_merges(t, &w);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, '}');
    ls_buf_free(&spelled);
}

ls_code ls_tokenizer_tekken(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err) {
    static const char names[] = "{\"tokenizer_class\":\"LlamaTokenizer\",\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
                                "\"unk_token\":\"<unk>\",\"pad_token\":\"<pad>\"}";
    tekken t = {.err = err};
    ls_json *doc = NULL;
    ls_buf written = {0};
    size_t n = 0;
    *out = NULL;
    ls_byte_alphabet(t.alphabet);
    ls_code code = ls_json_parse(&doc, text.p, text.n, "tekken.json", err);
    t.doc = doc;
    if (!code) code = read_tekken(&t);
    const char *pattern = ls_json_str(ls_json_get(ls_json_get(doc, "config"), "pattern"), &n);
    if (!code && !pattern) code = ls_fail(err, LS_E_PARSE, "tekken.json has no pattern");
    if (!code) {
        ls_tokenizer_files files = *beside;
        if (!files.config.n) files.config = (ls_str){names, sizeof names - 1};
        write_tekken(&t, pattern, n, &written);
        code = ls_tokenizer_document(out, (ls_str){written.p, written.n}, "tekken.json", &files, false, err);
    }
    ls_json_free(doc);
    ls_buf_free(&written);
    ls_buf_free(&t.bytes);
    ls_map_free(&t.by_bytes);
    free(t.starts);
    return code;
}
