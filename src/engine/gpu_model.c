#include "engine/gpu_model.h"
#include "base/ggml.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Maps the name of a layer's tensor to the matrix that it is stacked into.
static const struct {
    const char *part;
    lsg_which which;
} parts[] = {{"attn_q", LSG_QKV},      {"attn_k", LSG_QKV},       {"attn_v", LSG_QKV},     {"attn_qkv", LSG_QKV},
             {"attn_output", LSG_OUT}, {"ffn_gate", LSG_GATE_UP}, {"ffn_up", LSG_GATE_UP}, {"ffn_down", LSG_DOWN}};

enum { UNSET = -1 };

// As in lst_open.cpp, tensors of different formats are stacked as unquantised numbers.
static void put(int *type, int of_tensor) {
    if (*type == UNSET) *type = of_tensor;
    else if (lsg_format_of(*type) != lsg_format_of(of_tensor) || (*type != of_tensor && lsg_format_of(*type) != LSG_Q4))
        *type = LS_GGML_F32;
}

lsg_shape ls_gpu_shape(const ls_hparams *h, lsg_gpu gpu, const ls_part *own) {
    lsg_shape s = {.n_layers = h->n_layers,
                   .n_embd = h->n_embd,
                   .n_ff = h->n_ff,
                   .n_heads = h->n_heads,
                   .n_kv_heads = h->n_kv_heads,
                   .head_dim = h->head_dim,
                   .rope_dims = h->rope_dims,
                   .n_vocab = h->n_vocab,
                   .gpu = gpu};
    if (own) s.own = *own;
    return s;
}

void ls_gpu_model_of(ls_gpu_model *out, const ls_checkpoint *c, const char *weights, lsg_gpu gpu, const ls_part *own) {
    const ls_hparams *h = &c->hparams;
    const int keep = ls_ggml_kept(weights), layers = h->n_layers;
    int(*types)[LSG_MATRICES] = ls_calloc((size_t)layers, sizeof *types);
    for (int i = 0; i < layers; i++)
        for (int k = 0; k < LSG_MATRICES; k++) types[i][k] = UNSET;
    *out =
        (ls_gpu_model){.shape = ls_gpu_shape(h, gpu, own), .formats = ls_calloc((size_t)layers, sizeof *out->formats)};
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const int kept = keep < 0 ? t->type : keep;
        int layer;
        char name[32], kind[16];
        const bool embedding = !strcmp(t->name, "token_embd.weight");
        if (embedding && (!h->tied || kept != t->type)) // the embedding's rows stay in the file's format
            out->weight_bytes += lsg_matrix_size(lsg_format_of(t->type),
                                                 own ? ls_range_size(own->vocab) : (int64_t)t->n_out, (int64_t)t->n_in);
        if (h->tied ? embedding : !strcmp(t->name, "output.weight")) put(&types[0][LSG_HEAD], kept);
        if (sscanf(t->name, "blk.%d.%31[^.].%15s", &layer, name, kind) != 3 || strcmp(kind, "weight") || layer < 0 ||
            layer >= layers)
            continue;
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (!strcmp(name, parts[k].part)) put(&types[layer][parts[k].which], kept);
    }
    for (int i = 0; i < layers; i++)
        for (lsg_which k = 0; k < LSG_MATRICES; k++) {
            int32_t n_out, n_in;
            out->formats[i][k] = lsg_format_of(types[k == LSG_HEAD ? 0 : i][k]);
            lsg_matrix_shape(&out->shape, k, &n_out, &n_in);
            if (k != LSG_HEAD || !i) out->weight_bytes += lsg_matrix_size(out->formats[i][k], n_out, n_in);
        }
    free(types);
}

void ls_gpu_model_free(ls_gpu_model *m) {
    free(m->formats);
    *m = (ls_gpu_model){0};
}
