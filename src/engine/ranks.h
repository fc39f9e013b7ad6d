// The ranks that share a model (torch/lst.h), found and kept for the life of the process: a process is one rank. Rank 0
// offers a model with its settings, the others open their parts of it, and everybody hears how that went.
#pragma once
#include "base/split.h"
#include "engine/engine.h"
#include "engine/launch.h"
#include "engine/library.h"
#include "model/checkpoint.h"

typedef struct {
    int32_t n; // ranks; 1: this process has the whole model
    bool launched;
    int32_t gpu[LST_MAX_RANKS]; // of each rank, -1: the CPU; of a launcher's only the first, this process's
} ls_devices;
// What a list names: "cpu,cpu,...", "0,1,..." and "cuda:0,cuda:1,..." (GPUs), or a number of ranks on `device` ("auto",
// "cpu", "cuda"). "": one.
ls_code ls_devices_read(ls_devices *out, const char *devices, const char *device, ls_err *err);

// The ranks that shall share the model: those of opt->devices, or a launcher's.
ls_code ls_ranks_wanted(ls_devices *out, const ls_engine_options *opt, ls_err *err);
// This rank's part of a model, and what it holds of it: a GPU may compute more heads (gpu/plan.h).
ls_part ls_rank_holds(const ls_hparams *h, int rank, int n, bool gpu);

typedef struct ls_ranks ls_ranks;
// Rank 0: those that opt->devices names, which it starts, or that a launcher started. *out NULL: this process has the
// whole model. A later call gets the same ones, or new ones where one was lost.
ls_code ls_ranks_get(ls_ranks **out, const ls_library *lib, const ls_engine_options *opt, ls_err *err);
void ls_ranks_take(ls_ranks *r);                           // for a model; one at a time
void ls_ranks_release(ls_ranks *r, const ls_library *lib); // that model is closed; r must not be used any more
lst_ranks *ls_ranks_group(const ls_ranks *r);
int32_t ls_ranks_beside(const ls_ranks *r);                    // on this machine
void ls_ranks_device(const ls_ranks *r, char out[32]);         // this rank's: "cpu" or "cuda:N"
ls_part ls_ranks_part(const ls_ranks *r, const ls_hparams *h); // what this rank holds
// Rank 0 asks the others to open this model; all must have the same program, file, settings and kind of CPU.
ls_code ls_ranks_offer(ls_ranks *r, const ls_library *lib, const ls_checkpoint *c, const ls_engine_options *opt,
                       ls_err *err);
// How many of the model's heads of keys and values the ranks of this machine hold: more than it has where ranks have
// some in common.
int32_t ls_ranks_kv_heads(const ls_ranks *r, const ls_hparams *h);
typedef struct {
    char how[96];    // it computes: kernels and arithmetic, which must be the same everywhere
    int32_t context; // that this machine has memory for
} ls_rank_part;
// All ranks say how their part went (own, and err's message), and wait for each other as long as they live; LS_OK:
// everybody's went well. Rank 0's err names a rank; own's err stays. part (NULL: none yet): in this rank's, out the
// least context.
ls_code ls_ranks_agree(ls_ranks *r, const ls_library *lib, ls_code own, ls_rank_part *part, ls_err *err);
// Adds to a line about the engine: ", 2 ranks", and on how many machines.
void ls_ranks_tell_of(const ls_ranks *r, char *line, size_t size);
// After a failure: if an exchange failed, which rank was lost and how, in err's place.
ls_code ls_ranks_failed(ls_ranks *r, const ls_library *lib, ls_code code, ls_err *err);

// What an exchange takes, in which every rank gets some bytes from each other one.
typedef struct {
    int32_t n;
    double small_us, large_us; // medians: of LS_RANKS_SMALL and of LS_RANKS_LARGE bytes from each rank
    char hosts[300];           // of rank 0, 1, ...
} ls_ranks_speed;
enum { LS_RANKS_SMALL = 4096, LS_RANKS_LARGE = 1 << 20 };
// Starts or finds the ranks that opt asks for and measures; all of them take part.
ls_code ls_ranks_try(ls_ranks_speed *out, const ls_engine_options *opt, ls_err *err);

// ---- on the other ranks
ls_code ls_ranks_join(ls_ranks **out, const ls_library *lib, const ls_rank_place *place, ls_err *err);
typedef struct {
    char program[64], level[96]; // version; level of the CPU's kernels, or kind of GPU
    char model[1024], sha256[65];
    char dtype[16], weights[16], kv[16];
    int32_t threads;
} ls_rank_offer; // model "": no model, exchanges are measured
// What this rank has of an offer: program, level, model and its SHA-256 (progress as of ls_model_hash).
ls_code ls_rank_describe(ls_rank_offer *out, const ls_ranks *r, const ls_library *lib, const ls_checkpoint *c,
                         ls_progress progress, void *ud, ls_err *err);
// Takes part in rank 0's ls_ranks_try.
ls_code ls_ranks_measure(ls_ranks *r, const ls_library *lib, ls_ranks_speed *out, ls_err *err);
// Waits for rank 0's next model. LS_E_CANCELLED: it has ended.
ls_code ls_ranks_wait(ls_ranks *r, const ls_library *lib, ls_rank_offer *out, ls_err *err);
