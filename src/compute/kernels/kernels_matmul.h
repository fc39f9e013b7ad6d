/* The matmul of kernels_impl.h, on the vector that it was given.
 *
 * A micro-kernel keeps R rows x C vectors of outputs in registers and walks k once. C is 4 (G = 4 / NV tiles side by
 * side) or NV (one tile). Each R and C has a copy of its own with loops over rows and vectors written out (EACH): only
 * then does the compiler keep the sums in registers. Two sources of weights: packed formats, unpacked on the way
 * ("fused"), or a panel of floats, unpacked once for many rows. Both hand the same floats to the same chain of
 * multiply-adds. */

/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#define G (4 / NV)
/* kernel(C, ...) by whether a tile stands alone. */
#define BY_WIDTH(narrow, kernel, ...) { \
        if (G > 1 && (narrow)) kernel(NV, __VA_ARGS__); \
        else kernel(4, __VA_ARGS__); \
    }
#if R_MAX == 6
#define UP_TO_R_MAX UP_TO_6
#else
#define UP_TO_R_MAX UP_TO_3
#endif

/* Sums of a micro-kernel go on by an input's weights w, of which row r has x[r * ldx]. */
INLINE void add_input(const int C, const int R, vf sum[R_MAX][4], const vf *w, const float *x, int64_t ldx) {
    EACH(r, 0, R) {
        const vf b = vf_set(x[r * ldx]);
        EACH(c, 0, C) sum[r][c] = vf_fma(w[c], b, sum[r][c]);
    }
}

/* n vectors of outputs from a tile on; the last tile of a matrix may be partly empty. */
INLINE void store_outputs(const lsk_matrix *m, float *y, int32_t tile, const int n, const vf *a) {
    const int32_t o = tile * LSK_TILE;
    if (o + n * W <= m->n_out) {
        EACH(c, 0, n) vf_store(y + o + c * W, a[c]);
        return;
    }
    float t[4 * W];
    EACH(c, 0, n) vf_store(t + c * W, a[c]);
    memcpy(y + o, t, (size_t)(m->n_out - o) * sizeof(float));
}

/* Weights w of input k: R rows' sums go on by them. R 0: they are written to the panel instead. */
INLINE void take(const int C, const int R, vf sum[R_MAX][4], const vf *w, const float *x, int64_t ldx, int k, float *panel) {
    if (R) add_input(C, R, sum, w, x + k, ldx);
    else EACH(c, 0, C) vf_store(panel + (size_t)k * C * W + c * W, w[c]);
}

/* Vector c: the data of its tile, group g in it, and where it stands among the tile's 16 outputs. */
#define DATA(type, c) ((const type *)(base + (size_t)((c) / NV) * m->tile_bytes))
#define GROUP(type, c) (DATA(type, c) + g)
#define LANE(c) ((c) % NV * W)

