#include "model/checkpoint_internal.h"
#include "base/ggml.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- names

static const struct {
    const char *hf, *gguf;
} of_model[] = {{"embed_tokens.weight", "token_embd.weight"},
                {"norm.weight", "output_norm.weight"},
                {"norm.bias", "output_norm.bias"},
                {"lm_head.weight", "output.weight"}},
  of_layer[] = {
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"post_attention_layernorm", "ffn_norm"}, // post_attention_norm if there is another norm before the feed-forward
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"post_self_attn_layernorm", "post_attention_norm"}, // GLM-4
      {"post_mlp_layernorm", "post_ffw_norm"},
      {"attention_layernorm", "attn_norm"}, // Apertus
      {"feedforward_layernorm", "ffn_norm"},
      {"self_attn.query_layernorm", "attn_q_norm"}, // Hunyuan
      {"self_attn.key_layernorm", "attn_k_norm"},
      {"shared_mlp.input_linear", "ffn_up"}, // Granite 4: gate and up
      {"shared_mlp.output_linear", "ffn_down"},
      {"mlp.gate", "ffn_gate_inp"},   // of mixtures
      {"mlp.router", "ffn_gate_inp"}, // gpt-oss
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"block_sparse_moe.router.layer", "ffn_gate_inp"},
      {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
      {"block_sparse_moe.output_linear", "ffn_down_exps"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"}, // GLM-4.5, ERNIE 4.5
      {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
      {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.c_fc", "ffn_up"}, // StarCoder 2
      {"mlp.c_proj", "ffn_down"},
};

// An expert's tensors; its number is between the two parts.
static const struct {
    const char *before, *after, *gguf;
} of_expert[] = {{"mlp.experts.", ".gate_proj", "ffn_gate"},     {"mlp.experts.", ".up_proj", "ffn_up"},
                 {"mlp.experts.", ".down_proj", "ffn_down"},     {"block_sparse_moe.experts.", ".w1", "ffn_gate"},
                 {"block_sparse_moe.experts.", ".w3", "ffn_up"}, {"block_sparse_moe.experts.", ".w2", "ffn_down"}};

// The beginning of the name of a tensor of a model's vision part; NULL: another tensor.
static const char *of_vision(const char *hf) {
    static const char *const parts[] = {"multi_modal_projector.", "vision_tower.", "visual."};
    const char *at = ls_behind(hf, "model.") ? ls_behind(hf, "model.") : hf;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (ls_behind(at, parts[i])) return parts[i];
    return NULL;
}

bool ls_tensor_name(const ls_arch *arch, const char *hf, char *out, size_t size) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.", "model.",
                                           "language_model.", ""};
    const char *name = NULL;
    *out = 0;
    for (size_t i = 0; !name; i++) name = ls_behind(hf, prefixes[i]);
    if (strstr(name, "rotary_emb.inv_freq")) return true;
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
        if (!strcmp(name, of_model[i].hf)) {
            snprintf(out, size, "%s", of_model[i].gguf);
            return true;
        }
    char *end = NULL;
    const char *at = ls_behind(name, "layers.");
    const long layer = at ? strtol(at, &end, 10) : -1;
    if (!at || end == at || *end != '.' || layer < 0 || layer >= LS_MAX_LAYERS) return false;
    at = end + 1;
    if (arch->activation == LS_ACT_XIELU && ls_behind(at, "mlp.act_fn.")) {
        snprintf(out, size, "blk.%ld.ffn_act.%.20s", layer, ls_behind(at, "mlp.act_fn."));
        return true;
    }
    if (arch->balanced && ls_ends_with(at, ".e_score_correction_bias")) {
        snprintf(out, size, "blk.%ld.exp_probs_b.bias", layer);
        return true;
    }
    if (arch->sinks && !strcmp(at, "self_attn.sinks")) {
        snprintf(out, size, "blk.%ld.attn_sinks.weight", layer);
        return true;
    }
    for (size_t i = 0; i < sizeof of_expert / sizeof *of_expert && arch->router; i++) {
        const char *number = ls_behind(at, of_expert[i].before);
        const long expert = number ? strtol(number, &end, 10) : -1;
        if (expert < 0 || end == number || strncmp(end, of_expert[i].after, strlen(of_expert[i].after))) continue;
        if (strcmp(end + strlen(of_expert[i].after), ".weight")) return false;
        snprintf(out, size, "blk.%ld.%s.%ld.weight", layer, of_expert[i].gguf, expert);
        return true;
    }
    for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
        const char *kind = ls_behind(at, of_layer[i].hf);
        if (!kind || (strcmp(kind, ".weight") && strcmp(kind, ".bias"))) continue;
        const char *gguf = of_layer[i].gguf;
        if (arch->norm_after && !arch->post_is_before && !strcmp(of_layer[i].hf, "post_attention_layernorm"))
            gguf = "post_attention_norm";
        snprintf(out, size, "blk.%ld.%s%s", layer, gguf, kind);
        return true;
    }
    return false;
}

