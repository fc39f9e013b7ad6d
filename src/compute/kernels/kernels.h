/* CPU kernels of the decoder, in C. One source (kernels_impl.h) compiled once a CPU level.
 *
 * Batch invariance: a row's results depend on that row's inputs only. Every sum runs in one fixed order: a matmul
 * output is a single chain of fused multiply-adds over k = 0, 1, 2, ...; sums over positions use the order of *logical*
 * positions. So the number and order of rows in a call and the split over threads do not change any bit. (CPU levels
 * may differ from each other.)
 */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/ggml.h"
#include "base/half.h"
#include "compute/kernels/kernels_cache.h"
#include "compute/lst.h"

typedef enum {
    LSK_Q4,  /* 4-bit q, weight = scale * q + minimum, f16 scale and minimum per 32 inputs (Q4_0, Q4_1) */
    LSK_Q8,  /* 8-bit q, weight = scale * q, f16 scale per 32 inputs (Q8_0) */
    LSK_F32, /* plain floats (F32, F16, BF16) */
    LSK_Q4I, /* Q4 and Q8 with their bytes ordered for integer dot products */
    LSK_Q5I, /* the same of Q5_0 and Q5_1 */
    LSK_Q8I,
    LSK_NL4I, /* the same of IQ4_NL: q is the index of an integer in a table of 16 */
    LSK_MX4I, /* MXFP4: as NL4I with another table, and the scale is a power of two */
    LSK_NV4I, /* NVFP4: MX4I's table, an f32 scale and E4M3 scales of 16 inputs */
    LSK_K2I, /* the same of K formats, whose groups' scales are small integers: Q2_K, scales and minima of 16 inputs */
    LSK_K3I, /* Q3_K, scales of 16 inputs */
    LSK_K4I, /* Q4_K */
    LSK_K5I, /* Q5_K */
    LSK_K6I, /* Q6_K, scales of 16 inputs */
    LSK_XS4I, /* IQ4_XS: as K4I with NL4I's table and without a minimum */
    LSK_BF16, /* bf16 pairs: [n_in / 2][16 outputs][2] */
    LSK_F16,  /* [n_in][16 outputs] */
    LSK_Q4B,  /* Q4 and Q8 output by output, for bf16 arithmetic that unpacks them */
    LSK_Q8B,
    LSK_Q4S,  /* as Q4 with f32 scale and minimum (Q4_K) */
    LSK_Q8S,  /* signed 8-bit q, weight = scale * q + minimum, f32 scale and minimum per 16 inputs (Q5, K formats) */
} lsk_format;
static inline int lsk_takes_integers(lsk_format f) {
    return f >= LSK_Q4I && f <= LSK_XS4I;
}

/* A group of inputs for a tile's 16 outputs. In f32 arithmetic q holds the 16 outputs of an input (4 bits: of two
 * inputs) side by side, in integer arithmetic four inputs of an output, in bf16 arithmetic all 32 of an output. */
