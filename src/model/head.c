#include "model/head.h"
#include "base/mem.h"
#include "model/checkpoint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_VOCAB = 1 << 21 };

typedef struct {
    ls_head *h;
    const char *folder; // or a GGUF file
    ls_tensor d2t, t2d; // name NULL: the file has none; type: bytes of a value
    bool ids;           // d2t has the target's ids themselves
    int32_t asked;      // of Medusa: heads, by config.json; 0: it does not say
} reading;

// ---- the table of tensors

static ls_code on_tensor(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err) {
    static const char *const prefixes[] = {"model.", "medusa_head.", "midlayer.", "layers.0."};
    reading *r = ud;
    const char *path = c->files[c->n_files - 1].path, *name = t->name;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (ls_behind(name, prefixes[i])) name = ls_behind(name, prefixes[i]);
    if (strstr(name, "rotary_emb.inv_freq")) return LS_OK;
    if (t->n_dims < 1 || t->n_dims > 2)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.80s' has %d dimensions", path, t->name, t->n_dims);
    ls_tensor out = {.type = t->type,
                     .n_in = t->dim[t->n_dims - 1],
                     .n_out = t->n_dims == 2 ? t->dim[0] : 1,
                     .file = c->n_files - 1,
                     .offset = t->offset,
                     .n_bytes = t->n_bytes};
    const bool d2t = !strcmp(name, "d2t"), t2d = !strcmp(name, "t2d");
    if (d2t || t2d) {
        const bool fits = d2t ? !strcmp(t->dtype, "I64") || !strcmp(t->dtype, "I32") : !strcmp(t->dtype, "BOOL");
        if (t->n_dims != 1 || !fits)
            return ls_fail(err, LS_E_UNSUPPORTED, "%s: '%s' must be a vector of %s; its type is '%s'", path, name,
                           d2t ? "integers (I64)" : "flags (BOOL)", t->dtype);
        out.type = (int)(t->n_bytes / t->dim[0]);
        out.name = d2t ? "d2t" : "t2d"; // not owned: these two stay out of the table
        *(d2t ? &r->d2t : &r->t2d) = out;
        return LS_OK;
    }
    if (t->type < 0)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: tensor '%.80s' has type '%s'; supported: F32, F16, BF16", path,
                       t->name, t->dtype);
    out.name = ls_strdup(name);
    return ls_checkpoint_add(c, out, err);
}

// The error for a folder without safetensors. The authors publish pickles, which can run any code when loaded.
static ls_code open_weights(reading *r, ls_err *err) {
    static const char *const singles[] = {"model.safetensors", "medusa_lm_head.safetensors"},
                             *const pickles[] = {"pytorch_model.bin", "medusa_lm_head.pt",
                                                 "pytorch_model-00001-of-00002.bin"};
    const char *single = singles[0], *pickle = NULL;
    char path[4096];
    bool index = false;
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", r->folder);
    index = !access(path, F_OK);
    for (int i = 1; i >= 0; i--) {
        snprintf(path, sizeof path, "%s/%s", r->folder, singles[i]);
        if (!access(path, F_OK)) single = singles[i], index = true;
    }
    for (int i = 0; i < 3 && !index; i++) {
        snprintf(path, sizeof path, "%s/%s", r->folder, pickles[i]);
        if (!access(path, F_OK)) pickle = pickles[i];
    }
    if (pickle)
        return ls_fail(
            err, LS_E_UNSUPPORTED,
            "%.150s: the weights are a pickle (%s), which is not supported; convert it in that folder: python3 -c "
            "\"import torch; from safetensors.torch import save_file; save_file({k: v.contiguous().clone() "
            "for k, v in torch.load('%s', map_location='cpu').items()}, 'model.safetensors')\"",
            r->folder, pickle, pickle);
    return ls_checkpoint_safetensors(r->h->weights, r->folder, single, on_tensor, r, err);
}

// ---- shapes

static ls_code wrong_shape(const ls_head *h, const ls_tensor *t, int64_t n_out, int64_t n_in, ls_err *err) {
    return ls_fail(err, LS_E_RANGE, "%s: tensor '%.80s' is %llu x %llu, expected %lld x %lld",
                   h->weights->files[t->file].path, t->name, (unsigned long long)t->n_out, (unsigned long long)t->n_in,
                   (long long)n_out, (long long)n_in);
}

