#include "model/gguf.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { T_U8, T_I8, T_U16, T_I16, T_U32, T_I32, T_F32, T_BOOL, T_STR, T_ARR, T_U64, T_I64, T_F64, T_COUNT };
enum {
    MAX_KEY = 65535,
    MAX_TENSOR_NAME = 255,
    MAX_ALIGNMENT = 1 << 20,
    DEFAULT_ALIGNMENT = 32,
    MAX_ENTRIES = 1 << 18,
    HEAD_BYTES = 4 << 20
};

static const uint8_t scalar_size[T_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const char *const type_names[T_COUNT] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                "bool", "string", "array", "u64", "i64", "f64"};

typedef struct ls_gguf_kv {
    ls_str key;
    uint32_t type, elem;        // elem: of an array's elements, else type
    uint64_t count;             // elements of an array, else 1
    const unsigned char *value; // first byte of the value (of the first element)
} kv;

typedef struct {
    const unsigned char *base;
    size_t at, n;
    uint64_t n_file;
    bool cut; // the file, and with it the header, continues after the n bytes in memory
    ls_err *err;
} reader;

// Bytes of the file after the reader's position, whether in memory or not.
static uint64_t left(const reader *r) {
    return r->n_file - r->at;
}

static ls_code cut_off(reader *r, const char *what) {
    r->cut = r->n < r->n_file;
    return ls_fail(r->err, LS_E_PARSE, "byte %zu: the file ends inside %s (truncated?)", r->at, what);
}

static ls_code take(reader *r, void *out, size_t n, const char *what) {
    if (r->n - r->at < n) return cut_off(r, what);
    memcpy(out, r->base + r->at, n);
    r->at += n;
    return LS_OK;
}

static ls_code take_str(reader *r, ls_str *out, uint64_t max, const char *what) {
    uint64_t len = 0;
    size_t start = r->at;
    ls_code code = take(r, &len, 8, what);
    if (code) return code;
    if (len > max || len > left(r))
        return ls_fail(r->err, LS_E_PARSE, "byte %zu: %s has length %" PRIu64 ", but only %" PRIu64 " bytes are left",
                       start, what, len, left(r));
    if (len > r->n - r->at) return cut_off(r, what);
    *out = (ls_str){(const char *)r->base + r->at, (size_t)len};
    r->at += (size_t)len;
    return LS_OK;
}

static ls_code skip_value(reader *r, uint32_t type, uint64_t count, const char *what) {
    if (type == T_STR) {
        if (count > left(r) / 8)
            return ls_fail(r->err, LS_E_PARSE, "byte %zu: %s has %" PRIu64 " strings, more than the file can hold",
                           r->at, what, count);
        for (uint64_t i = 0; i < count; i++) {
            ls_str s;
            ls_code code = take_str(r, &s, UINT64_MAX, what);
            if (code) return code;
        }
        return LS_OK;
    }
    size_t size = scalar_size[type];
    if (count > left(r) / size)
        return ls_fail(r->err, LS_E_PARSE,
                       "byte %zu: %s has %" PRIu64 " values of %zu bytes, but only %" PRIu64 " bytes are left", r->at,
                       what, count, size, left(r));
    if (count > (r->n - r->at) / size) return cut_off(r, what);
    r->at += (size_t)count * size;
    return LS_OK;
}

static ls_code index_name(ls_map *m, ls_str name, int i, const char *what, reader *r) {
    int32_t other;
    uint64_t h = ls_hash_bytes(name.p, name.n);
    if (ls_map_get(m, h, &other))
        return ls_fail(r->err, LS_E_PARSE, "byte %zu: %s '%.*s' occurs twice", r->at, what,
                       (int)(name.n < 80 ? name.n : 80), name.p);
    ls_map_put(m, h, i);
    return LS_OK;
}

