// The decoder on the CPU: our kernels over packed weights. lst_cpu.cpp has the model, lst_cpu_kv_cache.cpp the KV
// cache's calls, lst_cpu_forward.cpp the forward.
#pragma once
#include "compute/lst_barrier.h"
#include "compute/lst_cpu_store.h"
#include "compute/lst_ranks.h"

#include <algorithm>
#include <atomic>

namespace lst::cpu {

// How a dtype rounds the inputs of matmuls.
struct Arithmetic {
    const char *dtype, *kernel;
    lsk_arith usual, careful; // careful: for q/k/v and down, which are the most sensitive to rounding
    const char *kv;           // default format of the KV cache
};

// Zeroed memory for weights, in large pages if the system has them. Every step reads all of it, and large pages save
// address translations.
class Weights {
    struct Unmap {
        size_t size;
        void operator()(uint8_t *p) const;
    };
    std::vector<std::unique_ptr<uint8_t, Unmap>> blocks;
    size_t left = 0, next_size = PAGE; // of the last block; of the next one

  public:
    enum : size_t { PAGE = 2 << 20, MOST = 32 << 20 };
    uint8_t *take(size_t bytes); // 64-byte aligned; freed with this object
};

struct CpuModel : lst_model {
    const lsk_table *kernels = nullptr;
    std::string asked; // dtype
    const Arithmetic *arithmetic = nullptr;
    Weights packed;
    std::unique_ptr<ExpertStore> store; // of experts that are not all in memory; nullptr: they are
    bool storing = false;               // the matrix that begins is an expert's
    bool integers = false;              // at least one matmul takes integers
    bool all_bf16 = true;               // all weights of matmuls are bf16
    std::string asked_kv;
    bool kv_bf16 = false; // keys and values are bf16, else floats
    size_t kv_value_bytes() const { return kv_bf16 ? sizeof(uint16_t) : sizeof(float); }
    int embd_type = LS_GGML_F32;
    lst::Array<uint8_t> embd; // raw rows; empty: the output head has them
    size_t embd_row_bytes = 0;

    bool mixes() const override { return true; }
    int type_in_order() const override { return -1; }
    void expert_begin() override { storing = store != nullptr; }
    void expert_end(lst::Expert &x, int32_t n) override {
        if (storing) store->add(x, n);
        storing = false;
    }
    bool matrix_begin(lst::Linear &l, const std::vector<lst::Stacked> &stacked, lst::Care care) override;
    void matrix_rows(lst::Linear &l, int64_t row, int type, const uint8_t *raw, int64_t n) override;
    void matrix_end(lst::Linear &) override {}
    lsk_arith arith_of(lst::Care care) const, packing(lst::Care care) const;
    void embedding_row(int32_t token, float *out) const; // token: of this rank's part of the vocabulary
    bool embedding_begin(const lst_tensor &t, int kept_type) override;
    void embedding_rows(int64_t row, int type, const uint8_t *raw, int64_t n) override;
    void loaded() override;
    void info(lst_model_info_t *info) const override;
    void multiply_bf16();
    std::unique_ptr<lst::KvCache> kv_cache(int32_t n_context, int32_t n_layers, bool leads) override;
};

const lsk_table &pick_kernels(); // an Error, if LOGITSPEC_CPU names no level

// ---- building blocks of a forward

// Matmul inputs other than plain floats, written beside them: in integer arithmetic group g of row r at [g * rows + r],
// in bf16 row after row.
struct Prepared {
    std::vector<lsk_group> groups;
    std::vector<uint16_t> bf16;
    int32_t n_in = 0;

    void resize(int32_t rows, int64_t n) {
        n_in = (int32_t)n;
        groups.resize((size_t)rows * (size_t)n / 32);
        bf16.resize((size_t)rows * (size_t)n);
    }
};

// Whether matmuls of this arithmetic read prepared bf16. If it is bf16 arithmetic and they do not, they read the
// floats, which were rounded.
inline bool takes_bf16(const lsk_table &k, lsk_arith arith) {
    return arith == LSK_ARITH_BF16 && k.matmul_bf16;
}

// Sums the time of a forward's parts in one of its threads; does nothing without lst_parts.
struct Clock {
    double *const parts; // NULL: not requested
    uint64_t last;

