#include "model/checkpoint_internal.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int32_t up(int32_t n, int32_t to) {
    return (n + to - 1) / to * to;
}

uint64_t ls_row_bytes(int type, uint64_t n) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    return n / (uint64_t)l->values * (uint64_t)l->bytes;
}

// If the groups of a quantised row are not whole blocks, the tensor is converted to f32.
static bool can_convert(int type) {
    return type == LS_GGML_Q4_0 || type == LS_GGML_Q4_1 || type == LS_GGML_Q5_0 || type == LS_GGML_Q5_1 ||
           type == LS_GGML_Q8_0;
}

static ls_code pad(const ls_checkpoint *c, ls_tensor *t, bool out, int32_t groups, int32_t from, int32_t to,
                   ls_err *err) {
    if (from == to) return LS_OK;
    uint64_t *n = out && t->n_out > 1 ? &t->n_out : &t->n_in; // a bias has one row
    const char *path = c->files[t->file].path;
    if (*n != (uint64_t)groups * (uint64_t)from)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%s' is %llu x %llu, expected %lld %s", path, t->name,
                       (unsigned long long)t->n_out, (unsigned long long)t->n_in, (long long)groups * from,
                       out ? "rows" : "columns");
    if (t->quantized)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "%s: tensor '%s' is quantised, and %lld values of it would be padded to %lld; use the "
                       "unquantised model or a GGUF file",
                       path, t->name, (long long)groups * from, (long long)groups * to);
    const ls_ggml_layout *l = ls_ggml_layout_of(t->type);
    const bool rows = n == &t->n_out;
    if (!rows && (from % l->values || to % l->values)) {
        if (!can_convert(t->type))
            return ls_fail(
                err, LS_E_UNSUPPORTED,
                "%s: tensor '%s' of type %s: groups of %d values are not whole blocks; use the model in f16 or "
                "Q8_0",
                path, t->name, ls_ggml_type_name(t->type), from);
        t->type = LS_GGML_F32;
    }
    *(rows ? &t->out : &t->in) = (ls_padding){groups, from, to};
    *n = (uint64_t)groups * (uint64_t)to;
    t->n_bytes = ls_row_bytes(t->type, t->n_in) * t->n_out;
    return LS_OK;
}

static bool is(const char *name, const char *part) { // "blk.N.PART.weight" or ".bias"
    const char *at = strncmp(name, "blk.", 4) ? NULL : strchr(name + 4, '.');
    const size_t n = strlen(part);
    return at && !strncmp(at + 1, part, n) && at[1 + n] == '.';
}

ls_code ls_pad_checkpoint(ls_checkpoint *c, ls_err *err) {
    ls_hparams *h = &c->hparams;
    const int32_t hd = h->head_dim, ff = h->n_ff, heads = h->n_heads, kv = h->n_kv_heads;
    int32_t wide = up(hd, 16);
    if ((int64_t)heads * wide % 32) wide += 16;
    const int32_t high = up(ff, 32);
    if (wide == hd && high == ff) return LS_OK;
    if (wide != hd && h->qk_norm != LS_QK_NORM_NONE)
        return ls_fail(
            err, LS_E_UNSUPPORTED,
            "%s: heads of %d values with a norm over all heads are not supported (a multiple of 16 is needed)",
            c->files[0].path, hd);
    const struct {
        const char *part;
        bool out;
        int32_t groups, from, to;
    } parts[] = {{"attn_q", true, heads, hd, wide},       {"attn_k", true, kv, hd, wide},
                 {"attn_v", true, kv, hd, wide},          {"attn_qkv", true, heads + 2 * kv, hd, wide},
                 {"attn_output", false, heads, hd, wide}, {"ffn_gate", true, 1, ff, high},
                 {"ffn_up", true, 1, ff, high},           {"ffn_down", false, 1, ff, high}};
    ls_code code = LS_OK;
    for (int i = 0; i < c->n_tensors && !code; i++) {
        ls_tensor *t = &c->tensors[i];
        const bool bias = ls_ends_with(t->name, ".bias");
        for (size_t k = 0; k < sizeof parts / sizeof *parts && !code; k++) {
            if (!is(t->name, parts[k].part) || (bias && !parts[k].out)) continue;
            const bool both = t->n_out == 2 * (uint64_t)ff && parts[k].from == ff; // the gate and the other half
            code = pad(c, t, parts[k].out, both ? 2 : parts[k].groups, parts[k].from, parts[k].to, err);
        }
    }
    h->stated_head_dim = hd;
    h->stated_ff = ff;
    h->head_dim = wide;
    h->n_ff = high;
    return code;
}

