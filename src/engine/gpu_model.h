// A checkpoint as a GPU would hold it: what src/gpu/plan.h wants to know of it.
#pragma once
#include "gpu/plan.h"
#include "model/checkpoint.h"

// resident: of the device (lst_device_info, lsg_resident). own: what the device holds; NULL: all.
lsg_shape ls_gpu_shape(const ls_hparams *h, int32_t resident, const ls_part *own);

typedef struct {
    lsg_shape shape;
    lsg_format (*formats)[LSG_MATRICES]; // [shape.n_layers], the output head's in each
    uint64_t weight_bytes;               // of the device
} ls_gpu_model;

// weights: as in lst_open_options. Free with ls_gpu_model_free.
void ls_gpu_model_of(ls_gpu_model *out, const ls_checkpoint *c, const char *weights, int32_t resident,
                     const ls_part *own);
void ls_gpu_model_free(ls_gpu_model *m);
