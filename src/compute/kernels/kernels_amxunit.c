/* Whether this processor's tiles may be used, whether they are right, and from how many rows on they are faster. */
#include "compute/kernels/amx.h"
#include "compute/kernels/kernels.h"

#include <cpuid.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const lsk_table lsk_avx512vnni;

static void configure_all(void) {
    amx_config c = {0};
    for (int i = 0; i < 8; i++) amx_shape(&c, i, AMX_ROWS, AMX_BYTES);
    amx_configure(&c);
}

/* Tiles of bf16 against plain C, for which small integers have exact sums. */
static int right_bf16(int type, lsk_arith packing) {
    enum { N_IN = 64, ROWS = 19 };
    static uint16_t x[ROWS * N_IN];
    static float scratch[64 * N_IN] __attribute__((aligned(64))), y[ROWS * LSK_TILE], w[N_IN];
    static unsigned char raw[LSK_TILE * N_IN * 4], packed[LSK_TILE * N_IN * 2] __attribute__((aligned(64)));
    lsk_matrix m;
    lsk_pack_init(&m, type, LSK_TILE, N_IN, packing);
    m.data = packed;
    for (int i = 0; i < ROWS * N_IN; i++) x[i] = ls_to_bf16((float)(i * 53 % 89 - 44));
    for (int o = 0; o < LSK_TILE; o++) {
        /* integers whose scale is 1: 16 of them from -8 on, or up to 127 */
        for (int k = 0; k < N_IN; k++)
            w[k] = (float)(type == LS_GGML_Q8_0 ? (k % 32 ? (o * N_IN + k) * 37 % 201 - 100 : 127)
                                                : (k % 32 < 2 ? k % 2 * 15 : (o * N_IN + k) * 37 % 16) - 8);
        lsk_quantize_row(type, w, N_IN, raw + (size_t)o * lsk_row_bytes(type, N_IN));
    }
    lsk_pack_rows(&m, 0, type, raw, LSK_TILE);
    lsk_amx_matmul_bf16(&m, x, N_IN, y, LSK_TILE, ROWS, 0, 1, scratch);
    for (int o = 0; o < LSK_TILE; o++) {
        lsk_dequant_row(type, raw + (size_t)o * lsk_row_bytes(type, N_IN), N_IN, w);
        for (int r = 0; r < ROWS; r++) {
            int32_t want = 0;
            for (int k = 0; k < N_IN; k++) want += ((r * N_IN + k) * 53 % 89 - 44) * (int32_t)w[k];
            if (y[r * LSK_TILE + o] != (float)want) return 0;
        }
    }
    return 1;
}

enum { INT8_IN = 512, INT8_OUT = 64, INT8_ROWS = 16, INT8_TILES = INT8_OUT / LSK_TILE };
/* Rows of a matrix that stays in the caches. */
typedef struct {
    lsk_matrix m;
    unsigned char packed[INT8_OUT * (INT8_IN / 32) * (32 + 4)];
    lsk_group x[INT8_IN / 32 * INT8_ROWS];
    float y[INT8_ROWS * INT8_OUT];
} int8_case;

static void multiply(lsk_matmul_int *how, int8_case *c, int rows) {
    how(&c->m, LSK_ARITH_I8, c->x, INT8_ROWS, c->y, INT8_OUT, rows, 0, INT8_TILES, NULL);
}

/* Tiles of bytes against vpdpbusd. */
static int right_int8(int8_case *c, int type) {
    static float by_vectors[INT8_ROWS * INT8_OUT];
    static unsigned char raw[INT8_OUT * (INT8_IN / 32) * (32 + 2)]; /* of 4 bits it needs less */
    float x[INT8_IN];
    lsk_pack_init(&c->m, type, INT8_OUT, INT8_IN, LSK_ARITH_I8);
    c->m.data = c->packed;
    for (size_t i = 0; i < sizeof raw; i++) raw[i] = (unsigned char)(i * 101 % 251);
    const size_t block = lsk_row_bytes(type, 32);
    for (size_t i = 0; i < INT8_OUT * INT8_IN / 32; i++) {
        raw[i * block + 1] = 0x2C; /* the high half of a scale: 1/16 */
        if (type == LS_GGML_Q4_1) raw[i * block + 3] = 0x2C;
    }
    lsk_pack_rows(&c->m, 0, type, raw, INT8_OUT);
    for (int r = 0; r < INT8_ROWS; r++) {
        for (int i = 0; i < INT8_IN; i++) x[i] = (float)((r * INT8_IN + i) * 53 % 89 - 44);
        lsk_avx512vnni.quantize(x, INT8_IN, LSK_ARITH_I8, c->x + r, INT8_ROWS);
    }
    multiply(lsk_avx512vnni.matmul_int, c, INT8_ROWS);
    memcpy(by_vectors, c->y, sizeof by_vectors);
    memset(c->y, 0, sizeof c->y);
    multiply(lsk_amx_matmul_int8, c, INT8_ROWS);
    for (int i = 0; i < INT8_ROWS * INT8_OUT; i++)
        if (by_vectors[i] != c->y[i]) return 0;
    return 1;
}

