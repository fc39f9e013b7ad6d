// Rows of quantised weights as blocks of a GGUF type.
#include "base/mem.h"
#include "model/checkpoint_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A weight's parts lie apart, and words of GPTQ and AWQ hold neighbours of other rows. So the parts of one weight (of
// experts: of one of them) are read as a whole and stay until others are read.
struct ls_quantized_memory {
    pthread_rwlock_t lock; // for reading while rows are made, for writing while parts are read
    int file;              // what is there: the place of the weight's part, and the expert
    uint64_t offset, expert;
    bool any;
    unsigned char *part[LS_PARTS];
    float codes[256]; // what a byte of the weight stands for
};

struct ls_quantized_memory *ls_quantized_memory_new(void) {
    struct ls_quantized_memory *m = ls_calloc(1, sizeof *m);
    pthread_rwlock_init(&m->lock, NULL);
    return m;
}

static void forget(struct ls_quantized_memory *m) {
    for (int i = 0; i < LS_PARTS; i++) free(m->part[i]);
    memset(m->part, 0, sizeof m->part);
    m->any = false;
}

void ls_checkpoint_forget(const ls_checkpoint *c) {
    struct ls_quantized_memory *m = c->quantized_memory;
    if (!m) return;
    pthread_rwlock_wrlock(&m->lock);
    forget(m);
    pthread_rwlock_unlock(&m->lock);
}

void ls_quantized_memory_free(struct ls_quantized_memory *m) {
    if (!m) return;
    forget(m);
    pthread_rwlock_destroy(&m->lock);
    free(m);
}

// ---- numbers

static int32_t word_at(const unsigned char *p, uint64_t i) {
    int32_t w;
    memcpy(&w, p + 4 * i, sizeof w);
    return w;
}

static float scale_at(const ls_quantized *q, const unsigned char *p, uint64_t i) {
    const char *dtype = q->part[LS_PART_SCALE].dtype;
    float f;
    if (!strcmp(dtype, "F32")) memcpy(&f, p + 4 * i, 4);
    else if (!strcmp(dtype, "F16")) f = ls_half(p + 2 * i);
    else if (!strcmp(dtype, "F8_E4M3")) f = ls_of_e4m3(p[i]);
    else {
        const uint32_t bits = (uint32_t)p[2 * i] << 16 | (uint32_t)p[2 * i + 1] << 24;
        memcpy(&f, &bits, 4);
    }
    return f;
}

