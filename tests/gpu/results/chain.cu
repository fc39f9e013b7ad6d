// Prototype for measurements, not the project's code: what a decoder's step in one persistent kernel would take.
//   hops      how long all blocks take to see what all others wrote: counters, flags, data with flags, cluster barriers
//   graph     a graph of small kernels, with and without programmatic dependent launch
//   smol, 8b  one kernel walks the matmuls of a model (true bytes, true tensor work, true dependencies; attention is a
//             phase that copies its input), and weights of later phases are under way while a block waits
// h200.md beside it has what it measured. To build and run it:
//   nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -o chain chain.cu && ./chain hops; ./chain graph; ./chain smol; ./chain 8b
// Sums have one order: a warp's groups, then the block's slices of inputs, then the cluster's chunks. "bits" are hashes of
// the results of rows 0 and 8, which have equal inputs; rows must not change them where the cut is the same.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <algorithm>

#define MUST(x) do { cudaError_t e_ = (x); if (e_) { printf("{\"error\":\"%s: %s\"}\n", #x, cudaGetErrorString(e_)); exit(1); } } while (0)
#define DEV __device__ __forceinline__

DEV uint32_t smem_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEV void mma(float d[4], const uint4 &a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
DEV void bar_init(uint64_t *bar, uint32_t n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(smem_at(bar)), "r"(n) : "memory"); }
DEV void bar_expect(uint64_t *bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(smem_at(bar)), "r"(bytes) : "memory");
}
DEV bool bar_try(uint64_t *bar, uint32_t parity) {
    uint32_t ok;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(smem_at(bar)), "r"(parity) : "memory");
    return ok;
}
DEV void bar_wait(uint64_t *bar, uint32_t parity) {
    for (uint32_t i = 0; !bar_try(bar, parity); i++)
        if (i > 20000000u) __trap(); // a mistake of the prototype: no hang
}
DEV void bulk(void *to, const void *from, uint32_t bytes, uint64_t *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem_at(to)), "l"(from), "r"(bytes), "r"(smem_at(bar)) : "memory");
}
DEV void copy16(void *to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem_at(to)), "l"(from) : "memory"); }
DEV void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEV void add_release(uint32_t *p, uint32_t v) { asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
DEV uint32_t load_acquire(const uint32_t *p) { uint32_t v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
DEV void store_release(uint32_t *p, uint32_t v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
DEV uint4 load16_cg(const void *p) { uint4 v; asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p)); return v; }
DEV uint64_t now_ns() { uint64_t t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
DEV uint32_t cluster_rank() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEV void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
DEV uint32_t remote(uint32_t addr, uint32_t rank) { uint32_t r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank)); return r; }
DEV void remote_store(uint32_t addr, float a, float b) { asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(addr), "f"(a), "f"(b) : "memory"); }

// ---------------------------------------------------------------- a chain of phases

struct Phase {
    const uint8_t *w; // [tile of 32 outputs][group of 32 inputs] of 2 KB; nullptr: no weights (attention's place)
    int32_t tiles, groups;
    int32_t wo, wk;     // tiles and slices of inputs of a block: wo * wk <= 8
    int32_t row_blocks; // blocks of 8 NT rows that share the weights; a unit is wo tiles and one of these
    int32_t units, chunks; // chunks: 1, or the cluster's size: of the inputs
    int32_t workers;    // blocks that have a part; others go past
    // reckoned before, since a division takes a phase's time: four bits a warp; groups of a chunk, of a slice; of a stage
    uint32_t slice_of, tile_of;
    int32_t of_chunk, of_slice, per, half, n_stages, log_row_blocks, log_share, step_units, last_tile;
};
enum { COUNTER, FLAGS, OWN }; // how a phase learns that the one before has ended: a counter, a flag of each block, flags in the data
struct Chain {
    const Phase *phase;
    int32_t n_phases, rows, of_memory; // rows; of memory: 8 NT row_blocks, or rows
    uint8_t *x;         // two of x_stride bytes: bf16 [group][row][32]; OWN: one a phase, [group][row][16] of {two bf16, epoch}
    size_t x_stride;
    uint32_t *counter;  // one a phase (or a flag a block); never reset: epoch counts launches
    uint32_t epoch;
    uint64_t *stamps;   // [n_phases + 1] of block 0, or nullptr
    uint32_t *failed;   // a wait that took too long
    int32_t slots;
    uint64_t *inside;   // cycles of block 0's first warp: until inputs are there, products, slices, sums and stores
};
enum { WARPS = 8, SLOT = 4096, STAGE = 8, MOST_PHASES = 176 };
template <int NT> constexpr int x_bytes = NT == 1 ? 32 << 10 : 2 * STAGE * 8 * NT * 64; // two stages
template <int NT> constexpr int slices_bytes = NT == 1 ? 2 * 8192 : 0; // else over the stages
static_assert(WARPS * 32 * 8 * 8 * 4 <= x_bytes<8>, "a block's slices lie over the stages of inputs");

