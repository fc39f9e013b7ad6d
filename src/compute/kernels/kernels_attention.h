/* Attention for kernels_impl.h, on the vector that it was given.
 *
 * Queries (rows and their heads) that share a key/value head are taken many at a time. Like in the matmul, a
 * micro-kernel keeps R queries x C vectors in registers; blocks of keys and of values stay in the L1 cache while all
 * queries pass over them. Each score is one chain of multiply-adds over the head's dimensions, each output one over
 * logical positions, whatever the queries beside it: a sum that waits in memory for the next block goes on with the
 * same bits. So a row in a tree and the same row alone do identical arithmetic.
 *
 * Where several passes are made over a block, the first one waits for memory and the others compute. So each fetches
 * its share of the next block meanwhile. */

/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
/* Keys and values are floats or pairs of bf16, which kernels_cache.h describes: words that hold two dimensions of a key
 * or two positions of a value, the first one in the high half. A level that multiplies pairs defines
 *
 *   DOT_PAIRS(sum, w, x)  sum += w's first * x's first, then += w's second * x's second; x: a word in memory, for all lanes
 *   pack_pairs(x, n)      n floats that bf16 holds become (n + 1) / 2 words, in place; where n is odd the last second is 0
 *
 * Others do the same by two multiply-adds of floats. */
INLINE void first_of(const int C, vf *w) {
    EACH(c, 0, C) w[c] = (vf)((vu)w[c] & 0xFFFF0000u);
}
INLINE void second_of(const int C, vf *w) {
    EACH(c, 0, C) w[c] = (vf)((vu)w[c] << 16);
}
/* Sums go on by pairs w, or by halves of some; then x goes on. */
#ifdef DOT_PAIRS
#define PACKED 1
INLINE void add_half(const int C, const int R, vf sum[R_MAX][4], const vf *w, const float *x, int64_t ldx) {
    EACH(r, 0, R) EACH(c, 0, C) DOT_PAIRS(sum[r][c], w[c], x[r * ldx])
}
#define add_pairs add_half
#else
#define PACKED 0
static void pack_pairs(float *x, int32_t n) {
    (void)x, (void)n;
}
#define add_half add_input
INLINE void add_pairs(const int C, const int R, vf sum[R_MAX][4], const vf *w, const float *x, int64_t ldx) {
    vf half[4];
    EACH(c, 0, C) half[c] = w[c];
    first_of(C, half);
    add_input(C, R, sum, half, x, ldx);
    EACH(c, 0, C) half[c] = w[c];
    second_of(C, half);
    add_input(C, R, sum, half, x + 1, ldx);
}
#endif
enum { OF_PAIR = PACKED ? 1 : 2 }; /* floats of x */

/* Scores of C / NV blocks of 16 cache columns. */
#define SCORES_ARGS const float *k, int32_t hd, const float *x, float *y, int64_t ldy, ahead next
INLINE void scores(const int C, const int R, const int bf16, SCORES_ARGS) {
    const int32_t rows = bf16 ? hd / 2 : hd;
    vf sum[R_MAX][4], w[4];
    EACH(r, 0, R) EACH(c, 0, C) sum[r][c] = vf_set(0);
    for (int32_t d = 0; d < rows; d++) {
        next = fetch(next);
        EACH(c, 0, C) w[c] = vf_load(k + ((c) / NV * (size_t)rows + (size_t)d) * LSK_TILE + LANE(c));
        if (bf16) add_pairs(C, R, sum, w, x + d * OF_PAIR, hd);
        else add_input(C, R, sum, w, x + d, hd);
    }
    EACH(r, 0, R) EACH(c, 0, C) vf_store(y + r * ldy + c * W, sum[r][c]);
}