// Bit of value i of a word; AWQ interleaves eight outputs.
static unsigned shift_of(const ls_quantized *q, uint64_t i) {
    static const uint8_t nibble_of[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return q->kind == LS_AWQ ? 4u * nibble_of[i] : (unsigned)i * (unsigned)q->bits;
}

static int value_at(const ls_quantized *q, const unsigned char *words, uint64_t word, uint64_t i) {
    return (int)((uint32_t)word_at(words, word) >> shift_of(q, i) & ((1u << q->bits) - 1));
}

int ls_quantized_zero(const ls_quantized *q, const unsigned char *zeros, uint64_t group, uint64_t row) {
    const uint64_t per = 32 / (uint64_t)q->bits, words = q->n_out / per;
    const uint64_t word = q->kind == LS_PACKED ? row / per * q->groups + group : group * words + row / per;
    return value_at(q, zeros, word, row % per) + q->zero_minus_one;
}

// ---- a row

typedef struct {
    uint8_t *code;  // [n_in]: a byte of the weight, or q - zero as a signed byte
    float *scale;   // [groups]
    uint8_t *power; // [groups] of MXFP4 and NVFP4: the byte that is their scale
    float all;      // of NVFP4: scales the weight
    int *zero;      // [groups]
} row_parts;

static void read_codes(const ls_quantized *q, unsigned char *const *part, uint64_t row, row_parts *r) {
    const unsigned char *w = part[LS_PART_WEIGHT];
    const uint64_t per = q->bits ? 32 / (uint64_t)q->bits : 1;
    if (q->kind == LS_FP8 || q->kind == LS_INT8) memcpy(r->code, w + row * q->n_in, q->n_in);
    else if (q->kind == LS_NVFP4 || q->kind == LS_MXFP4)
        for (uint64_t k = 0; k < q->n_in; k++) r->code[k] = w[(row * q->n_in + k) / 2] >> k % 2 * 4 & 15;
    else
        for (uint64_t column = 0; column < q->n_in; column++) {
            const uint64_t k = q->order ? (uint64_t)q->order[column] : column;
            const uint64_t group = q->ordered ? (uint64_t)word_at(part[LS_PART_ORDER], k) : k / q->group;
            const int v = q->kind == LS_GPTQ  ? value_at(q, w, k / per * q->n_out + row, k % per)
                          : q->kind == LS_AWQ ? value_at(q, w, (k * q->n_out + row) / 8, row % 8)
                                              : value_at(q, w, (row * q->n_in + k) / per, k % per);
            r->code[column] = (uint8_t)(v - r->zero[group]);
        }
}

static void read_scales(const ls_quantized *q, unsigned char *const *part, uint64_t row, row_parts *r) {
    const bool along_outputs = q->kind == LS_GPTQ || q->kind == LS_AWQ;
    if (part[LS_PART_GLOBAL]) memcpy(&r->all, part[LS_PART_GLOBAL], 4);
    if (q->divides) r->all = 1 / r->all;
    for (uint64_t g = 0; g < q->groups; g++) {
        const uint64_t at = along_outputs ? g * q->n_out + row : row / q->scale_rows * q->groups + g;
        if (q->kind == LS_MXFP4 || q->kind == LS_NVFP4) r->power[g] = part[LS_PART_SCALE][at];
        else r->scale[g] = scale_at(q, part[LS_PART_SCALE], at);
        r->zero[g] = part[LS_PART_ZERO] ? ls_quantized_zero(q, part[LS_PART_ZERO], g, row)
                     : q->bits          ? 1 << (q->bits - 1)
                                        : 0;
    }
}

static void put_half(unsigned char *to, uint16_t h) {
    memcpy(to, &h, sizeof h);
}

// A block of 64 values of NVFP4: of each 16, the first eight are low nibbles.
static void put_nvfp4(const row_parts *r, uint64_t k, unsigned char *to) {
    memcpy(to, &r->all, 4);
    memcpy(to + 4, r->power + k / 16, 4);
    for (uint64_t i = 0; i < 32; i++) {
        const uint8_t *code = r->code + k + i / 8 * 16 + i % 8;
        to[8 + i] = (uint8_t)(code[0] | code[8] << 4);
    }
}

// 32 values of a block that begins with its scale.
static void put_block(const ls_quantized *q, const row_parts *r, uint64_t k, unsigned char *to) {
    const uint64_t g = k / q->group;
    const uint8_t *code = r->code + k;
    if (q->type == LS_GGML_MXFP4) *to = r->power[g];
    else put_half(to, ls_to_half(r->scale[g]));
    switch (q->type) {
    case LS_GGML_Q8_0: memcpy(to + 2, code, 32); return;
    case LS_GGML_Q4_0:
        for (int i = 0; i < 16; i++)
            to[2 + i] = (uint8_t)((code[i] + 8) & 15) | (uint8_t)((code[i + 16] + 8) & 15) << 4;
        return;
    case LS_GGML_MXFP4:
        for (int i = 0; i < 16; i++) to[1 + i] = (uint8_t)(code[i] | code[i + 16] << 4);
        return;
    default: { // Q5_0
        uint32_t high = 0;
        for (int i = 0; i < 32; i++) high |= (uint32_t)((code[i] + 16) >> 4 & 1) << i;
        memcpy(to + 2, &high, sizeof high);
        for (int i = 0; i < 16; i++) to[6 + i] = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);
    }
    }
}

