// The layout of a checkpoint in GPU memory, as input of src/gpu/plan.h.
#pragma once
#include "gpu/plan.h"
#include "model/checkpoint.h"

// own: the device's part of the model; NULL: the whole model.
lsg_shape ls_gpu_shape(const ls_hparams *h, lsg_gpu gpu, const ls_part *own);

typedef struct {
    lsg_shape shape;
    lsg_format (*formats)[LSG_MATRICES]; // [shape.n_layers], the output head's in each
    uint64_t weight_bytes;               // of the device
} ls_gpu_model;

// weights: as in lst_open_options. Free with ls_gpu_model_free.
void ls_gpu_model_of(ls_gpu_model *out, const ls_checkpoint *c, const char *weights, lsg_gpu gpu, const ls_part *own);
void ls_gpu_model_free(ls_gpu_model *m);