typedef struct { /* either n values side by side or those of a tail */
    const float *v;
    const int32_t *tail;
    int32_t hd, n, n_tail;
} span;
/* C vectors of weighted sums y go on over n values, then over those of the columns in tail. */
#define VALUES_ARGS const span *s, const float *x, int64_t ldx, float *y, int64_t ldy, ahead next
INLINE void values(const int C, const int R, const int bf16, VALUES_ARGS) {
    const float *at = s->v;
    vf sum[R_MAX][4], w[4];
    EACH(r, 0, R) EACH(c, 0, C) sum[r][c] = vf_load(y + r * ldy + c * W);
    for (int32_t i = 0; i < (bf16 ? s->n / 2 : s->n); i++, at += s->hd) {
        next = fetch(next);
        EACH(c, 0, C) w[c] = vf_load(at + c * W);
        if (bf16) add_pairs(C, R, sum, w, x, ldx);
        else add_input(C, R, sum, w, x, ldx);
        x += bf16 ? OF_PAIR : 1;
    }
    if (bf16 && s->n % 2) { /* its partner is not committed */
        EACH(c, 0, C) w[c] = vf_load(at + c * W);
        first_of(C, w);
        add_half(C, R, sum, w, x++, ldx);
    }
    for (int32_t i = 0; i < s->n_tail; i++, x++) {
        at = s->v + (size_t)(bf16 ? s->tail[i] / 2 : s->tail[i]) * (size_t)s->hd;
        EACH(c, 0, C) w[c] = vf_load(at + c * W);
        if (bf16 && s->tail[i] % 2) second_of(C, w);
        else if (bf16) first_of(C, w);
        if (bf16) add_half(C, R, sum, w, x, ldx);
        else add_input(C, R, sum, w, x, ldx);
    }
    EACH(r, 0, R) EACH(c, 0, C) vf_store(y + r * ldy + c * W, sum[r][c]);
}

#define ATTEND(R, bf16) \
    static __attribute__((noinline)) void scores_##bf16##_##R(int narrow, SCORES_ARGS) { \
        BY_WIDTH(narrow, scores, R, bf16, k, hd, x, y, ldy, next) \
    } \
    static __attribute__((noinline)) void values_##bf16##_##R(int narrow, VALUES_ARGS) { \
        BY_WIDTH(narrow, values, R, bf16, s, x, ldx, y, ldy, next) \
    }
UP_TO_R_MAX(ATTEND, 0)
UP_TO_R_MAX(ATTEND, 1)
static void (*const score_kernels[2][R_MAX])(int, SCORES_ARGS) = {{UP_TO_R_MAX(ENTRY, scores_0)}, {UP_TO_R_MAX(ENTRY, scores_1)}};
static void (*const value_kernels[2][R_MAX])(int, VALUES_ARGS) = {{UP_TO_R_MAX(ENTRY, values_0)}, {UP_TO_R_MAX(ENTRY, values_1)}};

/* e^(x - max) = 2^(x log2(e) - scaled_max), in bf16, whose rounding is 26 times what this cubic of 2^f (relative error
 * 7.5e-5 at most) does; ties go up. 0 below 2^-126. */
INLINE vf weight_bf16(vf x, vf scaled_max) {
    const vf t = vf_fma(x, vf_set(1.44269504088896341f), vf_set(0) - scaled_max);
    const vf n = t + vf_set(12582912.0f), f = t - (n - vf_set(12582912.0f)); /* n: an integer in the low bits */
    vf p = vf_fma(vf_set(0.0551716691f), f, vf_set(0.242611122f));
    p = vf_fma(p, f, vf_set(0.693260985f));
    p = vf_fma(p, f, vf_set(0.999928074f));
    const vu bits = (vu)p + ((vu)n << 23), under = (vu)(t < vf_set(-126.0f));
    return (vf)(((bits & ~under) + 0x8000u) & 0xFFFF0000u);
}

