// Matmul of packed weights by bf16 rows: y = x W^T.
//
// A block has eight warps: four tiles of 32 outputs, and two slices of the inputs for each tile. The grid's third
// dimension takes chunks of inputs. Weights and inputs come to shared memory by asynchronous copies: weights into a
// ring of slots that each warp has for itself, so that all but one are under way whatever the compiler does with
// registers; inputs of all rows stage by stage, for the whole block. Every sum runs over a slice's groups in order,
// then over slices, then (in the kernel that reads y) over chunks: the number of rows changes nothing.
//
// Minima (weight = scale * q + minimum) are multiplied by sums of inputs, which do not depend on the outputs: a slice's
// warps compute each stage's sums once, as a matrix product with ones, and each warp then multiplies its minima of the
// stage's groups by them in one more product. A minimum and a sum are two bf16 each there: minima of all formats are
// exact so, and a sum loses at most 2^-17 of itself.
#include "compute/kernels/gpu_tiles.h"

namespace {

constexpr int TILES = LSG_BLOCK_TILES;
static_assert(WARPS == SLICES * TILES, "a warp has a tile and a slice");
constexpr int NEAR = 12; // further groups that are asked for while the kernel ahead ends

// The sizes of a kernel for 8 NT rows.
template <int F, int NT> struct Plan {
    static constexpr lsg_matmul_plan PLAN = lsg_matmul_plan_of(F, NT);
    static constexpr int TILE = lsg_tile_bytes(F), GROUPS = PLAN.groups, SLOT = PLAN.slot, SLOTS = PLAN.slots,
                         STRIDE = PLAN.stride, STAGES = PLAN.stages, INPUTS = PLAN.inputs, SHARED = PLAN.shared,
                         PER = OWN / GROUPS, // slots of a stage
        SUMS = TILES * 32 * (8 * NT + 1) * (int)sizeof(float);
    static_assert(SUMS <= SHARED && SLOTS >= 3, "");
    // Copy groups that may be under way where a stage begins; its inputs came with the slot that was fetched STAGES - 1
    // stages ago.
    static constexpr int since = (STAGES - 1) * PER - 1, begin_wait = since < SLOTS - 2 ? since : SLOTS - 2;
    static constexpr int totals_bytes = SLICES * NT * TOTALS<F> * 4;
};

// EARLY: weights are asked for before the kernel ahead has ended; else it has.
template <int F, int NT, bool EARLY>
LSG_DEVICE void multiply_rows(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t row0,
                              int32_t rows, const int32_t *n_rows) {
    using P = Plan<F, NT>;
    LSG_SHARED(unsigned char,
               shared); // [STAGES][8 NT rows][STRIDE], [WARPS][SLOTS][SLOT], [2 stages] totals; then sums of slices
    // from one lane, so that the compiler knows that all lanes go the same way
    const int lane = threadIdx.x % 32, warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / 32, 0);
    const int slice = warp / TILES;
    const int32_t groups = m.n_in / LSG_GROUP, tile = (int32_t)blockIdx.y * TILES + warp % TILES;
    const bool has_tile = tile * LSG_TILE < m.n_out;
    const int32_t first = (int32_t)blockIdx.z * m.cut.chunk_groups, end = min(groups, first + m.cut.chunk_groups),
                  own_end = has_tile ? end : first;
    const int32_t n_stages = (end - first + STAGE - 1) / STAGE;
    unsigned char *ring = shared + P::INPUTS + warp * (P::SLOTS * P::SLOT);
    const uint8_t *weights = m.weights + (size_t)tile * (size_t)groups * P::TILE;
    // the first group of a warp's n-th slot
    auto group_of = [&](int32_t n) { return first + n / P::PER * STAGE + (slice * P::PER + n % P::PER) * P::GROUPS; };
    auto fetch = [&](int32_t n, int place) { // of a slot's second group there are bytes even if it is beyond the end
        const int32_t g = group_of(n);
        if (g < own_end) {
            const int at = lsg_again(lane) * 16;
            const uint8_t *from = weights + (size_t)g * P::TILE + at;
            unsigned char *to = ring + place * P::SLOT + at;
#pragma unroll
            for (int i = 0; i < P::SLOT; i += 512)
                if (i + 512 <= P::SLOT || at < P::SLOT % 512) lsg_copy16(to + i, from + i);
        }
    };
    if constexpr (EARLY) lsg_next_may_start();
#pragma unroll
    for (int i = 0; i < P::SLOTS - 1; i++) { // weights do not wait for the kernel before
        fetch(i, i);
        lsg_copies_commit();
    }
    { // nor do those that come next: a line a lane
        const int32_t from = first + (P::SLOTS - 1) * P::GROUPS * SLICES, to = min(own_end, from + NEAR);
        for (int32_t i = (from * P::TILE) + (slice * 32 + lane) * 128; i < to * P::TILE; i += SLICES * 32 * 128)
            lsg_prefetch(weights + i);
    }
    const int32_t there = n_rows ? min(rows, lsg_fresh(n_rows)) : rows;
    if constexpr (EARLY) lsg_wait_before();
    if (row0 >= there) {
        lsg_copies_wait<0>();
        return;
    }
    // The block copies a stage's inputs. Nothing is copied in place of rows that are not there: what lies there reaches
    // their own sums alone. Copies of the last row in their place made one row dearer than eight on an H100.
    const int32_t n_copied = min(8 * NT, there - row0) * STAGE * 4;
    auto stage = [&](int32_t s) {
        if (s >= n_stages) return;
        const int32_t pieces = min((int32_t)STAGE, end - first - s * STAGE) * 4;
        unsigned char *to = shared + s % P::STAGES * (8 * NT * P::STRIDE);
        for (int32_t i = lsg_again((int)threadIdx.x); i < n_copied; i += 32 * WARPS) {
            const int32_t r = i / (STAGE * 4), piece = i % (STAGE * 4);
            if (piece < pieces)
                lsg_copy16(to + r * P::STRIDE + piece * 16,
                           x + (size_t)(row0 + r) * m.n_in + (size_t)(first + s * STAGE) * LSG_GROUP + piece * 8);
        }
    };
    float acc[NT][2][4];
#pragma unroll
    for (int i = 0; i < 2 * NT * 4; i++) (&acc[0][0][0])[i] = 0;
    Minima<F> kept;
    // the slice's sums of inputs of a stage: the next stage's are written while others still read these
    auto totals_of = [&](int32_t s) {
        return (uint32_t *)(shared + P::INPUTS + WARPS * P::SLOTS * P::SLOT + s % 2 * P::totals_bytes) +
               slice * NT * TOTALS<F>;
    };
    for (int32_t s = 0; s < P::STAGES - 1; s++) stage(s);
    lsg_copies_commit();
    int32_t slot = 0;
    int place = 0;
    for (int32_t s = 0; s < n_stages; s++) {
        if (!s) lsg_copies_wait<0>(); // the first inputs came last
        else lsg_copies_wait<P::begin_wait>();
        __syncthreads(); // every thread's copies are there, and nobody reads the stage before
        stage(s + P::STAGES - 1);
        const int again = lsg_again(lane); // so that no register keeps what follows from it through the loop below
        const unsigned char *in = shared + s % P::STAGES * (8 * NT * P::STRIDE) + again / 4 * P::STRIDE +
                                  again % 4 * (F == LSG_Q8S ? 8 : 16) + slice * OWN * 64;
        if constexpr (has_min<F>) {
            if (s) add_minima<F, NT>(acc, kept, totals_of(s - 1), again);
            for (int i = 0; i < parts<F> * 4; i++) (&kept.of[0][0][0])[i] = 0; // also of groups that are not there
            const int32_t n = end - first - s * STAGE - slice * OWN;
#pragma unroll
            for (int j0 = 0; j0 < NT; j0 += TILES) // a warp of the slice takes every fourth eight of rows
                if (const int j = j0 + warp % TILES; j < NT)
                    add_inputs<F, 0, OWN>(
                        totals_of(s) + j * TOTALS<F>, [&](int g) { return in + j * 8 * P::STRIDE + g * 64; }, n, again);
        }
#pragma unroll 1
        for (int32_t i = 0; i < P::PER; i++, slot++) {
            if (i) lsg_copies_wait<P::SLOTS - 2>();
            __syncwarp(); // every lane's copies are there, and nobody reads the slot before
            fetch(slot + P::SLOTS - 1, place ? place - 1 : P::SLOTS - 1);
            lsg_copies_commit();
            const int32_t group = group_of(slot);
#pragma unroll
            for (int u = 0; u < P::GROUPS; u++) {
                if (group + u >= own_end) break;
                Weights<F> w;
                unpack<F>(w, kept, ring + place * P::SLOT + u * P::TILE, lane, lane % 4 == i * P::GROUPS + u);
                const unsigned char *own = in + (i * P::GROUPS + u) * 64;
#pragma unroll
                for (int j = 0; j < NT; j++) {
                    uint32_t b[2][2];
                    load_inputs<F>(b, own + j * 8 * P::STRIDE);
                    multiply<F>(acc[j], w, b);
                }
            }
            place = place == P::SLOTS - 1 ? 0 : place + 1;
        }
    }
    if constexpr (has_min<F>) {
        __syncthreads();
        add_minima<F, NT>(acc, kept, totals_of(n_stages - 1), lane);
    }
    // the first slice's warps add the second's sums
    float *sums = (float *)shared + (warp % TILES * 32 + lane) * (8 * NT + 1);
    __syncthreads();
    if (slice)
        for (int i = 0; i < 8 * NT; i++) sums[i] = (&acc[0][0][0])[i];
    __syncthreads();
    if (slice) return;
#pragma unroll
    for (int i = 0; i < 8 * NT; i++) (&acc[0][0][0])[i] += sums[i];
    if (!has_tile) return;
    float *out = y + ((size_t)blockIdx.z * rows_y + row0) * m.n_out;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t o = tile * LSG_TILE + t * 16 + lane / 4 + i / 2 * 8, r = j * 8 + lane % 4 * 2 + i % 2;
                if (o < m.n_out && row0 + r < there) out[(size_t)r * m.n_out + o] = acc[j][t][i];
            }
}

