/* The C interface of what computes: a decoder on the CPU, which is part of the program; a decoder on GPUs
 * (liblstorch_cuda.so); and what needs libtorch's operators or process groups (liblstorch.so). The two libraries are
 * built from the program's own sources and loaded with dlopen when they are first needed.
 *
 * Rules: C types only; no exception crosses the interface. A call that can fail returns 0 or a negative LST_E_ code;
 * then last_error() of the same table has the message for the calling thread (valid until that thread's next call).
 * Numbers are checked; pointers must be valid. Arrays belong to the caller and are read or written during the call
 * only, except the tensor data given to lst_model_open, which must stay until lst_model_close. A model may be shared by
 * KV caches; a KV cache is used by one thread at a time.
 */
#pragma once
#include "base/err.h"
#include "model/hparams.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with each change of this file, ls_hparams or ls_head. A library's table has this number in its name, so that
 * one of other sources is not taken for one of these. */
#define LST_VERSION 25
#define LST_ROW_TOP 8    /* ranks returned for every row */
#define LST_MAX_ROWS 256 /* rows of one tree */

enum {
    LST_OK = 0,
    LST_E_ARG = -1,
    LST_E_MEMORY = -2,
    LST_E_BACKEND = -3,
    LST_E_CANCELLED = -4,
    LST_E_NAN = -5,
    LST_E_READ = -6
};

typedef struct lst_model lst_model;
typedef struct lst_kv_cache lst_kv_cache;

typedef struct {
    const char *name; /* GGUF name, NUL-terminated */
    int32_t type;     /* ggml's number of a type in base/ggml.h */
    int64_t n_in;     /* values of a row (the fastest dimension) */
    int64_t n_out;    /* rows; 1 for a vector */
    const void *data; /* NULL: read by lst_open_options.read */
    uint64_t n_bytes;
    /* [n_in], each input once: column k of the rows is that of input order[k]. NULL: of input k. Only
     * attention's matrices and those of a dense feed-forward part may have one, and those of one input the same. */
    const int32_t *order;
} lst_tensor;

/* ---- Ranks: processes that share one model (tensor parallel), on CPUs or GPUs. They exchange data through shared
 * memory or through a wire that a library gives. Each rank has some heads, some columns of the feed-forward part and
 * some tokens of the vocabulary. Rank 0's caller decodes; the other ranks repeat its calls (lst_follow). One rank
 * computes the complete sum of each matmul output from gathered inputs, so the result has the same bits for any number
 * of ranks. A rank is used by one thread at a time. */
typedef struct lst_ranks lst_ranks;
enum { LST_MAX_RANKS = 64, LST_MAC = 64, LST_PIECE = 1 << 18 };
/* Why an exchange failed. */
typedef struct {
    int32_t rank; /* with which it failed; -1: with none of them */
    char why[400];
} lst_lost;
/* A way to exchange at most LST_PIECE bytes at a time, all ranks in the same order. Calls return 0 or an LST_E_ code,
 * then *lost is set. */
typedef struct {
    void *self;
    /* A barrier. stop (may be NULL): true ends the wait (LST_E_CANCELLED). */
    int (*meet)(void *self, bool (*stop)(void *ud), void *ud, lst_lost *lost);
    /* Rank r's bytes go to all + r * stride. */
    int (*gather)(void *self, const void *mine, int64_t size, char *all, int64_t stride, lst_lost *lost);
    int (*tell)(void *self, void *data, int64_t size, lst_lost *lost); /* rank 0's, to all ranks */
    void (*close)(void *self);
} lst_wire;
typedef struct {
    int32_t rank, n;
    const lst_wire *wire; /* closed by lst_ranks_leave. NULL: ranks of one machine, by the next field */
    int32_t memory;       /* the descriptor of an empty memfd, shared by all ranks. It is not closed. */
    int32_t timeout_ms;   /* for one exchange, and for connecting */
    /* Called while the ranks connect; true cancels (LST_E_CANCELLED); may be NULL. */
    bool (*stop)(void *ud);
    void *ud;
} lst_ranks_options;
/* Waits until all ranks have connected. The last error names the rank that is missing or has another token. */
int lst_ranks_join(lst_ranks **out, const lst_ranks_options *opt);
/* Sends rank 0's n bytes to all ranks. The others wait for them as long as rank 0 is running. */
int lst_ranks_tell(lst_ranks *r, void *bytes, int32_t n);
/* Gathers n bytes of each rank into all ([ranks][n]), on every rank. */
int lst_ranks_gather(lst_ranks *r, const void *mine, int32_t n, void *all);
/* A barrier: returns when all ranks have called it. Waits as long as they are running; for ranks started by a launcher
 * at most 60 times timeout_ms. stop (may be NULL): true cancels the wait (LST_E_CANCELLED) and all
 * exchanges. */