const char *ls_arch_norm(const ls_arch *arch, int i) {
    static const struct {
        const char *name;
        enum { BEFORE, AFTER, QK } which;
    } norms[] = {{"attn_norm", BEFORE},    {"ffn_norm", BEFORE}, {"post_attention_norm", AFTER},
                 {"post_ffw_norm", AFTER}, {"attn_q_norm", QK},  {"attn_k_norm", QK}};
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
        const bool has = norms[k].which == BEFORE  ? arch->norm_before
                         : norms[k].which == AFTER ? arch->norm_after
                                                   : arch->qk_norm != LS_QK_NORM_NONE;
        if (has && i-- == 0) return norms[k].name;
    }
    return NULL;
}

bool ls_tensor_known(const ls_arch *arch, const char *name, int n_layers) {
    if (ls_str_among((ls_str){name, strlen(name)},
                     "token_embd.weight output_norm.weight output.weight output.bias rope_freqs.weight "
                     "rope_factors_long.weight rope_factors_short.weight") >= 0)
        return true;
    if (arch->layer_norm && !strcmp(name, "output_norm.bias")) return true;
    char *end = NULL;
    const char *at = ls_behind(name, "blk.");
    const long layer = at ? strtol(at, &end, 10) : -1;
    if (!at || end == at || *end != '.' || layer < 0 || layer >= n_layers) return false;
    const char *rest = end + 1, *kind = strrchr(end, '.');
    const ls_str part = {rest, (size_t)(kind - end) - (kind > end)};
    const bool weight = !strcmp(kind, ".weight"), bias = !strcmp(kind, ".bias");
    for (int i = 0; ls_arch_norm(arch, i); i++)
        if (ls_str_is(part, ls_arch_norm(arch, i))) return weight || (arch->layer_norm && bias);
    if (ls_str_among(part, "attn_q attn_k attn_v attn_qkv attn_output ffn_gate ffn_up ffn_down") >= 0)
        return weight || bias;
    if (arch->router && ls_str_among(part, "ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps") >= 0)
        return weight || (arch->sinks && bias); // gpt-oss
    if (arch->router && ls_str_among(part, "ffn_gate_up_exps ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp "
                                           "ffn_down_shexp") >= 0)
        return weight;
    if (arch->sinks && !strcmp(rest, "attn_sinks.weight")) return true;
    if (arch->balanced && !strcmp(rest, "exp_probs_b.bias")) return true;
    static const char *const of_one[] = {"ffn_gate.", "ffn_up.", "ffn_down."}; // ffn_gate.7.weight
    for (int i = 0; i < 3 && arch->router; i++) {
        const char *number = ls_behind(rest, of_one[i]);
        if (!number) continue;
        const long expert = strtol(number, &end, 10);
        return end > number && expert >= 0 && expert < LS_MAX_EXPERTS && !strcmp(end, ".weight");
    }
    if (arch->activation == LS_ACT_XIELU && ls_behind(rest, "ffn_act.")) return true;
    return !strcmp(rest, "rope_freqs.weight"); // older files repeat it in every layer
}

// ---- a file of safetensors

static const struct {
    const char *name;
    int type, bytes;
} dtypes[] = {{"F32", LS_GGML_F32, 4}, {"F16", LS_GGML_F16, 2}, {"BF16", LS_GGML_BF16, 2},
              {"F64", -1, 8},          {"I64", -1, 8},          {"U64", -1, 8},
              {"I32", -1, 4},          {"U32", -1, 4},          {"I16", -1, 2},
              {"U16", -1, 2},          {"I8", -1, 1},           {"U8", -1, 1},
              {"BOOL", -1, 1},         {"F8_E4M3", -1, 1},      {"F8_E5M2", -1, 1}};

typedef struct {
    ls_safetensors *out;
    uint64_t begin, n_data; // of the data in the file
    ls_err *err;
} parsing;

