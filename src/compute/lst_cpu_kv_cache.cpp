// A KV cache's calls: what a forward is asked for, and what is told of its rows.
#include "compute/lst_cpu.h"
#include "compute/lst_ranks_calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace lst::cpu;

namespace {

// Runs a block, which gave a logit that is not finite, again to find the layer.
[[noreturn]] void find_bad_logit(CpuKvCache &s, Block b) {
    b.searches = true;
    s.first_bad = INT32_MAX;
    run_block(s, b);
    throw lst::bad_logit(s.first_bad);
}

// Rows [first, first + n) of the logits; the token at next[i] follows row i. False: a logit is not finite. parents: the
// rows' parent_logit, as far as this rank knows them.
bool describe(CpuKvCache &s, int32_t first, int32_t n, const uint64_t *next, const lst_sampling *sampling,
              const float *parents, lst_row *rows) {
    const bool samples = sampling && sampling->temperature > 0;
    std::atomic<bool> good{true};
    lst::each_of(s.m->threads, n, [&](int64_t i) {
        const float *logits = s.row_logits(first + (int32_t)i);
        lst_row *row = &rows[i];
        if (s.m->kernels->row_stats(logits, s.vocab(), row)) good = false;
        row->chosen = row->top_id[0];
        row->chosen_logit = row->top_logit[0];
        if (good && samples && !s.m->ranks) lst::sample(logits, s.vocab(), next[i], *sampling, row);
        row->parent_logit = parents ? parents[i] : NAN;
        row->parent_lse = NAN;
    });
    if (!s.m->ranks) return good;
    return lst::merge_rows(s, first, n, good, samples ? next : nullptr, sampling, rows);
}

} // namespace

void CpuKvCache::prefill(int32_t at, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last) {
    length = at;
    first_slot = 0, last_slot = -1;
    tail.resize((size_t)n);
    std::iota(tail.begin(), tail.end(), at);
    const Block block{n, tokens, false, 0, n - 1};
    run_block(*this, block);
    lst_row row;
    const uint64_t next = (uint64_t)(at + n);
    if (!describe(*this, 0, 1, &next, sampling, nullptr, &row)) find_bad_logit(*this, block);
    if (!last) return;
    last_slot = 0;
    *last = row;
}

void CpuKvCache::forward(int32_t at, const int32_t *tokens, const int32_t *parents, const int32_t *depths, int32_t n,
                         int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) {
    length = at;
    depth = depths;
    if (!first) first_slot = last_slot >= n ? 0 : last_slot + 1; // copying the last row would take longer than the rest
    tail_begin.resize((size_t)n);
    tail.resize(first ? (size_t)(tail_begin[(size_t)first - 1] + depth[first - 1] + 1) : 0);
    for (int32_t i = first; i < n; i++) {
        tail_begin[(size_t)i] = (int32_t)tail.size();
        const size_t up = i ? (size_t)tail_begin[(size_t)parents[i]] : 0;
        for (int32_t j = 0; j < depth[i]; j++) tail.push_back(tail[up + (size_t)j]);
        tail.push_back(length + i);
    }
    const Block block{n - first, tokens + first, true, first, -1};
    run_block(*this, block);
    Clock clock(parts);
    std::vector<uint64_t> next;
    std::vector<float> of_parents;
    const ls_range own = m->part().vocab;
    for (int32_t i = first; i < n; i++) {
        const int32_t p = parents[i], t = tokens[i];
        const bool known = (p >= 0 || last_known) && t >= own.from && t < own.to;
        next.push_back((uint64_t)(length + depth[i] + 1));
        of_parents.push_back(known ? row_logits(p)[t - own.from] : NAN);
    }
    const bool good = describe(*this, first, n - first, next.data(), sampling, of_parents.data(), rows);
    clock.past(LST_PART_ROWS);
    if (!good) find_bad_logit(*this, block);
}

void CpuKvCache::part_top(int32_t row, int32_t k, int32_t *ids, float *values) {
    m->kernels->top(row_logits(row), vocab(), k, ids, values);
}