static ls_code check_tensor(const ls_head *h, const char *name, bool needed, int64_t n_out, int64_t n_in, ls_err *err) {
    const ls_tensor *t = ls_checkpoint_find(h->weights, name);
    if (!t && needed)
        return ls_fail(err, LS_E_PARSE, "%s: no tensor '%s', which %s needs", h->weights->files[0].path, name, h->name);
    return !t || (t->n_out == (uint64_t)n_out && t->n_in == (uint64_t)n_in) ? LS_OK
                                                                            : wrong_shape(h, t, n_out, n_in, err);
}

// The tensors of both EAGLE formats. Sizes by letters: of the embedding (e), the attention's input (a), queries (q),
// keys (k), feed-forward (f), the fused input (x), vocabularies (V: the target's, D: what it drafts), 1: a vector.
static const struct {
    const char *name;
    char out, in;
    enum { MAY, MUST, MUST_IN_3, MAY_IN_1 } when;
} of_eagle[] = {
    {"fc.weight", 'e', 'x', MUST},
    {"fc.bias", '1', 'e', MAY},
    {"embed_tokens.weight", 'V', 'e', MAY},
    {"hidden_norm.weight", '1', 'e', MUST_IN_3},
    {"input_layernorm.weight", '1', 'e', MUST_IN_3},
    {"self_attn.q_proj.weight", 'q', 'a', MUST},
    {"self_attn.k_proj.weight", 'k', 'a', MUST},
    {"self_attn.v_proj.weight", 'k', 'a', MUST},
    {"self_attn.q_proj.bias", '1', 'q', MAY},
    {"self_attn.k_proj.bias", '1', 'k', MAY},
    {"self_attn.v_proj.bias", '1', 'k', MAY},
    {"self_attn.o_proj.weight", 'e', 'q', MUST},
    {"post_attention_layernorm.weight", '1', 'e', MUST},
    {"mlp.gate_proj.weight", 'f', 'e', MUST},
    {"mlp.up_proj.weight", 'f', 'e', MUST},
    {"mlp.down_proj.weight", 'e', 'f', MUST},
    {"norm.weight", '1', 'e', MUST_IN_3},
    {"lm_head.weight", 'D', 'e', MUST_IN_3},
    {"lm_head.weight", 'D', 'e', MAY_IN_1},
};

static int64_t size_of(const ls_head *h, char letter) {
    const ls_hparams *p = &h->hparams;
    const bool third = h->kind == LS_HEAD_EAGLE3;
    switch (letter) {
    case 'e': return p->n_embd;
    case 'a': return third ? 2 * (int64_t)p->n_embd : p->n_embd;
    case 'q': return (int64_t)p->n_heads * p->head_dim;
    case 'k': return (int64_t)p->n_kv_heads * p->head_dim;
    case 'f': return p->n_ff;
    case 'x': return third ? ls_head_values(h) : 2 * (int64_t)p->n_embd;
    case 'V': return p->n_vocab;
    case 'D': return h->n_draft;
    default: return 1;
    }
}

static ls_code check_eagle(ls_head *h, ls_err *err) {
    const bool third = h->kind == LS_HEAD_EAGLE3;
    const size_t n = sizeof of_eagle / sizeof *of_eagle;
    ls_code code = LS_OK;
    for (size_t i = 0; i < n && !code; i++) {
        if (of_eagle[i].when >= MUST_IN_3 && third != (of_eagle[i].when == MUST_IN_3)) continue;
        const bool needed = of_eagle[i].when == MUST || of_eagle[i].when == MUST_IN_3;
        code = check_tensor(h, of_eagle[i].name, needed, size_of(h, of_eagle[i].out), size_of(h, of_eagle[i].in), err);
    }
    for (int t = 0; t < h->weights->n_tensors && !code; t++) {
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= (of_eagle[i].when != MUST_IN_3 || third) && !strcmp(h->weights->tensors[t].name, of_eagle[i].name);
        if (!known)
            code = ls_fail(err, LS_E_UNSUPPORTED, "%s: %s has no tensor '%.80s'",
                           h->weights->files[h->weights->tensors[t].file].path, h->name, h->weights->tensors[t].name);
    }
    h->own_embedding = ls_checkpoint_find(h->weights, "embed_tokens.weight");
    h->own_output = ls_checkpoint_find(h->weights, "lm_head.weight");
    return code;
}