// Where a warp's weights come from, slot after slot, across phases.
struct Cursor {
    int32_t phase, unit, g, end;
    const uint8_t *at;
};
struct Place { int32_t grid, block, warp, lane, chunk, clusters, cluster; };
DEV int32_t first_unit(const Place &b, const Phase &p) { return p.chunks > 1 ? b.cluster : b.block; }
DEV int32_t unit_step(const Place &b, const Phase &p) { return p.chunks > 1 ? b.clusters : b.grid; }
// A warp's groups of a unit: how many, and the first.
DEV int32_t part_of(const Place &b, const Phase &p, int32_t unit, int32_t *tile, int32_t *from) {
    const int32_t slice = p.slice_of >> 4 * b.warp & 15, of_chunk = p.of_chunk, of_slice = p.of_slice;
    *tile = (unit >> p.log_row_blocks) * p.wo + (p.tile_of >> 4 * b.warp & 15);
    *from = (p.chunks > 1 ? b.chunk : 0) * of_chunk + slice * of_slice;
    return p.w && unit < p.units && slice < p.wk && *tile < p.tiles ? max(0, min(of_slice, of_chunk - slice * of_slice)) : 0;
}
DEV bool seek_in(const Place &b, const Phase &p, Cursor &k) { // this unit, or a later one of the phase
    for (; k.unit < p.units; k.unit += unit_step(b, p)) {
        int32_t tile, from;
        k.end = part_of(b, p, k.unit, &tile, &from);
        k.g = 0;
        k.at = p.w + ((size_t)tile * p.groups + from) * 2048;
        if (k.end) return true;
    }
    return false;
}
DEV void seek(const Place &b, const Phase *phase, int32_t n, Cursor &k) { // the next unit that this warp has a part of
    if (k.phase >= 0) {
        k.unit += unit_step(b, phase[k.phase]);
        if (seek_in(b, phase[k.phase], k)) return;
    }
    for (int32_t from = k.phase + 1; from < n; from += 32) { // a phase a lane
        int32_t tile, at;
        const int32_t own = from + b.lane;
        const bool has = own < n && phase[own].w && part_of(b, phase[own], first_unit(b, phase[own]), &tile, &at);
        const uint32_t who = __ballot_sync(~0u, has);
        if (!who) continue;
        k.phase = from + __ffs(who) - 1;
        k.unit = first_unit(b, phase[k.phase]);
        seek_in(b, phase[k.phase], k);
        return;
    }
    k.phase = n;
}

DEV float squash(float v) { return v / (1 + fabsf(v)); } // so that a chain stays finite
DEV uint32_t bf16_of(float v) { return (__float_as_uint(v) + 0x7FFF + (__float_as_uint(v) >> 16 & 1)) >> 16; }
DEV void barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