int lst_ranks_barrier(lst_ranks *r, bool (*stop)(void *ud), void *ud);
/* The first rank with which an exchange failed; after that there are no more exchanges. -1: none failed. */
int32_t lst_ranks_lost(const lst_ranks *r);
void lst_ranks_leave(lst_ranks *r); /* call it after closing its models */

typedef struct {
    const char *device; /* "auto" (the library's first), "cpu", "cuda", "cuda:1", ... */
    /* On the CPU "auto", "f32", "i16", "i8" (matmul inputs as integers), "bf16"; on a GPU "auto", "bf16". All are
     * exact. */
    const char *dtype;
    /* Format of the weights: "auto" (as in the file), or "f32", "bf16", "f16", "q8" (8 bits, a scale per 32 values),
     * "q4" (4 bits, a scale and a minimum per 32 values). */
    const char *weights;
    /* Format of the KV cache: "auto" (bf16; f32 if the arithmetic is f32), "bf16", and on the CPU "f32". */
    const char *kv;
    int32_t threads;      /* 0: one for each core that this process may use (base/system.h), until lst_use_threads */
    ls_progress progress; /* may be NULL */
    void *progress_ud;
    /* Copies n bytes of tensors[i], starting at byte `at`, to dst. Called by several threads at once. Returns 0;
     * another value means an error (LST_E_READ). */
    int (*read)(void *ud, int32_t i, uint64_t at, uint64_t n, void *dst);
    void *ud;
    lst_ranks *ranks; /* NULL: this process has the whole model. Must stay until lst_model_close. */
    int32_t beside;   /* if threads is 0: number of ranks on this machine; 0 and 1: only this one */
    /* On the CPU: memory for the experts of a mixture, in bytes. The others are read from a file without a name in
     * expert_folder when a row takes them. 0: all are in memory. LST_E_ARG: less than a layer's experts need. */
    uint64_t expert_memory;
    const char *expert_folder;
} lst_open_options;

typedef struct {
    char device[32];
    char dtype[24];         /* e.g. "i8"; "i8 kv f32" if the KV cache has not the default format */
    char kernel[128];       /* e.g. "avx512, f32 from packed weights" */
    int32_t kv_value_bytes; /* bytes of one number of the KV cache */
    char weights[16];
    char version[48];      /* of the program, or of libtorch and CUDA */
    int32_t threads;       /* of a forward */
    int32_t most_threads;  /* maximum for lst_use_threads */
    int32_t exact;         /* 1: a row's bits depend on its token, position and ancestors only */
    uint64_t weight_bytes; /* read by a forward, for any number of rows; of a mixture: by a forward of one row */
    uint64_t expert_bytes; /* of one expert of one layer, on average; 0: no mixture */
    int32_t n_mixtures;    /* layers that are mixtures */
    uint64_t head_macs;    /* multiply-adds of the output head, which a prefill runs once */
    uint64_t row_macs;     /* multiply-adds of a row with weights */
    char slow[160];        /* why this dtype is far slower here than another one; "": it is not slow */
    int32_t ranks;         /* number of ranks; weight_bytes, head_macs and row_macs are of this rank's part */
} lst_model_info_t;

