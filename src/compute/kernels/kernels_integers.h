/* i16 and i8 arithmetic, on the vector that it was given. The idea is that of llama.cpp's products of Q4_0 or Q8_0 with
 * Q8_0: both factors are integers with a scale for 32 of them, so a group's sum is exact in 32-bit integers in any
 * order, and only the multiply-add of its scaled value to the row's float sum rounds. So all levels agree bit for bit.
 * The including file defines
 *
 *   INT_ROWS, INT_MOST         UP_TO_n and n: kernels of 1 to n rows
 *   INT_MOST_ROWS(bits, is16)  rows that a pass takes at most, where that is fewer
 *   INT_TOGETHER               vectors of a tile, and
 *   INT_BLOCK(rows, is16)      rows, whose sums over a group are made together in registers
 *   INT_SIGNED                 1: products take signed weights
 *   int_products(w, is16, v, j, end, x, pairs, from, to, dots)
 *                              dots[h][r]: the exact sums of rows from .. to - 1 over inputs 4j .. 4 * end - 1, of the
 *                              outputs of vector v + h
 *   INT_PAIRED(bits, is16)     whether products take a row's inputs as pairs of words: INT_PAIRS of a group, which
 *                              int_pairs(x, is16, out) writes
 *
 * A kernel takes a group's weights once for its rows. All rows pass over a tile (of pairs: those of 32 rows) before the
 * next one, so the tile comes from memory for the first. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/kernels_intgroup.h"

#ifndef INT_PAIRED
#define INT_PAIRED(bits, is16) 0
enum { INT_PAIRS = 0 };
static void int_pairs(const lsk_group *x, int is16, int32_t *out) {
    (void)x, (void)is16, (void)out;
}
#endif

/* A pass of a kernel over a tile: over the first n groups, whose sums begin, or over a list of n, with which y goes on. */
typedef struct {
    const unsigned char *data;  /* the tile */
    const lsk_wide_group *list; /* NULL: the first n */
    int32_t n, skip;            /* of a list's rows so many */
    const lsk_group *x;         /* of group i and row r: x[i * ldx + r] */
    const int32_t *pairs;       /* its inputs as pairs: pairs + (i * ldp + r) * INT_PAIRS */
    int64_t ldx, ldp;
    float *y[INT_MOST];         /* each row's outputs of the tile */
    ahead next;                 /* 0 lines: of this tile; less: none */
} int_pass;
INLINE void int_kernel(const lsk_format format, const int is16, const int rows, const int_pass *p) {
    const int parts = int_parts(int_bits(format)), block = INT_BLOCK(rows, is16);
    const lsk_wide_group *list = p->list;
    const int32_t *pairs = p->pairs;
    ahead next = p->next;
    vf sum[NV][INT_MOST];
    EACH(r, 0, rows) EACH(v, 0, NV) sum[v][r] = list ? vf_load(p->y[r] + v * W) : vf_set(0);
    for (int32_t i = 0; i < (list ? p->n : 1); i++) {
        const lsk_group *x = list ? list[i].low + p->skip : p->x;
        int32_t g = list ? list[i].group : 0;
        for (const int32_t end = list ? g + 1 : p->n; g < end; g++, x += p->ldx, pairs += p->ldp * INT_PAIRS) {
            const int_group w = int_group_at(format, p->data, (unsigned)g);
            if (__builtin_expect(next.lines != 0, 0)) next = fetch(next);
            else lsk_prefetch(w.at, w.bytes);
            EACH(u, 0, NV / INT_TOGETHER) EACH(part, 0, parts) EACH(b, 0, (rows + block - 1) / block) {
                const int from = b * block, to = from + block < rows ? from + block : rows, v = u * INT_TOGETHER;
                vi dots[INT_TOGETHER][INT_MOST];
                int_products(&w, is16, v, 4 * part, parts == 2 ? 4 * part + 4 : 8, x, pairs, from, to, dots);
                EACH(h, 0, INT_TOGETHER) {
                    const int_scales s = int_scales_at(&w, v + h, part);
                    EACH(r, from, to) sum[v + h][r] = int_add(&w, &s, part, dots[h][r], x + r, sum[v + h][r]);
                }
            }
        }
    }
    EACH(r, 0, rows) EACH(v, 0, NV) vf_store(p->y[r] + v * W, sum[v][r]);
}

#ifndef INT_MOST_ROWS
#define INT_MOST_ROWS(bits, is16) INT_MOST
#endif

