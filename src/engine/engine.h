// What runs the target model. An engine is the model's weights and facts; a timeline is a conversation's keys and
// values. Timelines of one engine live side by side and share its weights. Types are those of the compute library's
// interface; the scripted model implements the same without it. An engine and its timelines are used by one thread at a
// time.
#pragma once
#include "base/err.h"
#include "torch/lst.h"

#include <stdbool.h>

// Progress of long work; return false to cancel. fraction is 0..1.
typedef bool (*ls_progress)(void *ud, const char *stage, double fraction);

typedef void (*ls_rows_taker)(void *ud, const lst_rows_seen *rows);

typedef struct ls_timeline ls_timeline;
typedef struct ls_engine ls_engine;
struct ls_engine {
    int32_t n_vocab, n_context; // n_context: tokens that a timeline holds
    int32_t n_layers;
    int32_t threads;                     // of a forward
    int32_t usual_threads, most_threads; // one for each core; what use_threads takes at most
    int32_t ranks;          // processes that share the weights; 0 and 1: this one has them all
    uint64_t kv_bytes;      // keys and values of a token, in this machine's memory; 0: elsewhere, or none
    int32_t kv_value_bytes; // of one of their numbers
    uint64_t weight_bytes, row_macs,
        head_macs; // read by a forward; multiply-adds of a row, its head included; 0: not known
    bool exact;    // a row's bits do not depend on the rest of the forward
    char device[32], dtype[24], kernel[128], version[48];
    bool slow; // this dtype is far slower here than another would be, whatever the number of rows
    // An empty one, which takes memory as it grows. layers: how many of the model's, from the first on, run before its
    // output head, so that it drafts for itself; 0: all.
    ls_code (*timeline)(ls_engine *e, int32_t layers, ls_timeline **out, ls_err *err);
    // Between forwards; no bit depends on it. NULL: the number is fixed.
    ls_code (*use_threads)(ls_engine *e, int32_t threads, ls_err *err);
    void (*close)(ls_engine *e); // after its timelines
};

struct ls_timeline {
    const ls_engine *engine;
    // See lst.h for the meaning of each.
    ls_code (*prefill)(ls_timeline *t, const int32_t *ids, int32_t n, const lst_sampling *s, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err);
    ls_code (*forward_tree)(ls_timeline *t, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err);
    // More rows of that tree; parents count the old rows too.
    ls_code (*grow_tree)(ls_timeline *t, const int32_t *ids, const int32_t *parents, int32_t n, const lst_sampling *s,
                         lst_row *rows, ls_err *err);
    ls_code (*row_top)(ls_timeline *t, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err);
    ls_code (*keep_path)(ls_timeline *t, const int32_t *rows, int32_t n, ls_err *err);
    ls_code (*rewind)(ls_timeline *t, int32_t n, ls_err *err);
    ls_code (*copy)(ls_timeline *t, ls_timeline *from, int32_t n, ls_err *err); // from: of the same engine
    int32_t (*length)(const ls_timeline *t);
    double (*device_us)(const ls_timeline *t); // of the last forward_tree, on a GPU; 0: there is none
    double (*ranks_us)(const ls_timeline *t);  // of it, in exchanges with other ranks; 0: there are none
    ls_code (*row_logits)(ls_timeline *t, int32_t row, float *logits, ls_err *err);
    // For tools; NULL: there are none. What lst_probe and lst_parts leave from now on.
    ls_code (*probe)(ls_timeline *t, float *layers, ls_err *err);
    ls_code (*parts)(ls_timeline *t, double *us, ls_err *err);
    // Hidden states of all rows of later forwards, see lst_hidden; one taker at a time. NULL: there are none.
    ls_code (*hidden)(ls_timeline *t, const int32_t *layers, int32_t n, ls_rows_taker take, void *ud, ls_err *err);
    void (*free)(ls_timeline *t);
};

enum { LS_MIN_CONTEXT = 512 }; // that is given whatever the memory

typedef struct {
    const char *device, *dtype, *weights, *kv; // kv NULL: auto
    const char *devices; // of the ranks that are to share the model: "cpu,cpu,..."; NULL or "": it is not shared
    bool alone;          // it is not shared, whatever started this process: a model that drafts for another
    int32_t threads;     // 0: one for each core, or what is measured to be faster (engine/threads.h)
    int32_t context;     // tokens; 0: the model's, as far as memory allows
    ls_progress progress;
    void (*note)(void *ud, const char *text); // what the user should know of the model on this machine; NULL: not told
    // Asked within long forwards: true ends them (LS_E_CANCELLED), as if they had not begun. NULL: nothing does.
    bool (*stop)(void *ud);
    void *ud; // of these three
} ls_engine_options;