static ls_code read_type(parsing *p, const char *name, const ls_json *v, ls_safetensor *t) {
    size_t n;
    const char *dtype = ls_json_str(v, &n);
    for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strlen(dtypes[i].name) == n && !memcmp(dtypes[i].name, dtype, n)) {
            t->type = dtypes[i].type;
            snprintf(t->dtype, sizeof t->dtype, "%s", dtypes[i].name);
            t->n_bytes = (uint64_t)dtypes[i].bytes; // of a value yet
            return LS_OK;
        }
    return ls_fail(p->err, LS_E_UNSUPPORTED, "tensor '%.80s' has the unknown type '%.*s'", name,
                   dtype ? (int)(n < 20 ? n : 20) : 1, dtype ? dtype : "?");
}

static ls_code read_tensor(parsing *p, const char *name, const ls_json *value) {
    const ls_json *shape = ls_json_get(value, "shape"), *places = ls_json_get(value, "data_offsets");
    ls_safetensor t = {0};
    int64_t from, to, dim;
    ls_code code = read_type(p, name, ls_json_get(value, "dtype"), &t);
    if (code) return code;
    if (!ls_json_is_array(shape) || ls_json_size(shape) > sizeof t.dim / sizeof *t.dim)
        return ls_fail(p->err, LS_E_PARSE, "tensor '%.80s' must have a shape of at most 5 dimensions", name);
    for (t.n_dims = 0; t.n_dims < (int)ls_json_size(shape); t.n_dims++) {
        if (!ls_json_int(ls_json_at(shape, (size_t)t.n_dims), &dim) || dim < 1 || (uint64_t)dim > p->n_data / t.n_bytes)
            return ls_fail(p->err, LS_E_RANGE, "tensor '%.80s' is empty or larger than its file", name);
        t.dim[t.n_dims] = (uint64_t)dim;
        t.n_bytes *= (uint64_t)dim;
    }
    if (ls_json_size(places) != 2 || !ls_json_int(ls_json_at(places, 0), &from) ||
        !ls_json_int(ls_json_at(places, 1), &to) || from < 0 || to < from || (uint64_t)to > p->n_data ||
        (uint64_t)(to - from) != t.n_bytes)
        return ls_fail(p->err, LS_E_RANGE, "tensor '%.80s': data_offsets do not fit its size or the file", name);
    t.offset = p->begin + (uint64_t)from;
    t.name = ls_strdup(name);
    p->out->tensors = ls_grown(p->out->tensors, p->out->n, sizeof *p->out->tensors);
    p->out->tensors[p->out->n++] = t;
    return LS_OK;
}

