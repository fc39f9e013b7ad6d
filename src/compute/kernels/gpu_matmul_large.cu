// Matmul of many rows (prompts, large trees) in large tiles, with the bits of gpu_matmul.cu.
//
// A block has 256 outputs of 128 rows, a warp 64 of 64: a byte that comes from the second-level cache or from shared
// memory serves more products than in the blocks for few rows. For fewer rows a block of plain weights has 64 of them,
// and a warp 32 outputs: such blocks read half as many bytes of inputs as those for few rows. Of weights with scales a
// block has half as many outputs, so that two fit on a multiprocessor. Registers hold that many sums of one slice of
// the inputs. So a block computes one slice after the other, and the first one's sums wait in y, where the thread that
// wrote them takes them again. Products, groups, slices and chunks are those of gpu_matmul.cu, in its order, by its
// functions.
//
// Weights and inputs come stage by stage, by asynchronous copies of the whole block. A row's 128 bytes of a stage
// change halves in every other row, so that what lanes read at once lies in different banks.
#include "compute/kernels/gpu_tiles.h"

namespace {

constexpr int GROUPS = LSG_LARGE_GROUPS, PER = OWN / GROUPS; // groups of a stage; stages of OWN groups
constexpr int EIGHTS = 8;                                    // of rows, of a warp
static_assert(GROUPS == 2 && PER == 2, "a row has 128 bytes of a stage");

template <int F, int STAGES, int ROWS> struct Large {
    static constexpr lsg_large_plan PLAN = lsg_large_plan_of(F, STAGES);
    static constexpr int TILE = lsg_tile_bytes(F), TILES = lsg_large_out(F) / LSG_TILE,
                         OWN_TILES = TILES * ROWS / (8 * EIGHTS) / WARPS, // of a warp
        SLOT = GROUPS * TILE, COPIED = SLOT * TILES / WARPS, INPUTS = PLAN.weights, BYTES = PLAN.weights + PLAN.inputs;
};

// Blocks of a multiprocessor: with scales two where there is shared memory for them (8.0, 9.0, 10.0). Those of 16
// inputs take too many registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900 && __CUDA_ARCH__ != 1000
template <int F> constexpr int BLOCKS = 1;
#else
template <int F> constexpr int BLOCKS = plain<F> || parts<F> == 2 ? 1 : 2;
#endif

template <int F, int STAGES, int ROWS>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS<F>)
    matmul_large(lsg_matrix m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows) {
    using P = Large<F, STAGES, ROWS>;
    LSG_SHARED(unsigned char, shared); // [STAGES] of [TILES][GROUPS] tiles and [ROWS][GROUPS] inputs; [2] totals
    const int lane = threadIdx.x % 32, warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / 32, 0);
    constexpr int TILES = P::TILES, OWN_TILES = P::OWN_TILES;
    const int own_tile = warp % (TILES / OWN_TILES) * OWN_TILES, own_row = warp / (TILES / OWN_TILES) * 8 * EIGHTS;
    const int32_t groups = m.n_in / LSG_GROUP, row0 = (int32_t)blockIdx.x * ROWS, tile0 = (int32_t)blockIdx.y * TILES;
    const int32_t first = (int32_t)blockIdx.z * m.cut.chunk_groups, end = min(groups, first + m.cut.chunk_groups);
    const int32_t own_end = (tile0 + own_tile) * LSG_TILE < m.n_out ? end : first;
    // stages of a slice: both have as many, though the second's last groups may not be there
    const int32_t of_slice = (end - first + STAGE - 1) / STAGE * PER;
    auto group_of = [&](int32_t i) {
        const int32_t second = i >= of_slice, own = i - second * of_slice;
        return first + own / PER * STAGE + second * OWN + own % PER * GROUPS;
    };
    auto place_of = [&](int32_t i) { return shared + i % STAGES * P::BYTES; };
    // Where there are no registers to keep what copies need, it is computed anew.
    auto thread = [&] { return plain<F> ? (int)threadIdx.x : lsg_again((int)threadIdx.x); };
    // a warp copies a tile or half of one; of a second group there are bytes even if it is beyond the end
    auto fetch_weights = [&](int32_t i) {
        const int32_t g = group_of(i), me = thread(), at = me / 32 / TILES * P::COPIED + me % 32 * 16,
                      tile = tile0 + me / 32 % TILES;
        if (i >= 2 * of_slice || g >= end || tile * LSG_TILE >= m.n_out) return;
        const uint8_t *from = m.weights + (size_t)tile * (size_t)groups * P::TILE + at + (size_t)g * P::TILE;
        unsigned char *to = place_of(i) + me / 32 % TILES * P::SLOT + at;
#pragma unroll
        for (int k = 0; k < P::COPIED; k += 512)
            if (k + 512 <= P::COPIED || me % 32 * 16 < P::COPIED % 512) lsg_copy16(to + k, from + k);
    };
    lsg_next_may_start();
    for (int32_t i = 0; i < STAGES - 1; i++) fetch_weights(i); // weights do not wait for the kernel before
    const int32_t there = n_rows ? min(rows, lsg_fresh(n_rows)) : rows;
    lsg_wait_before();
    if (row0 >= there) {
        lsg_copies_wait<0>();
        return;
    }
    // a thread copies a piece of every 32nd row, and nothing in place of rows that are not there, as in gpu_matmul.cu
    auto fetch_inputs = [&](int32_t i) {
        const int32_t g = group_of(i), me = thread(), row = me / 8, piece = me % 8;
        if (i >= 2 * of_slice || g + piece / 4 >= end) return;
        const uint16_t *from = x + (size_t)(row0 + row) * m.n_in + piece * 8 + g * LSG_GROUP;
        unsigned char *to = place_of(i) + P::INPUTS + row * 128 + (piece * 16 ^ row % 2 * 64);
#pragma unroll
        for (int k = 0; k < ROWS; k += 4 * WARPS, from += (size_t)4 * WARPS * m.n_in)
            if (row0 + row + k < there) lsg_copy16(to + k * 128, from);
    };
    for (int32_t i = 0; i < STAGES - 1; i++) {
        fetch_inputs(i);
        lsg_copies_commit();
    }
    auto fetch_next = [&](int32_t i) {
        fetch_weights(i + STAGES - 1);
        fetch_inputs(i + STAGES - 1);
        lsg_copies_commit();
    };
    float acc[OWN_TILES][EIGHTS][2][4];
    Minima<F> kept[OWN_TILES];
    // sums of the inputs of OWN groups: the next ones are written while others still read these
    auto totals_of = [&](int32_t i) {
        return (uint32_t *)(shared + STAGES * P::BYTES) + i / PER % 2 * (ROWS / 8 * TOTALS<F>);
    };
    auto minima = [&](int32_t i) {
#pragma unroll
        for (int t = 0; t < OWN_TILES; t++)
            add_minima<F, EIGHTS>(acc[t], kept[t], totals_of(i) + own_row / 8 * TOTALS<F>, lsg_again(lane));
    };
    // every sum of this thread that is there, with its place in y
    auto each = [&](auto &&use) {
        const int again = lsg_again(lane), o = (tile0 + own_tile) * LSG_TILE + again / 4, r = own_row + again % 4 * 2;
        float *row = y + ((size_t)blockIdx.z * rows_y + row0 + r) * m.n_out + o;
#pragma unroll
        for (int j = 0; j < EIGHTS; j++, row += (size_t)8 * m.n_out) {
#pragma unroll
            for (int i = 0; i < OWN_TILES * 8; i++) {
                const int next = i % 2, over = i / 8 * LSG_TILE + i / 4 % 2 * 16 + i / 2 % 2 * 8;
                if (o + over < m.n_out && row0 + r + j * 8 + next < there)
                    use(acc[i / 8][j][i / 4 % 2][i % 4], row[next * (size_t)m.n_out + over]);
            }
        }
    };
