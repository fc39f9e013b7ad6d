#include "model/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *hf, *gguf;
} of_model[] = {{"embed_tokens.weight", "token_embd.weight"}, {"norm.weight", "output_norm.weight"}},
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
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
};

static const char *behind(const char *name, const char *prefix) { // NULL: name does not begin with prefix
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) ? NULL : name + n;
}

bool ls_tensor_name(const ls_arch *arch, bool sees, const char *hf, char *out, size_t size) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.", "model.",
                                           "language_model.", ""};
    const char *name = NULL;
    *out = 0;
    for (size_t i = 0; !name; i++) name = behind(hf, prefixes[i]);
    if (strstr(name, "rotary_emb.inv_freq")) return true;
    if (sees && (strstr(hf, "vision_tower.") || strstr(hf, "multi_modal_projector."))) return true;
    if (!strcmp(name, "lm_head.weight")) {
        snprintf(out, size, "output.weight");
        return true;
    }
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
        if (!strcmp(name, of_model[i].hf)) {
            snprintf(out, size, "%s", of_model[i].gguf);
            return true;
        }
    char *end = NULL;
    const char *at = behind(name, "layers.");
    const long layer = at ? strtol(at, &end, 10) : -1;
    if (!at || end == at || *end != '.' || layer < 0 || layer >= LS_MAX_LAYERS) return false;
    at = end + 1;
    for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
        const char *kind = behind(at, of_layer[i].hf);
        if (!kind || (strcmp(kind, ".weight") && strcmp(kind, ".bias"))) continue;
        const char *gguf = of_layer[i].gguf;
        if (arch->norm_after && !strcmp(of_layer[i].hf, "post_attention_layernorm")) gguf = "post_attention_norm";
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
    static const char *const single[] = {
        "token_embd.weight",        "output_norm.weight",       "output.weight", "output.bias", "rope_freqs.weight",
        "rope_factors_long.weight", "rope_factors_short.weight"};
    static const char *const matrices[] = {"attn_q",      "attn_k",   "attn_v", "attn_qkv",
                                           "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (!strcmp(name, single[i])) return true;
    char *end = NULL;
    const char *at = behind(name, "blk.");
    const long layer = at ? strtol(at, &end, 10) : -1;
    if (!at || end == at || *end != '.' || layer < 0 || layer >= n_layers) return false;
    const char *kind = strrchr(end, '.');
    const size_t n = (size_t)(kind - end) - (kind > end);
    for (int i = 0; ls_arch_norm(arch, i); i++)
        if (strlen(ls_arch_norm(arch, i)) == n && !memcmp(ls_arch_norm(arch, i), end + 1, n))
            return !strcmp(kind, ".weight");
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (strlen(matrices[i]) == n && !memcmp(matrices[i], end + 1, n))
            return !strcmp(kind, ".weight") || !strcmp(kind, ".bias");
    return !strcmp(end + 1, "rope_freqs.weight"); // older files repeat it in every layer
}