template <int NT, int HOW> __global__ void __launch_bounds__(32 * WARPS, 1) chain(const __grid_constant__ Chain c) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint64_t bars[WARPS][16];
    __shared__ Phase phases[MOST_PHASES];
    const int32_t lane = threadIdx.x % 32, warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), slots = c.slots;
    uint8_t *xs = shared, *ring = shared + x_bytes<NT> + slices_bytes<NT> + warp * slots * SLOT;
    float *slices = (float *)(NT == 1 ? shared + x_bytes<NT> : shared);
    float *sums = (float *)(shared + x_bytes<NT> + slices_bytes<NT> + WARPS * slots * SLOT);
    uint32_t cluster_size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(cluster_size));
    const Place b{(int32_t)gridDim.x, (int32_t)blockIdx.x, warp, lane, (int32_t)cluster_rank(), (int32_t)(gridDim.x / cluster_size), (int32_t)(blockIdx.x / cluster_size)};
    for (int32_t i = threadIdx.x; i < c.n_phases * (int32_t)sizeof(Phase) / 4; i += 32 * WARPS) ((uint32_t *)phases)[i] = ((const uint32_t *)c.phase)[i];
    if (lane == 0)
        for (int i = 0; i < slots; i++) bar_init(&bars[warp][i], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (cluster_size > 1) cluster_sync(); // a block writes into another's shared memory only once that block has begun
    Cursor f{-1, 0, 0, 0, nullptr};
    seek(b, phases, c.n_phases, f);
    int32_t put = 0, place = 0;
    uint32_t parity = 0, flip = 0;
    long long spent[4] = {0, 0, 0, 0};
    auto fetch = [&] { // into slot `put`
        if (f.phase >= c.n_phases) return;
        const int32_t n = min(2, f.end - f.g);
        if (lane == 0) {
            bar_expect(&bars[warp][put], n * 2048);
            bulk(ring + put * SLOT, f.at, n * 2048, &bars[warp][put]);
        }
        f.at += n * 2048;
        f.g += n;
        if (f.g == f.end) seek(b, phases, c.n_phases, f);
        put = put == slots - 1 ? 0 : put + 1;
    };
    for (int i = 0; i < slots; i++) fetch();
    const int32_t mem = c.of_memory, block_rows = NT == 1 ? min(c.rows, 8) : 8 * NT, log_rows = 31 - __clz(block_rows);
    if (c.stamps && blockIdx.x == 0 && threadIdx.x == 0) c.stamps[0] = now_ns();
    for (int32_t ph = 0; ph < c.n_phases; ph++) {
        const Phase &p = phases[ph];
        if (b.block < p.workers) {
            long long at0 = clock64();
            if (ph && HOW == COUNTER) { // every block's results of the phase before
                if (threadIdx.x == 0) {
                    const uint32_t want = c.epoch * phases[ph - 1].workers;
                    for (uint32_t i = 0; load_acquire(c.counter + ph - 1) < want; i++)
                        if (i > 4000000u) { *c.failed = 1; break; }
                }
                __syncthreads();
            }
            if (ph && HOW == FLAGS) {
                const uint32_t want = c.epoch * MOST_PHASES + ph - 1;
                if ((int32_t)threadIdx.x < phases[ph - 1].workers)
                    for (uint32_t i = 0; load_acquire(c.counter + threadIdx.x) < want; i++)
                        if (i > 4000000u) { *c.failed = 1; break; }
                __syncthreads();
            }
            const uint8_t *x = c.x + c.x_stride * (HOW == OWN ? ph : ph % 2);
            uint8_t *out = c.x + c.x_stride * (HOW == OWN ? ph + 1 : (ph + 1) % 2);
            const uint32_t mark = c.epoch;
            auto own_words = [&](uint32_t v[4], const uint8_t *at) {
                asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];" : "=l"(*(uint64_t *)v), "=l"(*(uint64_t *)(v + 2)) : "l"(at) : "memory");
                return v[1] == mark && v[3] == mark;
            };
            if (!p.w) { // attention's place: as many bytes go through
                if (HOW == OWN) {
                    for (int32_t i = b.block * 32 * WARPS + threadIdx.x; i < p.groups * mem * 8; i += p.workers * 32 * WARPS) {
                        uint32_t v[4];
                        for (uint32_t k = 0; !own_words(v, x + (size_t)i * 16); k++)
                            if (k > 4000000u) { *c.failed = 1; break; }
                        asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1,%2};" ::"l"(out + (size_t)i * 16), "l"(*(uint64_t *)v), "l"(*(uint64_t *)(v + 2)) : "memory");
                    }
                } else
                    for (int32_t i = b.block * 32 * WARPS + threadIdx.x; i < p.groups * mem * 4; i += p.workers * 32 * WARPS)
                        *(uint4 *)(out + (size_t)i * 16) = load16_cg(x + (size_t)i * 16);
            } else {
                const int32_t own_tile = p.tile_of >> 4 * warp & 15;
                const int32_t of_chunk = p.of_chunk, of_slice = p.of_slice, slice = p.slice_of >> 4 * warp & 15, in_slice = own_tile * 32 + lane, slice_threads = p.wo * 32;
                const int32_t half = p.half, per = p.per, n_stages = p.n_stages;
                uint8_t *own_x = xs + slice * 2 * half;
                for (int32_t u = first_unit(b, p); u < p.units; u += unit_step(b, p)) {
                    float acc[NT][2][4];
#pragma unroll
                    for (int i = 0; i < NT * 8; i++) (&acc[0][0][0])[i] = 0;
                    int32_t tile, from;
                    const int32_t n_g = part_of(b, p, u, &tile, &from), row0 = (u & (p.row_blocks - 1)) * 8 * NT;
                    const int32_t there = slice < p.wk ? max(0, min(of_slice, of_chunk - slice * of_slice)) : 0; // also where the tile is not
                    auto stage = [&](int32_t s) {
                        const int32_t n = min(per, there - s * per);
                        if (HOW == OWN) {
                            for (int32_t i0 = in_slice; i0 < n << (log_rows + 3); i0 += 4 * slice_threads) {
                                uint32_t v[4][4];
                                bool ok[4];
#pragma unroll
                                for (int k = 0; k < 4; k++) {
                                    const int32_t i = i0 + k * slice_threads;
                                    ok[k] = i >= n << (log_rows + 3) || own_words(v[k], x + (((size_t)(from + s * per) << (log_rows + 3)) + i) * 16);
                                }
#pragma unroll
                                for (int k = 0; k < 4; k++) {
                                    const int32_t i = i0 + k * slice_threads;
                                    if (i >= n << (log_rows + 3)) continue;
                                    for (uint32_t t = 0; !ok[k]; t++) {
                                        ok[k] = own_words(v[k], x + (((size_t)(from + s * per) << (log_rows + 3)) + i) * 16);
                                        if (t > 4000000u) { *c.failed = 1; break; }
                                    }
                                    *(uint2 *)(own_x + s % 2 * half + i * 8) = make_uint2(v[k][0], v[k][2]);
                                }
                            }
                        } else {
                            for (int32_t i = in_slice; i < n << (log_rows + 2); i += slice_threads) {
                                const int32_t piece = i & 3, r = i >> 2 & (block_rows - 1), g = i >> (2 + log_rows);
                                copy16(own_x + s % 2 * half + i * 16, x + (((size_t)(from + s * per + g)) * mem + row0 + r) * 64 + piece * 16);
                            }
                            copies_commit();
                        }
                    };
                    if (slice < p.wk) {
                        stage(0);
                        int32_t g = 0, in_slot = 0;
                        { const long long t = clock64(); spent[0] += t - at0, at0 = t; }
                        for (int32_t s = 0; s < n_stages; s++) {
                            if (HOW != OWN) copies_wait<0>();
                            if (p.wo == 1) __syncwarp(); else barrier(1 + slice, slice_threads);
                            if (s + 1 < n_stages) stage(s + 1);
                            const uint8_t *in = own_x + s % 2 * half + (NT == 1 ? min(lane / 4, block_rows - 1) * 64 + lane % 4 * 16 : lane * 16);
                            for (int32_t i = 0; i < per && g < n_g; i++, g++) {
                                if (!in_slot) bar_wait(&bars[warp][place], parity);
                                const uint8_t *w = ring + place * SLOT + in_slot * 2048 + lane * 16;
                                uint4 a[2][2];
#pragma unroll
                                for (int t = 0; t < 4; t++) a[t / 2][t % 2] = *(const uint4 *)(w + t * 512);
#pragma unroll
                                for (int j = 0; j < NT; j++) {
                                    const uint4 v = *(const uint4 *)(in + (i * block_rows + 8 * j) * 64);
#pragma unroll
                                    for (int t = 0; t < 2; t++) {
                                        mma(acc[j][t], a[t][0], v.x, v.y);
                                        mma(acc[j][t], a[t][1], v.z, v.w);
                                    }
                                }
                                if (++in_slot == 2 || g + 1 == n_g) { // the slot is free: what comes next goes there
                                    in_slot = 0;
                                    __syncwarp();
                                    fetch();
                                    place = place == slots - 1 ? 0 : place + 1;
                                    parity ^= place == 0;
                                }
                            }
                            if (n_stages > 1) { if (p.wo == 1) __syncwarp(); else barrier(1 + slice, slice_threads); }
                        }
                    }
                    { const long long t = clock64(); spent[1] += t - at0, at0 = t; }
                    // a value of the output: accumulator i of a lane, of tile k of the block
                    auto put_out = [&](int32_t k, int32_t i, int32_t ln, float v) {
                        const int32_t j = i / 8, t = i / 4 % 2, r = row0 + j * 8 + ln % 4 * 2 + i % 2, o = t * 16 + ln / 4 + i % 4 / 2 * 8, to = (u >> p.log_row_blocks) * p.wo + k;
                        const uint32_t bits = bf16_of(squash(v));
                        if (HOW == OWN) { // the neighbour's too: lanes 4 apart have outputs 1 apart
                            const uint32_t next = __shfl_down_sync(~0u, bits, 4);
                            if (ln / 4 % 2 == 0 && r < c.rows && to < p.tiles)
                                asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(out + (((size_t)to * mem + r) * 16 + o / 2) * 8), "l"((uint64_t)mark << 32 | next << 16 | bits) : "memory");
                        } else if (r < c.rows && to < p.tiles)
                            ((uint16_t *)out)[((size_t)to * mem + r) * 32 + o] = (uint16_t)bits;
                    };
                    constexpr int N = 8 * NT;
                    if (p.wk == 1 && p.chunks == 1) {
                        if (slice == 0)
#pragma unroll
                            for (int i = 0; i < N; i++) put_out(warp, i, lane, (&acc[0][0][0])[i]);
                        if (p.units > unit_step(b, p)) __syncthreads(); // inputs are staged again
                    } else {
                        // slices through shared memory: every thread adds some sums, in the slices' order
                        float *all = slices + (NT == 1 ? (flip ^= 1) * 2048 : 0);
                        if (NT != 1) __syncthreads(); // they lie over the inputs
                        if (slice < p.wk)
#pragma unroll
                            for (int i = 0; i < N; i++) all[((slice * p.wo + own_tile) * N + i) * 32 + lane] = (&acc[0][0][0])[i];
                        __syncthreads();
                        { const long long t = clock64(); spent[2] += t - at0, at0 = t; }
                        const int32_t C = p.chunks, share = 1 << p.log_share;
                        for (int32_t k = 0; k < p.wo; k++)
                            for (int32_t i = warp; i < N; i += WARPS) {
                                float v = all[(k * N + i) * 32 + lane];
                                for (int s = 1; s < p.wk; s++) v += all[((s * p.wo + k) * N + i) * 32 + lane];
                                if (C == 1) put_out(k, i, lane, v);
                                else {
                                    const uint32_t to = remote(smem_at(sums + ((b.chunk * p.wo + k) * share + (i & (share - 1))) * 32 + lane), (uint32_t)(i >> p.log_share));
                                    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
                                }
                            }
                        if (C > 1) {
                            cluster_sync();
                            for (int32_t e = warp; e < p.wo * share; e += WARPS) {
                                const int32_t k = e >> p.log_share, i = e & (share - 1);
                                float v = 0;
                                for (int q = 0; q < C; q++) v += sums[((q * p.wo + k) * share + i) * 32 + lane];
                                put_out(k, b.chunk * share + i, lane, v);
                            }
                            if (p.units > unit_step(b, p)) cluster_sync(); // sums are sent again
                        }
                        if (NT != 1 && p.units > unit_step(b, p)) __syncthreads();
                    }
                }
            }
            { const long long t = clock64(); spent[3] += t - at0; }
            if (HOW != OWN) {
                __syncthreads();
                if (threadIdx.x == 0) {
                    if (HOW == COUNTER) add_release(c.counter + ph, 1);
                    else store_release(c.counter + b.block, c.epoch * MOST_PHASES + ph);
                }
            }
        }
        if (c.stamps && blockIdx.x == 0 && threadIdx.x == 0) c.stamps[ph + 1] = now_ns();
    }
    if (c.stamps && blockIdx.x == 0 && threadIdx.x == 0)
        for (int i = 0; i < 4; i++) c.inside[i] = (uint64_t)spent[i];
}

