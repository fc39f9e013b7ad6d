/* The matmul of kernels_impl.h, on the vector that it was given.
 *
 * A micro-kernel keeps R rows x C vectors of outputs in registers and walks k once. C is 4 (G = 4 / NV tiles side by
 * side) or NV (one tile). Loops over rows and vectors are written out by macros: only then does the compiler keep
 * the sums in registers. Two sources of weights: packed formats, unpacked on the way ("fused"), or a panel
 * of floats, unpacked once for many rows. Both hand the same floats to the same chain of multiply-adds. */

/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#define G (4 / NV)

#define REP1(X) X(0)
#define REP2(X) REP1(X) X(1)
#define REP3(X) REP2(X) X(2)
#define REP4(X) REP3(X) X(3)
#define REP5(X) REP4(X) X(4)
#define REP6(X) REP5(X) X(5)

#define ZERO4(r) a[r][0] = a[r][1] = a[r][2] = a[r][3] = vf_set(0);
#define ZERO2(r) a[r][0] = a[r][1] = vf_set(0);
#define ZERO1(r) a[r][0] = vf_set(0);
#define FMA1(r) { \
        const vf b_ = vf_set(xk[r * ldx]); \
        a[r][0] = vf_fma(w[0], b_, a[r][0]); \
    }
#define FMA2(r) { \
        const vf b_ = vf_set(xk[r * ldx]); \
        a[r][0] = vf_fma(w[0], b_, a[r][0]); \
        a[r][1] = vf_fma(w[1], b_, a[r][1]); \
    }
#define FMA4(r) { \
        const vf b_ = vf_set(xk[r * ldx]); \
        a[r][0] = vf_fma(w[0], b_, a[r][0]); \
        a[r][1] = vf_fma(w[1], b_, a[r][1]); \
        a[r][2] = vf_fma(w[2], b_, a[r][2]); \
        a[r][3] = vf_fma(w[3], b_, a[r][3]); \
    }
#define STORE1(r) store_outputs(m, y + r * ldy, tile, 1, a[r]);
#define STORE2(r) store_outputs(m, y + r * ldy, tile, 2, a[r]);
#define STORE4(r) store_outputs(m, y + r * ldy, tile, 4, a[r]);

/* n vectors of outputs from a tile on; the last tile of a matrix may be partly empty. */
INLINE void store_outputs(const lsk_matrix *m, float *y, int32_t tile, int n, const vf *a) {
    const int32_t o = tile * LSK_TILE;
    if (o + n * W <= m->n_out) {
        for (int c = 0; c < n; c++) vf_store(y + o + c * W, a[c]);
        return;
    }
    float t[4 * W];
    for (int c = 0; c < n; c++) vf_store(t + c * W, a[c]);
    memcpy(y + o, t, (size_t)(m->n_out - o) * sizeof(float));
}

/* Vector c: the data of its tile, group g in it, and where it stands among the tile's 16 outputs. */
#define DATA(type, c) ((const type *)(base + (size_t)((c) / NV) * m->tile_bytes))
#define GROUP(type, c) (DATA(type, c) + g)
#define LANE(c) ((c) % NV * W)

#define LOAD_Q4(c) vf_u4(q[c] + k * 8, &w[c], &hi[c]);
#define LOAD_Q8(c) w[c] = vf_i8(q[c] + k * 16) * scale[c];
#define LOAD_F32(c) w[c] = vf_load(DATA(float, c) + (size_t)k * LSK_TILE + LANE(c));
#define LOAD_BF16(c) { /* the even input of a pair in the low half */ \
        vu two_; \
        memcpy(&two_, DATA(uint16_t, c) + (size_t)k * LSK_TILE + LANE(c) * 2, sizeof two_); \
        w[c] = (vf)(two_ << 16); \
        hi[c] = (vf)(two_ & 0xFFFF0000u); \
    }
#define SECOND_BF16(c) w[c] = hi[c];
#define LOAD_F16(c) w[c] = vf_half(DATA(uint16_t, c) + (size_t)k * LSK_TILE + LANE(c));
#define SCALE_WIDE(c) \
    scale[c] = vf_load(GROUP(lsk_wide, c)->scale + LANE(c)); \
    min[c] = vf_load(GROUP(lsk_wide, c)->min + LANE(c)); \
    q[c] = GROUP(lsk_wide, c)->q + LANE(c);
#define LOAD_Q8S(c) w[c] = vf_fma(vf_i8(q[c] + k * 16), scale[c], min[c]);
#define UNPACK_Q4(c) w[c] = vf_fma(w[c], scale[c], min[c]);
#define UNPACK_HI(c) w[c] = vf_fma(hi[c], scale[c], min[c]);
#define SCALE_Q4(c) \
    scale[c] = vf_half(GROUP(lsk_q4, c)->scale + LANE(c)); \
    min[c] = vf_half(GROUP(lsk_q4, c)->min + LANE(c)); \
    q[c] = GROUP(lsk_q4, c)->q + LANE(c);
