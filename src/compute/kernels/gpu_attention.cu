// Attention over logical positions, in chunks of LSG_CHUNK.
//
// A chunk that lies wholly in the committed context is the same for all rows: one block takes it for many queries (a
// row and head each) at once. The chunk in which the context ends and the one behind it differ from row to row: blocks
// of a few rows compute the committed part together and what stands behind it by the cache columns of each row's
// ancestors. Both run the same code over 256 slots, a position always has the same slot, and what a query does not see
// is added to its sums as zeros; so a row's bits do not depend on the kind of its block. A last kernel adds the chunks
// in order.
//
// Large blocks take chunks of the context for many queries: keys and values come through shared memory, stage by stage,
// by asynchronous copies that begin before the queries are there, and scores and weights stay in registers. They do
// what the other blocks do, in the same order.
#include "compute/kernels/gpu_device.h"

namespace {

enum {
    WARPS = LSG_ATTENTION_WARPS,
    STEPS = 8,     // of 16 dimensions or slots whose keys or values are on their way at once
    TAIL_STEPS = 4 // of single rows whose values are on their way at once
};
constexpr float LOG2_E = 1.4426950408889634f;

// Rows whose partial results are there at once.
struct rows_of {
    int32_t begin, end;
    LSG_MEMBER size_t part(int32_t chunk, int32_t row) const {
        return (size_t)chunk * (size_t)(end - begin) + (size_t)(row - begin);
    }
};

// The key of a cache column. Pages may have come since this multiprocessor last looked.
LSG_DEVICE const uint16_t *key_at(const lsg_buffers &b, int32_t layer, int32_t head, int32_t column) {
    return lsg_fresh_pointer(b.pages + column / LSG_PAGE) +
           (((size_t)layer * 2 * b.n_kv_heads + head) * LSG_PAGE + column % LSG_PAGE) * b.head_dim;
}
// From a key to its value.
LSG_DEVICE size_t to_value(const lsg_buffers &b) {
    return (size_t)b.n_kv_heads * LSG_PAGE * b.head_dim;
}

LSG_DEVICE int32_t first_seen(const lsg_attend &a, int32_t position) {
    return a.window && position + 1 > a.window ? position + 1 - a.window : 0;
}

// A lane's four values of a key for each of STEPS steps of 16 dimensions; zeros where there is none.
LSG_DEVICE void load_key(uint2 k[STEPS], const uint16_t *key, int32_t base, int32_t hd, int c) {
#pragma unroll
    for (int u = 0; u < STEPS; u++) {
        k[u] = {0, 0};
        if (key && base + 16 * u < hd) k[u] = lsg_load8(key + base + 16 * u + c * 4);
    }
}

// The operand of 16 queries for a step of 16 dimensions, as it lies in shared memory: [tile][step][lane][4 words].
LSG_DEVICE void load_queries(uint32_t x[4], const uint4 *queries, int32_t step, int lane) {
    const uint4 v = queries[step * 32 + lane];
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}

// The operand of 16 queries for a step of 16 slots, whose weights stand in place of their scores.
LSG_DEVICE void load_weights(uint32_t x[4], const float *scores, int32_t step, int r, int c) {
    const uint32_t *lo = (const uint32_t *)(scores + r * LSG_SCORES) + 8 * step + c, *hi = lo + 8 * LSG_SCORES;
    x[0] = lo[0], x[1] = hi[0], x[2] = lo[4], x[3] = hi[4];
}

// The queries of a block: of the heads that share a key, row by row.
struct queries_of {
    int32_t group, row0, head0, n;
    LSG_MEMBER int32_t row(int32_t q) const { return row0 + (head0 + q) / group; }
    LSG_MEMBER int32_t head(int32_t q) const { return (int32_t)blockIdx.x * group + (head0 + q) % group; }
};
// At most so many from the first-th of these rows on; fewer than 1: there are none.
LSG_DEVICE queries_of queries_from(const lsg_buffers &b, rows_of rows, int32_t first, int32_t most) {
    const int32_t group = b.n_heads / b.n_kv_heads;
    return {group, rows.begin + first / group, first % group,
            min(most, (min(rows.end, lsg_fresh(&b.step->n_rows)) - rows.begin) * group - first)};
}

// Puts queries where load_queries finds them, zeros in place of those that are not there.
LSG_DEVICE void put_queries(uint4 *queries, const lsg_buffers &b, const queries_of &of, int32_t tiles) {
    const int32_t hd = b.head_dim;
    for (int32_t i = (int32_t)threadIdx.x; i < tiles * 16 * (hd / 4); i += 32 * WARPS) { // four values to a lane
        const int32_t q = i / (hd / 4), d = i % (hd / 4) * 4;
        uint2 v = {0, 0};
        if (q < of.n) v = *(const uint2 *)(b.q + ((size_t)of.row(q) * b.n_heads + of.head(q)) * hd + d);
        uint32_t *to = (uint32_t *)(queries + (q / 16 * (hd / 16) + d / 16) * 32 + q % 8 * 4 + d % 16 / 4) + q % 16 / 8;
        to[0] = v.x;
        to[2] = v.y;
    }
}

// Where partial results of a query go.
LSG_DEVICE size_t part_of(const lsg_buffers &b, rows_of rows, int32_t chunk, const queries_of &of, int32_t q) {
    return rows.part(chunk, of.row(q)) * b.n_heads + of.head(q);
}
LSG_DEVICE void put_sums(const lsg_buffers &b, size_t part, float most, float sum) {
    b.part_ml[part * 2] = most;
    b.part_ml[part * 2 + 1] = sum;
}

// Adds weights x values of four slots (of a lane's) and two neighbouring dimensions, w[i]: the lanes hold pairs of
// dimensions and exchange them for pairs of slots.
LSG_DEVICE void add_values(float out[2][4], const uint32_t x[4], const uint32_t w[4]) {
    lsg_mma(out[0], x, __byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410));
    lsg_mma(out[1], x, __byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632));
}

