// The results of each row's logits: best tokens, log-sum-exp, entropy, the chosen token; the path that the chosen
// tokens follow, and the best tokens of its last row.
//
// Keys order the tokens: the logit's bits, made monotonic, and below them the inverted id, so that the lower id wins.
#include "compute/kernels/gpu_device.h"

namespace {

enum {
    THREADS = 256,
    EACH = LSG_SLICE / THREADS,
    SORT = LSG_SORT,
    SORT_WARPS = SORT / LSG_TOP,
    KEYS = LSG_TOP / 32, // of a lane, from a list that a warp sorts
    SAMPLE_WARPS = 16,
    SAMPLE_THREADS = 32 * SAMPLE_WARPS, // 1024 threads have no registers for it
    LISTED = 2048,                      // keys that a block which samples holds by itself, at most
    LIKELY = 64                         // tokens that top-p is tried with before all are
};

LSG_DEVICE uint64_t key_of(float x, int32_t id) {
    const uint32_t bits = __float_as_uint(x + 0.0f); // -0 is 0
    return (uint64_t)(bits & 0x80000000u ? ~bits : bits | 0x80000000u) << 32 | (0xFFFFFFFFu - (uint32_t)id);
}
LSG_DEVICE int32_t id_of(uint64_t key) {
    return (int32_t)(0xFFFFFFFFu - (uint32_t)key);
}
LSG_DEVICE float logit_of(uint64_t key) {
    const uint32_t bits = (uint32_t)(key >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7FFFFFFFu : ~bits);
}

LSG_DEVICE uint64_t block_max(uint64_t v, uint64_t *place) {
    for (int i = 16; i; i /= 2) {
        const uint64_t o = __shfl_xor_sync(0xFFFFFFFFu, v, i);
        v = o > v ? o : v;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) place[threadIdx.x / 32] = v;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / 32; i++) v = place[i] > v ? place[i] : v;
    return v;
}

LSG_DEVICE int32_t logit_rows(const lsg_step &s) {
    return s.head_row >= 0 ? 1 : s.n_rows;
}

__global__ void slice(lsg_buffers b, lsg_head h) {
    LSG_SHARED(uint64_t, place);
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.y, n = b.n_vocab, t = (int32_t)threadIdx.x, slices = (int32_t)gridDim.x;
    if (r >= logit_rows(*b.step)) return;
    const int32_t begin = (int32_t)blockIdx.x * LSG_SLICE;
    float x[EACH]; // all on their way at once
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int32_t o = begin + i * THREADS + t;
        x[i] = o < n ? h.y[(size_t)r * n + o] : -INFINITY;
    }
    for (int32_t c = 1; c < h.chunks; c++)
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int32_t o = begin + i * THREADS + t;
            if (o < n) x[i] += h.y[((size_t)c * h.rows + r) * n + o];
        }
    const bool change = h.bias || h.scale != 1 || h.softcap > 0, store = change || h.y != b.logits || h.chunks > 1;
    uint64_t mine = 0;
    bool bad = false;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int32_t o = begin + i * THREADS + t;
        if (o >= n) continue;
        if (change) {
            if (h.bias) x[i] += h.bias[o];
            x[i] *= h.scale;
            if (h.softcap > 0) x[i] = h.softcap * tanhf(x[i] / h.softcap);
        }
        if (store) b.logits[(size_t)r * n + o] = x[i];
        bad |= !(x[i] < INFINITY);
        const uint64_t key = bad ? 0 : key_of(x[i], o);
        mine = key > mine ? key : mine;
    }
    if (bad) b.result->bad = 1;
    uint64_t *best = b.keys + ((size_t)r * slices + blockIdx.x) * LST_ROW_TOP, bound = ~(uint64_t)0;
    float most = 0, sum = 0, weighted = 0;
    for (int k = 0; k < LST_ROW_TOP; k++) {
        if (k) { // the best below the one before
            mine = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int32_t o = begin + i * THREADS + t;
                const uint64_t key = o < n ? key_of(x[i], o) : 0;
                if (key < bound && key > mine) mine = key;
            }
        }
        bound = block_max(mine, place);
        if (t == 0) best[k] = bound;
        if (!k) most = logit_of(bound);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (begin + i * THREADS + t >= n) continue;
        const float d = fmaxf(x[i] - most, -80.0f), e = expf(d); // beyond -80 nothing can be seen in a float sum
        sum += e;
        weighted = fmaf(e, d, weighted);
    }
    sum = lsg_block_sum(sum, (float *)place);
    weighted = lsg_block_sum(weighted, (float *)place);
    if (t) return;
    float *out = b.slices + ((size_t)r * slices + blockIdx.x) * LSG_SLICE_FLOATS;
    out[0] = most;
    out[1] = sum;
    out[2] = weighted;
}