static ls_code read_kv(ls_gguf *g, reader *r, int i) {
    kv *e = &g->kvs[i];
    ls_code code;
    if ((code = take_str(r, &e->key, MAX_KEY, "a metadata key"))) return code;
    if ((code = index_name(&g->key_index, e->key, i, "metadata key", r))) return code;
    if ((code = take(r, &e->type, 4, "a metadata type"))) return code;
    char what[96];
    snprintf(what, sizeof what, "metadata '%.*s'", (int)(e->key.n < 64 ? e->key.n : 64), e->key.p);
    if (e->type >= T_COUNT)
        return ls_fail(r->err, LS_E_PARSE, "byte %zu: %s has unknown type %u", r->at, what, e->type);
    e->count = 1;
    e->elem = e->type;
    if (e->type == T_ARR) {
        if ((code = take(r, &e->elem, 4, what)) || (code = take(r, &e->count, 8, what))) return code;
        if (e->elem == T_ARR || e->elem >= T_COUNT)
            return ls_fail(r->err, LS_E_UNSUPPORTED, "byte %zu: %s is an array of type %u", r->at, what, e->elem);
    }
    e->value = r->base + r->at;
    return skip_value(r, e->elem, e->count, what);
}

static ls_code read_tensor(ls_gguf *g, reader *r, int i) { // its offset is that in the data yet
    ls_gguf_tensor *t = &g->tensors[i];
    ls_code code;
    if ((code = take_str(r, &t->name, MAX_TENSOR_NAME, "a tensor name"))) return code;
    if ((code = index_name(&g->tensor_index, t->name, i, "tensor", r))) return code;
    uint32_t n_dims = 0, type = 0;
    int name_n = (int)t->name.n;
    if ((code = take(r, &n_dims, 4, "a tensor's shape"))) return code;
    if (n_dims < 1 || n_dims > 4)
        return ls_fail(r->err, LS_E_PARSE, "byte %zu: tensor '%.*s' has %u dimensions; 1 to 4 are possible", r->at,
                       name_n, t->name.p, n_dims);
    t->n_dims = (int)n_dims;
    uint64_t values = 1;
    for (int d = 0; d < 4; d++) {
        t->dim[d] = 1;
        if (d >= t->n_dims) continue;
        if ((code = take(r, &t->dim[d], 8, "a tensor's shape"))) return code;
        if (t->dim[d] == 0 || t->dim[d] > INT64_MAX / values)
            return ls_fail(r->err, LS_E_PARSE,
                           "byte %zu: tensor '%.*s' has an invalid shape (dimension %d is %" PRIu64 ")", r->at, name_n,
                           t->name.p, d, t->dim[d]);
        values *= t->dim[d];
    }
    if ((code = take(r, &type, 4, "a tensor's type")) || (code = take(r, &t->offset, 8, "a tensor's offset")))
        return code;
    t->type = type > INT32_MAX ? -1 : (int)type;
    const ls_ggml_layout *l = ls_ggml_layout_of(t->type);
    const bool ids = t->type == LS_GGML_I64 && !(t->name.n == 3 && !memcmp(t->name.p, "d2t", 3)); // of a draft head
    if (!l || ids)
        return ls_fail(
            r->err, LS_E_UNSUPPORTED,
            "tensor '%.*s' has type %s (number %u); supported: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
            "Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, NVFP4. Take another file of this model, or convert it with "
            "llama-quantize",
            name_n, t->name.p, ls_ggml_type_name(t->type), type);
    if (t->dim[0] % (uint64_t)l->values)
        return ls_fail(r->err, LS_E_PARSE, "tensor '%.*s' (%s): the row length %" PRIu64 " is not a multiple of %d",
                       name_n, t->name.p, l->name, t->dim[0], l->values);
    const uint64_t blocks = values / (uint64_t)l->values,
                   bytes = t->type == LS_GGML_NVFP4 ? LS_GGML_NVFP4_FILE : (uint64_t)l->bytes;
    if (blocks > UINT64_MAX / bytes)
        return ls_fail(r->err, LS_E_PARSE, "tensor '%.*s' is too large", name_n, t->name.p);
    t->n_bytes = blocks * bytes;
    return LS_OK;
}