// A lane's four slots of a step of 16.
LSG_DEVICE int32_t slot_of(int32_t step, int c, int i) {
    return 16 * step + c * 2 + i % 2 + i / 2 * 8;
}

// QT tiles of 16 queries of a chunk: one of the context, or (TAIL) one of its end, for a few rows.
template <int QT, bool TAIL>
LSG_DEVICE void attend_chunk(const lsg_buffers &b, const lsg_attend &a, rows_of rows, int32_t item, int32_t most) {
    LSG_SHARED(float, scores); // [16 QT][LSG_SCORES], then as bf16 in place; pointers; operands of queries
    const lsg_step *s = b.step;
    const int32_t hd = b.head_dim, t = (int32_t)threadIdx.x, lane = t % 32, warp = t / 32, r = lane / 4, c = lane % 4;
    // keys of the slots; in a tail, of each of its rows, whose own slots come behind the committed ones
    const uint16_t **at = (const uint16_t **)(scores + 16 * QT * LSG_SCORES);
    uint4 *queries = (uint4 *)(at + (TAIL ? LSG_TAIL_ROWS : 1) * LSG_CHUNK);
    const int32_t chunks = TAIL ? (int32_t)LSG_TAIL_CHUNKS : a.chunks;
    const queries_of of = queries_from(b, rows, item / chunks * most, most);
    const int32_t length = lsg_fresh(&s->length); // taken before them, it costs registers that are not there
    const int32_t chunk = item % chunks + (TAIL ? length / LSG_CHUNK : 0);
    const int32_t row0 = of.row0, n_rows = (of.head0 + of.n + of.group - 1) / of.group;
    // slots that are committed, and all that somebody sees
    int32_t fixed = LSG_CHUNK, seen = LSG_CHUNK;
    bool used = of.n > 0;
    if (TAIL && used) {
        int32_t deepest = 0;
        for (int32_t i = 0; i < n_rows; i++) {
            const int32_t depth = lsg_fresh(&s->depth[row0 + i]);
            deepest = depth > deepest ? depth : deepest;
        }
        fixed = length - chunk * LSG_CHUNK < 0 ? 0 : length - chunk * LSG_CHUNK;
        seen = min((int32_t)LSG_CHUNK, length + deepest + 1 - chunk * LSG_CHUNK);
        used = seen > 0;
    } else if (used) used = (chunk + 1) * LSG_CHUNK <= length && (chunk + 1) * LSG_CHUNK > first_seen(a, length);
    if (!used) {
        lsg_wait_before();
        return;
    }
    const int32_t whole = fixed / 16; // steps of 16 slots that are the same for all rows
    // Where things lie, and what is committed, does not wait for the kernel ahead: gpu.h says why.
    for (int32_t i = t; i < fixed; i += 32 * WARPS) {
        const uint16_t *key = key_at(b, a.layer, (int32_t)blockIdx.x, lsg_fresh(&b.columns[chunk * LSG_CHUNK + i]));
        at[i] = key;
        for (int32_t d = 0; d < hd; d += 64) { // lines of 128 bytes
            lsg_prefetch(key + d);
            lsg_prefetch(key + to_value(b) + d);
        }
    }
    for (int32_t i = t; TAIL && i < n_rows * LSG_CHUNK; i += 32 * WARPS) {
        const int32_t row = row0 + i / LSG_CHUNK, slot = i % LSG_CHUNK, p = chunk * LSG_CHUNK + slot;
        if (slot < (i < LSG_CHUNK ? fixed : 16 * whole)) continue;
        if (slot >= (seen + 15) / 16 * 16) continue; // nobody looks there
        const bool there = slot < fixed || p - length <= lsg_fresh(&s->depth[row]);
        const int32_t column = !there ? 0
                               : slot < fixed
                                   ? lsg_fresh(&b.columns[p])
                                   : lsg_fresh(&s->column[lsg_fresh(&b.ancestors[row * LST_MAX_ROWS + p - length])]);
        at[i] = there ? key_at(b, a.layer, (int32_t)blockIdx.x, column) : nullptr;
    }
    lsg_wait_before();
    put_queries(queries, b, of, QT);
    __syncthreads();
    // scores of committed slots: a warp takes sixteen at a time, a lane has four values of a query or key for each step
    // of 16 dimensions
    for (int32_t slot0 = warp * 16; slot0 < fixed; slot0 += WARPS * 16) {
        const uint16_t *key[2];
        for (int h = 0; h < 2; h++) key[h] = slot0 + 8 * h + r < fixed ? at[slot0 + 8 * h + r] : nullptr;
        float sum[QT][2][4];
#pragma unroll
        for (int i = 0; i < QT * 8; i++) (&sum[0][0][0])[i] = 0;
        for (int32_t base = 0; base < hd; base += 16 * STEPS) {
            uint2 k[2][STEPS];
            for (int h = 0; h < 2; h++) load_key(k[h], key[h], base, hd, c);
#pragma unroll
            for (int u = 0; u < STEPS; u++)
                if (base + 16 * u < hd)
#pragma unroll
                    for (int j = 0; j < QT; j++) {
                        uint32_t x[4];
                        load_queries(x, queries, j * (hd / 16) + base / 16 + u, lane);
                        for (int h = 0; h < 2; h++) lsg_mma(sum[j][h], x, k[h][u].x, k[h][u].y);
                    }
        }
#pragma unroll
        for (int i = 0; i < QT * 8; i++) {
            const int32_t slot = slot0 + i / 4 % 2 * 8 + c * 2 + i % 2;
            if (slot < fixed) scores[(i / 8 * 16 + r + i % 4 / 2 * 8) * LSG_SCORES + slot] = (&sum[0][0][0])[i];
        }
    }
    // and of those behind them: a warp takes eight of one row
    const int32_t first8 = fixed / 8, eights = TAIL ? (seen + 7) / 8 - first8 : 1; // 1: of no row
    for (int32_t i = warp; TAIL && i < n_rows * eights; i += WARPS) {
        const int32_t row = row0 + i / eights, slot0 = (first8 + i % eights) * 8;
        const uint16_t *key = slot0 + r < fixed ? nullptr : at[(row - row0) * LSG_CHUNK + slot0 + r];
        float sum[4] = {0, 0, 0, 0};
        for (int32_t base = 0; base < hd; base += 16 * STEPS) {
            uint2 k[STEPS];
            load_key(k, key, base, hd, c);
#pragma unroll
            for (int u = 0; u < STEPS; u++)
                if (base + 16 * u < hd) {
                    uint32_t x[4];
                    load_queries(x, queries, base / 16 + u, lane);
                    lsg_mma(sum, x, k[u].x, k[u].y);
                }
        }
        for (int j = 0; j < 4; j++) {
            const int32_t slot = slot0 + c * 2 + j % 2, q = r + j / 2 * 8;
            if (slot >= fixed && q < of.n && of.row(q) == row) scores[q * LSG_SCORES + slot] = sum[j];
        }
    }
    __syncthreads();
    // weights: a warp takes a query; lane and step give a slot its place in the sum. What stands for queries that are
    // not there reaches only their own sums, which nobody takes.
    for (int32_t q = warp; q < of.n; q += WARPS) {
        float *row = scores + q * LSG_SCORES, v[LSG_CHUNK / 32], most = -INFINITY, sum = 0;
        const int32_t position = length + s->depth[of.row(q)], end = min(seen, position + 1 - chunk * LSG_CHUNK),
                      begin = first_seen(a, position) - chunk * LSG_CHUNK;
#pragma unroll
        for (int i = 0; i < LSG_CHUNK / 32; i++) {
            const int32_t slot = lane + 32 * i;
            v[i] = slot >= begin && slot < end ? row[slot] : -INFINITY;
        }
        if (a.softcap > 0)
            for (int i = 0; i < LSG_CHUNK / 32; i++)
                if (v[i] > -INFINITY) v[i] = a.softcap * tanhf(v[i] / a.softcap);
        for (int i = 0; i < LSG_CHUNK / 32; i++) most = fmaxf(most, v[i]);
        most = lsg_warp_max(most);
        __syncwarp();
        uint16_t *weights = (uint16_t *)row;
        const float base = most == -INFINITY ? 0 : most; // nothing is seen: all weights are 0
#pragma unroll
        for (int i = 0; i < LSG_CHUNK / 32; i++) {
            const uint32_t w = lsg_bf16x2(lsg_exp2((v[i] - base) * LOG2_E), 0);
            weights[lane + 32 * i] = (uint16_t)w;
            sum += __uint_as_float(w << 16); // what the values are weighted with, rounded as it is
        }
        sum = lsg_warp_sum(sum);
        if (lane == 0) put_sums(b, part_of(b, rows, chunk, of, q), most, sum);
    }
    __syncthreads();
    // values: a warp takes 16 dimensions; first the steps of committed slots, then those of single rows
    const int32_t own = TAIL ? (seen + 15) / 16 - whole : 1;
    for (int32_t d0 = warp * 16; d0 < hd; d0 += WARPS * 16) {
        const size_t from = to_value(b) + d0 + r * 2;
        float out[QT][2][4];
#pragma unroll
        for (int i = 0; i < QT * 8; i++) (&out[0][0][0])[i] = 0;
        for (int32_t step0 = 0; step0 < whole; step0 += STEPS) {
            uint32_t w[STEPS][4];
#pragma unroll
            for (int u = 0; u < STEPS; u++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    w[u][i] = step0 + u < whole ? lsg_load4(at[slot_of(step0 + u, c, i)] + from) : 0;
#pragma unroll
            for (int u = 0; u < STEPS; u++) {
                if (step0 + u >= whole) break;
#pragma unroll
                for (int j = 0; j < QT; j++) {
                    uint32_t x[4];
                    load_weights(x, scores + j * 16 * LSG_SCORES, step0 + u, r, c);
                    add_values(out[j], x, w[u]);
                }
            }
        }
        for (int32_t item0 = 0; TAIL && item0 < n_rows * own; item0 += TAIL_STEPS) {
            uint32_t w[TAIL_STEPS][4];
#pragma unroll
            for (int u = 0; u < TAIL_STEPS; u++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int32_t n = item0 + u;
                    const uint16_t *key =
                        n < n_rows * own ? at[n / own * LSG_CHUNK + slot_of(whole + n % own, c, i)] : nullptr;
                    w[u][i] = key ? lsg_load4(key + from) : 0;
                }
#pragma unroll
            for (int u = 0; u < TAIL_STEPS; u++) {
                if (item0 + u >= n_rows * own) break;
                const int32_t row = row0 + (item0 + u) / own;
                uint32_t x[4];
                load_weights(x, scores, whole + (item0 + u) % own, r, c);
                // Other rows' sums stay as they are, which adding weight 0 times a value would not see to: the value
                // may not be finite.
                float with[2][4];
                for (int i = 0; i < 8; i++) (&with[0][0])[i] = (&out[0][0][0])[i];
                add_values(with, x, w[u]);
                for (int i = 0; i < 8; i++)
                    if (of.row(r + i % 4 / 2 * 8) == row) (&out[0][0][0])[i] = (&with[0][0])[i];
            }
        }
#pragma unroll
        for (int j = 0; j < QT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t q = j * 16 + r + i / 2 * 8, d = d0 + (c * 2 + i % 2) * 2;
                if (q >= of.n) continue;
                float *to = b.part_o + part_of(b, rows, chunk, of, q) * hd + d;
                to[0] = out[j][0][i];
                to[1] = out[j][1][i];
            }
    }
}

// How large blocks share out the queries and chunks of the context, at most.
struct share {
    lsg_attention_plan plan;
    int32_t queries, chunks;
};

LSG_DEVICE void attend_many(const lsg_buffers &b, const lsg_attend &a, rows_of rows, int32_t item, const share &own) {
    LSG_SHARED(unsigned char, shared); // stages; where the keys lie; operands of queries
    constexpr int STAGES = LSG_LARGE_STAGES, EIGHTS = LSG_CHUNK / 8, KEY_STAGES = LSG_CHUNK / LSG_KEYS;
    const lsg_attention_plan &plan = own.plan;
    const uint16_t **at = (const uint16_t **)(shared + STAGES * plan.stage);
    uint4 *queries = (uint4 *)(at + LSG_LARGE_CHUNKS * LSG_CHUNK);
    const int32_t hd = b.head_dim, t = (int32_t)threadIdx.x, lane = t % 32, warp = t / 32, r = lane / 4, c = lane % 4;
    const int32_t parts = (a.chunks + own.chunks - 1) / own.chunks, first = item % parts * own.chunks;
    const int32_t length = lsg_fresh(&b.step->length), seen = first_seen(a, length) / LSG_CHUNK;
    const int32_t begin = first > seen ? first : seen, end = min(first + own.chunks, length / LSG_CHUNK);
    const queries_of of = queries_from(b, rows, item / parts * own.queries, own.queries);
    if (of.n <= 0 || begin >= end) {
        lsg_wait_before();
        return;
    }
    // Where things lie, and what is committed, does not wait for the kernel ahead, as above.
    for (int32_t i = t; i < (end - begin) * LSG_CHUNK; i += 32 * WARPS)
        at[i] = key_at(b, a.layer, (int32_t)blockIdx.x, lsg_fresh(&b.columns[begin * LSG_CHUNK + i]));
    __syncthreads();
    // Four threads copy a key, or LSG_VALUES dimensions of a value.
    int32_t coming = begin, coming_stage = 0, coming_place = 0, place = 0;
    auto fetch = [&] {
        unsigned char *to = shared + coming_place * plan.stage;
        const uint16_t **of_chunk = at + (coming - begin) * LSG_CHUNK + t / 4;
        if (coming < end && coming_stage < KEY_STAGES) {
            const uint16_t *key = of_chunk[coming_stage * LSG_KEYS];
#pragma unroll 1
            for (int32_t d = t % 4 * 8; d < hd; d += 32) lsg_copy16(to + t / 4 * plan.key + d * 2, key + d);
        } else if (coming < end) {
            const int32_t d = (coming_stage - KEY_STAGES) * LSG_VALUES + t % 4 * 8;
            for (int32_t i = 0; i < LSG_CHUNK && d < hd; i += LSG_KEYS)
                lsg_copy16(to + (i + t / 4) * LSG_VALUE_STRIDE + t % 4 * 16, of_chunk[i] + to_value(b) + d);
        }
        lsg_copies_commit();
        coming_place = (coming_place + 1) % STAGES;
        if (++coming_stage * LSG_VALUES < KEY_STAGES * LSG_VALUES + hd) return;
        coming_stage = 0;
        coming++;
    };
    auto next_stage = [&] {
        lsg_copies_wait<STAGES - 2>();
        __syncthreads(); // every thread's copies are there, and nobody reads the stage before
        fetch();
        const unsigned char *now = shared + place * plan.stage;
        place = (place + 1) % STAGES;
        return now;
    };
    for (int i = 0; i < STAGES - 1; i++) fetch();
    lsg_wait_before();
    put_queries(queries, b, of, (of.n + 15) / 16);
    const bool there = warp * 16 < of.n; // the others copy
    const uint4 *mine = queries + warp * (hd / 16) * 32;
    int32_t depth[2], part[2]; // of queries r and r + 8 (or the last one); where results of chunk 0 would go
    for (int h = 0; h < 2 && there; h++) {
        const int32_t q = min(warp * 16 + r + 8 * h, of.n - 1);
        depth[h] = b.step->depth[of.row(q)];
        part[h] = (int32_t)part_of(b, rows, 0, of, q);
    }
    const size_t of_chunk = rows.part(1, rows.begin) * (size_t)b.n_heads;
    for (int32_t chunk = begin; chunk < end; chunk++) {
        // a lane has the scores of queries r and r + 8 for slots 2 c and 2 c + 1 of each eight
        float v[EIGHTS][4];
#pragma unroll
        for (int i = 0; i < EIGHTS * 4; i++) (&v[0][0])[i] = 0;
#pragma unroll
        for (int stage = 0; stage < KEY_STAGES; stage++) {
            const unsigned char *keys = next_stage() + r * plan.key + c * 8;
            for (int32_t step = 0; there && step < hd / 16; step++) {
                uint32_t x[4];
                load_queries(x, mine, step, lane);
#pragma unroll
                for (int n = 0; n < LSG_KEYS / 8; n++) {
                    const uint2 k = *(const uint2 *)(keys + n * 8 * plan.key + step * 32);
                    lsg_mma(v[stage * (LSG_KEYS / 8) + n], x, k.x, k.y);
                }
            }
        }
        uint32_t w[EIGHTS][2]; // weights of each query for its two slots
        if (there) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int32_t from = first_seen(a, length + depth[h]) - chunk * LSG_CHUNK;
                if (from > 0) // the window begins in this chunk
#pragma unroll
                    for (int i = 0; i < EIGHTS * 2; i++)
                        if (i / 2 * 8 + c * 2 + i % 2 < from) v[i / 2][2 * h + i % 2] = -INFINITY;
                float most_seen = -INFINITY;
#pragma unroll
                for (int i = 0; i < EIGHTS * 2; i++) most_seen = fmaxf(most_seen, v[i / 2][2 * h + i % 2]);
                for (int i = 2; i; i /= 2) most_seen = fmaxf(most_seen, __shfl_xor_sync(0xFFFFFFFFu, most_seen, i));
                const float base = most_seen == -INFINITY ? 0 : most_seen;
                // sums of slots that are 32 apart, then pairwise in the order of lsg_warp_sum
                float sum[4][2];
                for (int i = 0; i < 8; i++) sum[i / 2][i % 2] = 0;
#pragma unroll
                for (int n = 0; n < EIGHTS; n++) {
                    w[n][h] = lsg_bf16x2(lsg_exp2((v[n][2 * h] - base) * LOG2_E),
                                         lsg_exp2((v[n][2 * h + 1] - base) * LOG2_E));
                    sum[n % 4][0] += __uint_as_float(w[n][h] << 16);
                    sum[n % 4][1] += __uint_as_float(w[n][h] & 0xFFFF0000u);
                }
                float all[2];
                for (int i = 0; i < 2; i++) {
                    all[i] = (sum[0][i] + sum[2][i]) + (sum[1][i] + sum[3][i]);
                    for (int k = 2; k; k /= 2) all[i] += __shfl_xor_sync(0xFFFFFFFFu, all[i], k);
                }
                if (c == 0 && warp * 16 + r + 8 * h < of.n)
                    put_sums(b, chunk * of_chunk + part[h], most_seen, all[0] + all[1]);
            }
        }
        for (int32_t d0 = 0; d0 < hd; d0 += LSG_VALUES) {
            // a lane's row of the matrices of sixteen slots by sixteen dimensions
            const unsigned char *values = next_stage() + lane % 16 * LSG_VALUE_STRIDE + lane / 16 * 16;
            if (!there) continue;
            float out[LSG_VALUES / 8][4];
#pragma unroll
            for (int i = 0; i < LSG_VALUES / 2; i++) (&out[0][0])[i] = 0;
#pragma unroll
            for (int step = 0; step < LSG_CHUNK / 16; step++) {
                const uint32_t x[4] = {w[2 * step][0], w[2 * step][1], w[2 * step + 1][0], w[2 * step + 1][1]};
#pragma unroll
                for (int n = 0; n < LSG_VALUES / 8; n += 2) { // of dimensions that are not there nobody takes anything
                    uint32_t y[4];
                    lsg_load_columns(y, values + step * 16 * LSG_VALUE_STRIDE + n * 16);
                    lsg_mma(out[n], x, y[0], y[1]);
                    lsg_mma(out[n + 1], x, y[2], y[3]);
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (warp * 16 + r + 8 * h >= of.n) continue;
                float *to = b.part_o + (chunk * of_chunk + part[h]) * hd + d0 + c * 2;
#pragma unroll
                for (int n = 0; n < LSG_VALUES / 8; n++)
                    if (d0 + 8 * n < hd) *(float2 *)(to + 8 * n) = {out[n][2 * h], out[n][2 * h + 1]};
            }
        }
    }
}