// The number of "I.B..." with the largest I, if the name is of that form; -1 otherwise.
static int medusa_index(const char *name, int *block) {
    char *end;
    const long i = strtol(name, &end, 10);
    if (end == name || *end != '.' || *name < '0' || *name > '9' || i >= LS_MEDUSA_HEADS) return -1;
    const char *at = end + 1;
    const long b = strtol(at, &end, 10);
    if (end == at || *end != '.' || *at < '0' || *at > '9' || b > LS_MEDUSA_BLOCKS) return -1;
    *block = (int)b;
    return (int)i;
}

static ls_code check_medusa(const reading *r, ls_err *err) {
    ls_head *h = r->h;
    ls_checkpoint *w = h->weights;
    char name[64];
    int block, kept = 0;
    const bool base = ls_checkpoint_find(w, "embed_tokens.weight");
    ls_map_clear(&w->index);
    for (int i = 0; i < w->n_tensors; i++) {
        const int head = medusa_index(w->tensors[i].name, &block);
        if (head >= 0) {
            if (head >= h->n_heads) h->n_heads = head + 1;
            ls_map_put(&w->index, ls_hash_name(w->tensors[i].name, strlen(w->tensors[i].name)), kept);
            w->tensors[kept++] = w->tensors[i];
        } else if (base) free(w->tensors[i].name); // belongs to the base model, not to the head
        else
            return ls_fail(err, LS_E_UNSUPPORTED, "%s: Medusa has no tensor '%.80s'", w->files[w->tensors[i].file].path,
                           w->tensors[i].name);
    }
    w->n_tensors = kept;
    if (r->asked > h->n_heads)
        return ls_fail(err, LS_E_RANGE, "%s/config.json: 'medusa_num_heads' is %d, but there are tensors of %d heads",
                       r->folder, r->asked, h->n_heads);
    snprintf(name, sizeof name, "0.%d.weight", h->n_blocks);
    const ls_tensor *first = ls_checkpoint_find(h->weights, name);
    if (!first) return check_tensor(h, name, true, 0, 0, err);
    if (first->n_in < 1 || first->n_in > 1 << 16 || first->n_out < 2 || first->n_out >= MOST_VOCAB)
        return wrong_shape(h, first, 32000, 4096, err);
    h->target_embd = h->hparams.n_embd = (int32_t)first->n_in;
    h->n_draft = h->hparams.n_vocab = (int32_t)first->n_out;
    ls_code code = LS_OK;
    for (int i = 0; i < h->n_heads && !code; i++) {
        for (int b = 0; b < h->n_blocks && !code; b++) {
            snprintf(name, sizeof name, "%d.%d.linear.weight", i, b);
            code = check_tensor(h, name, true, h->target_embd, h->target_embd, err);
            snprintf(name, sizeof name, "%d.%d.linear.bias", i, b);
            if (!code) code = check_tensor(h, name, false, 1, h->target_embd, err);
        }
        snprintf(name, sizeof name, "%d.%d.weight", i, h->n_blocks);
        if (!code) code = check_tensor(h, name, true, h->n_draft, h->target_embd, err);
    }
    return code;
}

// ---- config.json

// Which of the target's hidden states feed the head. Two forms of the key are in use and count differently: at the top
// level a number N means the input of layer N, inside eagle_config the output of layer N.
static ls_code config_takes(ls_head *h, const ls_json *config, ls_err *err) {
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    const ls_json *v = ls_json_given(config, key);
    const int64_t more = v ? 0 : 1;
    if (more) v = ls_json_given(ls_json_get(config, "eagle_config"), key);
    if (!v) return LS_OK;
    if (ls_json_size(v) != LS_HEAD_TAKES)
        return ls_fail(err, LS_E_RANGE, "'%s' must have %d numbers", key, LS_HEAD_TAKES);
    for (size_t i = 0; i < LS_HEAD_TAKES; i++) {
        int64_t n;
        if (!ls_json_int(ls_json_at(v, i), &n) || n < 0 || n > LS_MAX_LAYERS)
            return ls_fail(err, LS_E_RANGE, "'%s' must be a list of layer indices", key);
        h->takes[i] = (int32_t)(n + more);
        if (i && h->takes[i] <= h->takes[i - 1])
            return ls_fail(err, LS_E_UNSUPPORTED, "'%s' must be in ascending order", key);
    }
    h->n_takes = LS_HEAD_TAKES;
    return LS_OK;
}