static int by_offset(const void *a, const void *b) {
    const ls_gguf_tensor *x = *(ls_gguf_tensor *const *)a, *y = *(ls_gguf_tensor *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Turns offsets into file positions; rejects tensors that are outside the file or overlap another one.
static ls_code place_tensors(ls_gguf *g, reader *r, uint64_t alignment) {
    const uint64_t start = (r->at + alignment - 1) / alignment * alignment;
    const uint64_t room = start <= r->n_file ? r->n_file - start : 0;
    ls_gguf_tensor **sorted = ls_malloc((size_t)g->n_tensors * sizeof *sorted);
    ls_code code = LS_OK;
    for (int i = 0; i < g->n_tensors && !code; i++) {
        ls_gguf_tensor *t = sorted[i] = &g->tensors[i];
        if (t->offset % alignment)
            code = ls_fail(r->err, LS_E_PARSE, "tensor '%.*s': offset %" PRIu64 " is not aligned to %" PRIu64,
                           (int)t->name.n, t->name.p, t->offset, alignment);
        else if (t->offset > room || t->n_bytes > room - t->offset)
            code = ls_fail(r->err, LS_E_PARSE,
                           "tensor '%.*s' is at bytes %" PRIu64 "+%" PRIu64 " of the data, but the data has %" PRIu64
                           " bytes (truncated file?)",
                           (int)t->name.n, t->name.p, t->offset, t->n_bytes, room);
        t->offset += start;
    }
    if (!code) qsort(sorted, (size_t)g->n_tensors, sizeof *sorted, by_offset);
    for (int i = 1; i < g->n_tensors && !code; i++)
        if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->n_bytes) {
            const ls_str a = sorted[i - 1]->name, b = sorted[i]->name;
            code = ls_fail(r->err, LS_E_PARSE, "tensors '%.*s' and '%.*s' overlap", (int)a.n, a.p, (int)b.n, b.p);
        }
    free(sorted);
    return code;
}

static ls_code parse(ls_gguf *g, reader *r) {
    char magic[4];
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_kvs = 0;
    ls_code code;
    if (r->n < 4 || memcmp(r->base, "GGUF", 4))
        return ls_fail(r->err, LS_E_PARSE, "not a GGUF file%s", ls_file_mistaken(r->base, r->n));
    if ((code = take(r, magic, 4, "the header")) || (code = take(r, &version, 4, "the header")) ||
        (code = take(r, &n_tensors, 8, "the header")) || (code = take(r, &n_kvs, 8, "the header")))
        return code;
    if (version == 2u << 24 || version == 3u << 24)
        return ls_fail(r->err, LS_E_UNSUPPORTED, "big-endian GGUF files are not supported");
    if (version != 2 && version != 3) // version 3 only adds big-endian files
        return ls_fail(r->err, LS_E_UNSUPPORTED, "GGUF version %u is not supported (supported: 2 and 3)", version);
    // the shortest metadata entry takes 13 bytes, the shortest tensor entry 32
    if (n_kvs > left(r) / 13 || n_tensors > left(r) / 32 || n_kvs > MAX_ENTRIES || n_tensors > MAX_ENTRIES)
        return ls_fail(r->err, LS_E_PARSE,
                       "the header states %" PRIu64 " metadata entries and %" PRIu64 " tensors in %" PRIu64 " bytes",
                       n_kvs, n_tensors, r->n_file);
    g->kvs = ls_calloc((size_t)n_kvs, sizeof *g->kvs);
    for (; g->n_kvs < (int)n_kvs; g->n_kvs++)
        if ((code = read_kv(g, r, g->n_kvs))) return code;
    uint32_t alignment = DEFAULT_ALIGNMENT;
    if (ls_gguf_has(g, "general.alignment") && (code = ls_gguf_u32(g, "general.alignment", &alignment, r->err)))
        return code;
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > MAX_ALIGNMENT)
        return ls_fail(r->err, LS_E_PARSE, "general.alignment is %u, not a power of two up to 1 MiB", alignment);
    g->tensors = ls_calloc((size_t)n_tensors, sizeof *g->tensors);
    for (; g->n_tensors < (int)n_tensors; g->n_tensors++)
        if ((code = read_tensor(g, r, g->n_tensors))) return code;
    return place_tensors(g, r, alignment);
}

