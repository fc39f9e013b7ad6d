// What a tensor of a checkpoint is: Hugging Face's names to GGUF's, and whether an architecture has such a tensor.
#pragma once
#include "model/hparams.h"

// GGUF's name of a Hugging Face tensor into out; false: not known. out is "" where the tensor is not used (buffers).
// sees: the model has a part for pictures, which is not used.
bool ls_tensor_name(const ls_arch *arch, bool sees, const char *hf, char *out, size_t size);
// Whether this program reads a tensor of that GGUF name in such a model.
bool ls_tensor_known(const ls_arch *arch, const char *name, int n_layers);
// The i-th norm that every layer of it has ("attn_norm"); NULL: there are no more.
const char *ls_arch_norm(const ls_arch *arch, int i);