typedef struct {
    uint16_t scale[LSK_TILE], min[LSK_TILE]; /* f16 bits */
    uint8_t q[16 * LSK_TILE];
} lsk_q4; /* 32 inputs of Q4, Q4I and Q4B */
typedef struct {
    uint16_t scale[LSK_TILE];
    uint8_t q[32 * LSK_TILE]; /* of Q8I: + 128 */
} lsk_q8;                     /* 32 inputs of Q8, Q8I and Q8B */
typedef struct {
    float scale[LSK_TILE], min[LSK_TILE];
    uint8_t q[16 * LSK_TILE];
} lsk_wide; /* 32 inputs of Q4S, 16 of Q8S */
typedef struct {
    uint16_t scale[LSK_TILE], min[LSK_TILE];
    uint8_t q[16 * LSK_TILE], high[4 * LSK_TILE];
} lsk_q5; /* 32 inputs of Q5I: as lsk_q4, and bit j of byte i of an output in high is the fifth of input 4j + i */
typedef struct {
    uint16_t scale[LSK_TILE];
    uint8_t q[16 * LSK_TILE];
} lsk_nl4; /* 32 inputs of NL4I */
typedef struct {
    uint8_t scale[LSK_TILE]; /* e: 2^(e - 128) */
    uint8_t q[16 * LSK_TILE];
} lsk_mx4; /* 32 inputs of MX4I */
typedef struct {
    uint8_t scale[2][LSK_TILE]; /* E4M3, of 16 inputs: weight = d * scale / 2 * table[q]; d, 16 floats, begins the tile */
    uint8_t q[16 * LSK_TILE];
} lsk_nv4; /* 32 inputs of NV4I */
static inline const lsk_nv4 *lsk_nv4_at(const void *tile, size_t group) {
    return (const lsk_nv4 *)((const unsigned char *)tile + LSK_TILE * sizeof(float)) + group;
}
typedef struct {
    uint16_t d[LSK_TILE];
    uint8_t scale[8][LSK_TILE]; /* with a sign: weight = d * scale[g] * table[q] */
    struct {
        uint8_t q[16 * LSK_TILE];
    } g[8];
} lsk_xs4; /* 256 inputs of XS4I */
/* 256 inputs of K formats. Of group g, with d and dmin of the output:
 *
 *   K4I, K5I  weight = d * scale[g] * q - dmin * min[g]
 *   K2I       the same, but the low four bits of scale[g] and min[g] are those of inputs 0 to 15, the high ones of 16 to 31
 *   K6I, K3I  weight = d * s * (q - 32), or (q - 4); s, which has a sign, is scale[g], of inputs 16 to 31 min[g]
 *
 * q holds 4 bits, as that of Q4I. In K2I and K3I it holds 2: those of input 4j + i and an output are bits 2j and 2j + 1 of
 * the output's byte i in the first 64 bytes, those of input 16 + 4j + i the same in the last 64. high holds the bits above
 * them: one in K5I and K3I, as that of Q5I, two in K6I, as q of two. */
#define LSK_K_BLOCK(name, Q, HIGH) \
    typedef struct { \
        uint16_t d[LSK_TILE], dmin[LSK_TILE]; /* f16 bits */ \
        uint8_t scale[8][LSK_TILE], min[8][LSK_TILE]; \
        struct { \
            uint8_t q[Q * LSK_TILE], high[HIGH * LSK_TILE]; \
        } g[8]; \
    } name;
LSK_K_BLOCK(lsk_k2, 8, 0)
LSK_K_BLOCK(lsk_k3, 8, 4)
LSK_K_BLOCK(lsk_k4, 16, 0)
LSK_K_BLOCK(lsk_k5, 16, 4)
LSK_K_BLOCK(lsk_k6, 16, 8)

/* The arithmetic for which a matrix is packed. f32: floats, with unrounded weights. i16 and i8: a matmul's input is
 * rounded to 16-bit or 8-bit integers, with a scale per 32 values, and multiplied exactly by the stored weight
 * integers; plain-float weights use f32. mixed: i8, but i16 for the groups of 32 with a large share of their row's
 * energy (lsk_wide_group), because these few groups cause most of the rounding error. bf16: weights and a matmul's
 * input are rounded to bf16, sums are f32. bf16 packed, for weights only: bf16, but Q4 and Q8 weights are unpacked and
 * rounded each time they are used (lsk_table.unpacks). */
typedef enum {
    LSK_ARITH_F32,
    LSK_ARITH_I16,
    LSK_ARITH_I8,
    LSK_ARITH_BF16,
    LSK_ARITH_MIXED,
    LSK_ARITH_BF16_PACKED
} lsk_arith;

/* 32 values of a matmul's input as integers v: value = scale * v, v = 256 * hi + lo in i16, v = hi in i8. In mixed
 * arithmetic v = hi, and lo / 256 is added to it in wide groups. */
typedef struct {
    int8_t hi[32], lo[32];
    float scale;      /* largest magnitude / the integer that stands for it (lsk_steps); NaN if a value is not finite */
    float sum;        /* scale * (sum of v) */
    int32_t total128; /* 128 * (sum of v) */
    int32_t first32;  /* 32 * (sum of the first 16 v) */
} lsk_group;
/* 32 * (sum of v) of the first 16 or of the last, and scale * (sum of v) of them. */
static inline int32_t lsk_half32(const lsk_group *g, int last) {
    return last ? g->total128 / 4 - g->first32 : g->first32;
}
static inline float lsk_half_sum(const lsk_group *g, int last) {
    return g->scale * (float)(lsk_half32(g, last) >> 5);
}