#define INT_KERNEL(ROWS, FORMAT, IS16) \
    static __attribute__((noinline)) void FORMAT##_##IS16##_##ROWS(const int_pass *p) { \
        int_kernel(LSK_##FORMAT, IS16, ROWS, p); \
    }
#define INT_KERNELS(FORMAT, ...) INT_ROWS(INT_KERNEL, FORMAT, 0) INT_ROWS(INT_KERNEL, FORMAT, 1)
INT_FORMATS(INT_KERNELS, )

typedef void (*int_kernel_fn)(const int_pass *);
#define INT_ENTRY(ROWS, FORMAT, IS16) FORMAT##_##IS16##_##ROWS,
#define INT_ENTRIES(FORMAT, ...) {{INT_ROWS(INT_ENTRY, FORMAT, 0)}, {INT_ROWS(INT_ENTRY, FORMAT, 1)}},
static const int_kernel_fn int_kernels[][2][INT_MOST] = {INT_FORMATS(INT_ENTRIES, )};
/* A pass over the last tile of a matrix, which has `left` outputs only. */
static __attribute__((noinline)) void int_run_part(int_kernel_fn kernel, int rows, int32_t left, const int_pass *p) {
    float part[INT_MOST][LSK_TILE] = {{0}};
    int_pass to_part = *p;
    for (int r = 0; r < rows; r++) {
        to_part.y[r] = part[r];
        if (p->list) memcpy(part[r], p->y[r], (size_t)left * sizeof **part);
    }
    kernel(&to_part);
    for (int r = 0; r < rows; r++) memcpy(p->y[r], part[r], (size_t)left * sizeof **part);
}
INLINE void int_run(const lsk_matrix *m, int is16, int rows, int32_t tile, const int_pass *p) {
    const int_kernel_fn kernel = int_kernels[m->format - LSK_Q4I][is16][rows - 1];
    const int32_t left = m->n_out - tile * LSK_TILE;
    if (left >= LSK_TILE) kernel(p);
    else int_run_part(kernel, rows, left, p);
}

/* Mixed arithmetic: the low halves of wide groups, after all others. A level may have a way of its own. */
#ifndef INT_ADD_WIDE
#define INT_ADD_WIDE int_add_wide_of
static void int_add_wide_of(const lsk_matrix *m, float *y, int64_t ldy, int32_t tile, const lsk_wide_group *wide,
                            int32_t n_wide) {
    const int paired = INT_PAIRED(int_bits(m->format), 0), most = INT_MOST_ROWS(int_bits(m->format), 0);
    int32_t pairs[INT_MOST * INT_PAIRS + 1];
    int_pass p = {.data = m->data + (size_t)tile * m->tile_bytes, .pairs = pairs, .next = {NULL, -1}};
    for (; n_wide; n_wide -= p.n, wide += p.n) {
        p.list = wide;
        for (p.n = 1; !paired && p.n < n_wide && wide[p.n].rows == wide->rows;) p.n++;
        p.skip = 0;
        for (uint32_t left = wide->rows; left;) {
            int n = 0;
            for (; left && n < most; left &= left - 1) p.y[n++] = y + __builtin_ctz(left) * ldy + tile * LSK_TILE;
            for (int r = 0; paired && r < n; r++) int_pairs(wide->low + p.skip + r, 0, pairs + r * INT_PAIRS);
            int_run(m, 0, n, tile, &p);
            p.skip += n;
        }
    }
}
#endif
/* For rows from .. end - 1, from a multiple of LSK_WIDE_ROWS on. */
static void int_add_wide(const lsk_matrix *m, const lsk_wide_rows *wide, float *y, int64_t ldy, int32_t tile, int32_t from,
                         int32_t end) {
    for (int32_t r = from, c; r < end && (c = r / LSK_WIDE_ROWS) < wide->chunks; r += LSK_WIDE_ROWS)
        INT_ADD_WIDE(m, y + r * ldy, ldy, tile, wide->of[c], wide->n[c]);
}

