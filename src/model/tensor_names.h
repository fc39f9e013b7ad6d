// What a tensor of a checkpoint is: Hugging Face's names to GGUF's, and whether an architecture has such a tensor.
#pragma once
#include "model/hparams.h"

// GGUF's name of a Hugging Face tensor into out; false: not known. out is "" where the tensor is not used (buffers).
bool ls_tensor_name(const ls_arch *arch, const char *hf, char *out, size_t size);
// Whether this program reads a tensor of that GGUF name in a model of n_layers.
bool ls_tensor_known(const char *name, int n_layers);
