// Shared by the files of both decoders. C++ stays inside this folder.
//
// lst_open.cpp reads a model's tensors, lst_kv_cache.cpp implements a KV cache and checks arguments; the program and
// liblstorch_cuda.so have both. Each device implements lst_model and KvCache: lst_cpu*.cpp or lst_cuda*.cpp.
#pragma once
#include "compute/lst_error.h"
#include "compute/lst_threads.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "base/rng.h"
#include "base/split.h"
#include "base/system.h"
#include "compute/kernels/gpu.h"
#include "compute/kernels/kernels.h"
#include "compute/lst.h"
}

namespace lst {

// Memory that begins at a cache line. Its values are not initialised; the system maps pages when they are written.
template <class T> class Array {
    struct Free {
        void operator()(T *p) const { std::free(p); }
    };
    std::unique_ptr<T, Free> p;
    size_t n = 0;

  public:
    Array() = default;
    explicit Array(int64_t size) : n((size_t)size) {
        enum : size_t { LINE = 64 };
        if (n > (SIZE_MAX - LINE) / sizeof(T)) throw std::bad_alloc();
        p.reset(static_cast<T *>(std::aligned_alloc(LINE, (n * sizeof(T) + LINE - 1) / LINE * LINE)));
        if (!p) throw std::bad_alloc();
    }
    explicit operator bool() const { return p != nullptr; }
    T *data() const { return p.get(); }
    size_t size() const { return n; }
};
using Floats = Array<float>;

// Consecutive outputs of a matrix that have one type in the file.
struct Stacked {
    int type; // ggml's
    int64_t n_out;
};

// A weight matrix as a device's kernels read it.
struct Linear {
    int32_t n_in = 0, n_out = 0;
    int32_t of_all = 0;         // the outputs of all ranks together
    Floats bias;                // [n_out], in host memory; empty: none
    std::vector<int32_t> order; // column k is that of input order[k]; empty: of input k
    // on the CPU
    bool paired = false;             // gate and up: blocks of LS_SHARD_FF outputs of the two halves lie in turn
    lsk_arith arith = LSK_ARITH_F32; // of its input
    struct Section {
        int32_t first;     // output, that of a tile
        lsk_matrix packed; // its bytes belong to the model
    };
    std::vector<Section> sections; // at least one
    // on a GPU
    lsg_matrix device{};
};

// The experts of a layer. The router has a row more for the shared expert's own logit, if the checkpoint has one.
struct Expert {
    Linear gate_up, down;
    int32_t stored = -1; // on the CPU: its number in the file that holds what is not in memory
};
struct Mixture {
    int32_t index; // among the model's mixtures
    Linear router;
    Floats choice_bias; // [n_experts], in host memory; empty: experts are chosen by their scores alone
    std::vector<Expert> experts;
    Expert shared; // n_out 0: none
};

// Vectors are f32 in host memory.
struct Layer {
    Linear qkv, out, gate_up, down; // gate_up and down are empty if the layer is a mixture
    std::unique_ptr<Mixture> mixture;
    // [n_embd], then as many biases of a layer norm; empty where the architecture has none: before a sublayer, and of
    // what it adds
    Floats attn_norm, attn_post_norm, ffn_norm, ffn_post_norm;
    Floats q_norm, k_norm; // of a head or of all of them
    Floats sinks;          // [heads of this rank]; empty: none
};

// Precision of a matmul's rounded input, for devices whose arithmetic has two. exact: floats, in bf16
// arithmetic those that were rounded for the layer's other matrices.
enum class Care { usual, more, exact };

// Calls f(linear) for the layer's matrices that every row multiplies, and of_expert(linear) for those of experts.
template <class L, class F, class G> void each_linear(L &layer, F &&f, G &&of_expert) {
    for (auto *l : {&layer.qkv, &layer.out}) f(*l);
    if (!layer.mixture) {
        for (auto *l : {&layer.gate_up, &layer.down}) f(*l);
        return;
    }
    f(layer.mixture->router);
    if (layer.mixture->shared.down.n_out)
        for (auto *l : {&layer.mixture->shared.gate_up, &layer.mixture->shared.down}) f(*l);
    for (auto &e : layer.mixture->experts)
        for (auto *l : {&e.gate_up, &e.down}) of_expert(*l);
}

// See lst_experts.
struct Chosen {
    int32_t layers = 0, used = 0;
    std::vector<int32_t> expert; // [row][layer][used]
    std::vector<float> weight;