__global__ void fill(uint16_t *p, size_t n, float scale, uint32_t seed) { // bf16, -scale .. scale
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u ^ (uint32_t)(i >> 32) * 40503u ^ seed;
        h ^= h >> 15, h *= 2246822519u, h ^= h >> 13, h *= 3266489917u, h ^= h >> 16;
        p[i] = (uint16_t)(__float_as_uint(((float)h * 0x1p-31f - 1) * scale) >> 16);
    }
}
__global__ void fill_rows(uint16_t *x, int groups, int rows) { // [group][row][32]; a row's values depend on it alone
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < groups * rows * 32; i += gridDim.x * blockDim.x) {
        const int r = i / 32 % rows, k = i / 32 / rows * 32 + i % 32;
        uint32_t h = (uint32_t)k * 2654435761u ^ (uint32_t)(r % 8) * 40503u; // rows 0, 8, ... are equal
        h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
        x[i] = (uint16_t)(__float_as_uint((float)h * 0x1p-31f - 1) >> 16);
    }
}
__global__ void fill_marked(uint32_t *x, int groups, int rows, uint32_t mark) { // [group][row][16] of {two bf16, mark}
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < groups * rows * 16; i += gridDim.x * blockDim.x) {
        uint32_t v = 0;
        for (int k = 0; k < 2; k++) {
            const int r = i / 16 % rows, at = i / 16 / rows * 32 + i % 16 * 2 + k;
            uint32_t h = (uint32_t)at * 2654435761u ^ (uint32_t)(r % 8) * 40503u;
            h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
            v |= (__float_as_uint((float)h * 0x1p-31f - 1) >> 16) << 16 * k;
        }
        x[2 * i] = v, x[2 * i + 1] = mark;
    }
}

