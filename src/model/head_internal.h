// Shared by the readers of trained heads (head.c: folders; head_gguf.c).
#pragma once
#include "model/checkpoint_internal.h"
#include "model/head.h"

enum { LS_HEAD_MAX_VOCAB = 1 << 21 };

// Fills everything but h->d2t, own_embedding and own_output from a GGUF file, for a head whose weights are empty. *d2t:
// the tensor of the target's ids; its name stays NULL if the file has none. Shapes are not checked. Errors begin with
// the path.
ls_code ls_head_of_gguf(ls_head *h, const char *path, ls_tensor *d2t, ls_err *err);
