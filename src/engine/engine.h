// The interface of a model that computes. An engine holds the weights and properties of a model; a KV cache
// holds the keys and values of a conversation. KV caches of one engine share its weights. The types are those of the
// compute library (compute/lst.h); the scripted model implements the same interface without it. An engine and its KV
// caches must be used by one thread at a time.
#pragma once
#include "base/err.h"
#include "compute/lst.h"

#include <stdbool.h>

typedef void (*ls_rows_taker)(void *ud, const lst_rows_seen *rows);

typedef struct ls_kv_cache ls_kv_cache;
typedef struct ls_engine ls_engine;
struct ls_engine {
    int32_t n_vocab, n_context; // n_context: largest number of tokens of a KV cache
    int32_t n_layers;
    int32_t n_local, window;             // layers that see at most the last `window` tokens; 0: none
    int32_t threads;                     // of a forward
    int32_t usual_threads, most_threads; // one for each core; the maximum for use_threads
    int32_t ranks;                       // processes that share the weights; 0 and 1: this process has all weights
    uint64_t kv_bytes;                   // KV cache bytes of a token in this machine's memory; 0: on a GPU, or none
    int32_t kv_value_bytes;              // bytes of one number of the KV cache
    uint64_t weight_bytes, row_macs,
        head_macs; // read by a forward; multiply-adds of a row, its head included; 0: not known
    // A mixture of experts: layers that are mixtures, a layer's experts, those of a row, and the bytes of one of one
    // layer; 0: none. weight_bytes has those of one row.
    int32_t n_mixtures, n_experts, n_experts_used;
    uint64_t expert_bytes, expert_memory; // of all experts in memory; 0: all are
    bool exact;                           // a row's bits do not depend on the rest of the forward
    char device[32], dtype[24], kernel[128], version[48];
    bool slow; // this dtype is far slower here than another dtype, at any number of rows
    // Makes an empty KV cache; it allocates memory as it grows. layers: run only the first layers before the output
    // head, so that the model drafts for itself; 0: all layers.
    ls_code (*kv_cache)(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err);
    // Call between forwards; the number of threads does not change any result. NULL: the number is fixed.
    ls_code (*use_threads)(ls_engine *e, int32_t threads, ls_err *err);
    void (*close)(ls_engine *e); // after its KV caches
};

struct ls_kv_cache {
    const ls_engine *engine;
    // See lst.h for the meaning of each.
    ls_code (*prefill)(ls_kv_cache *kv, const int32_t *ids, int32_t n, const lst_sampling *s, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err);
    ls_code (*forward_tree)(ls_kv_cache *kv, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err);
    // Adds rows to that tree; parent indices also count the earlier rows.
    ls_code (*grow_tree)(ls_kv_cache *kv, const int32_t *ids, const int32_t *parents, int32_t n, const lst_sampling *s,
                         lst_row *rows, ls_err *err);
    ls_code (*row_top)(ls_kv_cache *kv, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err);
    ls_code (*keep_path)(ls_kv_cache *kv, const int32_t *rows, int32_t n, ls_err *err);
    ls_code (*rewind)(ls_kv_cache *kv, int32_t n, ls_err *err);
    ls_code (*copy)(ls_kv_cache *kv, ls_kv_cache *from, int32_t n, ls_err *err); // from: of the same engine
    int32_t (*length)(const ls_kv_cache *kv);
    void (*timings)(const ls_kv_cache *kv, lst_timing *out); // experts_read -1: all experts are in memory
    ls_code (*row_logits)(ls_kv_cache *kv, int32_t row, float *logits, ls_err *err);
    ls_code (*experts)(ls_kv_cache *kv, lst_experts_seen *out, ls_err *err); // NULL: no mixture
    // For tools; NULL: not supported. From this call on, see lst_parts.
    ls_code (*parts)(ls_kv_cache *kv, double *us, ls_err *err);
    // Requests the hidden states of all rows of later forwards, see lst_hidden; one user at a time. NULL: unsupported.
    ls_code (*hidden)(ls_kv_cache *kv, const int32_t *layers, int32_t n, bool on_device, ls_rows_taker take, void *ud,
                      ls_err *err);
    void (*free)(ls_kv_cache *kv);
};

// Which experts of a mixture the rows of a forward woke. An expert is one of one layer: the same number in another
// layer is another expert.
// Counts the experts that the first n_rows rows (0: all rows) took, each once, in all layers. n_experts: of a layer.
// awake: [e->n_layers], those of each layer; alone: [n_rows], those that a row took and no other of these rows did.
// Both may be NULL.
int32_t ls_experts_count(const lst_experts_seen *e, int32_t n_rows, int32_t n_experts, int32_t *awake, int32_t *alone);

enum { LS_MIN_CONTEXT = 512 }; // minimum context in tokens, regardless of free memory

typedef struct {
    const char *device, *dtype, *weights, *kv; // kv NULL: auto
    const char *devices; // of the ranks that share the model: "cpu,cpu,..."; NULL or "": the model is not shared
    bool reference;      // by libtorch's operators instead of our kernels; not exact
    bool alone;          // do not share the model, even if a launcher started this process: for a draft model
    int32_t threads;     // 0: one for each core, or the measured faster number (engine/measured.h)
    int32_t context;     // tokens; 0: the model's context, limited by memory
    uint64_t
        expert_memory; // on the CPU, bytes for the experts of a mixture; the others are read on demand. 0: no limit
    ls_progress progress;
    void (*note)(void *ud, const char *text); // receives notes for the user about the model; may be NULL
    // Called during long forwards: true cancels the forward (LS_E_CANCELLED) and undoes it. May be NULL.
    bool (*stop)(void *ud);
    void *ud; // passed to these three functions
} ls_engine_options;

struct ls_checkpoint; // model/checkpoint.h
// Opens a model with a decoder: this program's kernels, on the CPU within the program or on a GPU by
// liblstorch_cuda.so, or libtorch's operators by liblstorch.so. Reads the weights; afterwards the checkpoint may be
// closed.
ls_code ls_engine_open(ls_engine **out, const struct ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
typedef struct {
    char level[128]; // of the CPU's kernels
    char torch[48];  // "libtorch ..."; "": it cannot be loaded, no_torch says why
    char no_torch[600];
} ls_compute_facts;
// Loads liblstorch.so, if it is there, and looks for the CPU's level; no model. LS_E_USAGE: LOGITSPEC_CPU is no CPU
// level.
ls_code ls_compute_look(ls_compute_facts *out, ls_err *err);