struct Shape { const char *name; int layers, qkv[2], out[2], gu[2], down[2], head[2]; };
static const Shape shapes[] = {{"llama-3.1-8b", 32, {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}},
                               {"smollm2-135m", 30, {960, 576}, {576, 576}, {3072, 576}, {576, 1536}, {49152, 576}}};

static uint8_t *weights; // of the largest shape
static size_t weights_bytes;

// How the matrices of a layer are cut for a grid: tiles and slices of a block; chunks by clusters.
struct Cut { int wo, wk, chunks; };
struct Cuts { Cut qkv, out, gu, down, head; };

template <int NT, int HOW> static void run_chain(const char *note, const Shape &s, const Cuts &cuts, int rows, int slots, int cluster, int grid) {
    std::vector<Phase> ph;
    size_t bytes = 0;
    const int row_blocks = NT == 1 ? 1 : rows / (8 * NT), mem = rows;
    auto add = [&](const int m[2], Cut cut) {
        Phase p{};
        p.tiles = m[0] / 32, p.groups = m[1] / 32, p.wo = cut.wo, p.wk = cut.wk, p.chunks = cut.chunks, p.row_blocks = row_blocks;
        p.units = (p.tiles + cut.wo - 1) / cut.wo * row_blocks;
        p.workers = std::min(grid, p.units * cut.chunks);
        p.of_chunk = p.groups / p.chunks, p.of_slice = (p.of_chunk + p.wk - 1) / p.wk;
        for (int w = 0; w < WARPS; w++) p.slice_of |= (uint32_t)(w / p.wo) << 4 * w, p.tile_of |= (uint32_t)(w % p.wo) << 4 * w;
        p.half = x_bytes<NT> / 2 / p.wk & ~127, p.per = std::min(p.of_slice, p.half / 64 / (NT == 1 ? std::min(rows, 8) : 8 * NT)), p.n_stages = (p.of_slice + p.per - 1) / p.per;
        while (1 << p.log_row_blocks < row_blocks) p.log_row_blocks++;
        while (1 << p.log_share < 8 * NT / p.chunks) p.log_share++;
        p.w = (const uint8_t *)bytes + 1; // + 1: not nullptr; fixed below
        bytes += (size_t)p.tiles * p.groups * 2048;
        ph.push_back(p);
    };
    for (int l = 0; l < s.layers; l++) {
        add(s.qkv, cuts.qkv);
        { Phase a{}; a.groups = s.out[1] / 32; a.workers = std::min(grid, (a.groups * mem * (HOW == OWN ? 8 : 4) + 255) / 256); ph.push_back(a); }
        add(s.out, cuts.out);
        add(s.gu, cuts.gu);
        add(s.down, cuts.down);
    }
    add(s.head, cuts.head);
    if (weights_bytes < bytes) {
        if (weights) cudaFree(weights);
        if (cudaMalloc(&weights, bytes) != cudaSuccess) { printf("{\"kind\":\"chain\",\"skipped\":\"no memory for %s\"}\n", s.name); weights = nullptr, weights_bytes = 0; cudaGetLastError(); return; }
        weights_bytes = bytes;
        fill<<<1024, 256>>>((uint16_t *)weights, bytes / 2, 0.05f, 7);
        MUST(cudaGetLastError());
    }
    for (Phase &p : ph) if (p.w) p.w = weights + ((size_t)p.w - 1);
    const size_t xb = HOW == OWN ? (size_t)std::max({s.gu[0], s.down[1], s.qkv[0]}) * 4 * mem : (size_t)std::max({s.head[0], s.gu[0], s.down[1]}) * 2 * 64 + (1 << 20),
                 x_all = HOW == OWN ? xb * (ph.size() + 1) + (size_t)s.head[0] * 4 * mem : 2 * xb;
    uint8_t *x;
    MUST(cudaMalloc(&x, x_all));
    MUST(cudaMemset(x, 0, x_all));
    Phase *table;
    uint32_t *counter, *failed;
    uint64_t *stamps;
    MUST(cudaMalloc(&table, ph.size() * sizeof(Phase)));
    MUST(cudaMemcpy(table, ph.data(), ph.size() * sizeof(Phase), cudaMemcpyHostToDevice));
    MUST(cudaMalloc(&counter, 4096));
    MUST(cudaMemset(counter, 0, 4096));
    failed = counter + 1000;
    MUST(cudaMalloc(&stamps, (ph.size() + 5) * 8));
    int sums = 0;
    for (const Phase &p : ph) if (p.chunks > 1) sums = std::max(sums, p.wo * 8 * NT * 32 * 4);
    const int shared = x_bytes<NT> + slices_bytes<NT> + WARPS * slots * SLOT + sums;
    auto kernel = chain<NT, HOW>;
    cudaFuncAttributes fa;
    MUST(cudaFuncGetAttributes(&fa, kernel));
    if (ph.size() > MOST_PHASES || shared + (int)fa.sharedSizeBytes > 232448) { printf("{\"kind\":\"chain\",\"note\":\"%s\",\"skipped\":\"%d bytes of shared memory\"}\n", note, shared); goto done; }
    MUST(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    MUST(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    {
        cudaLaunchConfig_t cfg{};
        cudaLaunchAttribute at[2]{};
        at[0].id = cudaLaunchAttributeClusterDimension;
        at[0].val.clusterDim.x = (unsigned)cluster, at[0].val.clusterDim.y = at[0].val.clusterDim.z = 1;
        at[1].id = cudaLaunchAttributeCooperative;
        at[1].val.cooperative = 1;
        cfg.gridDim = dim3((unsigned)grid), cfg.blockDim = dim3(32 * WARPS), cfg.dynamicSmemBytes = (size_t)shared, cfg.attrs = at;
        int fits = 0;
        cfg.numAttrs = 1; // the query takes no other
        if (cudaOccupancyMaxActiveClusters(&fits, kernel, &cfg) != cudaSuccess) printf("{\"error\":\"occupancy: %s\"}\n", cudaGetErrorString(cudaGetLastError()));
        cfg.numAttrs = 2;
        if (fits * cluster < grid) { printf("{\"kind\":\"chain\",\"note\":\"%s\",\"skipped\":\"%d clusters of %d fit, %d blocks asked for\"}\n", note, fits, cluster, grid); cudaGetLastError(); goto done; }
        Chain c{table, (int32_t)ph.size(), rows, mem, x, xb, counter, 0, nullptr, failed, slots, stamps + ph.size() + 1};
        cudaEvent_t a, b;
        MUST(cudaEventCreate(&a)); MUST(cudaEventCreate(&b));
        std::vector<float> ms;
        for (int i = 0; i < 20; i++) {
            c.epoch = (uint32_t)i + 1;
            c.stamps = i == 19 ? stamps : nullptr;
            if (HOW == OWN) fill_marked<<<64, 256>>>((uint32_t *)x, s.qkv[1] / 32, mem, c.epoch);
            else fill_rows<<<64, 256>>>((uint16_t *)x, s.qkv[1] / 32, mem);
            MUST(cudaEventRecord(a));
            MUST(cudaLaunchKernelEx(&cfg, kernel, c));
            MUST(cudaEventRecord(b));
            MUST(cudaDeviceSynchronize());
            float t; MUST(cudaEventElapsedTime(&t, a, b));
            if (i >= 3) ms.push_back(t);
        }
        std::sort(ms.begin(), ms.end());
        uint32_t bad;
        MUST(cudaMemcpy(&bad, failed, 4, cudaMemcpyDeviceToHost));
        std::vector<uint64_t> st(ph.size() + 5);
        MUST(cudaMemcpy(st.data(), stamps, st.size() * 8, cudaMemcpyDeviceToHost));
        // rows 0 and 8 of what the last phase wrote
        const Phase &last = ph.back();
        const size_t word = HOW == OWN ? 4 : 2;
        std::vector<uint8_t> y((size_t)last.tiles * mem * 32 * word);
        MUST(cudaMemcpy(y.data(), x + xb * (HOW == OWN ? ph.size() : ph.size() % 2), y.size(), cudaMemcpyDeviceToHost));
        uint64_t hash[2] = {1469598103934665603ull, 1469598103934665603ull};
        for (int t = 0; t < last.tiles; t++)
            for (int o = 0; o < 32; o++)
                for (int k = 0; k < 2; k++) {
                    const size_t r = (size_t)t * mem + (k && mem > 8 ? 8 : 0);
                    uint16_t v;
                    memcpy(&v, HOW == OWN ? &y[(r * 16 + o / 2) * 8 + o % 2 * 2] : &y[(r * 32 + o) * 2], 2);
                    hash[k] = (hash[k] ^ v) * 1099511628211ull;
                }
        double by[5] = {0, 0, 0, 0, 0};
        for (int i = 5; i < 5 * s.layers; i++) by[i % 5] += (double)(st[i + 1] - st[i]) / 1e3 / (s.layers - 1);
        const double us = ms[ms.size() / 2] * 1e3;
        printf("{\"kind\":\"chain\",\"note\":\"%s\",\"shape\":\"%s\",\"rows\":%d,\"row_blocks\":%d,\"how\":%d,\"slots\":%d,\"cluster\":%d,\"grid\":%d,\"us\":%.1f,\"GB_s\":%.0f,\"failed\":%u,\"bits\":\"%08x %08x\","
               "\"of_layer_us\":{\"qkv\":%.2f,\"hop\":%.2f,\"out\":%.2f,\"gate_up\":%.2f,\"down\":%.2f},\"cycles\":{\"inputs\":%.0f,\"products\":%.0f,\"slices\":%.0f,\"ends\":%.0f}}\n",
               note, s.name, rows, row_blocks, HOW, slots, cluster, grid, us, bytes / us / 1e3, bad, (unsigned)hash[0], (unsigned)hash[1], by[0], by[1], by[2], by[3], by[4],
               (double)st[ph.size() + 1] / ph.size(), (double)st[ph.size() + 2] / ph.size(), (double)st[ph.size() + 3] / ph.size(), (double)st[ph.size() + 4] / ph.size());
        fflush(stdout);
    }
done:
    cudaFree(x), cudaFree(table), cudaFree(counter), cudaFree(stamps);
}

// ---------------------------------------------------------------- hops

// mode 0: every block adds, all wait for all (what a phase boundary costs); 1: the same with 256 bytes of data a block written
// before and all blocks' data read after; 2: data and flag in one 8-byte word a value, no counter; 3: cluster barriers only
__global__ void __launch_bounds__(256, 1) hops(uint32_t *counter, uint32_t *data, int n, int mode, uint64_t *ns) {
    const uint64_t begin = now_ns();
    uint32_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (mode == 3) { cluster_sync(); continue; }
        if (mode == 2 || mode == 4) { // block writes 32 (2) words {value, i}; thread t reads words of others, as many as it can at once
            const unsigned each = mode == 2 ? 32 : 4;
            uint64_t *d = (uint64_t *)data + (i & 1) * 8192;
            if (threadIdx.x < each) {
                const uint64_t v = (uint64_t)(uint32_t)(i + 1) << 32 | (uint32_t)(i + threadIdx.x);
                asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(d + blockIdx.x * each + threadIdx.x), "l"(v) : "memory");
            }
            const unsigned n_words = gridDim.x * each;
            for (unsigned k0 = threadIdx.x * 2; k0 < n_words; k0 += 512 * 4) {
                uint64_t v[4][2];
                bool ok[4];
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    const unsigned k = k0 + q * 512;
                    ok[q] = k >= n_words;
                    if (!ok[q]) {
                        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];" : "=l"(v[q][0]), "=l"(v[q][1]) : "l"(d + k) : "memory");
                        ok[q] = (uint32_t)(v[q][0] >> 32) == (uint32_t)(i + 1) && (uint32_t)(v[q][1] >> 32) == (uint32_t)(i + 1);
                    }
                }
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    while (!ok[q]) {
                        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1}, [%2];" : "=l"(v[q][0]), "=l"(v[q][1]) : "l"(d + k0 + q * 512) : "memory");
                        ok[q] = (uint32_t)(v[q][0] >> 32) == (uint32_t)(i + 1) && (uint32_t)(v[q][1] >> 32) == (uint32_t)(i + 1);
                    }
                    sum += k0 + q * 512 < n_words ? (uint32_t)v[q][0] : 0;
                }
            }
            __syncthreads();
            continue;
        }
        if (mode >= 5) { // a flag of each block; 6: with 24 bytes of data a block, which all read
            if (mode == 6 && threadIdx.x < 2) data[65536 * 3 + (i & 1) * 4096 + blockIdx.x * 2 + threadIdx.x] = (uint32_t)i;
            __syncthreads();
            if (threadIdx.x == 0) store_release(counter + 64 + blockIdx.x, (uint32_t)i + 1);
            if (threadIdx.x < gridDim.x)
                while (load_acquire(counter + 64 + threadIdx.x) < (uint32_t)(i + 1)) {}
            __syncthreads();
            if (mode == 6 && threadIdx.x < gridDim.x / 2) sum += load16_cg(data + 65536 * 3 + (i & 1) * 4096 + threadIdx.x * 4).x;
            continue;
        }
        if (mode == 1 && threadIdx.x < 64) data[(i & 1) * 65536 + blockIdx.x * 64 + threadIdx.x] = (uint32_t)i + threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            add_release(counter, 1);
            while (load_acquire(counter) < gridDim.x * (uint32_t)(i + 1)) {}
        }
        __syncthreads();
        if (mode == 1)
            for (unsigned k = threadIdx.x; k < gridDim.x * 16; k += 256) {
                const uint4 v = load16_cg(data + (i & 1) * 65536 + k * 4);
                sum += v.x + v.y;
            }
    }
    if (threadIdx.x == 0 && blockIdx.x == 0) ns[0] = now_ns() - begin, ns[1] = sum;
}
static void time_hops() {
    uint32_t *counter, *data; uint64_t *ns, host[2];
    MUST(cudaMalloc(&counter, 4096)); MUST(cudaMalloc(&data, 1 << 20)); MUST(cudaMalloc(&ns, 16));
    const char *names[] = {"counter", "counter and 256 B a block", "data that is its own flag, 128 B a block", "cluster barrier", "data that is its own flag, 16 B a block", "a flag a block", "a flag a block and 8 B"};
    const int sizes[] = {1, 2, 4, 8};
    for (int mode = 0; mode < 7; mode++)
        for (int k = 0; k < 4; k++) {
            if (mode != 3 && k) continue;
            const int n = 2000, cl = mode == 3 ? sizes[k] : 1, grid = mode == 3 ? 120 / cl * cl : 132;
            MUST(cudaMemset(counter, 0, 4096)); MUST(cudaMemset(data, 0, 1 << 20));
            cudaLaunchConfig_t cfg{}; cudaLaunchAttribute at[2]{};
            at[0].id = cudaLaunchAttributeClusterDimension;
            at[0].val.clusterDim.x = (unsigned)cl, at[0].val.clusterDim.y = at[0].val.clusterDim.z = 1;
            at[1].id = cudaLaunchAttributeCooperative, at[1].val.cooperative = 1;
            cfg.gridDim = dim3((unsigned)grid), cfg.blockDim = dim3(256), cfg.attrs = at, cfg.numAttrs = 2;
            cudaError_t e = cudaLaunchKernelEx(&cfg, hops, counter, data, n, mode, ns);
            if (!e) e = cudaDeviceSynchronize();
            if (e) { printf("{\"kind\":\"hop\",\"what\":\"%s\",\"skipped\":\"%s\"}\n", names[mode], cudaGetErrorString(e)); cudaGetLastError(); continue; }
            MUST(cudaMemcpy(host, ns, 16, cudaMemcpyDeviceToHost));
            printf("{\"kind\":\"hop\",\"what\":\"%s\",\"cluster\":%d,\"blocks\":%d,\"ns\":%.0f}\n", names[mode], cl, grid, (double)host[0] / n);
        }
    fflush(stdout);
}