static ls_code config_eagle(ls_head *h, const ls_json *config, ls_err *err) {
    const ls_json *width = ls_json_get(config, "num_hidden_layers");
    int64_t layers;
    ls_code code;
    if (ls_json_get(config, "speculators_model_type"))
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "the configuration is of another program (speculators_model_type); use the "
                       "authors' checkpoint");
    if (ls_json_int(width, &layers) && layers != 1)
        return ls_fail(err, LS_E_UNSUPPORTED, "'num_hidden_layers' is %lld; only heads of one layer are supported",
                       (long long)layers);
    if ((code = ls_hparams_config(&h->hparams, config, err))) return code;
    if (ls_json_flag(config, "norm_before_residual", false))
        return ls_fail(err, LS_E_UNSUPPORTED, "'norm_before_residual' is true, which is not supported");
    if ((code = ls_config_int(config, "vocab_size", 2, MOST_VOCAB - 1, &h->hparams.n_vocab, err))) return code;
    if (!h->hparams.n_vocab) return ls_fail(err, LS_E_PARSE, "no 'vocab_size'");
    h->n_draft = h->hparams.n_vocab;
    h->target_embd = h->hparams.n_embd;
    if (h->kind == LS_HEAD_EAGLE) return LS_OK;
    if ((code = ls_config_int(config, "draft_vocab_size", 2, h->hparams.n_vocab, &h->n_draft, err)) ||
        (code = ls_config_int(config, "target_hidden_size", 1, 1 << 16, &h->target_embd, err)))
        return code;
    return config_takes(h, config, err);
}

static ls_code config_medusa(reading *r, const ls_json *config, ls_err *err) {
    ls_head *h = r->h;
    const ls_json *base = ls_json_get(config, "base_model_name_or_path");
    if (ls_json_str(base, NULL)) snprintf(h->base, sizeof h->base, "%s", ls_json_str(base, NULL));
    h->n_blocks = 1;
    const ls_code code = ls_config_int(config, "medusa_num_heads", 1, LS_MEDUSA_HEADS, &r->asked, err);
    return code ? code : ls_config_int(config, "medusa_num_layers", 0, LS_MEDUSA_BLOCKS, &h->n_blocks, err);
}

// ---- the reduced vocabulary

// d2t[id] is added to a drafted id to get the target's id (in GGUF files it is that id); t2d marks the target's ids
// that can be drafted.
static ls_code read_mapping(reading *r, ls_err *err) {
    ls_head *h = r->h;
    const int32_t n = h->n_draft, n_vocab = h->hparams.n_vocab;
    if (n == n_vocab) return LS_OK; // as the authors' program does, ignore d2t and t2d then
    const char *path = h->weights->files[0].path;
    if (!r->d2t.name)
        return ls_fail(err, LS_E_PARSE, "%s: no tensor 'd2t', but only %d of %d tokens can be drafted", path, n,
                       n_vocab);
    if (r->d2t.n_in != (uint64_t)n || (r->t2d.name && r->t2d.n_in != (uint64_t)n_vocab))
        return ls_fail(err, LS_E_RANGE, "%s: 'd2t' has %llu values and 't2d' %llu, expected %d and %d", path,
                       (unsigned long long)r->d2t.n_in, (unsigned long long)r->t2d.n_in, n, n_vocab);
    unsigned char *raw = ls_malloc(r->d2t.n_bytes), *flags = ls_calloc((size_t)n_vocab, 1);
    ls_code code = ls_file_read(&h->weights->files[r->d2t.file], r->d2t.offset, raw, r->d2t.n_bytes, err);
    h->d2t = ls_malloc((size_t)n * sizeof *h->d2t);
    for (int32_t i = 0; i < n && !code; i++) {
        int64_t add = 0;
        for (int b = r->d2t.type - 1; b >= 0; b--) add = (int64_t)((uint64_t)add << 8 | raw[i * r->d2t.type + b]);
        if (r->d2t.type == 4) add = (int32_t)add;
        if (r->ids) add = add < 0 ? INT64_MIN : add - i;
        if (add < -(int64_t)i || add >= n_vocab - (int64_t)i || flags[i + add])
            code = ls_fail(err, LS_E_RANGE,
                           "%s: 'd2t' maps drafted token %d outside the %d tokens, or to an id that is already used",
                           path, i, n_vocab);
        else flags[h->d2t[i] = (int32_t)(i + add)] = 1;
    }
    if (!code && r->t2d.name) {
        unsigned char *t2d = ls_malloc((size_t)n_vocab);
        code = ls_file_read(&h->weights->files[r->t2d.file], r->t2d.offset, t2d, (size_t)n_vocab, err);
        if (!code && memcmp(t2d, flags, (size_t)n_vocab))
            code = ls_fail(err, LS_E_PARSE, "%s: 't2d' and 'd2t' contradict each other", path);
        free(t2d);
    }
    free(raw), free(flags);
    return code;
}