/* All inputs of packed weights, one after the other, in groups that share scales. */
INLINE void take_scaled(const int C, const int R, const lsk_format f, const lsk_matrix *m, int32_t tile, vf sum[R_MAX][4],
                        const float *x, int64_t ldx, float *panel) {
    const int wide = f == LSK_Q4S || f == LSK_Q8S, fours = f == LSK_Q4 || f == LSK_Q4S, inputs = f == LSK_Q8S ? 16 : 32;
    const size_t bytes = wide ? sizeof(lsk_wide) : fours ? sizeof(lsk_q4) : sizeof(lsk_q8);
    const unsigned char *base = m->data + (size_t)tile * m->tile_bytes;
    for (int g = 0; g < m->n_in / inputs; g++) {
        vf w[4], odd[4], scale[4], min[4];
        const uint8_t *q[4];
        EACH(c, 0, C) {
            if (wide) scale[c] = vf_load(GROUP(lsk_wide, c)->scale + LANE(c));
            else scale[c] = vf_half((fours ? GROUP(lsk_q4, c)->scale : GROUP(lsk_q8, c)->scale) + LANE(c));
            if (wide) min[c] = vf_load(GROUP(lsk_wide, c)->min + LANE(c));
            else if (fours) min[c] = vf_half(GROUP(lsk_q4, c)->min + LANE(c));
            q[c] = (wide ? GROUP(lsk_wide, c)->q : fours ? GROUP(lsk_q4, c)->q : GROUP(lsk_q8, c)->q) + LANE(c);
        }
        EACH(t, 0, (C + NV - 1) / NV) lsk_prefetch(DATA(unsigned char, t * NV) + (size_t)g * bytes, (int)bytes);
        for (int k = 0; k < inputs; k += fours ? 2 : 1) {
            if (fours) { /* two to a byte */
                EACH(c, 0, C) {
                    const vi both = (vi)vi_bytes(q[c] + k * 8);
                    w[c] = vf_fma(__builtin_convertvector(both & 15, vf), scale[c], min[c]);
                    odd[c] = __builtin_convertvector(both >> 4, vf);
                }
                take(C, R, sum, w, x, ldx, g * inputs + k, panel);
                EACH(c, 0, C) w[c] = vf_fma(odd[c], scale[c], min[c]);
                take(C, R, sum, w, x, ldx, g * inputs + k + 1, panel);
            } else {
                EACH(c, 0, C) {
                    const vf q8 = vf_i8(q[c] + k * 16);
                    if (wide) w[c] = vf_fma(q8, scale[c], min[c]);
                    else w[c] = q8 * scale[c];
                }
                take(C, R, sum, w, x, ldx, g * inputs + k, panel);
            }
        }
    }
}
INLINE void take_plain(const int C, const int R, const lsk_format f, const lsk_matrix *m, int32_t tile, vf sum[R_MAX][4],
                       const float *x, int64_t ldx, float *panel) {
    const unsigned char *base = m->data + (size_t)tile * m->tile_bytes;
    const int shared = f == LSK_BF16 ? 2 : 1; /* inputs of a word, the even one in the low half */
    for (int k = 0; k < m->n_in; k += shared) {
        vf w[4], odd[4];
        EACH(c, 0, C) {
            if (f == LSK_F16) w[c] = vf_half(DATA(uint16_t, c) + (size_t)k * LSK_TILE + LANE(c));
            else w[c] = odd[c] = vf_load(DATA(float, c) + (size_t)(k / shared) * LSK_TILE + LANE(c));
            if (f == LSK_BF16) w[c] = (vf)((vu)w[c] << 16);
        }
        take(C, R, sum, w, x, ldx, k, panel);
        if (f != LSK_BF16) continue;
        EACH(c, 0, C) w[c] = (vf)((vu)odd[c] & 0xFFFF0000u);
        take(C, R, sum, w, x, ldx, k + 1, panel);
    }
}
INLINE void take_all(const int C, const int R, const lsk_matrix *m, int32_t tile, vf sum[R_MAX][4], const float *x, int64_t ldx,
                     float *panel) {
#define TAKE(FORMAT, how) case LSK_##FORMAT: how(C, R, LSK_##FORMAT, m, tile, sum, x, ldx, panel); break;
    switch (m->format) {
        TAKE(Q4, take_scaled) TAKE(Q8, take_scaled) TAKE(Q4S, take_scaled) TAKE(Q8S, take_scaled)
        TAKE(F16, take_plain) TAKE(BF16, take_plain)
    default:
        TAKE(F32, take_plain)
    }
}

#define ROWS_ARGS const lsk_matrix *m, float *panel, const float *x, int64_t ldx, float *y, int64_t ldy, int32_t tile
INLINE void some_rows(const int C, const int R, const int fused, ROWS_ARGS) {
    vf sum[R_MAX][4], w[4];
    EACH(r, 0, R) EACH(c, 0, C) sum[r][c] = vf_set(0);
    if (fused) take_all(C, R, m, tile, sum, x, ldx, panel);
    else for (int k = 0; k < m->n_in; k++, x++, panel += C * W) {
        EACH(c, 0, C) w[c] = vf_load(panel + c * W);
        add_input(C, R, sum, w, x, ldx);
    }
    EACH(r, 0, R) store_outputs(m, y + r * ldy, tile, C, sum[r]);
}
/* Unpacks a tile or G of them to [n_in][outputs] floats. */
static void fill_panel(const lsk_matrix *m, float *panel, int32_t tile, int narrow) {
    BY_WIDTH(narrow, some_rows, 0, 1, m, panel, NULL, 0, NULL, 0, tile)
}
#define ROWS_KERNELS(R, ...) \
    static __attribute__((noinline)) void fused_##R(ROWS_ARGS, int narrow) { \
        BY_WIDTH(narrow, some_rows, R, 1, m, panel, x, ldx, y, ldy, tile) \
    } \
    static __attribute__((noinline)) void panel_##R(ROWS_ARGS, int narrow) { \
        BY_WIDTH(narrow, some_rows, R, 0, m, panel, x, ldx, y, ldy, tile) \
    }
UP_TO_R_MAX(ROWS_KERNELS, )
#define ENTRY(R, kind) kind##_##R,
static void (*const rows_kernels[2][R_MAX])(ROWS_ARGS, int) = {{UP_TO_R_MAX(ENTRY, fused)}, {UP_TO_R_MAX(ENTRY, panel)}};

static void k_matmul(const lsk_matrix *m, const float *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                     int32_t t0, int32_t t1, float *scratch) {
    /* for few rows, unpacking on the way is cheaper than a trip through the cache */
    const int use_panel = rows > FUSED_MAX && m->format != LSK_F32 && m->format != LSK_BF16;
    for (int32_t t = t0, narrow; t < t1; t += narrow ? 1 : G) {
        narrow = t + G > t1;
        if (use_panel) fill_panel(m, scratch, t, narrow);
        for (int32_t r = 0, n; r < rows; r += n) {
            n = rows - r < R_MAX ? rows - r : R_MAX;
            rows_kernels[use_panel][n - 1](m, scratch, x + r * ldx, ldx, y + r * ldy, ldy, t, narrow);
        }
    }
}