ls_code ls_gguf_parse(ls_gguf **out, const unsigned char *p, size_t n, uint64_t n_file, bool *more, ls_err *err) {
    *out = NULL;
    ls_gguf *g = ls_calloc(1, sizeof *g);
    reader r = {.base = p, .n = n, .n_file = n_file, .err = err};
    ls_code code = parse(g, &r);
    if (more) *more = r.cut;
    if (code) ls_gguf_free(g);
    else *out = g;
    return code;
}

ls_code ls_gguf_open(ls_gguf **out, const ls_file *f, ls_err *err) {
    ls_code code = LS_OK;
    *out = NULL;
    ls_buf head = {0};
    bool more = true;
    for (size_t n = HEAD_BYTES; more && !code; n *= 4) { // until the header is complete
        const size_t want = n < f->n_bytes ? n : (size_t)f->n_bytes, had = head.n;
        code = ls_file_read(f, had, ls_buf_room(&head, want - had), want - had, err);
        if (code) break;
        head.n = want;
        code = ls_gguf_parse(out, (const unsigned char *)head.p, head.n, f->n_bytes, &more, err);
        if (code) ls_err_prefix(err, "%s", f->path);
        if (more) code = LS_OK;
    }
    if (code) ls_buf_free(&head);
    else (*out)->head = head;
    return code;
}

void ls_gguf_free(ls_gguf *g) {
    if (!g) return;
    free(g->kvs);
    free(g->tensors);
    ls_map_free(&g->key_index);
    ls_map_free(&g->tensor_index);
    ls_buf_free(&g->head);
    free(g);
}

static const kv *find_kv(const ls_gguf *g, const char *key) {
    int32_t i;
    size_t n = strlen(key);
    if (!ls_map_get(&g->key_index, ls_hash_bytes(key, n), &i)) return NULL;
    const kv *e = &g->kvs[i];
    return e->key.n == n && !memcmp(e->key.p, key, n) ? e : NULL;
}

bool ls_gguf_has(const ls_gguf *g, const char *key) {
    return find_kv(g, key) != NULL;
}

bool ls_gguf_is_array(const ls_gguf *g, const char *key) {
    const kv *e = find_kv(g, key);
    return e && e->type == T_ARR;
}

// Bits of types: those of one value, and those of an array's elements.
enum {
    INTEGERS = 1 << T_U8 | 1 << T_I8 | 1 << T_U16 | 1 << T_I16 | 1 << T_U32 | 1 << T_I32 | 1 << T_U64 | 1 << T_I64,
    FLOATS = 1 << T_F32 | 1 << T_F64,
};

// The value of a key, which must have one of these types.
static ls_code need(const ls_gguf *g, const char *key, int types, int elements, const char *wanted, const kv **e,
                    ls_err *err) {
    *e = find_kv(g, key);
    if (!*e) return ls_fail(err, LS_E_PARSE, "no metadata key '%s'", key);
    const bool array = (*e)->type == T_ARR;
    if ((array ? elements : types) >> (*e)->elem & 1) return LS_OK;
    return ls_fail(err, LS_E_PARSE, "metadata '%s' is %s%s, expected %s", key, array ? "an array of " : "",
                   type_names[(*e)->elem], wanted);
}

// The integer at p of the given type. NOLINTBEGIN(bugprone-signed-char-misuse,cert-str34-c): numbers, no characters
static int64_t integer_at(const unsigned char *p, uint32_t type) {
    int64_t x = 0;
    memcpy(&x, p, scalar_size[type]); // little endian, as GGUF and every platform this runs on
    switch (type) {
    case T_I8: return (int8_t)x;
    case T_I16: return (int16_t)x;
    case T_I32: return (int32_t)x;
    case T_U64: return x < 0 ? INT64_MAX : x;
    default: return x; // unsigned and shorter, or i64
    }
} // NOLINTEND(bugprone-signed-char-misuse,cert-str34-c)

ls_code ls_gguf_u32(const ls_gguf *g, const char *key, uint32_t *v, ls_err *err) {
    const kv *e;
    const ls_code code = need(g, key, INTEGERS, 0, "an integer", &e, err);
    if (code) return code;
    const int64_t x = integer_at(e->value, e->type);
    if (x < 0 || x > UINT32_MAX) return ls_fail(err, LS_E_RANGE, "metadata '%s' is out of range", key);
    *v = (uint32_t)x;
    return LS_OK;
}