    explicit Clock(double *us) : parts(us), last(us ? ls_now_ns() : 0) {}
    void past(int part) {
        if (!parts) return;
        const uint64_t now = ls_now_ns();
        parts[part] += (double)(now - last) / 1e3;
        last = now;
    }
};

// Tiles of the units that are shared between threads: pairs of gate and up stay together.
inline int32_t unit_of(const lst::Linear &l) {
    return l.paired ? 2 * LS_SHARD_FF / LSK_TILE : 2;
}
inline int32_t tiles_of(const lst::Linear &l) {
    return (l.n_out + LSK_TILE - 1) / LSK_TILE;
}
struct CpuKvCache;
// Columns [at, at + n) of a row of a matmul's input: x holds the floats.
void prepare(const CpuKvCache &s, lsk_arith arith, Prepared &p, int32_t rows, int32_t row, float *x, int32_t at,
             int32_t n);
// The activation of the tiles of gate_up, whose outputs are `out` ([row][n_out], changed), to act ([row][n_ff]).
// Without other ranks, which have the rest of a row, it is also prepared for `down`: row i as row first + i of in_rows.
void activate_tiles(const CpuKvCache &s, const lst::Linear &gate_up, float *out, const float *xielu, int32_t rows,
                    ls_range tiles, float *act, const lst::Linear &down, Prepared &in, int32_t in_rows, int32_t first);

// Rows grouped by the experts that they take. A pair is a row and one of its experts; the pairs of an expert are
// consecutive, in order of their rows.
struct ExpertRows {
    lst::Floats logits;                                 // [rows][router outputs]; scores, where biases choose
    lst::Floats choice;                                 // [rows][experts]: scores and biases; empty: no layer has them
    std::vector<int32_t> pair;                          // [rows][experts used]: of the row's experts by rank
    std::vector<int32_t> row;                           // [pairs]: the pair's row
    std::vector<int32_t> begin;                         // [experts + 1]: the expert's pairs
    std::vector<int32_t> awake;                         // experts that have pairs
    lst::Floats x, gate_up, act, out;                   // [pairs][...]
    Prepared x_in, act_in;                              // of pairs
    lst::Floats shared_gate_up, shared_act, shared_out; // [rows][...]
    Prepared shared_act_in;
};

// Moves a row's keys and values from one cache column to another.
struct Move {
    int64_t from, to;
};

enum { PREFILL_ROWS = 128 };

struct CpuKvCache : lst::PartKvCache {
    CpuModel *m;
    int32_t n_layers; // of the model's, from the first on
    int32_t capacity; // cache columns (context + one tree, whole blocks)
    int32_t length = 0;
    lst::Array<uint8_t> k, v;   // [layer][kv head][capacity * head_dim numbers as lsk_cache has them]
    std::vector<float> rope[2]; // [capacity][rope_dims]: cos, sin, cos, sin, ...; of the usual and of the local layers
    double *parts = nullptr;    // see lst_parts
    lst::Floats x, xn, qkv, att, tmp, gate_up, act, logits_of; // [rows][...], grown on demand
    lst::Floats in_order;                                      // att or act in the order of a matrix's columns
    // With other ranks: this rank's part of att, tmp, act or x, and the parts of all ranks, one after another.
    lst::Floats mine, theirs;
    ExpertRows experts;
    std::exception_ptr failure; // of an exchange, or of reading an expert, within the forward
    lst::SpinBarrier barrier;
    Prepared xn_in, att_in, act_in;
    // In a forward of one row each thread computes the norms itself, which is faster than waiting for one thread.
    lst::Floats own; // [thread][3][n_embd]: its x, xn and what is added to x
    std::vector<Prepared> own_in;
    // the layer before which a forward ended that was cancelled or could not read an expert; -1: it ran to its end
    int32_t stopped = -1;
    // of a search: the first stage with a value that is not finite, 2 * layer, + 1 after its feed-forward part
    std::atomic<int32_t> first_bad{INT32_MAX};
    int32_t rows_cap = 0;
    lst::Floats scratch; // [thread][...]
    int64_t scratch_floats = 0;
    int32_t queries = 0;       // queries in one call of attention
    std::vector<int32_t> tail; // columns: of each row's ancestors and itself, or of all rows at consecutive positions
    // the last forward over a tree
    const int32_t *depth = nullptr;
    std::vector<int32_t> tail_begin; // per row
    std::vector<Move> moves;         // of keep; the next forward carries them out
    // Of the rows in logits_of: the first one of the last forward, and the last committed one, which a forward leaves
    // in its place (-1: not known).
    int32_t first_slot = 0, last_slot = -1;