/* w[0..n) becomes e^(w - max); returns 1 / their sum, with the sink's (NULL: none). Room up to a multiple of 16. */
static float softmax(float *w, int32_t n, int bf16, const float *sink) {
    enum { TOPS = 4 };
    const int32_t padded = (n + LSK_TILE - 1) / LSK_TILE * LSK_TILE;
    for (int32_t i = n; i < padded; i++) w[i] = -INFINITY;
    vf top[TOPS], sum[NV];
    int32_t i = 0;
    for (int v = 0; v < TOPS; v++) top[v] = vf_set(-INFINITY);
    for (; i + TOPS * W <= padded; i += TOPS * W)
        for (int v = 0; v < TOPS; v++) top[v] = vf_max(top[v], vf_load(w + i + v * W));
    for (; i < padded; i += W) top[0] = vf_max(top[0], vf_load(w + i));
    for (int v = 0; v < NV; v++) sum[v] = vf_set(0);
    float lanes[LSK_TILE], max = sink ? *sink : -INFINITY, total = 0;
    vf_store(lanes, vf_max(vf_max(top[0], top[1]), vf_max(top[2], top[3])));
    for (i = 0; i < W; i++) max = lanes[i] > max ? lanes[i] : max;
    const vf m = vf_set(max), scaled = vf_set(max * 1.44269504088896341f);
    for (i = 0; i < padded; i += LSK_TILE)
        for (int v = 0; v < NV; v++) {
            const vf score = vf_load(w + i + v * W), e = bf16 ? weight_bf16(score, scaled) : vf_exp(score - m);
            sum[v] += e;
            vf_store(w + i + v * W, e);
        }
    for (int v = 0; v < NV; v++) vf_store(lanes + v * W, sum[v]);
    for (i = 0; i < LSK_TILE; i++) total += lanes[i];
    if (sink) total += expf(*sink - max);
    return 1.0f / total;
}

/* Queries of the next micro-kernel where n are left: shares as even as can be. */
INLINE int32_t together(int32_t n) {
    const int32_t parts = (n + R_MAX - 1) / R_MAX;
    return (n + parts - 1) / parts;
}

/* Rows of `width` pairs as twice as many rows of floats. */
static const float *as_floats(const float *words, int32_t rows, int32_t width, float *room) {
    for (int32_t i = 0; i < rows; i++)
        for (int32_t j = 0; j < width; j += W) {
            const vu pair = (vu)vf_load(words + i * width + j);
            vf_store(room + 2 * i * width + j, (vf)(pair & 0xFFFF0000u));
            vf_store(room + (2 * i + 1) * width + j, (vf)(pair << 16));
        }
    return room;
}

/* All dimensions of the queries' outputs y go on over s, whose values are bf16 or floats; weights at w. next: words that
 * follow in memory, fetched by so many lines a turn; NULL: none. */
INLINE void add_values(int bf16, span s, int32_t n, const float *w, int64_t ld, float *y, const float *next,
                       int32_t lines) {
    const float *v = s.v;
    const int32_t whole = s.hd / (4 * W), columns = whole + (s.hd - whole * 4 * W) / LSK_TILE,
                  passes = columns * ((n + R_MAX - 1) / R_MAX), turns = bf16 ? s.n / 2 : s.n;
    for (int32_t d = 0, pass = 0; d < s.hd;) {
        const int narrow = d + 4 * W > s.hd;
        s.v = v + d;
        for (int32_t i = 0, r; i < n; i += r, pass++) {
            r = together(n - i);
            value_kernels[bf16][r - 1](narrow, &s, w + i * ld, ld, y + i * s.hd + d, s.hd,
                                       next ? share_of(next, pass, passes, turns, lines) : (ahead){0});
        }
        d += narrow ? LSK_TILE : 4 * W;
    }
}

/* The scores of a query (w, by cache column) become weights by logical position: committed ones from `from` on, then the
 * path through the tree. Returns 1 / their sum. */
static float weigh(const lsk_attention *a, const lsk_query *q, int32_t from, float *w) {
    const int32_t n = a->n_context + q->n_tail;
    for (int32_t j = 0; j < q->n_tail; j++) w[a->n_context + j] = w[q->tail[j]]; /* tails ascend: none is lost */
    if (a->softcap > 0) {
        for (int32_t j = n; j % LSK_TILE; j++) w[j] = 0;
        k_softcap(w + from, (n - from + LSK_TILE - 1) / LSK_TILE * LSK_TILE, a->softcap);
    }
    for (int32_t j = from; j < q->first; j++) w[j] = -INFINITY;
    return softmax(w + from, n - from, a->cache.bf16, q->sink);
}

