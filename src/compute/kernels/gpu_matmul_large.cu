// Matmul of many rows (prompts, large trees) in large tiles, with the bits of gpu_matmul.cu.
//
// A block has 256 outputs of 128 rows, a warp 64 of 64: a byte that comes from the second-level cache or from shared
// memory serves more products than in the tiles for few rows. Registers hold that many sums of one slice of the inputs.
// So a block computes one slice after the other, and the first one's sums wait in y, where the thread that wrote them
// takes them again. Products, groups, slices and chunks are those of gpu_matmul.cu, in its order, by its functions.
//
// Weights and inputs come stage by stage, by asynchronous copies of the whole block. A row's 128 bytes of a stage
// change halves in every other row, so that what lanes read at once lies in different banks.
#include "compute/kernels/gpu_tiles.h"

namespace {

constexpr int GROUPS = LSG_LARGE_GROUPS, PER = OWN / GROUPS; // groups of a stage; stages of OWN groups
constexpr int ROWS = LSG_LARGE_ROWS, TILES = LSG_LARGE_OUT / LSG_TILE;
constexpr int EIGHTS = 8, OWN_TILES = 2; // of a warp
// Tiles that share an operand of inputs; scales leave no registers for two.
template <int F> constexpr int AT_ONCE = plain<F> ? 2 : 1;
static_assert(GROUPS == 2 && PER == 2 && TILES == WARPS, "a warp copies a tile");
static_assert(ROWS / (8 * EIGHTS) * (TILES / OWN_TILES) == WARPS, "");

template <int F, int STAGES> struct Large {
    static constexpr lsg_large_plan PLAN = lsg_large_plan_of(F, STAGES);
    static constexpr int TILE = lsg_tile_bytes(F), SLOT = GROUPS * TILE, INPUTS = PLAN.weights,
                         BYTES = PLAN.weights + PLAN.inputs, SHARED = PLAN.shared;
};

template <int F, int STAGES>
__global__ void __launch_bounds__(32 * WARPS, 1)
    matmul_large(lsg_matrix m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows) {
    using P = Large<F, STAGES>;
    LSG_SHARED(unsigned char, shared); // [STAGES] of [TILES][GROUPS] tiles and [ROWS][GROUPS] inputs; [2] totals
    const int lane = threadIdx.x % 32, warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / 32, 0);
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
    auto fetch_weights = [&](int32_t i) { // of a second group there are bytes even if it is beyond the end
        const int32_t g = group_of(i), tile = tile0 + warp;
        if (i >= 2 * of_slice || g >= end || tile * LSG_TILE >= m.n_out) return;
        const int at = lsg_again(lane) * 16;
        const uint8_t *from = m.weights + ((size_t)tile * (size_t)groups + (size_t)g) * P::TILE + at;
        unsigned char *to = place_of(i) + warp * P::SLOT + at;
#pragma unroll
        for (int k = 0; k < P::SLOT; k += 512)
            if (k + 512 <= P::SLOT || at < P::SLOT % 512) lsg_copy16(to + k, from + k);
    };
    lsg_next_may_start();
    for (int32_t i = 0; i < STAGES - 1; i++) fetch_weights(i); // weights do not wait for the kernel before
    const int32_t there = n_rows ? min(rows, lsg_fresh(n_rows)) : rows;
    lsg_wait_before();
    if (row0 >= there) {
        lsg_copies_wait<0>();
        return;
    }
    auto fetch_inputs = [&](int32_t i) { // nothing in place of rows that are not there, as in gpu_matmul.cu
        const int32_t g = group_of(i), pieces = min(GROUPS, end - g) * 4;
        if (i >= 2 * of_slice) return;
        const int again = lsg_again((int)threadIdx.x), piece = again % 8, row = again / 8;
        const uint16_t *from = x + (size_t)(row0 + row) * m.n_in + (size_t)g * LSG_GROUP + piece * 8;
        unsigned char *to = place_of(i) + P::INPUTS + row * 128 + (piece * 16 ^ row % 2 * 64);
#pragma unroll
        for (int k = 0; k < ROWS; k += 4 * WARPS)
            if (row0 + row + k < there && piece < pieces) lsg_copy16(to + k * 128, from + (size_t)k * m.n_in);
    };
    for (int32_t i = 0; i < STAGES - 1; i++) {
        fetch_inputs(i);
        lsg_copies_commit();
    }
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
            __syncthreads(); // every thread's copies are there, and nobody reads the stage before
            fetch_weights(i + STAGES - 1);
            fetch_inputs(i + STAGES - 1);
            lsg_copies_commit();
            const int again = lsg_again(lane); // so that no register keeps what follows from it through the loop below
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
                if (group + u >= own_end) break;
                const unsigned char *own = in + own_row * 128 + (u * 64 ^ swap);
#pragma unroll
                for (int from = 0; from < OWN_TILES; from += AT_ONCE<F>) {
                    Weights<F> w[AT_ONCE<F>];
#pragma unroll
                    for (int t = 0; t < AT_ONCE<F>; t++)
                        unpack<F>(w[t], kept[from + t], place + (own_tile + from + t) * P::SLOT + u * P::TILE, again,
                                  again % 4 == i % PER * GROUPS + u);
#pragma unroll
                    for (int j = 0; j < EIGHTS; j++) {
                        if (F == LSG_Q8S && j % 2 == 0) __syncwarp(); // else the compiler spills in this loop
                        uint32_t b[2][2];
                        load_inputs<F>(b, own + j * 8 * 128);
#pragma unroll
                        for (int t = 0; t < AT_ONCE<F>; t++) multiply<F>(acc[from + t][j], w[t], b);
                    }
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

template <int F, int STAGES>
int run(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
        lsg_stream stream) {
    const dim3 grid((unsigned)((rows + ROWS - 1) / ROWS), // blocks of the same weights run side by side
                    (unsigned)((m.n_out + LSG_LARGE_OUT - 1) / LSG_LARGE_OUT), (unsigned)m.cut.chunks);
    return lsg_launch(matmul_large<F, STAGES>, grid, 32 * WARPS, (size_t)Large<F, STAGES>::SHARED, stream, m, x, y,
                      rows_y, rows, n_rows);
}

template <int F>
int run_large(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
              lsg_stream s) {
    if (lsg_large_stages((lsg_format)F, m.cut.gpu) == 3) return run<F, 3>(m, x, y, rows_y, rows, n_rows, s);
    return run<F, 2>(m, x, y, rows_y, rows, n_rows, s);
}

} // namespace

int lsg_matmul_large(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows,
                     const int32_t *n_rows, lsg_stream s) {
    switch (m->format) {
    case LSG_BF16: return run_large<LSG_BF16>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_F16: return run_large<LSG_F16>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_Q4: return run_large<LSG_Q4>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_Q8: return run_large<LSG_Q8>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_Q4S: return run_large<LSG_Q4S>(*m, x, y, rows_y, rows, n_rows, s);
    default: return run_large<LSG_Q8S>(*m, x, y, rows_y, rows, n_rows, s);
    }
}