// ---- EAGLE-3 heads in GGUF files, as llama.cpp's converter writes them (architecture eagle3). Tensors get the names
// of the published checkpoints; queries and keys have rotary pairs side by side, as in every GGUF file of Llama.

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

static ls_code on_gguf_tensor(reading *r, const ls_gguf_tensor *t, ls_err *err) {
    ls_head *h = r->h;
    ls_tensor out = {
        .type = t->type, .n_in = t->dim[0], .n_out = t->dim[1], .offset = t->offset, .n_bytes = t->n_bytes};
    const char *path = h->weights->files[0].path, *name = NULL;
    float *freq = h->hparams.rope_freq[0];
    if (t->dim[2] * t->dim[3] != 1)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.*s' has %d dimensions", path,
                       (int)(t->name.n < 80 ? t->name.n : 80), t->name.p, t->n_dims);
    if (ls_str_is(t->name, "rope_freqs.weight")) { // Llama 3's factors
        out.name = "rope_freqs.weight";
        return ls_rope_divide(h->weights, &out, h->hparams.rope_dims / 2, freq, freq, err);
    }
    if (ls_str_is(t->name, "d2t")) {
        if (t->type != LS_GGML_I64 || t->dim[1] != 1)
            return ls_fail(err, LS_E_UNSUPPORTED, "%s: 'd2t' must be a vector of I64; its type is '%s'", path,
                           ls_ggml_type_name(t->type));
        out.name = "d2t"; // not owned: it stays out of the table
        out.type = 8;
        r->d2t = out;
        return LS_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !name; i++)
        if (ls_str_is(t->name, names[i].gguf)) name = names[i].published;
    if (!name || t->type == LS_GGML_I64 || t->type == LS_GGML_NVFP4)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: EAGLE-3 has no tensor '%.*s' of type %s", path,
                       (int)(t->name.n < 80 ? t->name.n : 80), t->name.p, ls_ggml_type_name(t->type));
    out.name = ls_strdup(name);
    return ls_checkpoint_add(h->weights, out, err);
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
    if (target < 1 || target > 1 << 16 || vocab < 2 || vocab >= MOST_VOCAB)
        return ls_fail(err, LS_E_RANGE, "the target's width %u or its %u tokens are out of range", target, vocab);
    h->target_embd = (int32_t)target;
    h->n_draft = h->hparams.n_vocab = (int32_t)vocab;
    return LS_OK;
}

static ls_code read_gguf(reading *r, ls_err *err) {
    ls_head *h = r->h;
    ls_gguf *g = NULL;
    h->kind = LS_HEAD_EAGLE3;
    h->name = "EAGLE-3";
    r->ids = true;
    ls_code code = ls_checkpoint_add_file(h->weights, r->folder, err);
    if (!code) code = ls_gguf_open(&g, &h->weights->files[0], err);
    if (!code && (code = read_metadata(h, g, err))) ls_err_prefix(err, "%s", r->folder);
    for (int i = 0; !code && i < g->n_tensors; i++) code = on_gguf_tensor(r, &g->tensors[i], err);
    ls_gguf_free(g);
    if (!code && r->d2t.name && r->d2t.n_in > (uint64_t)h->n_draft)
        code = ls_fail(err, LS_E_RANGE, "%s: 'd2t' has %llu values for %d tokens", r->folder,
                       (unsigned long long)r->d2t.n_in, h->n_draft);
    if (!code && r->d2t.name) h->n_draft = (int32_t)r->d2t.n_in;
    return code;
}

// ---- opening