// ---------------------------------------------------------------- a graph of small kernels

template <bool EARLY> __global__ void small(const uint8_t *x, uint8_t *y, int bytes) {
    if (EARLY) { asm volatile("griddepcontrol.launch_dependents;"); asm volatile("griddepcontrol.wait;" ::: "memory"); }
    uint4 v = {0, 0, 0, 0};
    for (int i = (int)threadIdx.x * 16; i < bytes; i += (int)blockDim.x * 16) {
        const uint4 a = load16_cg(x + i);
        v.x ^= a.x, v.y ^= a.y, v.z ^= a.z, v.w ^= a.w;
    }
    if (threadIdx.x < 4) *(uint4 *)(y + blockIdx.x * 64 + threadIdx.x * 16) = v;
}
static void time_graph() {
    uint8_t *x; MUST(cudaMalloc(&x, 2 << 20)); MUST(cudaMemset(x, 0, 2 << 20));
    cudaStream_t s; MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int early = 0; early < 2; early++)
        for (int grid : {1, 132, 264})
            for (int smem : {0, 96 << 10})
                for (int bytes : {0, 8192}) {
                    const int n = 200;
                    auto kernel = early ? small<true> : small<false>;
                    MUST(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 << 10));
                    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
                    for (int i = 0; i < n; i++) {
                        cudaLaunchConfig_t cfg{}; cudaLaunchAttribute at{};
                        at.id = cudaLaunchAttributeProgrammaticStreamSerialization, at.val.programmaticStreamSerializationAllowed = 1;
                        cfg.gridDim = dim3((unsigned)grid), cfg.blockDim = dim3(256), cfg.dynamicSmemBytes = (size_t)smem, cfg.stream = s, cfg.attrs = &at;
                        cfg.numAttrs = early && i ? 1 : 0;
                        MUST(cudaLaunchKernelEx(&cfg, kernel, (const uint8_t *)x + i % 2 * (1 << 20), x + (i + 1) % 2 * (1 << 20), bytes));
                    }
                    cudaGraph_t g; cudaGraphExec_t e;
                    MUST(cudaStreamEndCapture(s, &g)); MUST(cudaGraphInstantiate(&e, g, 0));
                    cudaEvent_t a, b; MUST(cudaEventCreate(&a)); MUST(cudaEventCreate(&b));
                    std::vector<float> ms;
                    for (int i = 0; i < 12; i++) {
                        MUST(cudaEventRecord(a, s)); MUST(cudaGraphLaunch(e, s)); MUST(cudaEventRecord(b, s)); MUST(cudaStreamSynchronize(s));
                        float t; MUST(cudaEventElapsedTime(&t, a, b)); ms.push_back(t);
                    }
                    std::sort(ms.begin(), ms.end());
                    printf("{\"kind\":\"graph\",\"early\":%d,\"blocks\":%d,\"shared\":%d,\"reads\":%d,\"us_a_kernel\":%.3f}\n", early, grid, smem, bytes, ms[6] * 1e3 / n);
                    cudaGraphExecDestroy(e); cudaGraphDestroy(g);
                }
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    cudaDeviceProp d; MUST(cudaGetDeviceProperties(&d, 0));
    printf("{\"kind\":\"device\",\"name\":\"%s\",\"multiprocessors\":%d,\"l2_mib\":%d}\n", d.name, d.multiProcessorCount, d.l2CacheSize >> 20);
    const int all = d.multiProcessorCount;
    if (!strcmp(what, "all") || !strcmp(what, "hops")) time_hops();
    if (!strcmp(what, "all") || !strcmp(what, "graph")) time_graph();
    if (!strcmp(what, "all") || !strcmp(what, "smol")) {
        const Shape &m = shapes[1];
        const Cuts eight{{1, 8, 1}, {1, 8, 1}, {1, 8, 1}, {1, 8, 1}, {8, 1, 1}}, four{{1, 8, 1}, {1, 8, 1}, {2, 4, 1}, {1, 8, 1}, {8, 1, 1}};
        run_chain<1, COUNTER>("counter", m, eight, 1, 5, 1, all);
        run_chain<1, FLAGS>("flags", m, eight, 1, 5, 1, all);
        run_chain<1, OWN>("own", m, eight, 1, 5, 1, all);
        run_chain<1, OWN>("own", m, eight, 1, 2, 1, all);
        run_chain<1, OWN>("own, gate by two", m, four, 1, 5, 1, all);
        run_chain<1, OWN>("own, 96 blocks", m, eight, 1, 5, 1, 96);
        run_chain<1, OWN>("own", m, eight, 8, 5, 1, all);
        run_chain<1, FLAGS>("flags", m, eight, 8, 5, 1, all);
        run_chain<2, FLAGS>("flags", m, eight, 16, 4, 1, all);
        run_chain<2, FLAGS>("flags", m, eight, 64, 4, 1, all);
        run_chain<4, FLAGS>("flags", m, eight, 64, 4, 1, all);
        run_chain<8, FLAGS>("flags", m, eight, 64, 3, 1, all);
        run_chain<4, COUNTER>("counter", m, eight, 64, 4, 1, all);
    }
    if (!strcmp(what, "all") || !strcmp(what, "8b")) {
        const Shape &m = shapes[0];
        const Cuts two{{3, 2, 2}, {2, 4, 2}, {7, 1, 1}, {2, 4, 2}, {8, 1, 1}}, one{{2, 4, 1}, {1, 8, 1}, {7, 1, 1}, {1, 8, 1}, {8, 1, 1}},
            four{{7, 1, 4}, {5, 1, 4}, {8, 1, 1}, {5, 1, 4}, {8, 1, 1}};
        const int pairs = all / 2 * 2;
        run_chain<1, COUNTER>("pairs, counter", m, two, 1, 4, 2, pairs);
        run_chain<1, FLAGS>("pairs", m, two, 1, 4, 2, pairs);
        run_chain<1, FLAGS>("pairs", m, two, 1, 3, 2, pairs);
        run_chain<1, FLAGS>("pairs", m, two, 1, 2, 2, pairs);
        run_chain<1, FLAGS>("alone", m, one, 1, 5, 1, all);
        run_chain<1, FLAGS>("fours", m, four, 1, 4, 4, 120);
        run_chain<1, FLAGS>("pairs", m, two, 8, 4, 2, pairs);
        run_chain<2, FLAGS>("pairs", m, two, 16, 5, 2, pairs);
        run_chain<4, FLAGS>("pairs", m, two, 32, 4, 2, pairs);
        run_chain<8, FLAGS>("alone", m, one, 64, 3, 1, all);
        run_chain<8, FLAGS>("pairs", m, two, 64, 3, 2, pairs);
        run_chain<8, FLAGS>("alone", m, one, 64, 4, 1, all);
    }
    return 0;
}