static int by_offset(const void *a, const void *b) {
    const ls_safetensor *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

ls_code ls_safetensors_parse(ls_safetensors *out, const char *text, size_t n, uint64_t n_file, ls_err *err) {
    ls_json *doc;
    *out = (ls_safetensors){0};
    if (n_file < 8 || n > n_file - 8) return ls_fail(err, LS_E_RANGE, "the header is longer than the file");
    parsing p = {.out = out, .begin = 8 + n, .n_data = n_file - 8 - n, .err = err};
    ls_code code = ls_json_parse(&doc, text, n, "header", err);
    if (code) return code;
    if (!ls_json_is_object(doc)) code = ls_fail(err, LS_E_PARSE, "the header is not a JSON object");
    for (ls_json_member m = {0}; !code && ls_json_next(doc, &m);)
        if (strcmp(m.key, "__metadata__") != 0) code = read_tensor(&p, m.key, m.value);
    ls_json_free(doc);
    if (out->n) qsort(out->tensors, out->n, sizeof *out->tensors, by_offset);
    for (size_t i = 1; i < out->n && !code; i++)
        if (out->tensors[i].offset < out->tensors[i - 1].offset + out->tensors[i - 1].n_bytes)
            code = ls_fail(err, LS_E_RANGE, "tensors '%.80s' and '%.80s' overlap", out->tensors[i - 1].name,
                           out->tensors[i].name);
    if (code) ls_safetensors_free(out);
    return code;
}

void ls_safetensors_free(ls_safetensors *s) {
    for (size_t i = 0; i < s->n; i++) free(s->tensors[i].name);
    free(s->tensors);
    *s = (ls_safetensors){0};
}

// ---- a folder

enum { CONFIG_BYTES = 16 << 20, INDEX_BYTES = 64 << 20, HEADER_BYTES = 100 << 20 }; // 100 MB: the format's own limit

ls_code ls_folder_read(const char *folder, const char *name, size_t most, ls_buf *out, ls_err *err) {
    char *path = ls_format("%s/%s", folder, name);
    int unopened;
    ls_code code = ls_read_any(out, path, most, &unopened, err);
    if (unopened) code = unopened == ENOENT ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", path, strerror(unopened));
    else ls_buf_str(out, ""); // an empty file is one, too
    free(path);
    return code;
}

ls_code ls_folder_json(const char *folder, const char *name, ls_json **out, char sha256[65], ls_err *err) {
    ls_buf text = {0};
    *out = NULL;
    char *where = ls_format("%s/%s", folder, name);
    ls_code code = ls_folder_read(folder, name, CONFIG_BYTES, &text, err);
    if (!code && text.p) code = ls_json_parse_pythons(out, text.p, text.n, where, err);
    if (!code && text.p && sha256) ls_sha256_hex(text.p, text.n, sha256);
    free(where);
    ls_buf_free(&text);
    return code;
}

static ls_code add_tensor(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err) {
    char name[96];
    (void)ud;
    const char *path = c->files[c->n_files - 1].path;
    if (c->hparams.partial && of_vision(t->name)) {
        c->hparams.n_skipped++;
        c->hparams.skipped = of_vision(t->name);
        return LS_OK;
    }
    if (c->hparams.arch->balanced && ls_behind(t->name, "model.mtp_")) { // ERNIE's layer for further tokens
        c->hparams.n_next = 1;
        c->hparams.n_skipped++;
        return LS_OK;
    }
    const char *layer = c->hparams.n_next ? strstr(t->name, "layers.") : NULL;
    if (layer) {
        snprintf(name, sizeof name, "blk.%.20s", layer + strlen("layers."));
        if (ls_checkpoint_skips(c, name)) return LS_OK;
    }
    bool taken;
    ls_code code = ls_experts_take(c, t, &taken, err);
    if (!code && !taken) code = ls_quantized_take(c, t, &taken, err);
    if (code || taken) return code;
    if (!ls_tensor_name(c->hparams.arch, t->name, name, sizeof name))
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: the architecture %s has no tensor '%.80s'", path,
                       c->hparams.arch->hf, t->name);
    if (!*name || (c->hparams.tied && !strcmp(name, "output.weight"))) return LS_OK;
    if (t->type < 0)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: tensor '%.80s' has type '%s'; supported: F32, F16, BF16", path,
                       t->name, t->dtype);
    const bool experts = t->n_dims == 3 && strstr(name, "_exps."); // [expert][output][input]
    if ((t->n_dims > 2 && !experts) || (!t->n_dims && t->n_bytes > 4))
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.80s' has %d dimensions", path, t->name, t->n_dims);
    const ls_tensor as = {.name = ls_strdup(name),
                          .type = t->type,
                          .n_in = t->n_dims ? t->dim[t->n_dims - 1] : 1,
                          .n_out = experts          ? t->dim[0] * t->dim[1]
                                   : t->n_dims == 2 ? t->dim[0]
                                                    : 1,
                          .file = c->n_files - 1,
                          .offset = t->offset,
                          .n_bytes = t->n_bytes};
    return ls_checkpoint_add(c, as, err);
}

static ls_code add_file(ls_checkpoint *c, const char *path, ls_on_safetensor on, void *ud, ls_err *err) {
    ls_safetensors s = {0};
    ls_buf text = {0};
    unsigned char head[8];
    uint64_t n = 0;
    ls_code code = ls_checkpoint_add_file(c, path, err);
    if (code) return code;
    const ls_file *f = &c->files[c->n_files - 1];
    if (f->n_bytes < sizeof head) return ls_fail(err, LS_E_PARSE, "%s: too short for safetensors", path);
    if ((code = ls_file_read(f, 0, head, sizeof head, err))) return code;
    for (int i = 7; i >= 0; i--) n = n << 8 | head[i];
    if (n < 2 || n > f->n_bytes - 8 || n > HEADER_BYTES) {
        char first[64] = "";
        const size_t few = f->n_bytes < sizeof first ? (size_t)f->n_bytes : sizeof first;
        if ((code = ls_file_read(f, 0, first, few, err))) return code;
        return ls_fail(err, LS_E_PARSE, "%s: not a safetensors file (a header of %llu bytes)%s", path,
                       (unsigned long long)n, ls_file_mistaken(first, few));
    }
    code = ls_file_read(f, 8, ls_buf_room(&text, n), n, err);
    if (!code && (code = ls_safetensors_parse(&s, text.p, n, f->n_bytes, err))) ls_err_prefix(err, "%s", path);
    for (size_t i = 0; i < s.n && !code; i++) code = on(c, ud, &s.tensors[i], err);
    ls_safetensors_free(&s);
    ls_buf_free(&text);
    return code;
}

typedef struct {
    char **names; // of the files
    size_t n;
    ls_map index; // hash of a name -> index in names
} shards;