ls_code ls_gguf_shared_u32(const ls_gguf *g, const char *key, uint32_t *v, ls_err *err) {
    int32_t *all;
    size_t n;
    if (!ls_gguf_is_array(g, key)) return ls_gguf_u32(g, key, v, err);
    ls_code code = ls_gguf_i32_array(g, key, &all, &n, err);
    if (code) return code;
    if (!n || all[0] < 0) code = ls_fail(err, LS_E_RANGE, "metadata '%s' is out of range", key);
    for (size_t i = 1; i < n && !code; i++)
        if (all[i] != all[0])
            code = ls_fail(err, LS_E_UNSUPPORTED, "metadata '%s' is %d in layer %zu, but %d in other layers", key,
                           all[i], i, all[0]);
    if (!code) *v = (uint32_t)all[0];
    free(all);
    return code;
}

ls_code ls_gguf_f32(const ls_gguf *g, const char *key, float *v, ls_err *err) {
    const kv *e;
    double d;
    const ls_code code = need(g, key, FLOATS, 0, "a float", &e, err);
    if (code) return code;
    memcpy(e->type == T_F32 ? (void *)v : &d, e->value, scalar_size[e->type]);
    if (e->type == T_F64) *v = (float)d;
    return LS_OK;
}

static ls_str str_at(const unsigned char *p) {
    uint64_t n;
    memcpy(&n, p, 8);
    return (ls_str){(const char *)p + 8, (size_t)n}; // lengths were checked by the parse
}

ls_code ls_gguf_str(const ls_gguf *g, const char *key, ls_str *v, ls_err *err) {
    const kv *e;
    const ls_code code = need(g, key, 1 << T_STR, 0, "a string", &e, err);
    if (!code) *v = str_at(e->value);
    return code;
}

ls_code ls_gguf_str_array(const ls_gguf *g, const char *key, ls_str **out, size_t *n, ls_err *err) {
    const kv *e;
    const ls_code code = need(g, key, 0, 1 << T_STR, "an array of strings", &e, err);
    if (code) return code;
    *n = (size_t)e->count;
    *out = ls_malloc(*n * sizeof **out);
    const unsigned char *p = e->value;
    for (size_t i = 0; i < *n; i++) {
        (*out)[i] = str_at(p);
        p += 8 + (*out)[i].n;
    }
    return LS_OK;
}

ls_code ls_gguf_i32_array(const ls_gguf *g, const char *key, int32_t **out, size_t *n, ls_err *err) {
    const kv *e;
    const ls_code code = need(g, key, 0, INTEGERS | 1 << T_BOOL, "an array of integers", &e, err);
    if (code) return code;
    *n = (size_t)e->count;
    *out = ls_malloc(*n * sizeof **out);
    for (size_t i = 0; i < *n; i++) {
        const int64_t x = integer_at(e->value + i * scalar_size[e->elem], e->elem);
        (*out)[i] = x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
    }
    return LS_OK;
}

ls_code ls_gguf_f32_array(const ls_gguf *g, const char *key, float **out, size_t *n, ls_err *err) {
    const kv *e;
    const ls_code code = need(g, key, 0, 1 << T_F32 | 1 << T_I32, "an array of f32", &e, err);
    if (code) return code;
    *n = (size_t)e->count;
    *out = ls_malloc(*n * sizeof **out);
    for (size_t i = 0; i < *n; i++) {
        int32_t x;
        memcpy(e->elem == T_F32 ? (void *)&(*out)[i] : &x, e->value + 4 * i, 4);
        if (e->elem == T_I32) (*out)[i] = (float)x;
    }
    return LS_OK;
}

ls_code ls_gguf_bool(const ls_gguf *g, const char *key, bool *v, ls_err *err) {
    const kv *e;
    const ls_code code = need(g, key, 1 << T_BOOL, 0, "a bool", &e, err);
    if (!code) *v = *e->value != 0;
    return code;
}
