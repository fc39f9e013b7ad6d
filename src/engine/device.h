// The device of a model: finds the GPUs, checks whether the model fits, and sets the context; what the machine can do.
#pragma once
#include "base/split.h"
#include "engine/engine.h"
#include "engine/library.h"
#include "gpu/plan.h"
#include "model/checkpoint.h"

// The default context, in tokens: the model's context, limited to the tokens whose KV cache (kv_bytes each) fits into
// half of the memory (bytes; 0: not known).
int32_t ls_context_for(const ls_hparams *h, uint64_t kv_bytes, uint64_t memory);
// The largest size of one KV cache number on a CPU, in bytes. The final choice, bf16 or f32, follows the arithmetic,
// which is chosen when the weights are read.
int32_t ls_kv_value_bytes_most(const ls_engine_options *opt);
// Bytes of the weights in this CPU's memory with these values of --weights and --dtype. *experts (may be NULL): the
// experts' part.
uint64_t ls_cpu_weight_bytes(const ls_checkpoint *c, const char *weights, const char *dtype, uint64_t *experts);
// The same as these options keep them.
uint64_t ls_cpu_weights(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t *experts);
// Whether the whole model fits into `room` bytes (0: not known) on the CPU, with a context of opt->context tokens or
// the smallest one. LS_E_RANGE: the message says what takes how much, and what would fit.
ls_code ls_cpu_fits(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t room, ls_err *err);
// The default context, in tokens, once the weights are in these `room` bytes.
int32_t ls_cpu_context(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t room);
// What the model's weights will take of `room` bytes, where that is more than half; else "".
void ls_cpu_says(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t room, char *out, size_t size);
enum { LS_MAX_GPUS = 16 };
typedef struct {
    int n; // usable GPUs
    lst_device_info gpu[LS_MAX_GPUS];
    char problem[600]; // if n is 0: the reason
} ls_gpus;
// Finds the GPUs; loads the CUDA library only if the machine may have one.
void ls_gpus_look(ls_gpus *out);

typedef struct {
    char device[32]; // "cpu", "cuda" or "cuda:N"
    char why[600];
} ls_device_choice;
// Resolves "auto" to a device, or checks that the requested device can be used.
ls_code ls_device_choose(ls_device_choice *out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
// The default context on `device`. Call it after the weights are loaded, so that the free memory is known. own: the
// GPU's part of the model; NULL: the whole model. kv_bytes: KV cache bytes of a token on the CPU.
ls_code ls_device_context(int32_t *out, const lst_decoder *lib, const ls_checkpoint *c, const char *device,
                          const ls_shard *own, uint64_t kv_bytes, ls_err *err);

// ---- the layout of a checkpoint in GPU memory, as input of gpu/plan.h

// The matrix of a layer that a tensor, weights or biases, is a part of; LSG_MATRICES: none.
lsg_which ls_matrix_of(const ls_tensor *t, const ls_hparams *h);

typedef struct {
    lsg_shape shape;
    lsg_format (*formats)[LSG_MATRICES]; // [shape.n_layers], see lsg_step_costs
    uint64_t weight_bytes;               // of the device
} ls_gpu_model;

// weights: as in lst_open_options. Free with ls_gpu_model_free.
void ls_gpu_model_of(ls_gpu_model *out, const ls_checkpoint *c, const char *weights, lsg_gpu gpu, const ls_shard *own);
void ls_gpu_model_free(ls_gpu_model *m);

// Measures the processor's maximum bandwidth and arithmetic rates, see lst_limits. Takes about a second. threads 0: one
// for each core. bytes: read again and again; 0: more than caches hold. LS_E_RANGE: LOGITSPEC_CPU is no CPU level.
ls_code ls_limits_measure(lst_limits_t *out, int32_t threads, uint64_t bytes, ls_err *err);
