// EAGLE-3 heads in GGUF files, as llama.cpp's converter writes them (architecture eagle3). Tensors get the names of the
// published checkpoints; queries and keys have rotary pairs side by side, as in every GGUF file of Llama.
#include "model/head_internal.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *gguf, *published;
} names[] = {{"fc.weight", "fc.weight"},
             {"token_embd.weight", "embed_tokens.weight"},
             {"output_norm.weight", "norm.weight"},
             {"output.weight", "lm_head.weight"},
             {"blk.0.attn_norm.weight", "input_layernorm.weight"},
             {"blk.0.attn_norm_2.weight", "hidden_norm.weight"},
             {"blk.0.hidden_norm.weight", "hidden_norm.weight"}, // of older files
             {"blk.0.attn_q.weight", "self_attn.q_proj.weight"},
             {"blk.0.attn_k.weight", "self_attn.k_proj.weight"},
             {"blk.0.attn_v.weight", "self_attn.v_proj.weight"},
             {"blk.0.attn_output.weight", "self_attn.o_proj.weight"},
             {"blk.0.ffn_norm.weight", "post_attention_layernorm.weight"},
             {"blk.0.ffn_gate.weight", "mlp.gate_proj.weight"},
             {"blk.0.ffn_up.weight", "mlp.up_proj.weight"},
             {"blk.0.ffn_down.weight", "mlp.down_proj.weight"}};

// Llama 3's factors of the rotary frequencies.
static ls_code divide_rotation(ls_head *h, const ls_gguf_tensor *t, ls_err *err) {
    const ls_file *f = &h->weights->files[0];
    const int32_t n = h->hparams.rope_dims / 2;
    float factors[LS_MAX_ROPE];
    if (t->type != LS_GGML_F32 || t->n_bytes != (uint64_t)n * sizeof *factors)
        return ls_fail(err, LS_E_PARSE, "%s: tensor 'rope_freqs.weight' must have %d values of f32", f->path, n);
    const ls_code code = ls_file_read(f, t->offset, factors, t->n_bytes, err);
    for (int32_t i = 0; i < n && !code; i++) {
        if (!(factors[i] > 0))
            return ls_fail(err, LS_E_RANGE, "%s: tensor 'rope_freqs.weight' has the invalid value %g", f->path,
                           (double)factors[i]);
        h->hparams.rope_freq[0][i] /= factors[i];
    }
    return code;
}

static ls_code add_tensor(ls_head *h, const ls_gguf_tensor *t, ls_tensor *d2t, ls_err *err) {
    ls_tensor out = {
        .type = t->type, .n_in = t->dim[0], .n_out = t->dim[1], .offset = t->offset, .n_bytes = t->n_bytes};
    const char *path = h->weights->files[0].path, *name = NULL;
    if (ls_str_is(t->name, "rope_freqs.weight")) return divide_rotation(h, t, err);
    if (t->dim[2] * t->dim[3] != 1)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.*s' has %d dimensions", path,
                       (int)(t->name.n < 80 ? t->name.n : 80), t->name.p, t->n_dims);
    if (ls_str_is(t->name, "d2t")) {
        if (t->type != LS_GGML_I64 || t->dim[1] != 1)
            return ls_fail(err, LS_E_UNSUPPORTED, "%s: 'd2t' must be a vector of I64; its type is '%s'", path,
                           ls_ggml_type_name(t->type));
        out.name = "d2t"; // not owned: it stays out of the table
        out.type = 8;
        *d2t = out;
        return LS_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !name; i++)
        if (ls_str_is(t->name, names[i].gguf)) name = names[i].published;
    if (!name || t->type == LS_GGML_I64 || t->type == LS_GGML_NVFP4)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: EAGLE-3 has no tensor '%.*s' of type %s", path,
                       (int)(t->name.n < 80 ? t->name.n : 80), t->name.p, ls_ggml_type_name(t->type));
    for (int i = 0; i < h->weights->n_tensors; i++)
        if (!strcmp(h->weights->tensors[i].name, name))
            return ls_fail(err, LS_E_PARSE, "%s: tensor '%s' occurs twice", path, name);
    out.name = ls_strdup(name);
    ls_checkpoint_add(h->weights, out);
    return LS_OK;
}

