// Names of tensors: Hugging Face's to GGUF's, and which of them an architecture has.
#pragma once
#include "model/hparams.h"

// Converts a Hugging Face tensor name to GGUF's name in out ("": an unused tensor, such as a buffer); false: not known.
// sees: the model has a vision part, which is not used.
bool ls_tensor_name(const ls_arch *arch, bool sees, const char *hf, char *out, size_t size);
// Whether this program reads a tensor with that GGUF name in a model of that architecture.
bool ls_tensor_known(const ls_arch *arch, const char *name, int n_layers);
// The i-th norm of every layer ("attn_norm"); NULL: no more.
const char *ls_arch_norm(const ls_arch *arch, int i);
