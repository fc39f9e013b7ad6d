/* Attention for kernels_impl.h, on the vector that it was given.
 *
 * Queries (rows and their heads) that share a key/value head are taken many at a time. Like in the matmul, a
 * micro-kernel keeps R queries x C vectors in registers; blocks of keys and of values stay in the L1 cache while all
 * queries pass over them. Each score is one chain of multiply-adds over the head's dimensions, each output one over
 * logical positions, whatever the queries beside it: a sum that waits in memory for the next block goes on with the
 * same bits. So a row in a tree and the same row alone do identical arithmetic.
 *
 * Where several passes are made over a block, the first one waits for memory and the others compute. So each fetches its
 * share of the next block meanwhile. */

/* Lines of 64 bytes to fetch in each turn of a loop. */
typedef struct {
    const char *at;
    int32_t lines;
} ahead;
INLINE ahead fetch(ahead a) {
    for (int32_t i = 0; i < a.lines; i++, a.at += 64) __builtin_prefetch(a.at);
    return a;
}
/* Pass i of so many, each of `turns`: its share of per_turn * turns lines. */
INLINE ahead share_of(const void *next, int32_t i, int32_t passes, int32_t turns, int32_t per_turn) {
    const int32_t lines = (per_turn + passes - 1) / passes;
    if (passes < 2 || i * lines >= per_turn) return (ahead){0};
    return (ahead){(const char *)next + (size_t)i * (size_t)lines * (size_t)turns * 64, lines};
}

#define SAVE1(r) vf_store(y + (r) * ldy, a[r][0]);
#define SAVE2(r) SAVE1(r) vf_store(y + (r) * ldy + W, a[r][1]);
#define SAVE4(r) SAVE2(r) vf_store(y + (r) * ldy + 2 * W, a[r][2]); vf_store(y + (r) * ldy + 3 * W, a[r][3]);
#define RESUME1(r) a[r][0] = vf_load(y + (r) * ldy);
#define RESUME2(r) RESUME1(r) a[r][1] = vf_load(y + (r) * ldy + W);
#define RESUME4(r) RESUME2(r) a[r][2] = vf_load(y + (r) * ldy + 2 * W); a[r][3] = vf_load(y + (r) * ldy + 3 * W);

/* Keys and values are floats (f) or f16 (h). */
#define TYPE_f float
#define TYPE_h uint16_t

/* Scores of C / NV blocks of 16 cache columns. */
#define KEY(c) k + (((c) / NV) * (size_t)hd + (size_t)d) * LSK_TILE + LANE(c)
#define LOAD_K_f(c) w[c] = vf_load(KEY(c));
#define LOAD_K_h(c) w[c] = vf_half(KEY(c));
#define SCORES(T, R, C) \
    static __attribute__((noinline)) void scores_##T##_##R##_##C(const void *keys, int32_t hd, const float *x, float *y, int64_t ldy, ahead next) { \
        const TYPE_##T *k = keys; \
        const int64_t ldx = hd; \
        vf a[R][C], w[C]; \
        REP##R(ZERO##C) \
        for (int32_t d = 0; d < hd; d++) { \
            const float *xk = x + d; \
            next = fetch(next); \
            REP##C(LOAD_K_##T) \
            REP##R(FMA##C) \
        } \
        REP##R(SAVE##C) \
    }

/* C vectors of weighted sums y go on over n values, then over those of the columns in tail. */
#define LOAD_V_f(c) w[c] = vf_load(at + (c) * W);
#define LOAD_V_h(c) w[c] = vf_half(at + (c) * W);
#define VALUES(T, R, C) \
    static __attribute__((noinline)) void values_##T##_##R##_##C(const span *s, const float *x, int64_t ldx, float *y, int64_t ldy, ahead next) { \
        vf a[R][C], w[C]; \
        const float *xk = x; \
        const TYPE_##T *at = s->v; \
        REP##R(RESUME##C) \
        for (int32_t i = 0; i < s->n; i++, xk++, at += s->hd) { \
            next = fetch(next); \
            REP##C(LOAD_V_##T) \
            REP##R(FMA##C) \
        } \
        for (int32_t i = 0; i < s->n_tail; i++, xk++) { \
            at = (const TYPE_##T *)s->v + (size_t)s->tail[i] * (size_t)s->hd; \
            REP##C(LOAD_V_##T) \
            REP##R(FMA##C) \
        } \
        REP##R(SAVE##C) \
    }