#define SCALE_Q8(c) \
    scale[c] = vf_half(GROUP(lsk_q8, c)->scale + LANE(c)); \
    q[c] = GROUP(lsk_q8, c)->q + LANE(c);
#define PREFETCH(C, type) \
    for (int t = 0; t < (C + NV - 1) / NV; t++) lsk_prefetch(GROUP(type, t * NV), sizeof(type));

/* Groups of 32 inputs in four bits, two to a byte. */
#define NIBBLES(R, C, SCALES, type) \
    for (int g = 0; g < m->n_in / 32; g++) { \
        REP##C(SCALES) \
        PREFETCH(C, type) \
        for (int k = 0; k < 32; k += 2) { \
            const float *xk = x + g * 32 + k; \
            REP##C(LOAD_Q4) \
            REP##C(UNPACK_Q4) \
            REP##R(FMA##C) \
            xk++; \
            REP##C(UNPACK_HI) \
            REP##R(FMA##C) \
        } \
    }
#define FUSED(R, C) \
    static __attribute__((noinline)) void fused_##R##_##C(const lsk_matrix *m, const float *x, int64_t ldx, float *y, \
                                                          int64_t ldy, int32_t tile) { \
        const unsigned char *base = m->data + (size_t)tile * m->tile_bytes; \
        vf a[R][C], w[C], scale[C], min[C], hi[C]; \
        const unsigned char *q[C]; \
        REP##R(ZERO##C) \
        if (m->format == LSK_Q4) { \
            NIBBLES(R, C, SCALE_Q4, lsk_q4) \
        } else if (m->format == LSK_Q8) { \
            for (int g = 0; g < m->n_in / 32; g++) { \
                REP##C(SCALE_Q8) \
                PREFETCH(C, lsk_q8) \
                for (int k = 0; k < 32; k++) { \
                    const float *xk = x + g * 32 + k; \
                    REP##C(LOAD_Q8) \
                    REP##R(FMA##C) \
                } \
            } \
        } else if (m->format == LSK_Q4S) { \
            NIBBLES(R, C, SCALE_WIDE, lsk_wide) \
        } else if (m->format == LSK_Q8S) { \
            for (int g = 0; g < m->n_in / 16; g++) { \
                REP##C(SCALE_WIDE) \
                PREFETCH(C, lsk_wide) \
                for (int k = 0; k < 16; k++) { \
                    const float *xk = x + g * 16 + k; \
                    REP##C(LOAD_Q8S) \
                    REP##R(FMA##C) \
                } \
            } \
        } else if (m->format == LSK_F16) { \
            for (int k = 0; k < m->n_in; k++) { \
                const float *xk = x + k; \
                REP##C(LOAD_F16) \
                REP##R(FMA##C) \
            } \
        } else if (m->format == LSK_BF16) { \
            for (int k = 0; k < m->n_in; k += 2) { \
                const float *xk = x + k; \
                REP##C(LOAD_BF16) \
                REP##R(FMA##C) \
                xk++; \
                REP##C(SECOND_BF16) \
                REP##R(FMA##C) \
            } \
        } else { \
            for (int k = 0; k < m->n_in; k++) { \
                const float *xk = x + k; \
                REP##C(LOAD_F32) \
                REP##R(FMA##C) \
            } \
        } \
        REP##R(STORE##C) \
    }

#define LOAD_PANEL(c) w[c] = vf_load(p + (c) * W);
#define PANEL(R, C) \
    static __attribute__((noinline)) void panel_##R##_##C(const lsk_matrix *m, const float *p, const float *x, \
                                                          int64_t ldx, float *y, int64_t ldy, int32_t tile) { \
        vf a[R][C], w[C]; \
        REP##R(ZERO##C) \
        for (int k = 0; k < m->n_in; k++, p += C * W) { \
            const float *xk = x + k; \
            REP##C(LOAD_PANEL) \
            REP##R(FMA##C) \
        } \
        REP##R(STORE##C) \
    }