template <int F, int NT>
__global__ void __launch_bounds__(32 * WARPS, NT <= 4 ? 2 : 1)
    matmul(lsg_matrix m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows) {
    multiply_rows<F, NT, true>(m, x, y, rows_y, (int32_t)blockIdx.x * 8 * NT, rows, n_rows);
}

// The same for an expert's pairs. Which experts are awake is known when the kernel ahead has ended; the blocks of the
// others leave.
template <int F, int NT>
__global__ void __launch_bounds__(32 * WARPS, 2)
    experts(lsg_matrix m, const uint8_t *const *weights, const int32_t *begin, const uint16_t *x, float *y,
            int32_t pairs, int32_t row_blocks) {
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t expert = (int32_t)blockIdx.x / row_blocks, row0 = (int32_t)blockIdx.x % row_blocks * 8 * NT,
                  first = begin[expert], rows = begin[expert + 1] - first;
    if (row0 >= rows) return;
    m.weights = weights[expert];
    multiply_rows<F, NT, false>(m, x + (size_t)first * m.n_in, y + (size_t)first * m.n_out, pairs, row0, rows, nullptr);
}

template <int F, int NT>
int run(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
        lsg_stream stream) {
    // blocks of the same weights run side by side
    const dim3 grid(lsg_blocks(rows, 8 * NT), lsg_blocks(m.n_out, LSG_BLOCK_OUT), (unsigned)m.cut.chunks);
    const int64_t blocks = (int64_t)grid.x * grid.y * grid.z;
    const size_t shared = (size_t)lsg_matmul_shared((lsg_format)F, NT, blocks, &m.cut);
    return lsg_launch(matmul<F, NT>, grid, 32 * WARPS, shared, stream, m, x, y, rows_y, rows, n_rows);
}