__global__ void describe(lsg_buffers b, int32_t slices) {
    LSG_SHARED(uint64_t, place); // [32]; what the slices say: their best, their sums
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.x, t = (int32_t)threadIdx.x, n = slices * LST_ROW_TOP;
    if (r >= logit_rows(*b.step)) return;
    uint64_t *keys = place + 32;
    float *part = (float *)(keys + n);
    for (int32_t i = t; i < n; i += THREADS) keys[i] = b.keys[(size_t)r * n + i];
    for (int32_t i = t; i < slices * LSG_SLICE_FLOATS; i += THREADS)
        part[i] = b.slices[(size_t)r * slices * LSG_SLICE_FLOATS + i];
    __syncthreads();
    lst_row *row = &b.result->row[r];
    uint64_t bound = ~(uint64_t)0;
    float most = -INFINITY;
    for (int k = 0; k < LST_ROW_TOP; k++) {
        uint64_t mine = 0;
        for (int32_t i = t; i < n; i += THREADS)
            if (keys[i] < bound && keys[i] > mine) mine = keys[i];
        bound = block_max(mine, place);
        const float logit = bound ? logit_of(bound) : -INFINITY;
        if (!k) most = logit;
        if (t == 0) {
            row->top_id[k] = bound ? id_of(bound) : -1;
            row->top_logit[k] = logit;
        }
    }
    if (t) return;
    float total = 0, weighted = 0;
    for (int32_t i = 0; i < slices; i++) {
        const float d = part[i * LSG_SLICE_FLOATS] - most, e = expf(fmaxf(d, -80.0f));
        total = fmaf(e, part[i * LSG_SLICE_FLOATS + 1], total);
        weighted =
            fmaf(e, part[i * LSG_SLICE_FLOATS + 2] + part[i * LSG_SLICE_FLOATS + 1] * fmaxf(d, -80.0f), weighted);
    }
    row->lse = most + logf(total);
    row->entropy = logf(total) - weighted / total;
    row->chosen = row->top_id[0];
    row->chosen_logit = most;
    if (!(fabsf(most) < INFINITY) || !(fabsf(row->lse) < INFINITY)) b.result->bad = 1;
}

// ---- sampling: masses are integers, so the order of additions does not change their sums

LSG_DEVICE uint64_t mass_of(float x, float most, float inverse) {
    return (uint64_t)(expf(fmaxf((x - most) * inverse, -80.0f)) * 1099511627776.0f); // 2^40
}

// The sum of v over lanes up to this one.
LSG_DEVICE uint64_t warp_scan(uint64_t v) {
    const int lane = (int)threadIdx.x % 32;
    for (int i = 1; i < 32; i *= 2) {
        const uint64_t before = __shfl_sync(0xFFFFFFFFu, v, lane < i ? lane : lane - i);
        if (lane >= i) v += before;
    }
    return v;
}

// A row's tokens, for a block of SAMPLE_THREADS.
struct Choice {
    uint64_t *place;      // [SAMPLE_WARPS]: what each warp says; then what find_bin says
    uint32_t *low, *high; // [256] each: halves of 64-bit bins, which only loops could add to as a whole
    uint64_t *list;       // [LISTED]
    int32_t *n_list;
    const float *logits;
    const uint64_t *best; // each slice's list, and how many keys they are
    int32_t n_best, n;
    float most, inverse;
    bool listed; // the list holds all that may be chosen

    LSG_MEMBER uint64_t mass(float logit) const { return mass_of(logit, most, inverse); }