// Blocks below n_shared take chunks of the context, QT tiles of queries each, the others its end, tail_queries each.
template <int QT>
__global__ void __launch_bounds__(32 * WARPS, 2)
    attend(lsg_buffers b, lsg_attend a, rows_of rows, int32_t n_shared, int32_t tail_queries) {
    lsg_next_may_start();
    const int32_t item = (int32_t)blockIdx.y;
    if (item < n_shared) attend_chunk<QT, false>(b, a, rows, item, 16 * QT);
    else attend_chunk<1, true>(b, a, rows, item - n_shared, tail_queries);
}

__global__ void __launch_bounds__(32 * WARPS, 1)
    attend_large(lsg_buffers b, lsg_attend a, rows_of rows, int32_t n_shared, int32_t tail_queries, share own) {
    lsg_next_may_start();
    const int32_t item = (int32_t)blockIdx.y;
    if (item < n_shared) attend_many(b, a, rows, item, own);
    else attend_chunk<1, true>(b, a, rows, item - n_shared, tail_queries);
}

__global__ void combine(lsg_buffers b, lsg_attend a, rows_of rows) {
    LSG_SHARED(float, part); // [chunks][maximum, sum]; then the maximum gives way to the chunk's share
    lsg_next_may_start();
    const int32_t r = rows.begin + (int32_t)blockIdx.x, h = (int32_t)blockIdx.y, hd = b.head_dim,
                  t = (int32_t)threadIdx.x, threads = (int32_t)blockDim.x;
    const bool there = r < lsg_fresh(&b.step->n_rows);
    const int32_t position = lsg_fresh(&b.step->length) + lsg_fresh(&b.step->depth[r]),
                  from = first_seen(a, position) / LSG_CHUNK, n = position / LSG_CHUNK + 1 - from;
    lsg_wait_before();
    if (!there) return;
    auto at = [&](int32_t i) { return rows.part(from + i, r) * b.n_heads + h; };
    for (int32_t i = t; i < 2 * n; i += threads) part[i] = b.part_ml[at(i / 2) * 2 + i % 2];
    __syncthreads();
    float most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++) most = fmaxf(most, part[2 * i]);
    if (a.sinks) {
        most = fmaxf(most, a.sinks[h]);
        sum = expf(a.sinks[h] - most);
    }
    __syncthreads();
    for (int32_t i = t; i < n; i += threads) part[2 * i] = expf(part[2 * i] - most);
    __syncthreads();
    for (int32_t i = 0; i < n; i++) sum += part[2 * i + 1] * part[2 * i];
    for (int32_t d = t; d < hd; d += threads) {
        float out = 0;
#pragma unroll 8
        for (int32_t i = 0; i < n; i++) out = fmaf(b.part_o[at(i) * hd + d], part[2 * i], out);
        b.xn[((size_t)r * b.n_heads + h) * hd + d] = (uint16_t)lsg_bf16x2(out / sum, 0);
    }
}