typedef struct { /* either n values side by side or those of a tail */
    const void *v;
    const int32_t *tail;
    int32_t hd, n, n_tail;
} span;
typedef void (*scores_fn)(const void *, int32_t, const float *, float *, int64_t, ahead);
typedef void (*values_fn)(const span *, const float *, int64_t, float *, int64_t, ahead);

#if W == 16
#define ONE_BLOCK 1
#elif W == 8
#define ONE_BLOCK 2
#else
#define ONE_BLOCK 4
#endif
#define ATTEND_(R, C) SCORES(f, R, C) VALUES(f, R, C) SCORES(h, R, C) VALUES(h, R, C)
#define ATTEND(R, C) ATTEND_(R, C)
#define ENTRY_(kind, R, C) kind##_##R##_##C
#define ENTRY(kind, R, C) ENTRY_(kind, R, C)
ATTEND(1, 4)
ATTEND(2, 4)
ATTEND(3, 4)
#if W > 4
ATTEND(1, ONE_BLOCK)
ATTEND(2, ONE_BLOCK)
ATTEND(3, ONE_BLOCK)
#endif
#define BOTH(kind, R) {ENTRY(kind, R, 4), ENTRY(kind, R, ONE_BLOCK)}
#if R_MAX == 6
ATTEND(4, 4)
ATTEND(5, 4)
ATTEND(6, 4)
#if W > 4
ATTEND(4, ONE_BLOCK)
ATTEND(5, ONE_BLOCK)
ATTEND(6, ONE_BLOCK)
#endif
#define UP_TO_R_MAX(kind) {{0}, BOTH(kind, 1), BOTH(kind, 2), BOTH(kind, 3), BOTH(kind, 4), BOTH(kind, 5), BOTH(kind, 6)}
#else
#define UP_TO_R_MAX(kind) {{0}, BOTH(kind, 1), BOTH(kind, 2), BOTH(kind, 3)}
#endif
static const scores_fn score_kernels[2][R_MAX + 1][2] = {UP_TO_R_MAX(scores_f), UP_TO_R_MAX(scores_h)};
static const values_fn value_kernels[2][R_MAX + 1][2] = {UP_TO_R_MAX(values_f), UP_TO_R_MAX(values_h)};

/* w[0..n) becomes e^(w - max); returns 1 / their sum. Room up to a multiple of 16. */
static float softmax(float *w, int32_t n) {
    const int32_t padded = (n + LSK_TILE - 1) / LSK_TILE * LSK_TILE;
    for (int32_t i = n; i < padded; i++) w[i] = -INFINITY;
    vf top[NV], sum[NV];
    for (int v = 0; v < NV; v++) top[v] = vf_set(-INFINITY), sum[v] = vf_set(0);
    for (int32_t i = 0; i < padded; i += LSK_TILE)
        for (int v = 0; v < NV; v++) top[v] = vf_max(top[v], vf_load(w + i + v * W));
    float lanes[LSK_TILE], max = -INFINITY, total = 0;
    for (int v = 0; v < NV; v++) vf_store(lanes + v * W, top[v]);
    for (int i = 0; i < LSK_TILE; i++) max = lanes[i] > max ? lanes[i] : max;
    vf m = vf_set(max);
    for (int32_t i = 0; i < padded; i += LSK_TILE)
        for (int v = 0; v < NV; v++) {
            vf e = vf_exp(vf_load(w + i + v * W) - m);
            sum[v] += e;
            vf_store(w + i + v * W, e);
        }
    for (int v = 0; v < NV; v++) vf_store(lanes + v * W, sum[v]);
    for (int i = 0; i < LSK_TILE; i++) total += lanes[i];
    return 1.0f / total;
}

/* Queries of the next micro-kernel where n are left: shares as even as can be. */
INLINE int32_t together(int32_t n) {
    const int32_t parts = (n + R_MAX - 1) / R_MAX;
    return (n + parts - 1) / parts;
}