/* How a token is chosen from a row's logits. temperature 0: argmax, ties to the lower id. Otherwise softmax of
 * logits / temperature over the top_k best (0: all), cut to the smallest set of probability >= top_p, and the
 * inverse of its cumulative distribution at u = Philox4x32-10(seed, absolute position of the chosen token). */
typedef struct {
    double temperature;
    int32_t top_k;
    double top_p;
    uint64_t seed;
} lst_sampling;

typedef struct {
    int32_t chosen;     /* the token that follows this row */
    float chosen_logit; /* raw */
    float parent_logit; /* raw logit of this row's own token at its parent row (at the root: at the last row kept) */
    float parent_lse;   /* log-sum-exp there; parent_* are NAN when that row is not known (after a rewind) */
    float lse;          /* log-sum-exp of this row's raw logits */
    float entropy;      /* nats, of the softmax of the raw logits */
    int32_t top_id[LST_ROW_TOP]; /* best first; ties: lower id first */
    float top_logit[LST_ROW_TOP];
} lst_row;

const char *lst_last_error(void);

typedef struct {
    char name[128]; /* a GPU's, or the level of the CPU's kernels ("amx", "neoni8mm", ... "portable"; LOGITSPEC_CPU
                       lowers it) */
    uint64_t free_bytes, total_bytes;    /* of its own memory; 0 on the CPU */
    int32_t multiprocessors, shared_kib; /* of a GPU; shared memory of one (gpu/plan.h); 0 on the CPU */
    int32_t compiled;                    /* 0: the driver must compile the kernels for this GPU at the first start */
    char version[48];                    /* as in lst_model_info_t */
} lst_device_info;
/* Device i = 0, 1, ... of this library; LST_E_ARG: no such device (for i = 0 lst_last_error says why). */
int lst_device(int32_t i, lst_device_info *info);

/* Measures the maximum rates of this processor with this number of threads (0: one for each core): the fastest of some
 * runs, about a second in all. They give a lower bound for the time of a forward. bytes: of memory that is read again
 * and again, as weights are, which a large cache may hold; 0: more than caches hold. LST_E_ARG: this is the GPU
 * library.
 */
typedef struct {
    int32_t threads;
    double read_gb_per_s;                                    /* 10^9 bytes, in large pages where the system has them */
    double f32_gmac_per_s, int8_gmac_per_s, bf16_gmac_per_s; /* 10^9 multiply-adds on registers alone, by the
                              instructions of the arithmetics' matmuls; 0: this CPU's level has none */
} lst_limits_t;
int lst_limits(int32_t threads, uint64_t bytes, lst_limits_t *out);
/* Bytes that a matrix takes in this CPU's memory with this dtype ("auto": that of lst_model_open for heads of that
 * size); 0: it cannot be packed. *rows (may be NULL): 1 if the input embedding can be read from it. Only in the
 * program.
 */
uint64_t lst_packed_bytes(int32_t type, int64_t n_out, int64_t n_in, const char *dtype, int32_t head_dim,
                          int32_t *rows);

/* A decoder of the Llama family. hp is copied; *hp->arch must stay. */
int lst_model_open(lst_model **out, const ls_hparams *hp, const lst_tensor *tensors, int32_t n_tensors,
                   const lst_open_options *opt);
int lst_model_info(const lst_model *m, lst_model_info_t *info);
void lst_model_close(lst_model *m);
/* Sets the number of threads of later forwards: 1 to most_threads of lst_model_info (the requested number, or if that
 * was 0 all processors that this process may use). Results do not depend on it. Call it between forwards. It has no
 * effect on a GPU. LST_E_ARG: the number is out of range. */
int lst_use_threads(lst_model *m, int32_t threads);
/* Call it on rank 0 when all ranks have opened their parts: the others follow from now on, until this model is closed.
 */