void CpuKvCache::part_logits(int32_t first, int32_t n, float *out) {
    std::memcpy(out, row_logits(first), (size_t)n * (size_t)vocab() * sizeof(float));
}

void CpuKvCache::keep(int32_t at, const int32_t *rows, int32_t n) {
    for (int32_t i = 0; i < n; i++) // in order: rows[i] >= i, so nothing that is still needed is overwritten
        if (rows[i] != i) moves.push_back({at + rows[i], at + i});
    last_slot = first_slot + rows[n - 1];
}

void CpuKvCache::rewind(int32_t n) {
    moves.erase(std::remove_if(moves.begin(), moves.end(), [&](Move move) { return move.to >= n; }), moves.end());
}

void CpuKvCache::copy(lst::KvCache &other, int32_t n) {
    CpuKvCache &from = static_cast<CpuKvCache &>(other);
    const int32_t heads = ls_range_size(m->part().kv_heads);
    const size_t columns = ((size_t)n + LSK_TILE - 1) / LSK_TILE * LSK_TILE,
                 bytes = columns * (size_t)m->hp.head_dim * m->kv_value_bytes();
    for (int layer = 0; layer < n_layers; layer++) {
        move_kv(from, layer, 0, heads);
        for (int h = 0; h < heads; h++) {
            const lsk_cache to = cache(layer, h), theirs = from.cache(layer, h);
            std::memcpy(to.k, theirs.k, bytes);
            std::memcpy(to.v, theirs.v, bytes);
        }
    }
    from.moves.clear();
    moves.clear();
}

CpuKvCache::CpuKvCache(CpuModel *model, int32_t n_context, int32_t layers_of)
    : PartKvCache(model), m(model), n_layers(layers_of),
      capacity((n_context + LST_MAX_ROWS + 2 * LSK_TILE) / LSK_TILE * LSK_TILE), barrier(model->most_threads),
      own((int64_t)model->most_threads * 3 * model->hp.n_embd), own_in((size_t)model->most_threads) {
    const ls_hparams &hp = m->hp;
    chosen = lst::Chosen(m->layers, n_layers, hp.n_experts_used);
    for (Prepared &in : own_in) in.resize(1, hp.n_embd);
    const int64_t bytes =
        (int64_t)n_layers * ls_range_size(m->part().kv_heads) * capacity * hp.head_dim * (int64_t)m->kv_value_bytes();
    try {
        k = lst::Array<uint8_t>(bytes);
        v = lst::Array<uint8_t>(bytes);
    } catch (const std::bad_alloc &) {
        throw lst::Error(LST_E_MEMORY, "a context of " + std::to_string(n_context) + " tokens needs " +
                                           std::to_string(2 * bytes >> 20) +
                                           " MiB for keys and values, more than this machine has: use a shorter "
                                           "--context");
    }
    const size_t dims = (size_t)hp.rope_dims;
    for (int kind = 0; kind < 2; kind++) {
        const float *freq = hp.rope_freq[kind];
        const double magnitude = (double)hp.rope_magnitude[kind];
        rope[kind].resize((size_t)capacity * dims);
        for (int64_t p = 0; p < capacity; p++)
            for (size_t i = 0; i < dims / 2; i++) {
                const float angle = (float)p * freq[i]; // rounded to f32 as the reference implementation does
                rope[kind][(size_t)p * dims + 2 * i] = (float)(std::cos((double)angle) * magnitude);
                rope[kind][(size_t)p * dims + 2 * i + 1] = (float)(std::sin((double)angle) * magnitude);
            }
    }
}

std::unique_ptr<lst::KvCache> CpuModel::kv_cache(int32_t n_context, int32_t n_layers, bool leads) {
    if (leads) return std::make_unique<lst::Leading<CpuKvCache>>(this, n_context, n_layers);
    return std::make_unique<CpuKvCache>(this, n_context, n_layers);
}