/* Unpacks `tiles` tiles to [n_in][tiles * 16] floats. */
static void fill_panel(const lsk_matrix *m, int32_t tile, int tiles, float *panel) {
    const int vectors = tiles * NV;
    const size_t ld = (size_t)tiles * LSK_TILE;
    const unsigned char *base = m->data + (size_t)tile * m->tile_bytes;
    for (int c = 0; c < vectors; c++) {
        float *out = panel + c * W;
        if (m->format == LSK_F16) {
            for (int k = 0; k < m->n_in; k++, out += ld)
                vf_store(out, vf_half(DATA(uint16_t, c) + (size_t)k * LSK_TILE + LANE(c)));
            continue;
        }
        if (m->format == LSK_Q8S) {
            for (int g = 0; g < m->n_in / 16; g++) {
                const lsk_wide *p = GROUP(lsk_wide, c);
                const vf scale = vf_load(p->scale + LANE(c)), min = vf_load(p->min + LANE(c));
                for (int k = 0; k < 16; k++, out += ld)
                    vf_store(out, vf_fma(vf_i8(p->q + k * 16 + LANE(c)), scale, min));
            }
            continue;
        }
        for (int g = 0; g < m->n_in / 32; g++) {
            if (m->format == LSK_Q8) {
                const lsk_q8 *p = GROUP(lsk_q8, c);
                const vf scale = vf_half(p->scale + LANE(c));
                for (int k = 0; k < 32; k++, out += ld) vf_store(out, vf_i8(p->q + k * 16 + LANE(c)) * scale);
                continue;
            }
            const int wide = m->format == LSK_Q4S;
            const lsk_wide *pw = GROUP(lsk_wide, c);
            const lsk_q4 *p4 = GROUP(lsk_q4, c);
            const vf scale = wide ? vf_load(pw->scale + LANE(c)) : vf_half(p4->scale + LANE(c)),
                     min = wide ? vf_load(pw->min + LANE(c)) : vf_half(p4->min + LANE(c));
            const uint8_t *q = (wide ? pw->q : p4->q) + LANE(c);
            for (int k = 0; k < 32; k += 2, out += 2 * ld) {
                vf lo, hi;
                vf_u4(q + k * 8, &lo, &hi);
                vf_store(out, vf_fma(lo, scale, min));
                vf_store(out + ld, vf_fma(hi, scale, min));
            }
        }
    }
}

typedef void (*fused_fn)(const lsk_matrix *, const float *, int64_t, float *, int64_t, int32_t);
typedef void (*panel_fn)(const lsk_matrix *, const float *, const float *, int64_t, float *, int64_t, int32_t);

#define FUSED_ALL(R) FUSED(R, 4) FUSED_TILE(R)
#define PANEL_ALL(R) PANEL(R, 4) PANEL_TILE(R)
#if W == 16
#define FUSED_TILE(R) FUSED(R, 1)
#define PANEL_TILE(R) PANEL(R, 1)
#define ONE_TILE(kind, R) kind##_##R##_1
#elif W == 8
#define FUSED_TILE(R) FUSED(R, 2)
#define PANEL_TILE(R) PANEL(R, 2)
#define ONE_TILE(kind, R) kind##_##R##_2
#else
#define FUSED_TILE(R)
#define PANEL_TILE(R)
#define ONE_TILE(kind, R) kind##_##R##_4
#endif

FUSED_ALL(1)
FUSED_ALL(2)
FUSED_ALL(3)
PANEL_ALL(1)
PANEL_ALL(2)
PANEL_ALL(3)
#if R_MAX >= 6
FUSED_ALL(4)
FUSED_ALL(6)
PANEL_ALL(4)
PANEL_ALL(6)
#endif

#define PAIR(kind, R) {kind##_##R##_4, ONE_TILE(kind, R)}
#if R_MAX >= 6
static const fused_fn fused[7][2] = {{0}, PAIR(fused, 1), PAIR(fused, 2), PAIR(fused, 3), PAIR(fused, 4), {0}, PAIR(fused, 6)};
static const panel_fn panel[7][2] = {{0}, PAIR(panel, 1), PAIR(panel, 2), PAIR(panel, 3), PAIR(panel, 4), {0}, PAIR(panel, 6)};
static const int8_t block_of[7] = {0, 1, 2, 3, 4, 4, 6}; /* rows taken at once when so many are left */
#else
static const fused_fn fused[4][2] = {{0}, PAIR(fused, 1), PAIR(fused, 2), PAIR(fused, 3)};
static const panel_fn panel[4][2] = {{0}, PAIR(panel, 1), PAIR(panel, 2), PAIR(panel, 3)};
static const int8_t block_of[4] = {0, 1, 2, 3};
#endif

static void k_matmul(const lsk_matrix *m, const float *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                     int32_t t0, int32_t t1, float *scratch) {
    for (int32_t t = t0; t < t1;) {
        const int wide = t + G <= t1, tiles = wide ? G : 1;
        /* for few rows, unpacking on the way is cheaper than a trip through the cache */
        const int use_panel = rows > FUSED_MAX && m->format != LSK_F32 && m->format != LSK_BF16;
        if (use_panel) fill_panel(m, t, tiles, scratch);
        for (int32_t r = 0; r < rows;) {
            const int32_t left = rows - r, n = block_of[left < R_MAX ? left : R_MAX];
            if (use_panel) panel[n][!wide](m, scratch, x + r * ldx, ldx, y + r * ldy, ldy, t);
            else fused[n][!wide](m, x + r * ldx, ldx, y + r * ldy, ldy, t);
            r += n;
        }
        t += tiles;
    }
}