    // Calls body(key, there) with all tokens of slices that hold a key of at least `least`, or of the list; whole warps
    // call together. PER logits of a thread are on their way at once.
    template <int PER = 1, class F> LSG_MEMBER void each(uint64_t least, F &&body) const {
        const int32_t t = (int32_t)threadIdx.x, there = listed ? *n_list : 0;
        for (int32_t k = 0; k < there; k += SAMPLE_THREADS) body(k + t < there ? list[k + t] : 0, k + t < there);
        for (int32_t slice = 0; !listed && slice * LSG_SLICE < n; slice++)
            if (best[(size_t)slice * LST_ROW_TOP] >= least)
#pragma unroll 1
                for (int32_t k = t; k < LSG_SLICE; k += PER * SAMPLE_THREADS) {
                    float x[PER];
#pragma unroll
                    for (int32_t j = 0; j < PER; j++) {
                        const int32_t i = slice * LSG_SLICE + k + j * SAMPLE_THREADS;
                        x[j] = i < n ? logits[i] : 0;
                    }
#pragma unroll
                    for (int32_t j = 0; j < PER; j++) {
                        const int32_t i = slice * LSG_SLICE + k + j * SAMPLE_THREADS;
                        body(i < n ? key_of(x[j], i) : 0, i < n);
                    }
                }
    }

    // Sum over the block of each warp's sum, which its lanes all have; place holds those of the warps.
    LSG_MEMBER uint64_t sum_of_warps(uint64_t own) const {
        __syncthreads(); // place is read no more
        if (threadIdx.x % 32 == 0) place[threadIdx.x / 32] = own;
        __syncthreads();
        uint64_t sum = 0;
        for (int i = 0; i < SAMPLE_WARPS; i++) sum += place[i];
        return sum;
    }

    // The mass of tokens with keys of at least `least`.
    LSG_MEMBER uint64_t total(uint64_t least) const {
        uint64_t sum = 0;
        each<8>(least, [&](uint64_t k, bool there) {
            if (there && k >= least) sum += mass(logit_of(k));
        });
        return sum_of_warps(lsg_warp_sum(sum));
    }

    // Lists all tokens that are not below the first `wanted` of those that slices name, which the first `wanted` of all
    // are among. They may be too many for the list.
    LSG_MEMBER void fill(int32_t wanted) {
        const int32_t t = (int32_t)threadIdx.x;
        if (wanted > n_best || n_best > LISTED) return;
        __syncthreads();
        for (int32_t i = t; i < n_best; i += SAMPLE_THREADS) list[i] = best[i];
        if (!t) *n_list = 0, place[SAMPLE_WARPS] = 0;
        __syncthreads();
        for (int32_t i = t; i < n_best; i += SAMPLE_THREADS) {
            int32_t above = 0;
            for (int32_t k = 0; k < n_best; k++) above += list[k] > list[i];
            if (above == wanted - 1) place[SAMPLE_WARPS] = list[i]; // keys differ, but for zeros, which are none
        }
        __syncthreads();
        const uint64_t least = place[SAMPLE_WARPS];
        if (!least) return;
        each<8>(least, [&](uint64_t k, bool there) {
            if (!there || k < least) return;
            const int32_t at = atomicAdd(n_list, 1); // in any order: masses are integers
            if (at < LISTED) list[at] = k;
        });
        __syncthreads();
        listed = *n_list <= LISTED;
    }

    // Of all tokens in the order of their ids the one with which their masses exceed the share u of the whole: each
    // warp sums a part of them, then of the part that holds the token, until a warp has one for each lane.
    LSG_MEMBER int32_t choose_in_order(double u) const {
        const int32_t warp = (int32_t)threadIdx.x / 32, lane = (int32_t)threadIdx.x % 32;
        uint64_t goal = 0;
        int32_t begin = 0, end = n;
        for (bool all = true;; all = false) {
            const int32_t part = ((end - begin + SAMPLE_WARPS - 1) / SAMPLE_WARPS + 31) / 32 * 32,
                          from = begin + warp * part;
            uint64_t sum = 0;
            for (int32_t i = from + lane; i < min(end, from + part); i += 32) sum += mass(logits[i]);
            const uint64_t own = lsg_warp_sum(sum), whole = sum_of_warps(own);
            if (all) goal = (uint64_t)((double)whole * u);
            if (goal >= whole) goal = whole - 1; // the last token that has a mass
            uint64_t before = 0;
            int32_t k = 0;
            for (; k < SAMPLE_WARPS - 1 && before + place[k] <= goal; k++) before += place[k];
            goal -= before;
            begin += k * part;
            end = min(end, begin + part);
            if (part == 32) break;
        }
        const int32_t i = begin + lane; // every warp finds it
        const uint64_t sum = warp_scan(i < end ? mass(logits[i]) : 0);
        return begin + __ffs(__ballot_sync(0xFFFFFFFFu, sum > goal)) - 1;
    }