// Queries of a block at the context's end, and blocks of it.
int32_t tail_queries(int32_t group) {
    return min(16, group * lsg_tail_rows(group));
}
int32_t tails(int32_t queries, int32_t group) {
    return LSG_TAIL_CHUNKS * ((queries + tail_queries(group) - 1) / tail_queries(group));
}
// Blocks that read chunks of the context for so many tiles of queries each.
int32_t shared_blocks(const lsg_attend &a, int32_t queries, int32_t tiles) {
    return a.chunks * ((queries + 16 * tiles - 1) / (16 * tiles));
}

template <int QT> int run(const lsg_buffers &b, const lsg_attend &a, rows_of rows, lsg_stream stream) {
    const int32_t group = b.n_heads / b.n_kv_heads, queries = (rows.end - rows.begin) * group,
                  n_shared = shared_blocks(a, queries, QT);
    const size_t tail = lsg_attention_shared(1, b.head_dim, 1), shared = lsg_attention_shared(QT, b.head_dim, 0);
    return lsg_launch(attend<QT>, dim3((unsigned)b.n_kv_heads, (unsigned)(n_shared + tails(queries, group))),
                      32 * WARPS, n_shared && shared > tail ? shared : tail, stream, b, a, rows, n_shared,
                      tail_queries(group));
}