static void put_row(const struct ls_quantized_memory *m, const ls_quantized *q, const row_parts *r, unsigned char *to) {
    const ls_ggml_layout *l = ls_ggml_layout_of(q->type);
    if (q->type == LS_GGML_BF16)
        for (uint64_t k = 0; k < q->n_in; k++) {
            const uint64_t g = q->ordered ? (uint64_t)word_at(m->part[LS_PART_ORDER], k) : k / q->group;
            put_half(to + 2 * k, ls_to_bf16(m->codes[r->code[k]] * r->scale[g]));
        }
    else if (q->type == LS_GGML_NVFP4)
        for (uint64_t k = 0; k < q->n_in; k += 64, to += l->bytes) put_nvfp4(r, k, to);
    else
        for (uint64_t k = 0; k < q->n_in; k += 32, to += l->bytes) put_block(q, r, k, to);
}

// ---- reading

static bool has(const struct ls_quantized_memory *m, const ls_quantized *q, uint64_t expert) {
    return m->any && m->file == q->part[LS_PART_WEIGHT].file && m->offset == q->part[LS_PART_WEIGHT].offset &&
           m->expert == expert;
}

// Reads an expert's parts of q. LS_E_IO: a read failed; then the memory is empty.
static ls_code load(struct ls_quantized_memory *m, const ls_checkpoint *c, const ls_quantized *q, uint64_t expert,
                    ls_err *err) {
    ls_code code = LS_OK;
    if (has(m, q, expert)) return LS_OK;
    forget(m);
    for (int i = 0; i < LS_PARTS && !code; i++) {
        if (!q->part[i].ending) continue;
        const uint64_t n = q->part[i].n_bytes / q->experts;
        m->part[i] = ls_malloc(n + 1);
        code = ls_file_read(&c->files[q->part[i].file], q->part[i].offset + expert * n, m->part[i], n, err);
    }
    if (code) forget(m);
    m->any = !code;
    m->file = q->part[LS_PART_WEIGHT].file;
    m->offset = q->part[LS_PART_WEIGHT].offset;
    m->expert = expert;
    for (unsigned b = 0; b < 256; b++) m->codes[b] = q->kind == LS_FP8 ? ls_of_e4m3(b) : (float)(int8_t)b;
    return code;
}

// n rows of an expert from `row` on. Neighbours of a row's value lie apart in the file, those of a column do not.
static void put_strided(const ls_quantized *q, const unsigned char *from, uint64_t row, uint64_t n, void *to) {
    from += (row * q->step + q->start) * (q->type == LS_GGML_F32 ? 4 : 2);
    for (uint64_t k = 0; k < q->n_in; k++)
        for (uint64_t r = 0; r < n; r++) {
            const uint64_t source = k * q->column + r * q->step, at = r * q->n_in + k;
            if (q->type == LS_GGML_F32) memcpy((unsigned char *)to + 4 * at, from + 4 * source, 4);
            else memcpy((unsigned char *)to + 2 * at, from + 2 * source, 2);
        }
}