template <int F, int NT = lsg_tile_of(F).eights>
int run_rows(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
             lsg_stream s) {
    const int eights = lsg_matmul_eights(rows, &m.cut);
    if (eights == NT) return run<F, NT>(m, x, y, rows_y, rows, n_rows, s);
    if constexpr (NT > 1) return run_rows<F, NT - 1>(m, x, y, rows_y, rows, n_rows, s);
    return -1;
}

template <int F, int NT = LSG_EXPERT_EIGHTS>
int run_experts(const lsg_matrix &m, const uint8_t *const *weights, const int32_t *begin, int32_t n_experts,
                const uint16_t *x, float *y, int32_t pairs, int32_t rows, lsg_stream s) {
    if constexpr (NT > 1)
        if (rows <= 8 * (NT - 1)) return run_experts<F, NT - 1>(m, weights, begin, n_experts, x, y, pairs, rows, s);
    const int32_t row_blocks = (int32_t)lsg_blocks(rows, 8 * NT);
    const dim3 grid((unsigned)(n_experts * row_blocks), lsg_blocks(m.n_out, LSG_BLOCK_OUT), (unsigned)m.cut.chunks);
    return lsg_launch(experts<F, NT>, grid, 32 * WARPS, (size_t)Plan<F, NT>::SHARED, s, m, weights, begin, x, y, pairs,
                      row_blocks);
}

} // namespace

int lsg_matmul(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
               lsg_stream s) {
    if (lsg_matmul_is_large(m->format, rows, m->n_out, &m->cut))
        return lsg_matmul_large(m, x, y, rows_y, rows, n_rows, s);
#define RUN(F, ...)                                                                                                    \
    case F: return run_rows<F>(*m, x, y, rows_y, rows, n_rows, s);
    switch (m->format) {
        LSG_FORMATS(RUN)
    default: return -1;
    }
}

int lsg_matmul_experts(const lsg_matrix *m, const uint8_t *const *weights, const int32_t *begin, int32_t n_experts,
                       const uint16_t *x, float *y, int32_t pairs, int32_t rows, lsg_stream s) {
#define RUN_EXPERTS(F, ...)                                                                                            \
    case F: return run_experts<F>(*m, weights, begin, n_experts, x, y, pairs, rows, s);
    switch (m->format) {
        LSG_FORMATS(RUN_EXPERTS)
    default: return -1;
    }
}