    CpuKvCache(CpuModel *model, int32_t n_context, int32_t n_layers);
    int32_t prefill_rows(int32_t) const override { return PREFILL_ROWS; }
    void prefill(int32_t length, const int32_t *tokens, int32_t n, const lst_sampling *sampling,
                 lst_row *last) override;
    void forward(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth, int32_t n,
                 int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) override;
    void keep(int32_t length, const int32_t *rows, int32_t n) override;
    void rewind(int32_t n) override;
    void copy(lst::KvCache &from, int32_t n) override;
    void part_top(int32_t row, int32_t k, int32_t *ids, float *values) override;
    void part_logits(int32_t first, int32_t n, float *out) override;
    void time_parts(double *us) override { parts = us; }
    // Of this rank's part of the vocabulary.
    const float *row_logits(int32_t row) const {
        return logits_of.data() + (int64_t)(row < 0 ? last_slot : first_slot + row) * vocab();
    }
    int32_t vocab() const { return ls_range_size(m->part().vocab); }
    lsk_cache cache(int layer, int kv_head) const {
        const int64_t plane = (int64_t)layer * ls_range_size(m->part().kv_heads) + kv_head,
                      bytes = plane * capacity * m->hp.head_dim * (int64_t)m->kv_value_bytes();
        return {k.data() + bytes, v.data() + bytes, m->kv_bf16, m->hp.head_dim};
    }
};

// ---- lst_cpu_forward.cpp
// One block of rows: the position of each row's token and the positions that it sees.
struct Block {
    int32_t n;
    const int32_t *tokens;
    bool tree;             // else consecutive positions
    int32_t first;         // of a tree: its rows that were computed before
    int32_t head_row;      // -1: logits of every row; else of this row only
    bool searches = false; // for first_bad
};

void run_block(CpuKvCache &s, const Block &b);

// One of the threads that run the forward; phases end at a barrier.
struct Team {
    CpuKvCache &s;
    const int t, n;
    Clock clock;
    void meet(int part) {
        clock.past(part);
        s.barrier.meet(t, n);
        clock.past(LST_PART_WAIT);
    }
    template <class F> void each_of_share(int32_t rows, F &&body) const {
        const ls_range r = ls_share(rows, t, n);
        for (int32_t i = r.from; i < r.to; i++) body(i);
    }
    // Calls body(i) for each i < rows, in one of the threads.
    template <class F> void each_row(int part, int32_t rows, F &&body) {
        each_of_share(rows, body);
        meet(part);
    }
    // The tiles `share` of y = x . l for the rows of x from `first` on; prepare() saw `rows` of them. y's rows begin
    // with the first of these.
    void multiply_tiles(const lst::Linear &l, const float *x, const Prepared &p, float *y, int32_t rows, int32_t first,
                        int32_t count, ls_range share) const;
    // The same of this thread's share, which it returns; pairs stay together.
    ls_range multiply(const lst::Linear &l, const float *x, const Prepared &p, float *y, int32_t rows, int32_t first,
                      int32_t count) const {
        const ls_range share = ls_share_units(tiles_of(l), unit_of(l), t, n);
        multiply_tiles(l, x, p, y, rows, first, count, share);
        return share;
    }
    void linear(const lst::Linear &l, const float *x, const Prepared &p, float *y, int32_t rows) {
        multiply(l, x, p, y, rows, 0, rows);
        meet(LST_PART_LINEAR);
    }
    // Gives that many floats of s.mine to the other ranks and gets theirs, one rank's after another, in s.theirs. Every
    // thread calls it and sees whether it failed.
    bool exchange(int64_t floats);
    // Columns that ranks computed, each its own of every row (in s.mine), become whole rows; row(i) is called for each
    // of them. Does nothing where there are no other ranks. False: the exchange failed.
    template <class F>
    bool gather(int32_t rows, ls_range ls_shard::*of, int64_t scale, float *whole, int part_of_time, F &&row) {
        const CpuModel &m = *s.m;
        if (!m.ranks) return true;
        const int64_t of_each = rows * m.widest(of) * scale, width = (m.parts.back().*of).to * scale;
        if (!exchange(of_each)) return false;
        each_row(part_of_time, rows, [&](int32_t i) {
            for (size_t rank = 0; rank < m.parts.size(); rank++) {
                const ls_range columns = m.parts[rank].*of;
                const int64_t own = ls_range_size(columns) * scale;
                std::copy_n(s.theirs.data() + (int64_t)rank * of_each + i * own, own,
                            whole + i * width + columns.from * scale);
            }
            row(i);
        });
        return true;
    }
};

// ---- lst_cpu_experts.cpp
// Makes room for a block of that many rows.
void resize_experts(CpuKvCache &s, int32_t rows);
// The feed-forward part of a mixture: y from x ([rows][n_embd]; x_in prepared for prepared_for()). first_row: the
// number of the first row in s.chosen. Ends at a barrier. False: s.failure has why (an exchange, or an expert that
// cannot be read).
bool run_mixture(Team &team, lst::Mixture &mixture, int32_t first_row, int32_t rows, const float *x,
                 const Prepared &x_in, float *y);
// The matrix for whose input a layer's feed-forward part is prepared.
const lst::Linear &prepared_for(const lst::Layer &l);
// Carries out the moves of keep_path in the key/value heads [from, to) of a layer.
void move_kv(const CpuKvCache &s, int layer, int32_t first_head, int32_t end_head);

} // namespace lst::cpu