/* Tiles run in bursts of two speeds on some processors, and others may have this one meanwhile: the fastest of many
 * short runs, in turn, counts. */
static int tiles_are_faster(int8_case *c, int rows) {
    enum { TIMES = 40 };
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2 * TIMES; i++) {
        const uint64_t start = __rdtsc();
        multiply(i % 2 ? lsk_amx_matmul_int8 : lsk_avx512vnni.matmul_int, c, rows);
        const uint64_t took = __rdtsc() - start;
        if (took < best[i % 2]) best[i % 2] = took;
    }
    return best[1] < best[0];
}

static int32_t from_rows = INT32_MAX; /* of a pass, tiles are faster */
static void find_from_rows(int8_case *a, int8_case *b) {
    const int tried[] = {16, 14, 12, 10, LSK_AMX_LEAST};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        if (!tiles_are_faster(a, tried[i]) || !tiles_are_faster(b, tried[i])) return;
        from_rows = tried[i];
    }
}

static void amx_matmul_int(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                           int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    const int can = (m->format == LSK_Q4I || m->format == LSK_Q8I) && arith != LSK_ARITH_I16;
    lsk_matmul_int *const how =
        can && lsk_amx_pass(rows) >= from_rows ? lsk_amx_matmul_int8 : lsk_avx512vnni.matmul_int;
    how(m, arith, x, ldx, y, ldy, rows, t0, t1, scratch);
}

#define PEAK(function, add, products)                                                                                  \
    static int64_t function(int64_t rounds) {                                                                          \
        configure_all();                                                                                               \
        _tile_zero(4);                                                                                                 \
        _tile_zero(5);                                                                                                 \
        for (int64_t n = 0; n < rounds; n++) {                                                                         \
            AMX_FOUR(add)                                                                                              \
        }                                                                                                              \
        _tile_release();                                                                                               \
        return rounds * 4 * AMX_ROWS * AMX_ROWS * (products);                                                          \
    }
#define ADD_PAIRS(i) _tile_dpbf16ps(i, 4, 5);
#define ADD_BYTES(i) _tile_dpbsud(i, 4, 5);
PEAK(peak_pairs, ADD_PAIRS, 32)
PEAK(peak_bytes, ADD_BYTES, 64)
static int64_t peak_int(int64_t rounds) {
    return (from_rows < INT32_MAX ? peak_bytes : lsk_avx512vnni.peak_int)(rounds);
}

/* What tiles change: levels.c has the rest. */
const lsk_table lsk_amx = {.name = "amx",
                           .matmul_int = amx_matmul_int,
                           .peak_int = peak_int,
                           .matmul_bf16 = lsk_amx_matmul_bf16,
                           .unpacks = 1,
                           .peak_bf16 = peak_pairs,
                           .attention = lsk_amx_attention};

static sigjmp_buf refused;
static void on_refusal(int signal) {
    (void)signal;
    siglongjmp(refused, 1);
}

/* Runs the checks behind a signal handler: a unit that refuses its instructions, or errs, is not used. */
static int right_and_alive(void) {
    static int8_case four __attribute__((aligned(64))), eight __attribute__((aligned(64)));
    struct sigaction a = {.sa_handler = on_refusal}, old;
    volatile int ok = 0;
    sigaction(SIGILL, &a, &old);
    if (!sigsetjmp(refused, 1)) {
        ok = right_bf16(LS_GGML_F32, LSK_ARITH_BF16) && right_bf16(LS_GGML_Q4_1, LSK_ARITH_BF16_PACKED) &&
             right_bf16(LS_GGML_Q8_0, LSK_ARITH_BF16_PACKED) && right_int8(&four, LS_GGML_Q4_1) &&
             right_int8(&eight, LS_GGML_Q8_0);
        if (ok) find_from_rows(&four, &eight);
    }
    sigaction(SIGILL, &old, NULL);
    return ok;
}

static int usable;
static void look(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    /* of leaf 7; clang before 17 has no names for them */
    enum { BF16 = 1 << 22, TILES = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILES | INT8 };
    unsigned a, b, c, d;
    usable = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & ALL) == ALL &&
             !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) && right_and_alive();
}
int lsk_amx_usable(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    return usable;
}