    Chosen() = default;
    Chosen(const std::vector<Layer> &of, int32_t n_layers, int32_t n_used) : used(n_used) {
        for (int32_t i = 0; i < n_layers; i++) layers += of[(size_t)i].mixture != nullptr;
    }
    void resize(size_t rows) {
        const size_t n = rows * (size_t)layers * (size_t)used;
        expert.resize(n);
        weight.resize(n);
    }
    // Where a row's list begins; mixture: its number among those of the model.
    size_t at(int32_t row, int32_t mixture) const {
        return ((size_t)row * (size_t)layers + (size_t)mixture) * (size_t)used;
    }
};

// A device's part of a KV cache, and its forwards. lst_kv_cache.cpp has checked the arguments.
class KvCache {
  public:
    virtual ~KvCache() = default;
    // Largest number of rows of a prompt's block after `length` committed tokens.
    virtual int32_t prefill_rows(int32_t length) const = 0;
    // Commits n tokens at positions length ..; the last one becomes row -1 and *last describes it (NULL: only checks
    // that its logits are finite).
    virtual void prefill(int32_t length, const int32_t *tokens, int32_t n, const lst_sampling *sampling,
                         lst_row *last) = 0;
    // Whether the earlier rows are still valid after a forward fails.
    virtual bool keeps_rows() const { return true; }
    // A forward over a tree of n rows. The first `first` of them are those of the last forward, unchanged: rows
    // describes the others, but for their parent_lse. Leaves the root's parent_logit NAN if row -1 is not known.
    virtual void forward(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth, int32_t n,
                         int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) = 0;
    // Commits rows of the last forward, a path; its last one becomes row -1.
    virtual void keep(int32_t length, const int32_t *rows, int32_t n) = 0;
    // Keeps only the first n committed tokens.
    virtual void rewind(int32_t n) = 0;
    // Copies the first n committed tokens of another KV cache of the same model, which may first finish pending work.
    virtual void copy(KvCache &from, int32_t n) = 0;
    virtual void top(int32_t row, int32_t k, int32_t *ids, float *logits) = 0;
    virtual void logits(int32_t row, float *out) = 0; // all of them
    virtual void time_parts(double *) { throw Error(LST_E_ARG, "a GPU's forward is one graph: it has no parts"); }
    virtual double device_us() const { return 0; } // of the last forward
    // See lst_hidden. While it is set, a forward keeps its new rows' values [row][requested layer][n_embd]; on the CPU
    // in rows.
    struct {
        void (*take)(void *ud, const lst_rows_seen *rows) = nullptr;
        void *ud = nullptr;
        std::vector<int32_t> layers; // empty: nobody asks
        bool on_device = false;
        std::vector<float> rows;
    } hidden;
    virtual void hidden_changed() {} // its layers are others now; if this throws, nobody asks
    // Those values of the last forward, for rows first .. first + n - 1.
    virtual const float *hidden_rows(int32_t /*first*/, int32_t /*n*/) { return hidden.rows.data(); }
    Chosen chosen; // of the rows of the last forward, once fetch_chosen returns
    virtual void fetch_chosen() {}
    int32_t experts_read = 0; // of the last forward over a tree, from the file (lst_cpu_store.h)
    Stop stop;                // see lst_watch
};

// The error of a logit that is not finite. stage: 2 * layer, + 1 after its feed-forward part; INT32_MAX: none of them.
Error bad_logit(int32_t stage);

} // namespace lst

struct lst_model {
    ls_hparams hp{};
    std::string weights = "auto";
    int threads = 1, most_threads = 1; // of a forward: now, and at most (see lst_use_threads)
    std::vector<lst::Layer> layers;
    lst::Linear head;
    lst::Floats output_norm;
    uint64_t weight_bytes = 0, expert_bytes = 0; // of all weights, and of all experts of all layers
    int32_t n_mixtures = 0;                      // layers
    lst_ranks *ranks = nullptr;                  // nullptr: it is whole
    std::vector<ls_shard> parts;                 // of every rank
    const ls_shard &part() const;
    int64_t widest(ls_range ls_shard::*of) const; // of all ranks' parts
    // Rank 0's queued calls for the others (lst_ranks_calls.h).
    struct {
        bool lead = false; // see lst_lead
        std::vector<int32_t> words;
        int32_t caches = 0; // so far
    } calls;