static ls_code read_shards(shards *s, const ls_json *map, ls_err *err) {
    if (!ls_json_is_object(map)) return ls_fail(err, LS_E_PARSE, "model.safetensors.index.json has no weight_map");
    for (ls_json_member m = {0}; ls_json_next(map, &m);) {
        size_t n;
        const char *name = ls_json_str(m.value, &n);
        if (!name || !n || n > 200 || strlen(name) != n || strchr(name, '/') || *name == '.')
            return ls_fail(err, LS_E_PARSE, "the file of tensor '%.80s' must be a plain file name", m.key);
        const int32_t i = *ls_map_at(&s->index, ls_hash_name(name, n), (int32_t)s->n);
        if ((size_t)i < s->n && !strcmp(s->names[i], name)) continue;
        s->names = ls_grown(s->names, s->n, sizeof *s->names);
        s->names[s->n++] = ls_strdup(name);
    }
    return LS_OK;
}

static ls_code add_shards(ls_checkpoint *c, const char *folder, const ls_buf *index, ls_on_safetensor on, void *ud,
                          ls_err *err) {
    ls_json *doc = NULL;
    shards s = {0};
    ls_code code = ls_json_parse(&doc, index->p, index->n, "model.safetensors.index.json", err);
    if (!code) code = read_shards(&s, ls_json_get(doc, "weight_map"), err);
    if (!code && !s.n) code = ls_fail(err, LS_E_PARSE, "the weight_map of model.safetensors.index.json names no file");
    if (code) ls_err_prefix(err, "%s", folder);
    for (size_t i = 0; i < s.n; i++) {
        char *path = ls_format("%s/%s", folder, s.names[i]);
        if (!code) code = add_file(c, path, on, ud, err);
        free(path);
        free(s.names[i]);
    }
    free(s.names);
    ls_map_free(&s.index);
    ls_json_free(doc);
    return code;
}

ls_code ls_checkpoint_safetensors(ls_checkpoint *c, const char *folder, const char *single, ls_on_safetensor on,
                                  void *ud, ls_err *err) {
    ls_buf text = {0};
    ls_code code = LS_OK;
    char *path = ls_format("%s/%s", folder, single);
    if (!access(path, F_OK)) code = add_file(c, path, on, ud, err); // an index, if any, is older than the merged file
    else if (!(code = ls_folder_read(folder, "model.safetensors.index.json", INDEX_BYTES, &text, err)))
        code = text.p ? add_shards(c, folder, &text, on, ud, err)
                      : ls_fail(err, LS_E_IO, "%s: no %s; weights in other formats are not supported", folder, single);
    free(path);
    ls_buf_free(&text);
    return code;
}

static ls_code add_kind(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err) {
    (void)c, (void)err;
    if (!of_vision(t->name)) ls_tensor_kinds_add(ud, (ls_str){t->name, strlen(t->name)});
    return LS_OK;
}

// The message of an unknown model_type, completed.
static void say_nearest(ls_checkpoint *c, const ls_json *config, ls_err *err) {
    const ls_json *text = ls_json_given(config, "text_config");
    ls_tensor_kinds kinds = {0};
    const ls_str type = ls_json_text(ls_json_get(text ? text : config, "model_type"));
    if (!type.p || ls_arch_find(type, true)) return; // something else is wrong
    ls_checkpoint_safetensors(c, c->folder, "model.safetensors", add_kind, &kinds, &(ls_err){0});
    ls_nearest_say(&kinds, type, true, err);
    ls_tensor_kinds_free(&kinds);
}

ls_code ls_checkpoint_of_folder(ls_checkpoint *c, const char *folder, ls_err *err) {
    ls_json *config;
    c->folder = ls_strdup(folder);
    ls_code code = ls_folder_json(folder, "config.json", &config, c->config_sha256, err);
    if (!code && !config)
        code = ls_fail(err, LS_E_IO, "%s: no config.json; a model is a Hugging Face folder or a GGUF file", folder);
    if (!code && (code = ls_hparams_config(&c->hparams, config, err))) {
        ls_err_prefix(err, "%s/config.json", folder);
        if (code == LS_E_UNSUPPORTED) say_nearest(c, config, err);
    }
    if (!code && (code = ls_quant_config_read(&c->quant, config, err))) ls_err_prefix(err, "%s/config.json", folder);
    ls_json_free(config);
    if (!code) code = ls_checkpoint_safetensors(c, folder, "model.safetensors", add_tensor, NULL, err);
    if (!code) code = ls_quantized_complete(c, err);
    return code;
}