#pragma unroll 1
    for (int32_t slice = 0; slice < SLICES; slice++) {
#pragma unroll
        for (int k = 0; k < OWN_TILES * EIGHTS * 8; k++) (&acc[0][0][0][0])[k] = 0;
#pragma unroll 1
        for (int32_t i = slice * of_slice; i < (slice + 1) * of_slice; i++) {
            lsg_copies_wait<STAGES - 2>();
            // every thread's copies are there, and nobody reads the stage before
            __syncthreads();
            if (!plain<F>) fetch_next(i); // the other block keeps tensor cores busy
            // so that no register keeps what follows from it through the loop below
            const int again = lsg_again(lane);
            const unsigned char *const place = place_of(i);
            const unsigned char *const in = place + P::INPUTS + again / 4 * 128 + again % 4 * (F == LSG_Q8S ? 8 : 16);
            const int swap = again / 4 % 2 * 64;
            const int32_t group = group_of(i);
            if constexpr (has_min<F>) {
                if (i % PER == 0) {
                    if (i > slice * of_slice) minima(i - 1);
                    for (int t = 0; t < OWN_TILES; t++)
                        for (int k = 0; k < parts<F> * 4; k++) (&kept[t].of[0][0][0])[k] = 0;
                }
#pragma unroll
                for (int k = 0; k < ROWS / 8 / WARPS; k++) {
                    const int j = k * WARPS + warp;
                    auto at = [&](int g) { return in + j * 8 * 128 + (g % GROUPS * 64 ^ swap); };
                    uint32_t *to = totals_of(i) + j * TOTALS<F>;
                    if (i % PER) add_inputs<F, GROUPS, OWN>(to, at, end - group + GROUPS, again);
                    else add_inputs<F, 0, GROUPS>(to, at, end - group, again);
                }
            }
#pragma unroll(plain <F> ? GROUPS : 1)
            for (int u = 0; u < GROUPS; u++) {
                if (plain<F> && u) fetch_next(i); // while tensor cores are busy with the first group
                if (group + u >= own_end) {
                    if (plain<F>) continue;
                    break;
                }
                const unsigned char *own = in + own_row * 128 + (u * 64 ^ swap);
                Weights<F> w[OWN_TILES];
#pragma unroll
                for (int t = 0; t < OWN_TILES; t++)
                    unpack<F>(w[t], kept[t], place + (own_tile + t) * P::SLOT + u * P::TILE, again,
                              again % 4 == i % PER * GROUPS + u);
#pragma unroll
                for (int j = 0; j < EIGHTS; j++) {
                    uint32_t b[2][2];
                    load_inputs<F>(b, own + j * 8 * 128);
#pragma unroll
                    for (int t = 0; t < OWN_TILES; t++) multiply<F>(acc[t][j], w[t], b);
                }
            }
        }
        if constexpr (has_min<F>) {
            __syncthreads();
            minima((slice + 1) * of_slice - 1);
        }
        if (slice)
            each([](float &sum, float &first_sum) { sum = first_sum + sum; }); // all loads before the first store
        each([](float &sum, float &first_sum) { first_sum = sum; });
    }
}