#define MATMUL_INT int_matmul
static void int_matmul(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                       int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    const int is16 = arith == LSK_ARITH_I16, paired = INT_PAIRED(int_bits(m->format), is16),
              most = INT_MOST_ROWS(int_bits(m->format), is16);
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch); /* from scratch's beginning on */
    const int32_t n_groups = m->n_in / 32, at_once = paired ? LSK_WIDE_ROWS : rows;
    /* scratch has 256 bytes times n_in: from its beginning on for what is wide, less than a quarter of all rows' groups,
     * the last 64 for pairs of 32 rows */
    _Static_assert(LST_MAX_ROWS / 32 * (sizeof(lsk_wide_group) / LSK_WIDE_ROWS + sizeof(lsk_group) / LSK_WIDE + 1) <=
                       4 * (64 - LSK_WIDE_ROWS / 2),
                   "both have room");
    int32_t *const pairs = paired ? (int32_t *)scratch + (64 - LSK_WIDE_ROWS / 2) * m->n_in : NULL;
    const int32_t group_lines = (int32_t)(m->tile_bytes / 64) / n_groups;
    int_pass p = {.n = n_groups, .ldx = ldx};
    for (int32_t first = 0; first < rows; first += at_once) {
        const int32_t n = rows - first < at_once ? rows - first : at_once, passes = (n + most - 1) / most;
        for (int32_t i = 0; paired && i < n_groups * n; i++)
            int_pairs(&x[i / n * ldx + first + i % n], is16, pairs + i * INT_PAIRS);
        p.ldp = paired ? n : 0;
        for (int32_t t = t0; t < t1; t++) {
            p.data = m->data + (size_t)t * m->tile_bytes;
            for (int32_t i = 0, from, to = 0; i < passes; i++) {
                from = to, to = n * (i + 1) / passes;
                p.x = x + first + from;
                if (paired) p.pairs = pairs + from * INT_PAIRS;
                p.next = share_of(p.data + m->tile_bytes, i, passes, n_groups, group_lines);
                for (int32_t r = from; r < to; r++) p.y[r - from] = y + (first + r) * ldy + t * LSK_TILE;
                int_run(m, is16, to - from, t, &p);
            }
            int_add_wide(m, &wide, y, ldy, t, first, first + n);
        }
    }
}

/* Inputs rounded to integers, by a level that has no way of its own. It defines vf_round (to nearest, ties to even; NaN:
 * anything) and vf_store_bytes (32 integers as bytes). */
#ifndef QUANTIZE
#define QUANTIZE int_quantize
enum { INT_QUARTERS = 32 / W };
static int32_t int_sum(const vi *v) {
    int32_t lanes[W], sum = 0;
    vi all = v[0];
    for (int j = 1; j < INT_QUARTERS / 2; j++) all += v[j];
    memcpy(lanes, &all, sizeof lanes);
    for (int j = 0; j < W; j++) sum += lanes[j];
    return sum;
}
static void int_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
    const vf largest = vf_set(3.40282347e38f);
    const float steps = (float)lsk_steps(arith);
    const int mixed = arith == LSK_ARITH_MIXED;
    for (; n > 0; n -= 32, x += 32, out += stride) {
        vf max = vf_set(0);
        vi finite = {0};
        finite = ~finite;
        EACH(j, 0, INT_QUARTERS) {
            const vf a = (vf)((vu)vf_load(x + j * W) & 0x7FFFFFFFu);
            finite &= (vi)(a <= largest);
            max = vf_max(a, max);
        }
        float lanes[W], most = 0;
        int32_t all[W], is_finite = 1;
        vf_store(lanes, max);
        memcpy(all, &finite, sizeof all);
        for (int j = 0; j < W; j++) most = lanes[j] > most ? lanes[j] : most, is_finite &= all[j];
        const float inverse = is_finite && most > 0 ? steps / most : 0;
        /* a subnormal maximum has an infinite inverse: such values count as zero */
        const vf s = vf_set(inverse <= 3.40282347e38f ? inverse : 0);
        vi v[INT_QUARTERS], hi[INT_QUARTERS], of[INT_QUARTERS]; /* of: what is summed */
        EACH(j, 0, INT_QUARTERS) of[j] = v[j] = hi[j] = (vi)vf_round(vf_load(x + j * W) * s);
        if (arith != LSK_ARITH_I8) {
            EACH(j, 0, INT_QUARTERS) {
                hi[j] = (v[j] + 128) >> 8;
                if (mixed) of[j] = hi[j];
                v[j] -= hi[j] << 8;
            }
            vf_store_bytes(out->lo, v);
        }
        vf_store_bytes(out->hi, hi);
        const int32_t first = is_finite ? int_sum(of) : 0, sum = is_finite ? first + int_sum(of + INT_QUARTERS / 2) : 0;
        out->scale = (mixed ? 256.0f : 1.0f) * (is_finite ? most / steps : __builtin_nanf(""));
        out->sum = out->scale * (float)sum;
        out->total128 = 128 * sum;
        out->first32 = 32 * first;
    }
}
#endif