/* The integer to which a group's largest magnitude is rounded. */
static inline int32_t lsk_steps(lsk_arith arith) {
    return arith == LSK_ARITH_I8 ? 127 : 32512; /* 32512 = 127 * 256: both halves are signed bytes */
}

/* Mixed arithmetic: a group of a row is wide (uses 16 bits) if its squared largest magnitude is more than LSK_WIDE
 * times the mean of the row's groups. */
enum { LSK_WIDE = 4, LSK_WIDE_ROWS = 32 };
typedef struct {
    int32_t group;
    uint32_t rows;        /* bit r: in row r it is wide */
    const lsk_group *low; /* of these rows, in order: the group with lo for v */
} lsk_wide_group;

/* A [n_out, n_in] matrix repacked for the kernels: tiles of 16 outputs; inside a tile k runs slowest, so that
 * the 16 weights of one k are one vector. Weights keep exactly the values that the file's format defines. */
typedef struct {
    lsk_format format;
    int32_t n_out, n_in;
    size_t tile_bytes;
    unsigned char *data; /* ceil(n_out / 16) tiles; 64-byte aligned; owned by the caller */
} lsk_matrix;

/* Bytes of the packed matrix; 0 if the type or shape cannot be packed. */
size_t lsk_pack_bytes(int ggml_type, int64_t n_out, int64_t n_in, lsk_arith arith);
/* Packs raw GGUF rows into m->data (allocated by the caller). m->format, n_out, n_in, tile_bytes are set by
 * lsk_pack_init. Rows below row_begin of m are left alone: several tensors can be stacked into one matrix. */
void lsk_pack_init(lsk_matrix *m, int ggml_type, int64_t n_out, int64_t n_in, lsk_arith arith);
void lsk_pack_rows(lsk_matrix *m, int64_t row_begin, int ggml_type, const void *raw, int64_t n_rows);
/* Whether the packed matrix has the values of its rows, which were of this type; then the row, bit for bit as
 * lsk_dequant_row gives it. */
int lsk_packs_back(const lsk_matrix *m, int ggml_type);
void lsk_packed_row(const lsk_matrix *m, int64_t row, float *out);
/* One row of a raw GGUF tensor as floats. */
void lsk_dequant_row(int ggml_type, const void *raw_row, int64_t n, float *out);
/* The same as integers, for a type with blocks: value i = q[i] * scale[i / 16] + min[i / 16]. */
void lsk_unpack_row(int ggml_type, const void *raw_row, int64_t n, int8_t *q, float *scale, float *min);
/* Hardware prefetchers stop at page borders, so the kernels prefetch a few KB ahead. */
static inline __attribute__((always_inline)) void lsk_prefetch(const void *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const unsigned char *)p + 4096 + i);
}