template <int F, int STAGES, int ROWS>
int run(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
        lsg_stream stream) {
    constexpr int OUT = lsg_large_out(F);
    // blocks of the same weights run side by side
    const dim3 grid(lsg_blocks(rows, ROWS), lsg_blocks(m.n_out, OUT), (unsigned)m.cut.chunks);
    const size_t shared = (size_t)lsg_large_shared((lsg_format)F, (int64_t)grid.x * grid.y * grid.z, &m.cut);
    return lsg_launch(matmul_large<F, STAGES, ROWS>, grid, 32 * WARPS, shared, stream, m, x, y, rows_y, rows, n_rows);
}

template <int F>
int run_large(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
              lsg_stream s) {
    constexpr int MOST = LSG_LARGE_ROWS;
    if constexpr (F == LSG_BF16)
        if (rows < MOST) return run<F, 3, MOST / 2>(m, x, y, rows_y, rows, n_rows, s);
    if constexpr (lsg_large_plan_of(F, 3).shared > LSG_BLOCK_SHARED)
        if (lsg_large_stages((lsg_format)F, m.cut.gpu) == 2) return run<F, 2, MOST>(m, x, y, rows_y, rows, n_rows, s);
    return run<F, 3, MOST>(m, x, y, rows_y, rows, n_rows, s);
}

} // namespace

int lsg_matmul_large(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows,
                     const int32_t *n_rows, lsg_stream s) {
#define RUN(F, ...)                                                                                                    \
    case F: return run_large<F>(*m, x, y, rows_y, rows, n_rows, s);
    switch (m->format) {
        LSG_FORMATS(RUN)
    default: return -1;
    }
}