    LSG_MEMBER void add(int32_t bin, uint64_t amount) const {
        const uint32_t part = (uint32_t)amount, old = atomicAdd(&low[bin], part);
        const uint32_t rest = (uint32_t)(amount >> 32) + (old + part < old);
        if (rest) atomicAdd(&high[bin], rest);
    }

    // The first warp finds where bins, from the last one on, first exceed goal: the bin, and what is left of the goal
    // in it. If goal is the whole, the last token.
    LSG_MEMBER void find_bin(uint64_t goal) const {
        const int32_t top = 255 - 8 * (int32_t)threadIdx.x; // a lane has this bin and the seven below it
        auto bin = [&](int32_t i) { return (uint64_t)high[i] << 32 | low[i]; };
        uint64_t sum = 0;
#pragma unroll 1
        for (int k = 0; k < 8; k++) sum += bin(top - k);
        const uint64_t upto = warp_scan(sum), whole = __shfl_sync(0xFFFFFFFFu, upto, 31);
        if (goal >= whole) goal = whole - 1;
        if (goal < upto - sum || goal >= upto) return;
        uint64_t left = goal - (upto - sum);
        int32_t at = top;
        while (left >= bin(at)) left -= bin(at--);
        place[SAMPLE_WARPS] = left;
        place[SAMPLE_WARPS + 1] = (uint64_t)at;
    }

    // Where tokens with keys of at least `least` are taken from the largest key on, the key with which the sum of their
    // masses (by_mass) or their number first exceeds goal: byte by byte.
    LSG_MEMBER uint64_t select(uint64_t goal, uint64_t least, bool by_mass) const {
        uint64_t prefix = 0;
        for (int shift = 56; shift >= 0; shift -= 8) {
            __syncthreads();
            for (int32_t i = (int32_t)threadIdx.x; i < 256; i += SAMPLE_THREADS) low[i] = high[i] = 0;
            __syncthreads();
            const uint64_t from = shift == 56 ? 0 : prefix << (shift + 8); // keys of the bytes so far begin here
            uint64_t found = 0, last = 0; // keys of the bytes so far that this lane has seen, and one of them
            each(from > least ? from : least, [&](uint64_t k, bool there) { // lanes of the same bin add up first
                const bool take = there && k >= least && (shift == 56 || k >> (shift + 8) == prefix);
                const int32_t mine = (int32_t)(k >> shift & 255);
                const uint64_t own = !take ? 0 : by_mass ? mass(logit_of(k)) : 1;
                if (take) found++, last = k;
                for (uint32_t left = __ballot_sync(0xFFFFFFFFu, take); left;) {
                    const int32_t bin = __shfl_sync(0xFFFFFFFFu, mine, __ffs(left) - 1);
                    const bool same = take && mine == bin;
                    const uint64_t sum = lsg_warp_sum(same ? own : 0);
                    if (threadIdx.x % 32 == 0) add(bin, sum);
                    left &= ~__ballot_sync(0xFFFFFFFFu, same);
                }
            });
            // once the logit is known, there is one token almost always
            if (shift == 24 && sum_of_warps(lsg_warp_sum(found)) == 1) return sum_of_warps(lsg_warp_sum(last));
            __syncthreads();
            if (threadIdx.x < 32) find_bin(goal);
            __syncthreads();
            goal = place[SAMPLE_WARPS];
            prefix = prefix << 8 | place[SAMPLE_WARPS + 1];
        }
        return prefix;
    }
};