/* What the queries see together: cache columns below the first, committed positions from the second on. */
static void seen_of(const lsk_attention *a, int32_t *columns, int32_t *from) {
    *columns = *from = a->n_context;
    for (int32_t i = 0; i < a->n_queries; i++) {
        const lsk_query *q = &a->queries[i];
        const int32_t end = q->tail[q->n_tail - 1] + 1;
        *columns = end > *columns ? end : *columns;
        *from = q->first < *from ? q->first : *from;
    }
}

/* Positions hidden by a window have weight 0: whole tiles before the first that anyone sees are
 * skipped, and adding 0 to a sum that began at 0 changes no bit. */
static void k_attention(const lsk_attention *a) {
    const lsk_query *q = a->queries;
    const int32_t n = a->n_queries, hd = a->cache.head_dim, context = a->n_context;
    int32_t columns, from;
    seen_of(a, &columns, &from);
    from = from / LSK_TILE * LSK_TILE;
    const int32_t blocks = (columns + LSK_TILE - 1) / LSK_TILE;
    const int64_t ld = ((int64_t)blocks + 1) * LSK_TILE; /* rows do not begin in the same sets of the cache */
    float *x = a->scratch, *y = x + n * hd, *w = y + n * hd, *room = w + n * ld, inverse[LSK_QUERIES];
    const int once = n <= R_MAX, bf16 = a->cache.bf16, each = bf16 ? 2 : 1; /* numbers of a word */
    const int floats = bf16 && !once && R_MAX < 6; /* few queries a pass: what many passes read is converted once */
    const int32_t key_rows = hd / each;
    const float *k = a->cache.k, *v = a->cache.v;
    for (int32_t i = 0; i < n; i++) {
        memcpy(x + i * hd, q[i].q, (size_t)hd * sizeof *x);
        if (bf16) k_to_bf16(x + i * hd, hd, NULL);
        if (bf16) pack_pairs(x + i * hd, hd);
    }
    memset(y, 0, (size_t)(n * hd) * sizeof *y);
    for (int32_t b = from / LSK_TILE; b < blocks;) {
        /* in a single pass memory is waited for, and one stream of it is fetched faster than four */
        const int32_t narrow = once || b + G > blocks, taken = narrow ? 1 : G, end = b + taken;
        const float *keys = k + (int64_t)b * key_rows * LSK_TILE,
                    *next = end < blocks ? k + (int64_t)end * key_rows * LSK_TILE : v + (int64_t)(from / each) * hd;
        if (floats) keys = as_floats(keys, taken * key_rows, LSK_TILE, room);
        for (int32_t i = 0, pass = 0, r; i < n; i += r, pass++) {
            r = together(n - i);
            score_kernels[bf16 && !floats][r - 1](
                narrow, keys, hd, x + i * hd, w + i * ld + b * LSK_TILE, ld,
                share_of(next, pass, (n + R_MAX - 1) / R_MAX, floats ? hd : key_rows, floats ? (taken + 1) / 2 : taken));
        }
        b = end;
    }
    for (int32_t i = 0; i < n; i++) {
        inverse[i] = weigh(a, &q[i], from, w + i * ld);
        if (bf16) pack_pairs(w + i * ld + from, context - from);
    }
    const int32_t step = once ? context : LSK_AGAIN / hd / 2 * 2;
    for (int32_t p = from; p < context; p += step) {
        const int32_t taken = context - p < step ? context - p : step;
        const float *values = v + (int64_t)(p / each) * hd, *next = values + (int64_t)(step / each) * hd;
        if (floats) values = as_floats(values, (taken + 1) / 2, hd, room);
        add_values(bf16 && !floats, (span){values, NULL, hd, taken, 0}, n, w + from + (p - from) / (PACKED ? each : 1), ld,
                   y, p + step < context ? next : NULL, floats ? (hd / LSK_TILE + 1) / 2 : hd / LSK_TILE);
    }
    for (int32_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && q[i + same].tail == q[i].tail && q[i + same].n_tail == q[i].n_tail;) same++;
        add_values(bf16, (span){v, q[i].tail, hd, 0, q[i].n_tail}, same, w + i * ld + context, ld, y + i * hd, NULL, 0);
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t d = 0; d < hd; d += W) vf_store(q[i].out + d, vf_load(y + i * hd + d) * vf_set(inverse[i]));
}