/* Number i from p on. */
INLINE const void *number(int f16, const void *p, int64_t i) {
    return (const char *)p + i * (f16 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
}
INLINE int32_t lines_of(int f16, int32_t numbers) {
    return (numbers * (f16 ? 2 : 4) + 63) / 64;
}
static const float *as_floats(const uint16_t *p, int32_t n, float *room) {
    for (int32_t i = 0; i < n; i += W) vf_store(room + i, vf_half(p + i));
    return room;
}

/* All dimensions of the queries' outputs y go on over s, whose values are f16 or floats; weights at w. next: values that
 * follow in memory, as many of so many lines each; NULL: none. */
INLINE void add_values(int f16, span s, int32_t n, const float *w, int64_t ld, float *y, const void *next,
                       int32_t lines) {
    const void *v = s.v;
    const int32_t whole = s.hd / (4 * W), columns = whole + (s.hd - whole * 4 * W) / LSK_TILE,
                  passes = columns * ((n + R_MAX - 1) / R_MAX);
    for (int32_t d = 0, pass = 0; d < s.hd;) {
        const int narrow = d + 4 * W > s.hd;
        s.v = number(f16, v, d);
        for (int32_t i = 0, r; i < n; i += r, pass++)
            value_kernels[f16][r = together(n - i)][narrow](&s, w + i * ld, ld, y + i * s.hd + d, s.hd,
                                                            next ? share_of(next, pass, passes, s.n, lines) : (ahead){0});
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
    return softmax(w + from, n - from);
}

/* Positions hidden by a window have weight 0: whole tiles before the first that anyone sees are
 * skipped, and adding 0 to a sum that began at 0 changes no bit. */
static void k_attention(const lsk_attention *a) {
    const lsk_query *q = a->queries;
    const int32_t n = a->n_queries, hd = a->head_dim, context = a->n_context;
    int32_t columns = context, from = context;
    for (int32_t i = 0; i < n; i++) {
        const int32_t end = q[i].tail[q[i].n_tail - 1] + 1;
        columns = end > columns ? end : columns;
        from = q[i].first < from ? q[i].first : from;
    }
    from = from / LSK_TILE * LSK_TILE;
    const int32_t blocks = (columns + LSK_TILE - 1) / LSK_TILE;
    const int64_t ld = ((int64_t)blocks + 1) * LSK_TILE; /* rows do not begin in the same sets of the cache */
    float *x = a->scratch, *y = x + n * hd, *w = y + n * hd, *room = w + n * ld, inverse[LSK_QUERIES];
    const int once = n <= R_MAX, f16 = a->f16;
    const int floats = f16 && !once && R_MAX < 6; /* few queries a pass: what many passes read is converted once */
    for (int32_t i = 0; i < n; i++) memcpy(x + i * hd, q[i].q, (size_t)hd * sizeof *x);
    memset(y, 0, (size_t)(n * hd) * sizeof *y);
    for (int32_t b = from / LSK_TILE; b < blocks;) {
        /* in a single pass memory is waited for, and one stream of it is fetched faster than four */
        const int32_t narrow = once || b + G > blocks, taken = narrow ? 1 : G, end = b + taken;
        const void *keys = number(f16, a->k, (int64_t)b * hd * LSK_TILE),
                   *next = end < blocks ? number(f16, a->k, (int64_t)end * hd * LSK_TILE)
                                        : number(f16, a->v, (int64_t)from * hd);
        if (floats) keys = as_floats(keys, taken * hd * LSK_TILE, room);
        for (int32_t i = 0, pass = 0, r; i < n; i += r, pass++)
            score_kernels[f16 && !floats][r = together(n - i)][narrow](
                keys, hd, x + i * hd, w + i * ld + b * LSK_TILE, ld,
                share_of(next, pass, (n + R_MAX - 1) / R_MAX, hd, lines_of(f16, taken * LSK_TILE)));
        b = end;
    }
    for (int32_t i = 0; i < n; i++) inverse[i] = weigh(a, &q[i], from, w + i * ld);
    const int32_t step = once ? context : LSK_AGAIN / hd;
    for (int32_t p = from; p < context; p += step) {
        const int32_t taken = context - p < step ? context - p : step;
        const void *values = number(f16, a->v, (int64_t)p * hd), *next = number(f16, values, (int64_t)step * hd);
        if (floats) values = as_floats(values, taken * hd, room);
        add_values(f16 && !floats, (span){values, NULL, hd, taken, 0}, n, w + p, ld, y,
                   p + step < context ? next : NULL, lines_of(f16, hd));
    }
    for (int32_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && q[i + same].tail == q[i].tail && q[i + same].n_tail == q[i].n_tail;) same++;
        add_values(f16, (span){a->v, q[i].tail, hd, 0, q[i].n_tail}, same, w + i * ld + context, ld, y + i * hd, NULL, 0);
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t d = 0; d < hd; d += W) vf_store(q[i].out + d, vf_load(y + i * hd + d) * vf_set(inverse[i]));
}