static ls_code choose_kind(ls_head *h, const char *folder, ls_err *err) {
    const ls_tensor *fc = ls_checkpoint_find(h->weights, "fc.weight");
    int block;
    for (int i = 0; i < h->weights->n_tensors && !fc; i++)
        if (medusa_index(h->weights->tensors[i].name, &block) == 0) {
            h->kind = LS_HEAD_MEDUSA;
            h->name = "Medusa";
            return LS_OK;
        }
    if (!fc)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "%s: not a supported head: it has neither 'fc.weight' (EAGLE) nor '0.0.*' "
                       "(Medusa)",
                       folder);
    // Only EAGLE-3 concatenates embedding and feature after a norm of each, and has an output head.
    const bool third =
        ls_checkpoint_find(h->weights, "hidden_norm.weight") || ls_checkpoint_find(h->weights, "norm.weight");
    h->kind = third ? LS_HEAD_EAGLE3 : LS_HEAD_EAGLE;
    h->name = third ? "EAGLE-3" : "EAGLE";
    return LS_OK;
}

static ls_code read_folder(reading *r, ls_err *err) {
    ls_head *h = r->h;
    ls_json *config;
    ls_code code = ls_folder_json(r->folder, "config.json", &config, NULL, err);
    if (!code && !config)
        code = ls_fail(err, LS_E_IO, "%s: no config.json; name a folder with a trained head", r->folder);
    if (!code) code = open_weights(r, err);
    if (!code) code = choose_kind(h, r->folder, err);
    if (!code) {
        code = h->kind == LS_HEAD_MEDUSA ? config_medusa(r, config, err) : config_eagle(h, config, err);
        if (code) ls_err_prefix(err, "%s/config.json", r->folder);
    }
    ls_json_free(config);
    return code;
}

static ls_code read_head(reading *r, ls_err *err) {
    struct stat st;
    ls_code code = stat(r->folder, &st) || S_ISDIR(st.st_mode) ? read_folder(r, err) : read_gguf(r, err);
    if (!code && r->h->kind == LS_HEAD_MEDUSA) return check_medusa(r, err);
    if (!code) code = check_eagle(r->h, err);
    return code ? code : read_mapping(r, err);
}

ls_code ls_head_open(ls_head **out, const char *folder, ls_err *err) {
    ls_head *h = ls_calloc(1, sizeof *h);
    h->weights = ls_calloc(1, sizeof *h->weights);
    reading r = {.h = h, .folder = folder};
    const ls_code code = read_head(&r, err);
    *out = NULL;
    if (code) ls_head_close(h);
    else *out = h;
    return code;
}

void ls_head_close(ls_head *h) {
    if (!h) return;
    ls_checkpoint_close(h->weights);
    free(h->d2t);
    free(h);
}

ls_code ls_head_fits(const ls_head *h, const ls_hparams *target, int32_t *takes, int32_t *n_takes, ls_err *err) {
    const char *path = h->weights->files[0].path;
    const int32_t n = target->n_layers;
    if (h->target_embd != target->n_embd || h->hparams.n_vocab != target->n_vocab)
        return ls_fail(
            err, LS_E_RANGE,
            "%s: this %s head is for a model of width %d with %d tokens, but the model has width %d and %d tokens",
            path, h->name, h->target_embd, h->hparams.n_vocab, target->n_embd, target->n_vocab);
    if (h->kind != LS_HEAD_MEDUSA && !h->own_embedding && h->hparams.n_embd != target->n_embd)
        return ls_fail(
            err, LS_E_RANGE,
            "%s: no tensor 'embed_tokens.weight', and the model's embedding of width %d does not fit width %d", path,
            target->n_embd, h->hparams.n_embd);
    if (h->kind != LS_HEAD_EAGLE3) {
        *n_takes = 1;
        takes[0] = n + 1; // after the output norm
        return LS_OK;
    }
    // as in the authors' program: the inputs of the third layer, the middle layer and the third-last layer
    const int32_t usual[LS_HEAD_TAKES] = {2, n / 2, n - 3};
    *n_takes = LS_HEAD_TAKES;
    for (int i = 0; i < LS_HEAD_TAKES; i++) {
        takes[i] = h->n_takes ? h->takes[i] : usual[i];
        if (takes[i] < 0 || takes[i] > n || (i && takes[i] <= takes[i - 1]))
            return ls_fail(err, LS_E_RANGE,
                           "%s: this %s head needs the inputs of layers %d, %d and %d (the first is 0), but the model "
                           "has %d layers",
                           path, h->name, h->n_takes ? h->takes[0] : usual[0], h->n_takes ? h->takes[1] : usual[1],
                           h->n_takes ? h->takes[2] : usual[2], n);
    }
    return LS_OK;
}
