/* Attention over keys and values of bf16 by AMX tiles (TDPBF16PS), behind kernels_impl.h. A block of 16 cached keys is
 * a tile of weights as it lies in memory, and so are 32 positions' values of 16 dimensions (kernels_cache.h). A score
 * is a sum over a head's dimensions, 32 in a tile. An output is a sum over tiles of 32 logical positions, whose first
 * is a multiple of 32 whether they are committed or not: values of the last ones, which a row's ancestors share with
 * nobody, are gathered to a tile of that row. So a row in a tree and the same row alone do identical arithmetic. */
/* Not formatted by a program: it would join macros that are statements. */
/* clang-format off */
#include "compute/kernels/amx.h"

/* SUMS: tiles 0 .. 3; a head of 16, 48 .. dimensions ends with half a step. */
enum { SUMS = 4, STEP = 32, PAIRS = STEP / 2 };
#define QUERIES 4
#define CACHED 5
#define HALF_QUERIES 6
#define HALF_CACHED 7

static void shape_tiles(int queries) {
    amx_config c = {0};
    for (int i = 0; i < SUMS; i++) amx_shape(&c, i, queries, AMX_BYTES);
    amx_shape(&c, QUERIES, queries, AMX_BYTES);
    amx_shape(&c, CACHED, PAIRS, AMX_BYTES);
    amx_shape(&c, HALF_QUERIES, queries, AMX_BYTES / 2);
    amx_shape(&c, HALF_CACHED, PAIRS / 2, AMX_BYTES);
    amx_configure(&c);
}

#define ADD_SCORES(i) \
    if ((i) < n) { \
        _tile_loadd(CACHED, at + (i) * block, AMX_BYTES); \
        _tile_dpbf16ps(i, QUERIES, CACHED); \
    }
#define ADD_HALF_SCORES(i) \
    if ((i) < n) { \
        _tile_loadd(HALF_CACHED, at + (i) * block, AMX_BYTES); \
        _tile_dpbf16ps(i, HALF_QUERIES, HALF_CACHED); \
    }
#define STORE_SCORES(i) \
    if ((i) < n) _tile_stored(i, y + (i) * LSK_TILE, (size_t)ldy * sizeof *y);
/* Of so many queries and n blocks of 16 keys. x: their pairs. */
static void score_tiles(const float *keys, int32_t hd, const float *x, float *y, int64_t ldy, int n) {
    const int32_t rows = hd / 2, block = rows * LSK_TILE;
    const float *at = keys;
    int32_t d = 0;
    AMX_FOUR(AMX_ZERO)
    for (; d + PAIRS <= rows; d += PAIRS, at += PAIRS * LSK_TILE) {
        _tile_loadd(QUERIES, x + d, (size_t)rows * sizeof *x);
        AMX_FOUR(ADD_SCORES)
    }
    if (d < rows) {
        _tile_loadd(HALF_QUERIES, x + d, (size_t)rows * sizeof *x);
        AMX_FOUR(ADD_HALF_SCORES)
    }
    AMX_FOUR(STORE_SCORES)
}

#define RESUME_VALUES(i) \
    if ((i) < n) _tile_loadd(i, y + (i) * LSK_TILE, (size_t)hd * sizeof *y);
#define ADD_VALUES(i) \
    if ((i) < n) { \
        _tile_loadd(CACHED, at + (i) * LSK_TILE, (size_t)hd * sizeof *at); \
        _tile_dpbf16ps(i, QUERIES, CACHED); \
    }
#define STORE_VALUES(i) \
    if ((i) < n) _tile_stored(i, y + (i) * LSK_TILE, (size_t)hd * sizeof *y);
/* Outputs over `steps` steps of 32 positions, whose values lie side by side. w: the weights' pairs. resumes: y goes on,
 * else it begins. first: of the passes over these values. */
static void value_tiles(const float *values, int32_t hd, int32_t steps, const float *w, int64_t ldw, float *y,
                        int resumes, int first) {
    for (int32_t d = 0; d < hd; d += SUMS * LSK_TILE, y += SUMS * LSK_TILE) {
        const int n = hd - d < SUMS * LSK_TILE ? (hd - d) / LSK_TILE : SUMS;
        const float *at = values + d;
        AMX_FOUR(AMX_ZERO)
        if (resumes) { AMX_FOUR(RESUME_VALUES) }
        for (int32_t i = 0; i < steps; i++, at += PAIRS * hd) {
            for (int32_t r = 0; first && r < PAIRS; r++)
                for (int t = 0; t < n; t++) __builtin_prefetch(at + (PAIRS + r) * hd + t * LSK_TILE);
            _tile_loadd(QUERIES, w + i * PAIRS, (size_t)ldw * sizeof *w);
            AMX_FOUR(ADD_VALUES)
        }
        AMX_FOUR(STORE_VALUES)
    }
}