// Bytes [at, at + n) of the rows of one expert.
static void make_rows(const struct ls_quantized_memory *m, const ls_quantized *q, uint64_t at, uint64_t n,
                      unsigned char *dst) {
    enum { TOGETHER = 32 }; // strided rows
    const uint64_t row_bytes = ls_row_bytes(q->type, q->n_in);
    row_parts r = {ls_malloc(q->n_in), ls_calloc(q->groups + 1, sizeof *r.scale), ls_calloc(q->groups + 1, 1), 1,
                   ls_calloc(q->groups + 1, sizeof *r.zero)};
    unsigned char *some = ls_malloc(row_bytes); // of a row
    for (uint64_t done = 0, take; done < n; done += take) {
        const uint64_t row = (at + done) / row_bytes, skip = (at + done) % row_bytes, whole = (n - done) / row_bytes;
        take = n - done < row_bytes - skip ? n - done : row_bytes - skip;
        unsigned char *to = take == row_bytes ? dst + done : some;
        if (q->kind == LS_STRIDED) {
            const uint64_t rows = skip || !whole ? 1 : whole < TOGETHER ? whole : TOGETHER;
            put_strided(q, m->part[LS_PART_WEIGHT], row, rows, to);
            if (rows > 1) take = rows * row_bytes;
        } else {
            read_scales(q, m->part, row * q->step + q->start, &r);
            read_codes(q, m->part, row * q->step + q->start, &r);
            put_row(m, q, &r, to);
        }
        if (to == some) memcpy(dst + done, some + skip, take);
    }
    free(r.code), free(r.scale), free(r.power), free(r.zero), free(some);
}

// Bytes [at, at + n) of the rows of one expert in a GGUF file, whose blocks have neither the matrix's scale, which is
// put before each, nor signs of scales.
static ls_code read_blocks(const ls_checkpoint *c, const ls_quantized *q, uint64_t expert, uint64_t at, uint64_t n,
                           unsigned char *dst, ls_err *err) {
    enum { FILED = LS_GGML_NVFP4_FILE, MADE = 4 + FILED, TOGETHER = 512 };
    unsigned char filed[TOGETHER * FILED], made[TOGETHER * MADE];
    const ls_file *scales = &c->files[q->part[LS_PART_GLOBAL].file], *blocks = &c->files[q->part[LS_PART_WEIGHT].file];
    const uint64_t first = q->part[LS_PART_WEIGHT].offset + q->part[LS_PART_WEIGHT].n_bytes / q->experts * expert;
    float all = 1;
    ls_code code = LS_OK;
    if (q->part[LS_PART_GLOBAL].ending)
        code = ls_file_read(scales, q->part[LS_PART_GLOBAL].offset + 4 * expert, &all, sizeof all, err);
    for (uint64_t take; n && !code; at += take, dst += take, n -= take) {
        const uint64_t skip = at % MADE, left = (skip + n + MADE - 1) / MADE, some = left < TOGETHER ? left : TOGETHER;
        take = some * MADE - skip < n ? some * MADE - skip : n;
        if ((code = ls_file_read(blocks, first + at / MADE * FILED, filed, some * FILED, err))) break;
        for (uint64_t i = 0; i < some; i++) {
            memcpy(made + i * MADE, &all, 4);
            memcpy(made + i * MADE + 4, filed + i * FILED, FILED);
            for (int g = 0; g < 4; g++) made[i * MADE + 4 + g] &= 127;
        }
        memcpy(dst, made + skip, take);
    }
    return code;
}

ls_code ls_quantized_read(const ls_checkpoint *c, const ls_tensor *t, uint64_t at, uint64_t n, void *dst, ls_err *err) {
    struct ls_quantized_memory *m = c->quantized_memory;
    const ls_quantized *q = t->quantized;
    const uint64_t each = t->n_bytes / q->experts;
    unsigned char *to = dst;
    while (n) {
        const uint64_t expert = at / each, from = at % each, take = n < each - from ? n : each - from;
        if (q->kind == LS_NVFP4_BLOCKS) {
            const ls_code code = read_blocks(c, q, expert, from, take, to, err);
            if (code) return code;
            at += take, to += take, n -= take;
            continue;
        }
        pthread_rwlock_rdlock(&m->lock);
        const bool there = has(m, q, expert);
        if (there) make_rows(m, q, from, take, to);
        pthread_rwlock_unlock(&m->lock);
        if (there) {
            at += take, to += take, n -= take;
            continue;
        }
        pthread_rwlock_wrlock(&m->lock);
        const ls_code code = load(m, c, q, expert, err);
        pthread_rwlock_unlock(&m->lock);
        if (code) return code;
    }
    return LS_OK;
}