__global__ void __launch_bounds__(SAMPLE_THREADS) sample(lsg_buffers b, int32_t slices) {
    LSG_SHARED(uint64_t, place);
    lsg_next_may_start();
    lsg_wait_before();
    const lsg_step *s = b.step;
    const int32_t r = (int32_t)blockIdx.x, n = b.n_vocab;
    if (!s->sampled || r >= logit_rows(*s) || b.result->bad) return;
    lst_row *row = &b.result->row[r];
    uint64_t *list = place + SAMPLE_WARPS + 2;
    uint32_t *low = (uint32_t *)(list + LISTED);
    Choice c{place,
             low,
             low + 256,
             list,
             (int32_t *)(low + 512),
             b.logits + (size_t)r * n,
             b.keys + (size_t)r * slices * LST_ROW_TOP,
             slices * LST_ROW_TOP,
             n,
             row->top_logit[0],
             (float)(1.0 / s->temperature),
             false};
    const double u = s->uniform[s->head_row >= 0 ? s->head_row : r];
    const bool top_k = s->top_k > 0 && s->top_k < n, top_p = s->top_p < 1;
    int32_t chosen;
    if (!top_k && !top_p) chosen = c.choose_in_order(u);
    else {
        uint64_t least = 0; // key of the last token that may be chosen
        if (top_k) c.fill(s->top_k);
#pragma unroll 1
        for (int stage = top_k ? 0 : top_p ? 1 : 2; stage < 3; stage += stage || top_p ? 1 : 2) {
            const uint64_t mass = stage ? c.total(least) : 0;
            uint64_t goal = (uint64_t)s->top_k - 1;
            if (stage == 1) {
                const uint64_t wanted = (uint64_t)ceil((double)mass * s->top_p);
                goal = wanted ? wanted - 1 : 0;
                if (!top_k) { // the list serves if it holds the token with which masses exceed the goal
                    c.fill(min((int32_t)LIKELY, c.n_best));
                    if (c.listed && c.total(0) <= goal) c.listed = false;
                }
            } else if (stage == 2) goal = (uint64_t)((double)mass * u);
            least = c.select(goal, least, stage > 0);
        }
        chosen = id_of(least);
    }
    if (threadIdx.x) return;
    row->chosen = chosen;
    row->chosen_logit = c.logits[chosen];
}

// ---- the path

__global__ void walk(lsg_buffers b) {
    LSG_SHARED(uint64_t, place); // [32]; [rows]: the parent that chose this token, or -1
    static_assert(LST_MAX_ROWS <= THREADS, "a thread a row");
    lsg_next_may_start();
    lsg_wait_before();
    const lsg_step *s = b.step;
    const int32_t n = logit_rows(*s), i = (int32_t)threadIdx.x;
    lst_row *rows = b.result->row;
    int32_t *chosen_by = (int32_t *)(place + 32);
    if (i < n) {
        const int32_t p = s->head_row >= 0 ? -1 : s->parent[i], o = s->token[i] - b.vocab_from;
        const bool own = o >= 0 && o < b.n_vocab;
        float logit = NAN, lse = NAN;
        if (p >= 0) {
            if (own) logit = b.logits[(size_t)p * b.n_vocab + o];
            lse = rows[p].lse;
        } else if (s->last_known && s->head_row < 0) {
            if (own) logit = b.last[o];
            lse = s->last_lse;
        }
        rows[i].parent_logit = logit;
        rows[i].parent_lse = lse;
        chosen_by[i] = p >= 0 && rows[p].chosen == s->token[i] ? p : -1;
    }
    __syncthreads();
    uint64_t reached = 0; // depth + 1 where every token on the way was chosen; the first such row wins
    if (i < n) {
        int32_t row = i;
        while (row > 0 && chosen_by[row] >= 0) row = chosen_by[row];
        if (!row) reached = (uint64_t)(s->depth[i] + 1) << 32 | (uint32_t)(LST_MAX_ROWS - i);
    }
    reached = block_max(reached, place);
    if (!i) b.result->last_row = LST_MAX_ROWS - (int32_t)(uint32_t)reached;
}

// ---- the best of a row: a block's warps sort LSG_TOP keys each and keep the best of pairs, until one has seen them
// all

// Of a list whose place 32 e + lane is a lane's k[e]: compares places J apart. Runs of SIZE places come to stand in
// order, largest first and smallest first in turn.
template <int SIZE, int J> LSG_DEVICE void compare(uint64_t k[KEYS], int lane) {
#pragma unroll
    for (int e = 0; e < KEYS; e++) {
        const bool down = SIZE >= LSG_TOP || !((32 * e + lane) & SIZE);
        if constexpr (J < 32) {
            const uint64_t other = __shfl_xor_sync(0xFFFFFFFFu, k[e], J);
            if ((!(lane & J) == down) == (k[e] < other)) k[e] = other;
        } else if (e < (e ^ J / 32)) {
            const uint64_t a = k[e], b = k[e ^ J / 32];
            if ((a < b) == down) k[e] = b, k[e ^ J / 32] = a;
        }
    }
}
// Orders runs that first rise and then fall, or the other way.
template <int SIZE, int J = SIZE / 2> LSG_DEVICE void merge(uint64_t k[KEYS], int lane) {
    compare<SIZE, J>(k, lane);
    if constexpr (J > 1) merge<SIZE, J / 2>(k, lane);
}
template <int SIZE = LSG_TOP> LSG_DEVICE void sort(uint64_t k[KEYS], int lane) {
    if constexpr (SIZE > 2) sort<SIZE / 2>(k, lane);
    merge<SIZE>(k, lane);
}