// As in config.json, the number of a layer means its input.
static ls_code read_takes(ls_head *h, const ls_gguf *g, ls_err *err) {
    static const char key[] = "eagle3.extract_layers";
    int32_t *list;
    size_t n;
    ls_code code = ls_gguf_i32_array(g, key, &list, &n, err);
    if (code) return code;
    if (n != LS_HEAD_TAKES) code = ls_fail(err, LS_E_RANGE, "metadata '%s' must have %d numbers", key, LS_HEAD_TAKES);
    for (size_t i = 0; i < LS_HEAD_TAKES && !code; i++) {
        if (list[i] < 0 || list[i] > LS_MAX_LAYERS || (i && list[i] <= list[i - 1]))
            code = ls_fail(err, LS_E_RANGE, "metadata '%s' must have layer indices in ascending order", key);
        h->takes[i] = list[i];
    }
    free(list);
    h->n_takes = LS_HEAD_TAKES;
    return code;
}

static ls_code read_metadata(ls_head *h, const ls_gguf *g, ls_err *err) {
    static const char before_key[] = "eagle3.norm_before_residual";
    uint32_t target = 0, vocab = 0;
    bool before = false;
    ls_str *tokens, arch;
    size_t n;
    ls_code code = ls_gguf_str(g, "general.architecture", &arch, err);
    if (!code && !ls_str_is(arch, "eagle3"))
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "the architecture '%.*s' is not a head (supported: eagle3); name a model by --model",
                       (int)(arch.n < 40 ? arch.n : 40), arch.p);
    if (!code) code = ls_hparams_gguf(&h->hparams, g, ls_arch_find((ls_str){"llama", 5}, false), err);
    if (!code && h->hparams.n_layers != 1)
        code =
            ls_fail(err, LS_E_UNSUPPORTED, "metadata 'eagle3.block_count' is %d; only heads of one layer are supported",
                    h->hparams.n_layers);
    if (!code && ls_gguf_has(g, before_key)) code = ls_gguf_bool(g, before_key, &before, err);
    if (!code && before)
        code = ls_fail(err, LS_E_UNSUPPORTED, "metadata '%s' is true, which is not supported", before_key);
    if (!code) code = read_takes(h, g, err);
    if (!code) code = ls_gguf_u32(g, "eagle3.target_hidden_size", &target, err);
    if (!code && ls_gguf_has(g, "eagle3.vocab_size")) code = ls_gguf_u32(g, "eagle3.vocab_size", &vocab, err);
    else if (!code && !(code = ls_gguf_str_array(g, "tokenizer.ggml.tokens", &tokens, &n, err))) { // the target's
        vocab = (uint32_t)n;
        free(tokens);
    }
    if (code) return code;
    if (target < 1 || target > 1 << 16 || vocab < 2 || vocab >= LS_HEAD_MAX_VOCAB)
        return ls_fail(err, LS_E_RANGE, "the target's width %u or its %u tokens are out of range", target, vocab);
    h->target_embd = (int32_t)target;
    h->n_draft = h->hparams.n_vocab = (int32_t)vocab;
    return LS_OK;
}

ls_code ls_head_of_gguf(ls_head *h, const char *path, ls_tensor *d2t, ls_err *err) {
    ls_gguf *g = NULL;
    h->kind = LS_HEAD_EAGLE3;
    h->name = "EAGLE-3";
    ls_code code = ls_checkpoint_add_file(h->weights, path, err);
    if (!code) code = ls_gguf_open(&g, &h->weights->files[0], err);
    if (!code && (code = read_metadata(h, g, err))) ls_err_prefix(err, "%s", path);
    for (int i = 0; !code && i < ls_gguf_n_tensors(g); i++) code = add_tensor(h, ls_gguf_tensor_at(g, i), d2t, err);
    ls_gguf_free(g);
    if (!code && d2t->name && d2t->n_in > (uint64_t)h->n_draft)
        code = ls_fail(err, LS_E_RANGE, "%s: 'd2t' has %llu values for %d tokens", path, (unsigned long long)d2t->n_in,
                       h->n_draft);
    if (!code && d2t->name) h->n_draft = (int32_t)d2t->n_in;
    return code;
}
