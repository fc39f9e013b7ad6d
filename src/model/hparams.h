// Hyper-parameters of a Llama-family decoder, read from GGUF metadata and checked against the tensors.
#pragma once
#include "model/gguf.h"

typedef struct {
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_context;
    float rope_base, rms_eps;
    bool tied; // the output head is the token embedding
} ls_hparams;

// Reads and validates; afterwards every tensor the decoder needs exists with the expected shape.
// LS_E_UNSUPPORTED for other architectures, LS_E_PARSE for missing or inconsistent values.
ls_code ls_hparams_read(ls_hparams *out, const ls_gguf *g, ls_err *err);