    virtual ~lst_model();
    virtual void info(lst_model_info_t *info) const = 0;
    // leads: on rank 0, whose calls the other ranks repeat.
    virtual std::unique_ptr<lst::KvCache> kv_cache(int32_t n_context, int32_t n_layers, bool leads) = 0;

    // The heads, columns and tokens whose weights this rank loads: its part, and more if the device computes more.
    virtual ls_shard loaded_part() const { return part(); }
    // ---- loading, in this order for each matrix
    // Whether a matrix may have outputs of several types, each from a tile on; not if it is paired.
    virtual bool mixes() const { return false; }
    // For matrices that cannot have several types: a type that represents the values of all these exactly; rows are
    // then passed in the file's format. -1: there is none, and rows are passed as floats.
    virtual int common_type(const std::vector<lst::Stacked> &) const { return -1; }
    // The type in which columns of a file's other order are put in the inputs' order; -1: they keep it (Linear.order).
    virtual int type_in_order() const { return LS_GGML_BF16; }
    // The matrices up to expert_end are of an expert, one of n of its layer.
    virtual void expert_begin() {}
    virtual void expert_end(lst::Expert &, int32_t) {}
    // Allocates memory; false: a type or the shape is not supported.
    virtual bool matrix_begin(lst::Linear &l, const std::vector<lst::Stacked> &stacked, lst::Care care) = 0;
    // Raw rows, a tile's at a time; several threads at once.
    virtual void matrix_rows(lst::Linear &l, int64_t row, int ggml_type, const uint8_t *raw, int64_t n) = 0;
    virtual void matrix_end(lst::Linear &l) = 0;
    // The input embedding's rows in the same way; kept_type: of the output head, if both are one tensor. False: they
    // are looked up in the output head.
    virtual bool embedding_begin(const lst_tensor &t, int kept_type) = 0;
    virtual void embedding_rows(int64_t row, int ggml_type, const uint8_t *raw, int64_t n) = 0;
    virtual void embedding_end() {}
    virtual void loaded() = 0;
};

// What a caller may ask of a KV cache: the committed tokens, the rows of the last forward, and the checks of every
// call's arguments. lst.h has the contracts.
struct lst_kv_cache {
    lst_model *const m;
    const int32_t n_context, n_layers;
    const std::unique_ptr<lst::KvCache> cache;
    int32_t length = 0, n_rows = 0; // n_rows: of the last forward_tree
    double total_us = NAN;          // of it
    double ranks_us = 0;            // of it

    lst_kv_cache(lst_model *of, int32_t context, int32_t layers);
    void check_prompt(const int32_t *ids, int32_t n) const;
    // A piece of a prompt that was checked, of prefill_rows at most. last: NULL if another piece follows.
    void read(const int32_t *ids, int32_t n, const lst_sampling *sampling, lst_row *last);
    // n rows behind the first `first` of the last forward, which has these.
    void forward(int32_t first, const int32_t *ids, const int32_t *parents_of, int32_t n, const lst_sampling *sampling,
                 lst_row *rows);
    void keep(const int32_t *rows, int32_t n);
    void rewind(int32_t n);
    void copy(lst_kv_cache &from, int32_t n);
    void top(int32_t row, int32_t k, int32_t *ids, float *logits);
    void logits(int32_t row, float *out);

  private:
    std::vector<int32_t> tokens, parents, depth; // of the rows of the last forward_tree
    std::vector<float> lse;                      // theirs
    bool last_known = false;                     // row -1
    float last_lse = NAN;                        // of it
    void check_row(int32_t row) const;
    void place_row(int32_t i, int32_t token, int32_t parent);
    void show_rows(lst_rows_seen rows) const;
};

namespace lst {
float temperature(const ls_hparams &hp, int32_t position); // of queries, a factor beside attn_scale
int threads_of(int asked); // as many as were asked for, at most those that this process may use; 0: ls_cores
// An empty model on the device that opt names, with its arithmetic chosen (opt's fields are not NULL).
std::unique_ptr<lst_model> make_model(const ls_hparams &hp, const lst_open_options &opt);
} // namespace lst