static inline uint16_t lsk_half_bits_at(const void *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}
static inline float lsk_half_at(const void *p) {
    return ls_of_half(lsk_half_bits_at(p));
}
static inline float lsk_bf16_to_float(uint16_t b) {
    const uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
/* n floats (a multiple of 32) as F32, F16, BF16, Q8_0 (scaled by the largest magnitude of 32) or Q4_1 (by their least
 * and largest value). */
void lsk_quantize_row(int ggml_type, const float *x, int64_t n, void *out);
/* 1 if every value of the raw rows is finite (and every Q4_0 scale can be multiplied by -8 in f16), else 0. */
int lsk_finite(int ggml_type, const void *raw, int64_t n_rows, int64_t n_in);
size_t lsk_row_bytes(int ggml_type, int64_t n); /* 0: unknown type or n not a multiple of the block */

/* Of LSK_WIDE_ROWS rows after the other: the groups that are wide in one of them, in order. */
typedef struct {
    int32_t chunks, n[LST_MAX_ROWS / LSK_WIDE_ROWS];
    const lsk_wide_group *of[LST_MAX_ROWS / LSK_WIDE_ROWS];
} lsk_wide_rows;
/* None in other arithmetic. scratch: as matmul's, holds them. */
lsk_wide_rows lsk_find_wide(const lsk_matrix *w, lsk_arith arith, const lsk_group *x, int64_t ldx, int32_t rows,
                            void *scratch);

/* What one query head of one row sees: the committed positions from `first` on, then its tail. */
typedef struct {
    const float *q;      /* [head_dim], already rotated and scaled by 1/sqrt(head_dim) */
    float *out;          /* [head_dim] */
    const int32_t *tail; /* cache columns of the row's ancestors behind the committed ones and of itself, ascending */
    int32_t n_tail;      /* at least 1 */
    int32_t first;       /* logical position before which nothing is seen (sliding window) */
    const float *sink;   /* one more score, of a value of zeros; NULL: none */
} lsk_query;

/* At most LSK_QUERIES that share a key/value head of one layer. Where keys and values are bf16, so are the queries and
 * the weights of the sums over values. */
typedef struct {
    lsk_cache cache; /* readable up to whole blocks */
    const lsk_query *queries;
    int32_t n_queries;
    int32_t n_context; /* cache columns 0 .. n_context-1 are the committed positions */
    float softcap;     /* scores become cap * tanh(score / cap); 0: no cap */
    float *scratch;    /* lsk_attention_scratch floats, 64-byte aligned */
} lsk_attention;

/* LSK_AGAIN: number of values that are reused many times; as floats they fill half of an L1 cache. */
enum { LSK_QUERIES = 48, LSK_AGAIN = 4096 };
/* For this number of queries that see cache columns below n_columns. */
static inline int64_t lsk_attention_scratch(int64_t n_queries, int64_t n_columns, int64_t head_dim) {
    const int64_t four_blocks = 4 * LSK_TILE * head_dim, again = LSK_AGAIN;
    return n_queries * (2 * head_dim + ((n_columns + LSK_TILE - 1) / LSK_TILE + 1) * LSK_TILE) +
           (four_blocks > again ? four_blocks : again);
}

typedef void lsk_matmul_int(const lsk_matrix *w, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                            int32_t rows, int32_t tile_begin, int32_t tile_end, void *scratch);
typedef void lsk_matmul_bf16(const lsk_matrix *w, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                             int32_t tile_begin, int32_t tile_end, void *scratch);

typedef struct {
    const char *name;
    /* y[r * ldy + o] = sum over k of x[r * ldx + k] * w[o][k] for the outputs of tiles [tile_begin, tile_end).
     * scratch: n_in * 64 floats, 64-byte aligned, one a thread. */
    void (*matmul)(const lsk_matrix *w, const float *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                   int32_t tile_begin, int32_t tile_end, float *scratch);
    /* The same for formats that take integers; group g of row r is x[g * ldx + r]. Inside a group the sum is over integers and
     * so exact; groups are added in order, in mixed arithmetic the low halves of wide groups after all others. Every
     * level gives the same bits. scratch: as matmul's. */
    lsk_matmul_int *matmul_int;
    void (*quantize)(const float *x, int32_t n, lsk_arith arith, lsk_group *out,
                     int64_t stride); /* groups: stride apart */
    /* Rounds x to bf16 in place and writes the bits beside (NULL: nowhere); matmul then takes x. n a multiple of 16. */
    void (*to_bf16)(float *x, int32_t n, uint16_t *bits);
    /* NULL, or for LSK_BF16, where unpacks is set also LSK_Q4B and LSK_Q8B: faster than matmul, from the bits of x. Its
     * sums run over pairs of inputs, each level's in an order of its own. scratch: as matmul's. */
    lsk_matmul_bf16 *matmul_bf16;
    int unpacks;
    void (*rmsnorm)(const float *x, const float *weight, int32_t n, float eps, float *out);
    /* The same of x minus its mean, plus the biases weight[n .. 2 n). */
    void (*layernorm)(const float *x, const float *weight, int32_t n, float eps, float *out);
    /* Pairs turned by angle i, all of it scaled: (x[2i], x[2i+1]) where interleaved, else (x[i], x[i + dims/2]); cs
     * holds cos, sin, cos, sin.. */
    void (*rope)(float *x, int32_t dims, int interleaved, const float *cs, float scale);
    /* act(gate) * up by LS_ACT_*; up NULL: act(gate). xielu: its four numbers. n a multiple of 16. */
    void (*activate)(int32_t activation, const float *xielu, const float *gate, const float *up, int32_t n, float *out);
    void (*softcap)(float *x, int32_t n, float cap); /* n a multiple of 16 */
    void (*attention)(const lsk_attention *a);
    /* n a multiple of 16. Fills lse, entropy, top_* of row; returns 0, or -1 if a logit is NaN or +inf. */
    int (*row_stats)(const float *logits, int32_t n, lst_row *row);
    /* k best, best first, ties: lower index first */
    void (*top)(const float *logits, int32_t n, int32_t k, int32_t *ids, float *values);
    /* The instruction that matmuls of f32, of integers and of bf16 are made of, so many times on independent sums in
     * registers. Returns the multiply-adds that these were. peak_int NULL: the level has no such instruction, and
     * matmul_int is slower than matmul. */
    int64_t (*peak_f32)(int64_t rounds), (*peak_int)(int64_t rounds), (*peak_bf16)(int64_t rounds);
} lsk_table;
/* Hides a sum's value from the compiler, so that it does not remove multiplications. */
#if defined(__x86_64__)
#define LSK_KEEP(sum) __asm__ volatile("" : "+v"(sum));
#elif defined(__aarch64__)
#define LSK_KEEP(sum) __asm__ volatile("" : "+w"(sum));
#else
#define LSK_KEEP(sum) __asm__ volatile("" : "+m"(sum));
#endif
/* Number of independent sums that hides the latency of one on all known processors. They are separate variables,
 * because an array would be kept in memory. */
enum { LSK_PEAK_SUMS = 12 };
#define LSK_EACH_SUM(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
/* A peak of a table, of LSK_STEP(sum, x), which the including file defines: it does `products` multiply-adds. What x holds
 * is hidden too, so that no product is computed once for all. */
#define LSK_SUM(i) sum##i = LSK_ZERO,
#define LSK_ADD(i)                                                                                                     \
    LSK_KEEP(x)                                                                                                        \
    sum##i = LSK_STEP(sum##i, x);                                                                                      \
    LSK_KEEP(sum##i)
#define LSK_PEAK(name, vector, products)                                                                               \
    static int64_t name(int64_t rounds) {                                                                              \
        vector LSK_EACH_SUM(LSK_SUM) x = LSK_ZERO;                                                                     \
        for (int64_t n = 0; n < rounds; n++) {                                                                         \
            LSK_EACH_SUM(LSK_ADD)                                                                                      \
        }                                                                                                              \
        return rounds * LSK_PEAK_SUMS * (products);                                                                    \
    }

/* AMX: whether CPU and kernel allow tiles and these are right. The first call also measures from how many rows on they
 * are faster than vpdpbusd, for matmul_int of the table lsk_amx, which these are of: */
int lsk_amx_usable(void);
lsk_matmul_int lsk_amx_matmul_int8; /* of Q4I and Q8I, at least LSK_AMX_LEAST rows, and not i16 */
enum { LSK_AMX_LEAST = 8 };
int32_t lsk_amx_pass(int32_t rows); /* so many of them it takes at once */
lsk_matmul_bf16 lsk_amx_matmul_bf16, lsk_amx_matmul_packed; /* the latter at most 64 rows of Q4B and Q8B, for the first */
void lsk_amx_attention(const lsk_attention *a); /* over floats that of avx512bf16 */
/* Mixed arithmetic: adds to the outputs of a tile the low halves of wide groups, after all others. */
void lsk_avx512vnni_add_wide(const lsk_matrix *m, const lsk_wide_rows *wide, float *y, int64_t ldy, int32_t rows,
                             int32_t tile);

/* The best level of this CPU. The environment variable LOGITSPEC_CPU (a level's name) lowers it. NULL: the variable
 * names no level of this kind of processor. */
const lsk_table *lsk_pick(void);
/* A level by name, NULL if unknown or not available here. */
const lsk_table *lsk_level(const char *name);
/* The names of this kind of processor's levels, best first; NULL behind the last. */
const char *lsk_level_name(int i);
