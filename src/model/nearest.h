// What a model of an unknown architecture has in common with the known ones: the nearest by kinds of tensors, for the
// message that refuses it.
#pragma once
#include "model/hparams_read.h"

typedef struct { // names of tensors, each number in them replaced by 0, once each; zeros: none
    char **names;
    int n;
} ls_tensor_kinds;

void ls_tensor_kinds_add(ls_tensor_kinds *k, ls_str name);
void ls_tensor_kinds_free(ls_tensor_kinds *k);
// Completes err's message, which says that the architecture `name` is not supported: the nearest known one,
// the kinds of tensors that differ, and what to do. hf: names are those of a folder, otherwise of a GGUF file.
void ls_nearest_say(const ls_tensor_kinds *k, ls_str name, bool hf, ls_err *err);
