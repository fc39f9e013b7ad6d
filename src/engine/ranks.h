// The ranks that share a model (compute/lst.h). A process is one rank until it ends. Rank 0 offers a model with its
// settings, the other ranks open their parts of it, and all ranks exchange the results.
#pragma once
#include "base/split.h"
#include "engine/engine.h"
#include "engine/launch.h"
#include "engine/library.h"
#include "model/checkpoint.h"

typedef struct {
    int32_t n; // ranks; 1: this process has the whole model
    bool launched;
    int32_t gpu[LST_MAX_RANKS]; // GPU of each rank, -1: the CPU; with a launcher only gpu[0] is set, for this process
} ls_devices;
// Parses --devices: "cpu,cpu,...", "0,1,..." or "cuda:0,cuda:1,..." (GPUs), or a number of ranks on `device` ("auto",
// "cpu", "cuda"). "": one rank.
ls_code ls_devices_read(ls_devices *out, const char *devices, const char *device, ls_err *err);

// The devices of the ranks that share the model, from opt->devices or from a launcher.
ls_code ls_ranks_wanted(ls_devices *out, const ls_engine_options *opt, ls_err *err);
// This rank's part of a model, and the part in its memory: a GPU may compute more heads (gpu/plan.h).
ls_shard ls_rank_holds(const ls_hparams *h, int rank, int n, bool gpu);

typedef struct ls_ranks {
    ls_rank_env own;
    ls_devices devices;     // the requested devices
    const lst_decoder *lib; // of the group
    lst_ranks *group;
    ls_children *children;  // NULL: a launcher started the other ranks
    bool in_use;            // by an open model; one model at a time
    bool (*stop)(void *ud); // of the caller of the last ls_ranks_get; NULL: none, and always on other ranks
    void *ud;
    char host[LST_MAX_RANKS][64];
} ls_ranks;
// On rank 0: starts the ranks of opt->devices, or connects to a launcher's. *out NULL: this process has the whole
// model. A later call returns the same ranks, or new ones if a rank was lost.
ls_code ls_ranks_get(ls_ranks **out, const lst_decoder *lib, const ls_engine_options *opt, ls_err *err);
void ls_ranks_release(ls_ranks *r); // call when the model that uses them is closed; r is invalid afterwards
// Rank 0 asks the other ranks to open this model; all need the same program, file, settings and kind of CPU.
ls_code ls_ranks_offer(ls_ranks *r, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
// The number of key/value heads in the memory of this machine's ranks; more than the model has if ranks have some in
// common.
int32_t ls_ranks_kv_heads(const ls_ranks *r, const ls_hparams *h);
typedef struct {
    char how[96];    // kernels and arithmetic, which must be equal on all ranks
    int32_t context; // tokens that fit into this machine's memory
} ls_rank_part;
// Collective call: each rank sends its result (own, and err's message) and waits for all running ranks. LS_OK: all
// succeeded. On rank 0 err names the rank that failed; on others it keeps the own error. part (NULL: none yet): in:
// this rank's; out: the smallest context of all.
ls_code ls_ranks_agree(ls_ranks *r, ls_code own, ls_rank_part *part, ls_err *err);
// Appends to a description of the engine: ", 2 ranks", and the number of machines.
void ls_ranks_tell_of(const ls_ranks *r, char *line, size_t size);
// Call after a failure. If an exchange failed, replaces err with the lost rank and how it was lost.
ls_code ls_ranks_failed(ls_ranks *r, ls_code code, ls_err *err);

// The time of an exchange in which every rank receives bytes from each other rank.
typedef struct {
    int32_t n;
    double small_us, large_us; // medians, for LS_RANKS_SMALL and LS_RANKS_LARGE bytes from each rank
    char hosts[300];           // of rank 0, 1, ...
} ls_ranks_speed;
enum { LS_RANKS_SMALL = 4096, LS_RANKS_LARGE = 1 << 20 };
// Starts or connects to the ranks of opt and measures; a collective call.
ls_code ls_ranks_try(ls_ranks_speed *out, const ls_engine_options *opt, ls_err *err);

// The main loop of a rank other than 0: opens its part of every model that rank 0 offers, and repeats rank 0's calls.
// Returns when rank 0 has ended (LS_OK) or an exchange failed.
ls_code ls_follow(ls_err *err);