void lst_lead(lst_model *m);
/* On a rank other than 0: repeats rank 0's calls until it closes its model. Not 0: an exchange failed. */
int lst_follow(lst_model *m);

/* A KV cache for n_context committed tokens and one tree. n_layers: run only the first layers before the
 * output norm and head, so that the model drafts for itself; 0: all layers. */
int lst_kv_cache_new(lst_kv_cache **out, lst_model *m, int32_t n_context, int32_t n_layers);
void lst_kv_cache_free(lst_kv_cache *s);
int32_t lst_length(const lst_kv_cache *s); /* committed tokens */

/* Appends n tokens to the committed context; *last describes the row of the last one. On cancel or error the tokens of
 * finished chunks are removed again. */
int lst_prefill(lst_kv_cache *s, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last,
                ls_progress progress, void *ud);
/* One forward over a tree on top of the committed context: row i sees the context, its ancestors and itself, at
 * position length + depth. parents[0] = -1 and parents[i] < i. Nothing is committed; a later call replaces it. */
int lst_forward_tree(lst_kv_cache *s, const int32_t *tokens, const int32_t *parents, int32_t n,
                     const lst_sampling *sampling, lst_row *rows);
/* Adds n rows after those of the last lst_forward_tree, whose results are kept. The parent may be any earlier row, so
 * parents[i] also counts the old rows (a new row cannot be a root). rows[i] describes new row i. On an error the old
 * rows are kept, except on a GPU. */
int lst_grow_tree(lst_kv_cache *s, const int32_t *tokens, const int32_t *parents, int32_t n,
                  const lst_sampling *sampling, lst_row *rows);
/* The k best (ids, raw logits) of a row of the last forward_tree, or with row -1 of the last row committed
 * (by prefill or keep_path). k <= 256. */
int lst_row_top(lst_kv_cache *s, int32_t row, int32_t k, int32_t *ids, float *logits);
/* All raw logits of a row as above (n_vocab floats); for tests and tools. */
int lst_row_logits(lst_kv_cache *s, int32_t row, float *logits);
/* Commits rows of the last forward_tree: a path from the root, in order. The last one becomes row -1. */
int lst_keep_path(lst_kv_cache *s, const int32_t *rows, int32_t n);
/* Calls stop before every later forward and, on the CPU without other ranks, between its layers. True cancels
 * the forward and undoes it (LST_E_CANCELLED). NULL: no more calls. */
int lst_watch(lst_kv_cache *s, bool (*stop)(void *ud), void *ud);
/* Keeps only the first n committed tokens (row -1 is then unknown, unless these are all). */
int lst_rewind(lst_kv_cache *s, int32_t n);
/* Replaces the committed tokens by the first n of another KV cache of the same model and layers; row -1 is then
 * unknown. Later results have the same bits as after a prefill of the same tokens. */
int lst_copy(lst_kv_cache *s, lst_kv_cache *from, int32_t n);
typedef struct {
    double total_us;  /* of the last forward_tree */
    double device_us; /* the GPU's share, from the first copy to the last; 0 on the CPU */
    double ranks_us;  /* rank 0's exchanges with the other ranks; 0: there are none */
    int32_t
        experts_read; /* with expert_memory: of the experts that lst_experts has, those read from the file; else 0 */
} lst_timing;
int lst_timings(const lst_kv_cache *s, lst_timing *out);

/* Rows of a forward with their hidden states, for a model that drafts from them. Pointers are valid until the KV
 * cache's next forward. */