// Queries are shared out evenly, in whole tiles.
int run_large(const lsg_buffers &b, const lsg_attend &a, rows_of rows, int32_t chunks, lsg_stream stream) {
    const int32_t group = b.n_heads / b.n_kv_heads, queries = (rows.end - rows.begin) * group,
                  parts = lsg_attention_parts(queries), n_shared = (a.chunks + chunks - 1) / chunks * parts;
    const share own{lsg_attention_plan_of(b.head_dim), ((queries + parts - 1) / parts + 15) / 16 * 16, chunks};
    const size_t tail = lsg_attention_shared(1, b.head_dim, 1), shared = (size_t)own.plan.shared;
    return lsg_launch(attend_large, dim3((unsigned)b.n_kv_heads, (unsigned)(n_shared + tails(queries, group))),
                      32 * WARPS, shared > tail ? shared : tail, stream, b, a, rows, n_shared, tail_queries(group),
                      own);
}

// More queries read a chunk once, as far as the shared memory of any device goes. Blocks take fewer where all of them
// together are no more than the multiprocessors, of which each holds two.
int attend_rows(const lsg_buffers &b, const lsg_attend &a, rows_of rows, lsg_stream s) {
    const int32_t group = b.n_heads / b.n_kv_heads, queries = (rows.end - rows.begin) * group;
    const bool few = b.n_kv_heads * (shared_blocks(a, queries, 2) + tails(queries, group)) <= b.gpu.multiprocessors;
    // where scores are capped, a tanh for each of those that a thread keeps would be more code than all else
    const lsg_large may = a.softcap > 0 ? LSG_LARGE_OFF : b.large;
    const int32_t large = lsg_attention_large_chunks(may, b.gpu, b.head_dim, b.n_kv_heads, queries, a.chunks);
    const int e = large                                                          ? run_large(b, a, rows, large, s)
                  : queries <= 16                                                ? run<1>(b, a, rows, s)
                  : queries <= 32 || few || lsg_attention_tiles(b.head_dim) == 2 ? run<2>(b, a, rows, s)
                                                                                 : run<4>(b, a, rows, s);
    if (e) return e;
    const dim3 grid((unsigned)(rows.end - rows.begin), (unsigned)b.n_heads);
    return lsg_launch(combine, grid, b.head_dim > 64 ? 128 : 64,
                      2 * sizeof(float) * (size_t)(a.chunks + LSG_TAIL_CHUNKS), s, b, a, rows);
}

} // namespace

int lsg_attention(const lsg_buffers *b, const lsg_attend *a, lsg_stream s) {
    const int32_t at_once = (int32_t)(b->parts / (size_t)(a->chunks + LSG_TAIL_CHUNKS));
    int e = 0;
    for (int32_t row = 0; row < b->rows && !e; row += at_once)
        e = attend_rows(*b, *a, {row, min(b->rows, row + at_once)}, s);
    return e;
}