__global__ void __launch_bounds__(32 * SORT_WARPS)
    best(const float *logits, int32_t n_vocab, const int32_t *row, const uint64_t *in, int32_t n, uint64_t *out,
         int32_t *ids, float *values) {
    LSG_SHARED(uint64_t, lists); // [SORT_WARPS / 2][LSG_TOP]
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t lane = (int32_t)threadIdx.x % 32, warp = (int32_t)threadIdx.x / 32,
                  begin = (int32_t)blockIdx.x * SORT, there = (min(n - begin, (int32_t)SORT) + LSG_TOP - 1) / LSG_TOP;
    if (logits && row) logits += (size_t)*row * n_vocab;
    uint64_t k[KEYS];
#pragma unroll
    for (int e = 0; e < KEYS; e++) {
        const int32_t i = begin + warp * LSG_TOP + 32 * e + lane;
        k[e] = i >= n ? 0 : in ? in[i] : key_of(logits[i], i);
    }
    if (warp < there) sort(k, lane);
    for (int half = SORT_WARPS / 2; half; half /= 2) {
        if (warp >= half && warp < 2 * half && warp < there)
#pragma unroll
            for (int e = 0; e < KEYS; e++) lists[(warp - half) * LSG_TOP + 32 * e + lane] = k[e];
        __syncthreads();
        if (warp < half && warp + half < there) {
#pragma unroll
            for (int e = 0; e < KEYS; e++) { // of the larger of each pair of these, LSG_TOP are the best of both lists
                const uint64_t other = lists[warp * LSG_TOP + LSG_TOP - 1 - (32 * e + lane)];
                if (other > k[e]) k[e] = other;
            }
            merge<LSG_TOP>(k, lane);
        }
        __syncthreads();
    }
    if (warp) return;
#pragma unroll
    for (int e = 0; e < KEYS; e++) {
        const int32_t i = 32 * e + lane;
        if (out) out[(size_t)blockIdx.x * LSG_TOP + i] = k[e];
        if (ids) {
            ids[i] = k[e] ? id_of(k[e]) : -1;
            values[i] = k[e] ? logit_of(k[e]) : -INFINITY;
        }
    }
}

} // namespace

int lsg_top(const float *logits, int32_t n_vocab, const int32_t *row, uint64_t *keys, int32_t *ids, float *values,
            lsg_stream s) {
    const uint64_t *in = nullptr;
    uint64_t *out = keys;
    for (int32_t n = n_vocab;;) {
        const unsigned blocks = lsg_blocks(n, SORT);
        const bool done = blocks == 1;
        if (int e =
                lsg_launch(best, dim3(blocks), 32 * SORT_WARPS, SORT / 2 * sizeof(uint64_t), s, in ? nullptr : logits,
                           n_vocab, row, in, n, done ? nullptr : out, done ? ids : nullptr, done ? values : nullptr))
            return e;
        if (done) return 0;
        in = out;
        out += (size_t)blocks * LSG_TOP;
        n = (int32_t)blocks * LSG_TOP;
    }
}

int lsg_head_rows(const lsg_buffers *b, const lsg_head *h, lsg_stream s) {
    const unsigned slices = lsg_blocks(b->n_vocab, LSG_SLICE), rows = (unsigned)h->rows;
    int e = lsg_launch(slice, dim3(slices, rows), THREADS, 32 * sizeof(uint64_t), s, *b, *h);
    if (!e)
        e = lsg_launch(describe, dim3(rows), THREADS,
                       sizeof(uint64_t) * (32 + (size_t)slices * LST_ROW_TOP) +
                           sizeof(float) * (size_t)slices * LSG_SLICE_FLOATS,
                       s, *b, (int32_t)slices);
    if (!e && h->sampled)
        e = lsg_launch(sample, dim3(rows), SAMPLE_THREADS,
                       (SAMPLE_WARPS + 2 + LISTED) * sizeof(uint64_t) + 513 * sizeof(uint32_t), s, *b, (int32_t)slices);
    if (!e) e = lsg_launch(walk, dim3(1), THREADS, 32 * sizeof(uint64_t) + LST_MAX_ROWS * sizeof(int32_t), s, *b);
    if (!e)
        e = lsg_top(b->logits, b->n_vocab, &b->result->last_row, b->keys, b->result->top_id, b->result->top_logit, s);
    return e;
}