typedef struct {
    int32_t tree; /* 1: rows of lst_forward_tree or lst_grow_tree; 0: tokens of lst_prefill, which takes them back if a
                     later piece fails */
    int32_t length;         /* the position of a tree's root, or of the first token */
    int32_t first, n_rows;  /* a tree's rows first .. first + n_rows - 1; first is 0 otherwise */
    const int32_t *tokens;  /* [n_rows] */
    const int32_t *parents; /* [n_rows], as in lst_forward_tree; NULL: consecutive tokens */
    const float *values;    /* [n_rows][layers asked for][n_embd]; see on_device */
} lst_rows_seen;
/* Every later forward that succeeds calls `take` once with all of its rows (a prefill once for each of its pieces),
 * from within the call. layers: n stages in this order, each 0 (after the embedding), i (after the KV cache's layer i)
 * or the number of layers + 1 (after the output norm, as input of the output head: rounded to bf16 with that dtype). A
 * row's values depend only on its token, position and ancestors. NULL: no more calls, and no cost for forwards.
 * on_device: 1: the values are in the memory of the model's device (on a CPU the host's), whose work on them is
 * complete; 0: in the host's. LST_E_MEMORY: a GPU has no room for them; then there are no calls. */
int lst_hidden(lst_kv_cache *s, const int32_t *layers, int32_t n, int32_t on_device,
               void (*take)(void *ud, const lst_rows_seen *rows), void *ud);

/* The experts of a mixture that the rows of the last forward took: of all rows of lst_forward_tree and lst_grow_tree,
 * or of the last piece of a prompt. Pointers are valid until the KV cache's next forward. */
typedef struct {
    int32_t n_rows, n_layers, n_used; /* n_layers: mixtures among the KV cache's layers, in order; 0: none */
    const int32_t *expert;            /* [n_rows][n_layers][n_used], best first, with the biases of the choice */
    const float *weight;              /* of the experts' outputs in the row's sum, in the same order */
} lst_experts_seen;
int lst_experts(lst_kv_cache *s, lst_experts_seen *out);

/* The parts of a forward's time on the CPU, measured in its first thread. */
enum {
    LST_PART_NORMS,      /* embedding, residuals, norms, and inputs of matmuls rounded */
    LST_PART_LINEAR,     /* the layers' matmuls */
    LST_PART_ROTATE,     /* rotary embedding, and writing keys and values */
    LST_PART_ATTENTION,  /* attention, and rounding its output */
    LST_PART_ACTIVATION, /* activation, and rounding its output; of mixtures it counts as LINEAR */
    LST_PART_HEAD,       /* the output head's matmul */
    LST_PART_ROWS,       /* log-sum-exp, best tokens, sampling */
    LST_PART_RANKS,      /* exchanges with other ranks */
    LST_PART_WAIT,       /* waiting for other threads */
    LST_PARTS
};
/* Every later forward adds its microseconds to us[LST_PARTS] (owned by the caller; NULL: no more); for tools.
 * LST_E_ARG on a GPU, whose forward is one graph. */
int lst_parts(lst_kv_cache *s, double *us);

/* All functions of a decoder. The CPU's are linked into the program; a library exports them as one table. */
// clang-format off
#define LST_DECODER(X) \
    X(last_error) X(limits) X(device) X(model_open) X(model_info) X(model_close) X(use_threads) X(lead) X(follow) \
    X(kv_cache_new) X(kv_cache_free) X(length) X(prefill) X(forward_tree) X(grow_tree) X(row_top) X(row_logits) \
    X(keep_path) X(rewind) X(copy) X(timings) X(watch) X(hidden) X(experts) X(parts) \
    X(ranks_join) X(ranks_tell) X(ranks_gather) X(ranks_barrier) X(ranks_lost) X(ranks_leave)
// clang-format on
#define LST_POINTER(name) __typeof__(&lst_##name) name;
#define LST_ENTRY(name) .name = lst_##name,
typedef struct {
    LST_DECODER(LST_POINTER)
} lst_decoder;
#define LST_VERSIONED(name, version) name##_##version
#define LST_NAMED(name, version) LST_VERSIONED(name, version)
#define lst_decoder_table LST_NAMED(lst_decoder, LST_VERSION)
__attribute__((visibility("default"))) extern const lst_decoder lst_decoder_table;

#ifdef __cplusplus
}
#endif
