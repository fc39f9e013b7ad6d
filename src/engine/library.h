// Loads the compute libraries (torch/lst.h) when they are first needed. Used by engine_torch.c, trained.c, device.c.
#pragma once
#include "engine/engine.h"
#include "torch/lst.h"

// The used functions of lst.h. The table, the loading and the types are generated from this list.
// clang-format off
#define LST_FUNCTIONS(X) \
    X(abi_version) X(last_error) X(limits) X(device) X(model_open) X(model_info) X(model_close) X(use_threads) \
    X(session_new) X(session_free) X(length) X(prefill) X(hidden) X(copy) X(forward_tree) X(grow_tree) \
    X(row_top) X(keep_path) X(rewind) X(row_logits) X(timings) X(probe) X(parts) X(watch) X(head_open) \
    X(head_close) X(head_bytes) X(draft_new) X(draft_free) X(draft_begin) X(draft_grow) X(draft_bytes) \
    X(head_guess) X(draft_logits) X(ranks_join) X(ranks_tell) X(ranks_meet) X(ranks_gather) X(ranks_lost) \
    X(ranks_leave) X(lead) X(follow)
// clang-format on

enum { LS_ON_CPU, LS_ON_GPU }; // one library per kind of device; a machine without a GPU does not load CUDA

typedef struct {
    void *handle;
#define X(name) __typeof__(&lst_##name) name;
    LST_FUNCTIONS(X)
#undef X
} ls_library;

// Libraries are never unloaded, because libtorch does not support it. kind: LS_ON_CPU or LS_ON_GPU.
ls_code ls_library_load(ls_library *lib, int kind, ls_err *err);
// Converts the status of an lst.h call to an ls_code, with the library's message.
ls_code ls_library_failed(const ls_library *lib, int code, ls_err *err);
// Whether the environment sets the path of the GPU library.
bool ls_library_for_gpus_is_set(void);

// Forwards a library's progress calls to an ls_progress. It must be the first member of the struct that ud points to.
typedef struct {
    ls_progress progress;
    void *ud;
} ls_relay;
int ls_relay_progress(void *ud, const char *stage, double fraction);

// An engine of ls_engine_torch_open.
typedef struct {
    ls_engine base;
    ls_library lib;
    lst_model *model;
    struct ls_ranks *ranks; // engine/ranks.h; NULL: the model is not shared
    bool leads;             // this is rank 0's engine, and it is open
    bool (*stop)(void *ud);
    void *stop_ud;
} ls_torch_engine;