/* The cache column of a query's logical position; -1: it sees no such position. */
static int32_t column_of(const lsk_attention *a, const lsk_query *q, int32_t position) {
    if (position < a->n_context) return position;
    return position - a->n_context < q->n_tail ? q->tail[position - a->n_context] : -1;
}
/* The values of 32 positions that a query sees, as if its tail were committed; 0 behind it. */
static void gather_values(const lsk_attention *a, const lsk_query *q, int32_t position, float *to) {
    const int32_t hd = a->cache.head_dim;
    for (int32_t r = 0; r < PAIRS; r++, position += 2, to += hd) {
        const int32_t first = column_of(a, q, position), second = column_of(a, q, position + 1);
        const float *x = (const float *)a->cache.v + (int64_t)(first < 0 ? 0 : first) / 2 * hd,
                    *y = (const float *)a->cache.v + (int64_t)(second < 0 ? 0 : second) / 2 * hd;
        for (int32_t d = 0; d < hd; d += W) {
            const vu one = (vu)vf_load(x + d), two = (vu)vf_load(y + d);
            const vu high = first < 0 ? (vu){0} : first % 2 ? one << 16 : one & 0xFFFF0000u,
                     low = second < 0 ? (vu){0} : second % 2 ? two & 0xFFFFu : two >> 16;
            vf_store(to + d, (vf)(high | low));
        }
    }
}

void lsk_amx_attention(const lsk_attention *a) {
    if (!a->cache.bf16) {
        k_attention(a);
        return;
    }
    const lsk_query *q = a->queries;
    const int32_t n = a->n_queries, hd = a->cache.head_dim, context = a->n_context, whole = context / STEP * STEP;
    int32_t columns, from;
    seen_of(a, &columns, &from);
    from = from / STEP * STEP;
    const int32_t blocks = (columns + LSK_TILE - 1) / LSK_TILE, passes = (n + AMX_ROWS - 1) / AMX_ROWS,
                  each = (n + passes - 1) / passes; /* queries of a pass; neighbours may share some */
    const int64_t ld = ((int64_t)blocks + 1) * LSK_TILE;
    float *x = a->scratch, *y = x + n * hd, *w = y + n * hd, *room = w + n * ld, inverse[LSK_QUERIES];
    const float *k = a->cache.k, *v = a->cache.v;
    for (int32_t i = 0; i < n; i++) {
        memcpy(y, q[i].q, (size_t)hd * sizeof *y);
        k_to_bf16(y, hd, NULL);
        pack_pairs(y, hd);
        memcpy(x + i * (hd / 2), y, (size_t)hd / 2 * sizeof *y);
    }
    memset(y, 0, (size_t)(n * hd) * sizeof *y);
    shape_tiles(each);
    amx_reads(x);
    for (int32_t b = from / LSK_TILE; b < blocks; b += SUMS) {
        const int taken = blocks - b < SUMS ? blocks - b : SUMS;
        const float *keys = k + (int64_t)b * (hd / 2) * LSK_TILE;
        for (int32_t i = 0; i < taken * hd / 2; i++) __builtin_prefetch(keys + (SUMS * hd / 2 + i) * LSK_TILE);
        for (int32_t pass = 0; pass < passes; pass++) {
            const int32_t first = passes == 1 ? 0 : (n - each) * pass / (passes - 1);
            score_tiles(keys, hd, x + first * (hd / 2), w + first * ld + b * LSK_TILE, ld, taken);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        float *weights = w + i * ld + from;
        const int32_t seen = context + q[i].n_tail - from, pairs = (seen + 1) / 2;
        inverse[i] = weigh(a, &q[i], from, w + i * ld);
        pack_pairs(weights, seen);
        for (int32_t j = pairs; j % PAIRS; j++) weights[j] = 0;
    }
    amx_reads(w);
    for (int32_t pass = 0; pass < passes && from < whole; pass++) {
        const int32_t first = passes == 1 ? 0 : (n - each) * pass / (passes - 1);
        value_tiles(v + (int64_t)(from / 2) * hd, hd, (whole - from) / STEP, w + first * ld + from, ld, y + first * hd, 0,
                    !pass);
    }
    shape_tiles(1);
    for (int32_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && q[i + same].tail == q[i].tail && q[i + same].n_tail == q[i].n_tail;) same++;
        for (int32_t p = whole; p < context + q[i].n_tail; p += STEP) {
            gather_values(a, &q[i], p, room);
            amx_reads(room);
            for (int32_t j = i; j < i + same; j++)
                value_tiles(room, hd, 1, w + j * ld + from + (p - from) / 2, ld, y + j * hd, 1, 0);
        }
    }
    _tile_release();
    for (int32_t i = 0; i < n; i++)
        for (int32_t d = 0; d < hd; d += W) vf_store(q[i].out + d, vf_load(y + i * hd + d) * vf_set(inverse[i]));
}
