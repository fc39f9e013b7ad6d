// Where a model runs: which GPUs there are, whether it fits, and how much context it gets.
#pragma once
#include "base/split.h"
#include "engine/engine.h"
#include "engine/library.h"
#include "gpu/plan.h"
#include "model/checkpoint.h"

// Tokens of context that are given where none were asked for: the model's, as far as half of the memory (bytes; 0: not
// known) holds their keys and values, kv_bytes each.
int32_t ls_context_for(const ls_hparams *h, uint64_t kv_bytes, uint64_t memory);
// Of one of a key's or a value's numbers on a CPU, at most: arithmetic, and so bf16 or f32, is chosen when the weights
// are read.
int32_t ls_kv_value_bytes_most(const ls_engine_options *opt);
enum { LS_MAX_GPUS = 16 };
typedef struct {
    char name[128];
    uint64_t free_bytes, total_bytes;
    lsg_gpu of;
    bool compiled; // as in lst_device_info
} ls_gpu;
typedef struct {
    int n; // GPUs that can be used
    ls_gpu gpu[LS_MAX_GPUS];
    char problem[600]; // why there are none
} ls_gpus;
// What GPUs there are; loads the CUDA library only where there may be one.
void ls_gpus_look(ls_gpus *out);

typedef struct {
    char device[32]; // "cpu", "cuda" or "cuda:N"
    char why[600];
} ls_device_choice;
// Where a model will run: what "auto" means here, or whether what was asked for can be.
ls_code ls_device_choose(ls_device_choice *out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
// The context that is given on `device` where none was asked for; after the weights are there, so that what is left is
// known. own: what a GPU holds of the model; NULL: all. kv_bytes: on the CPU, of a token.
ls_code ls_device_context(int32_t *out, const ls_library *lib, const ls_checkpoint *c, const char *device,
                          const ls_part *own, uint64_t kv_bytes, ls_err *err);
