#include "model/safetensors.h"
#include "base/ggml.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int type, bytes;
} dtypes[] = {{"F32", LS_GGML_F32, 4}, {"F16", LS_GGML_F16, 2}, {"BF16", LS_GGML_BF16, 2},
              {"F64", -1, 8},          {"I64", -1, 8},          {"U64", -1, 8},
              {"I32", -1, 4},          {"U32", -1, 4},          {"I16", -1, 2},
              {"U16", -1, 2},          {"I8", -1, 1},           {"U8", -1, 1},
              {"BOOL", -1, 1},         {"F8_E4M3", -1, 1},      {"F8_E5M2", -1, 1}};

typedef struct {
    ls_safetensors *out;
    size_t cap;
    uint64_t begin, n_data; // of the data in the file
    ls_code code;
    ls_err *err;
} parsing;

static ls_code read_type(parsing *p, const char *name, const ls_json *v, ls_safetensor *t, int *bytes) {
    size_t n;
    const char *dtype = ls_json_str(v, &n);
    for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strlen(dtypes[i].name) == n && !memcmp(dtypes[i].name, dtype, n)) {
            t->type = dtypes[i].type;
            snprintf(t->dtype, sizeof t->dtype, "%s", dtypes[i].name);
            *bytes = dtypes[i].bytes;
            return LS_OK;
        }
    return ls_fail(p->err, LS_E_UNSUPPORTED, "tensor '%.80s' has the unknown type '%.*s'", name,
                   dtype ? (int)(n < 20 ? n : 20) : 1, dtype ? dtype : "?");
}

static ls_code read_tensor(parsing *p, const char *name, const ls_json *value) {
    const ls_json *shape = ls_json_get(value, "shape"), *places = ls_json_get(value, "data_offsets");
    ls_safetensor t = {0};
    int64_t from, to, dim;
    int bytes = 0;
    ls_code code = read_type(p, name, ls_json_get(value, "dtype"), &t, &bytes);
    if (code) return code;
    if (!ls_json_is_array(shape) || ls_json_size(shape) > 4)
        return ls_fail(p->err, LS_E_PARSE, "tensor '%.80s' must have a shape of at most 4 dimensions", name);
    uint64_t n = (uint64_t)bytes;
    for (t.n_dims = 0; t.n_dims < (int)ls_json_size(shape); t.n_dims++) {
        if (!ls_json_int(ls_json_at(shape, (size_t)t.n_dims), &dim) || dim < 1 || (uint64_t)dim > p->n_data / n)
            return ls_fail(p->err, LS_E_RANGE, "tensor '%.80s' is empty or larger than its file", name);
        t.dim[t.n_dims] = (uint64_t)dim;
        n *= (uint64_t)dim;
    }
    if (ls_json_size(places) != 2 || !ls_json_int(ls_json_at(places, 0), &from) ||
        !ls_json_int(ls_json_at(places, 1), &to) || from < 0 || to < from || (uint64_t)to > p->n_data ||
        (uint64_t)(to - from) != n)
        return ls_fail(p->err, LS_E_RANGE, "tensor '%.80s': data_offsets do not fit its size or the file", name);
    t.offset = p->begin + (uint64_t)from;
    t.n_bytes = n;
    t.name = ls_strdup(name);
    if (p->out->n == p->cap) {
        p->cap = 2 * p->cap + 64;
        p->out->tensors = ls_realloc(p->out->tensors, p->cap * sizeof *p->out->tensors);
    }
    p->out->tensors[p->out->n++] = t;
    return LS_OK;
}

static void on_entry(void *ud, const char *name, const ls_json *value) {
    parsing *p = ud;
    if (!p->code && strcmp(name, "__metadata__")) p->code = read_tensor(p, name, value);
}

static int by_offset(const void *a, const void *b) {
    const ls_safetensor *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

ls_code ls_safetensors_parse(ls_safetensors *out, const char *text, size_t n, uint64_t n_file, ls_err *err) {
    ls_json *doc;
    *out = (ls_safetensors){0};
    if (n_file < 8 || n > n_file - 8) return ls_fail(err, LS_E_RANGE, "the header is longer than the file");
    parsing p = {.out = out, .begin = 8 + n, .n_data = n_file - 8 - n, .err = err};
    if ((p.code = ls_json_parse(&doc, text, n, "header", err))) return p.code;
    if (!ls_json_each(doc, on_entry, &p)) p.code = ls_fail(err, LS_E_PARSE, "the header is not a JSON object");
    ls_json_free(doc);
    if (out->n) qsort(out->tensors, out->n, sizeof *out->tensors, by_offset);
    for (size_t i = 1; i < out->n && !p.code; i++)
        if (out->tensors[i].offset < out->tensors[i - 1].offset + out->tensors[i - 1].n_bytes)
            p.code = ls_fail(err, LS_E_RANGE, "tensors '%.80s' and '%.80s' overlap", out->tensors[i - 1].name,
                             out->tensors[i].name);
    if (p.code) ls_safetensors_free(out);
    return p.code;
}

void ls_safetensors_free(ls_safetensors *s) {
    for (size_t i = 0; i < s->n; i++) free(s->tensors[i].name);
    free(s->tensors);
    *s = (ls_safetensors){0};
}
