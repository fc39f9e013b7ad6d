// A KV cache on a GPU and its forwards: lst_cuda_kv_cache.cpp has the step, lst_cuda_experts.cpp mixtures of experts,
// lst_cuda_ranks.cpp what ranks exchange in it.
#pragma once
#include "compute/lst_cuda.h"
#include "compute/lst_ranks.h"

#include <cmath>
#include <exception>
#include <map>
#include <tuple>
#include <utility>

namespace lst::device {

struct CudaKvCache;

// A place in a step where rows become whole: what a graph's call on the host gets.
struct GatherPoint {
    CudaKvCache *cache;
    ls_range ls_shard::*of; // nullptr: a row is whole on the rank that has its token
    size_t bytes;           // of a unit of that range
    ls_range held;          // units that this device has of each row; its part is among them
    int32_t each = 1;       // such rows for each row of the step
};

struct CudaKvCache : lst::PartKvCache {
    CudaModel *m;
    int32_t n_layers; // of the model's, from the first on
    Stream stream;
    Stopwatch watch;
    float ms = NAN; // on the device, of the last forward
    Pinned<lsg_step> step;
    Pinned<lsg_result> result;
    // on the device, for the largest tree
    const lsg_shape shape;
    const lsg_room room;
    const ls_shard held = lsg_own(&shape);
    Memory<lsg_step> step_at{1};
    Memory<lsg_result> result_at{1};
    Memory<int32_t> columns_at{room.columns};
    Memory<int16_t> ancestors{room.ancestors};
    Memory<float> last{room.last}, x{room.x}, y{room.y}, sums{room.sums}, turns{room.turns}, part_o{room.part_o},
        part_ml{room.part_ml}, logits_at{room.logits}, slices{room.slices};
    Memory<uint16_t> xn{room.xn}, q{room.q};
    // of mixtures
    Memory<float> expert_logits{room.expert_logits}, expert_weights{room.lists}, shared_rows{room.expert_rows},
        expert_rows{room.expert_rows};
    Memory<int32_t> chosen_at{room.lists}, begin{room.begin}, pair{room.pairs}, pair_row{room.pairs},
        pair_expert{room.pairs};
    Memory<uint16_t> pair_x{room.pair_x}, pair_act{room.pair_act};
    int32_t not_fetched = 0; // rows of the last forward whose experts are on the device only
    Memory<uint64_t> keys{room.keys};
    Memory<int32_t> top_at{2 * LSG_TOP}; // ids and values of a list that top() asked for
    // the cache
    Memory<uint16_t *> pages_at{room.pages};
    Pinned<uint16_t *> page_table{room.pages};
    std::vector<Memory<uint16_t>> pages;
    std::vector<int32_t> columns, free_columns; // of committed positions; the next one to take is last
    std::vector<int32_t> row_columns;           // of the last forward; -1: committed since
    int32_t n_new = 0, new_from = 0;            // positions whose columns the device does not know yet
    int32_t keep_row = -1;                      // row of the last forward that holds the last committed row's logits
    float last_lse = NAN;
    std::vector<std::pair<int32_t, float>> list; // best tokens of row -1
    int32_t list_row = -1;                       // row of the last forward whose list result holds; -1: none
    Memory<float> taken;                         // hidden states of the last forward's rows (lst_hidden)
    // Recorded steps by rows, chunks, sampled: LSG_GRAPHS of them at most, for which lsg_kv_cache_bytes counts memory.
    struct Recorded {
        lsg_graph graph;
        uint64_t used; // when
    };
    std::map<std::tuple<int32_t, int32_t, bool>, Recorded> graphs;
    uint64_t n_used = 0;
    // with other ranks
    GatherPoint of_tokens{this, nullptr, sizeof(float), {0, m->hp.n_embd}};
    GatherPoint of_heads{this, &ls_shard::heads, (size_t)m->hp.head_dim * sizeof(uint16_t), held.heads};
    GatherPoint of_ff{this, &ls_shard::ff, sizeof(uint16_t), held.ff};
    GatherPoint of_embd{this, &ls_shard::embd, sizeof(float), held.embd};
    GatherPoint of_expert_ff{this, &ls_shard::expert_ff, sizeof(uint16_t), held.expert_ff, m->hp.n_experts_used};
    GatherPoint of_shared_ff{this, &ls_shard::shared_ff, sizeof(uint16_t), held.shared_ff};
    // rows as this device has them, and whole
    Pinned<uint8_t> before{m->ranks ? most_bytes(false) : 1}, after{m->ranks ? most_bytes(true) : 1};
    const lsg_large large; // of the matmuls' cuts (lsg_cut)
    std::vector<uint8_t> mine, theirs;
    std::exception_ptr failure; // of an exchange of the step

    CudaKvCache(CudaModel *model, int32_t n_context, int32_t n_layers);
    ~CudaKvCache() override;
    int32_t prefill_rows(int32_t length) const override;
    bool keeps_rows() const override { return false; }
    void prefill(int32_t length, const int32_t *tokens, int32_t n, const lst_sampling *sampling,
                 lst_row *last) override;
    void forward(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth, int32_t n,
                 int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) override;
    void keep(int32_t length, const int32_t *rows, int32_t n) override;
    void rewind(int32_t n) override;
    void copy(lst::KvCache &from, int32_t n) override;
    void hidden_changed() override;
    const float *hidden_rows(int32_t first, int32_t n) override;
    void part_top(int32_t row, int32_t k, int32_t *ids, float *values) override;
    void part_logits(int32_t first, int32_t n, float *out) override;
    double device_us() const override { return 1e3 * (double)ms; }
    void fetch_chosen() override;

    void exchange(const GatherPoint &at);

  private:
    void add_page();
    void take_columns(int32_t n);
    lsg_buffers buffers(int32_t rows) const;
    void put_mixture(const lsg_buffers &b, const lst::Mixture &x);
    // Puts a forward's kernels on the stream. watch: called with 2 * layer + part after each sublayer, -1 after
    // embedding.
    template <class F> void put(int32_t rows, int32_t chunks, bool head, bool sampled, F &&watch);
    void put_matmul(const lst::Linear &l, const uint16_t *in, float *out, int32_t rows, const int32_t *n_rows,
                    const char *what);
    void put_head(const lsg_buffers &b, bool sampled);
    static size_t row_bytes(const GatherPoint &at, ls_range units);
    ls_range all_units(const GatherPoint &at) const;
    size_t most_bytes(bool whole) const;
    void put_gather(GatherPoint &at, const void *from, void *to, int32_t rows);
    int32_t vocab() const { return ls_range_size(held.vocab); }
    void merge(int32_t n, const lst_sampling *sampling);
    lsg_graph graph_of(int32_t rows, int32_t chunks, bool sampled);
    void run(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth, int32_t n,
             const lst_sampling *sampling, bool last_known, int32_t head_row, bool head);
    void drop_graphs();
    [[noreturn]] void find_bad(int32_t rows, int32_t chunks);
    const float *row_at(int32_t row) const {
        return row < 0 && keep_row < 0 ? last.get() : logits_at.get() + (size_t)(row < 0 ? keep_row : row) * vocab();
    }
    void save_list(int32_t row);
};

} // namespace lst::device