// A row of ggml's simple blocks of 32 (ggml-quants.c).
static void to_floats(int type, const unsigned char *p, uint64_t n, float *out) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    const bool low = type == LS_GGML_Q4_1 || type == LS_GGML_Q5_1, five = type == LS_GGML_Q5_0 || type == LS_GGML_Q5_1;
    for (uint64_t b = 0; b < n / 32; b++, p += l->bytes, out += 32) {
        const float d = ls_half(p), least = low ? ls_half(p + 2) : 0;
        const unsigned char *high = p + (low ? 4 : 2), *q = high + (five ? 4 : 0);
        const uint32_t bits =
            five ? (uint32_t)high[0] | (uint32_t)high[1] << 8 | (uint32_t)high[2] << 16 | (uint32_t)high[3] << 24 : 0;
        const int middle = low ? 0 : five ? 16 : 8;
        for (int j = 0; j < 32; j++) {
            if (type == LS_GGML_Q8_0) {
                out[j] = d * (float)(signed char)q[j];
                continue;
            }
            const int four = j < 16 ? q[j] & 15 : q[j - 16] >> 4, v = four | (int)(bits >> j & 1) << 4;
            out[j] = d * (float)(v - middle) + least;
        }
    }
}

// Row `row` of the padded tensor: reads it, converts it to f32 if needed, and inserts the zeros.
static ls_code read_row(const ls_checkpoint *c, const ls_tensor *t, uint64_t row, unsigned char *source, float *floats,
                        unsigned char *dst, ls_err *err) {
    const ls_padding whole = {1, (int32_t)t->n_in, (int32_t)t->n_in}, in = t->in.groups ? t->in : whole;
    const uint64_t n_in = (uint64_t)in.groups * (uint64_t)in.from, bytes = ls_row_bytes(t->source, n_in),
                   some = ls_row_bytes(t->type, (uint64_t)in.from), all = ls_row_bytes(t->type, (uint64_t)in.to);
    memset(dst, 0, ls_row_bytes(t->type, t->n_in));
    if (t->out.groups) {
        const uint64_t group = row / (uint64_t)t->out.to, k = row % (uint64_t)t->out.to;
        if (k >= (uint64_t)t->out.from) return LS_OK;
        row = group * (uint64_t)t->out.from + k;
    }
    const ls_code code = ls_file_read(&c->files[t->file], t->offset + row * bytes, source, bytes, err);
    if (code) return code;
    const unsigned char *from = source;
    if (t->source != t->type) {
        to_floats(t->source, source, n_in, floats);
        from = (const unsigned char *)floats;
    }
    for (uint64_t g = 0; g < (uint64_t)in.groups; g++) memcpy(dst + g * all, from + g * some, some);
    return LS_OK;
}

ls_code ls_pad_read(const ls_checkpoint *c, const ls_tensor *t, uint64_t at, uint64_t n, void *dst, ls_err *err) {
    const uint64_t padded = ls_row_bytes(t->type, t->n_in);
    unsigned char *source = ls_malloc(padded), *row = ls_malloc(padded), *out = dst;
    float *floats = ls_malloc(t->n_in * sizeof *floats);
    ls_code code = LS_OK;
    for (uint64_t done = 0, take = 0; done < n && !code; done += take) {
        const uint64_t skip = (at + done) % padded;
        take = n - done < padded - skip ? n - done : padded - skip;
        code = read_row(c, t, (at + done) / padded, source, floats, row, err);
        if (!code) memcpy(out + done, row + skip, take);
    }
    free(source);
    free(row);
    free(floats);
    return code;
}
