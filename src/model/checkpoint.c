#include "model/checkpoint_internal.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- GGUF

// Files of an architecture without norms after its sublayers may call the norm before the feed-forward part
// post_attention_norm (Seed-OSS).
static char *own_name(const ls_arch *arch, ls_str name) {
    static const char post[] = "post_attention_norm.weight";
    const size_t n = sizeof post - 1;
    if (!arch || arch->norm_after || name.n < n || memcmp(name.p + name.n - n, post, n))
        return ls_strndup(name.p, name.n);
    return ls_format("%.*sffn_norm.weight", (int)(name.n - n), name.p);
}

bool ls_checkpoint_skips(ls_checkpoint *c, const char *name) {
    int layer;
    ls_hparams *h = &c->hparams;
    if (!h->n_next || sscanf(name, "blk.%d.", &layer) != 1 || layer < h->n_layers || layer >= h->n_layers + h->n_next)
        return false;
    h->n_skipped++;
    return true;
}

static ls_code add_tensors(ls_checkpoint *c, const ls_gguf *g, ls_err *err) {
    ls_code code = LS_OK;
    for (int i = 0; i < g->n_tensors && !code; i++) {
        const ls_gguf_tensor *t = &g->tensors[i];
        char *name = own_name(c->hparams.arch, t->name);
        if (ls_checkpoint_skips(c, name) || ls_quantized_take_gguf(c, t)) {
            free(name);
            continue;
        }
        const ls_tensor as = {.name = name,
                              .type = t->type,
                              .n_in = t->dim[0],
                              .n_out = t->dim[1] * t->dim[2] * t->dim[3],
                              .file = c->n_files - 1,
                              .offset = t->offset,
                              .n_bytes = t->n_bytes};
        code = ls_checkpoint_add(c, as, err);
    }
    return code;
}

// The offset of the part number in NAME-00002-of-00003.gguf; 0: the name has another form.
static size_t split_number(const char *path) {
    const size_t n = strlen(path), tail = strlen("-00001-of-00001.gguf");
    int end = 0;
    unsigned no, of;
    if (n < tail || sscanf(path + n - tail, "-%5u-of-%5u.gguf%n", &no, &of, &end) != 2 || (size_t)end != tail) return 0;
    return n - tail + 1;
}

static ls_code open_first(ls_checkpoint *c, const char *path, ls_err *err) {
    const ls_code code = ls_checkpoint_add_file(c, path, err);
    return code ? code : ls_gguf_open(&c->gguf, &c->files[0], err);
}

// The message of an unknown architecture, completed.
static void say_nearest(const ls_gguf *g, ls_err *err) {
    ls_tensor_kinds kinds = {0};
    ls_str arch;
    if (ls_gguf_str(g, "general.architecture", &arch, NULL) || ls_arch_find(arch, false)) return;
    for (int i = 0; i < g->n_tensors; i++) ls_tensor_kinds_add(&kinds, g->tensors[i].name);
    ls_nearest_say(&kinds, arch, false, err);
    ls_tensor_kinds_free(&kinds);
}

static ls_code open_gguf(ls_checkpoint *c, const char *path, ls_err *err) {
    uint32_t count = 1, n_tensors = 0;
    char *first = ls_strdup(path);
    const size_t at = split_number(path);
    ls_code code = open_first(c, path, err); // an unsplit file may have a part's name
    if (!code && at && ls_gguf_has(c->gguf, "split.count") && memcmp(path + at, "00001", 5) != 0) {
        memcpy(first + at, "00001", 5); // it has the metadata NOLINT(bugprone-not-null-terminated-result): amid a name
        ls_gguf_free(c->gguf);
        c->gguf = NULL;
        ls_file_close(&c->files[--c->n_files]);
        code = open_first(c, first, err);
    }
    const bool opened = !code;
    if (!code && ls_gguf_has(c->gguf, "split.count")) {
        code = ls_gguf_u32(c->gguf, "split.count", &count, err);
        if (!code && (!count || count > 99999 || (count > 1 && !at)))
            code = ls_fail(err, LS_E_PARSE, "this file is one of %u parts, so its name must be NAME-00001-of-%05u.gguf",
                           count, count);
    }
    const bool only_text = !code && count == 1 && !c->gguf->n_tensors;
    if (!code && !only_text) code = ls_hparams_gguf(&c->hparams, c->gguf, NULL, err);
    if (code && opened) ls_err_prefix(err, "%s", first);
    if (code == LS_E_UNSUPPORTED && opened) say_nearest(c->gguf, err);
    for (uint32_t i = 0; i < count && !code; i++) {
        ls_gguf *part = NULL;
        if (i) {
            char number[12];
            snprintf(number, sizeof number, "%05u", i + 1);
            memcpy(first + at, number, 5);
            code = ls_checkpoint_add_file(c, first, err);
            if (!code) code = ls_gguf_open(&part, &c->files[i], err);
        }
        if (!code) code = add_tensors(c, part ? part : c->gguf, err);
        if (!code) n_tensors += (uint32_t)(part ? part : c->gguf)->n_tensors;
        ls_gguf_free(part);
    }
    uint32_t tensors = n_tensors;
    if (!code && count > 1 && ls_gguf_has(c->gguf, "split.tensors.count") &&
        !(code = ls_gguf_u32(c->gguf, "split.tensors.count", &tensors, err)) && tensors != n_tensors)
        code = ls_fail(err, LS_E_PARSE, "%s: the parts have %u tensors instead of %u", path, n_tensors, tensors);
    if (!code) code = ls_quantized_complete(c, err);
    free(first);
    return code;
}

// ---- any checkpoint

ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_err *err) {
    c->files = ls_grown(c->files, (size_t)c->n_files, sizeof *c->files);
    const ls_code code = ls_file_open(&c->files[c->n_files], path, err);
    c->n_files += !code;
    return code;
}

ls_code ls_checkpoint_add(ls_checkpoint *c, ls_tensor t, ls_err *err) {
    if (ls_checkpoint_find(c, t.name)) {
        ls_fail(err, LS_E_PARSE, "%s: tensor '%.80s' occurs twice", c->files[t.file].path, t.name);
        free(t.name);
        return LS_E_PARSE;
    }
    c->tensors = ls_grown(c->tensors, (size_t)c->n_tensors, sizeof *c->tensors);
    t.source = t.type;
    ls_map_put(&c->index, ls_hash_name(t.name, strlen(t.name)), c->n_tensors);
    c->tensors[c->n_tensors++] = t;
    return LS_OK;
}

const ls_tensor *ls_checkpoint_find(const ls_checkpoint *c, const char *name) {
    int32_t i;
    const bool known = ls_map_get(&c->index, ls_hash_name(name, strlen(name)), &i);
    return known && !strcmp(c->tensors[i].name, name) ? &c->tensors[i] : NULL;
}

uint64_t ls_checkpoint_parameters(const ls_checkpoint *c) {
    uint64_t n = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i]; // before padding
        const uint64_t n_in = t->in.groups ? (uint64_t)t->in.groups * (uint64_t)t->in.from : t->n_in,
                       n_out = t->out.groups ? (uint64_t)t->out.groups * (uint64_t)t->out.from : t->n_out;
        if (strncmp(t->name, "rope_", 5)) n += n_in * n_out;
    }
    return n;
}

static ls_code check_size(const ls_checkpoint *c, const char *name, int64_t n_in, int64_t n_out, ls_err *err) {
    const ls_tensor *t = ls_checkpoint_find(c, name);
    if (!t) return ls_fail(err, LS_E_PARSE, "%s: no tensor '%s'", c->files[0].path, name);
    if (t->n_in != (uint64_t)n_in || t->n_out != (uint64_t)n_out)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%s' is %llu x %llu, expected %lld x %lld", c->files[t->file].path,
                       name, (unsigned long long)t->n_out, (unsigned long long)t->n_in, (long long)n_out,
                       (long long)n_in);
    return LS_OK;
}

ls_code ls_rope_divide(const ls_checkpoint *c, const ls_tensor *t, int32_t n, const float *plain, float *out,
                       ls_err *err) {
    const ls_file *f = &c->files[t->file];
    float factors[LS_MAX_ROPE];
    if (t->type != LS_GGML_F32 || t->n_out != 1 || t->n_in != (uint64_t)n)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%s' must have %d values of f32", f->path, t->name, n);
    const ls_code code = ls_file_read(f, t->offset, factors, t->n_bytes, err);
    for (int i = 0; i < n && !code; i++) {
        if (!(factors[i] > 0))
            return ls_fail(err, LS_E_RANGE, "%s: tensor '%s' has the invalid value %g", f->path, t->name,
                           (double)factors[i]);
        out[i] = plain[i] / factors[i];
    }
    return code;
}

// Llama 3's factors, or longrope's: of the usual context and of a longer one.
static ls_code rope_factors(ls_checkpoint *c, ls_err *err) {
    ls_hparams *h = &c->hparams;
    const bool of_folder = c->folder != NULL; // its config.json has them
    float *const freq = h->rope_freq[0];
    const ls_tensor *of_long = ls_checkpoint_find(c, "rope_factors_long.weight"),
                    *factors = ls_checkpoint_find(c, "rope_freqs.weight");
    const int32_t n = h->rope_dims / 2;
    ls_code code = of_long ? ls_rope_divide(c, of_long, n, freq, h->rope_long, err) : LS_OK;
    if (!of_long && !of_folder) h->n_context_long = 0;
    if (!factors) factors = ls_checkpoint_find(c, "rope_factors_short.weight");
    if (!code && factors) code = ls_rope_divide(c, factors, n, freq, freq, err);
    if (!h->arch->plain_local) memcpy(h->rope_freq[1], freq, sizeof h->rope_freq[1]);
    return code;
}

// The first value of a tensor of floats.
static ls_code first_value(const ls_checkpoint *c, const ls_tensor *t, float *out, ls_err *err) {
    unsigned char raw[4] = {0};
    const bool half = t->type == LS_GGML_F16;
    if (t->type != LS_GGML_F32 && t->type != LS_GGML_BF16 && !half)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: tensor '%s' must be F32, F16 or BF16", c->files[t->file].path,
                       t->name);
    const ls_code code = ls_checkpoint_read(c, (int)(t - c->tensors), 0, t->type == LS_GGML_F32 ? 4 : 2,
                                            raw + (t->type == LS_GGML_BF16 ? 2 : 0), err);
    if (half) *out = ls_half(raw);
    else memcpy(out, raw, sizeof *out);
    return code;
}

// xIELU's numbers in a folder, a tensor of one value each.
static ls_code read_xielu(ls_checkpoint *c, ls_err *err) {
    static const char *const names[] = {"alpha_p", "alpha_n", "beta", "eps"};
    for (int layer = 0; layer < c->hparams.n_layers; layer++) {
        double v[4] = {0, 0, 0.5, -1e-6}; // the class's beta and eps
        for (int i = 0; i < 4; i++) {
            char name[64];
            float value;
            snprintf(name, sizeof name, "blk.%d.ffn_act.%s", layer, names[i]);
            const ls_tensor *t = ls_checkpoint_find(c, name);
            if (!t && i >= 2) continue;
            ls_code code = t ? check_size(c, name, 1, 1, err)
                             : ls_fail(err, LS_E_PARSE, "%s: no tensor '%s'", c->files[0].path, name);
            if (!code) code = first_value(c, t, &value, err);
            if (code) return code;
            v[i] = (double)value;
        }
        ls_xielu_set(&c->hparams, layer, v[0], v[1], v[2], v[3]);
    }
    return ls_hparams_check(&c->hparams, err);
}

static ls_code complete(ls_checkpoint *c, ls_err *err) {
    ls_hparams *h = &c->hparams;
    ls_code code;
    for (const ls_tensor *t = c->tensors; t < c->tensors + c->n_tensors; t++)
        if (!ls_tensor_known(h->arch, t->name, h->n_layers)) // the decoder would silently ignore it
            return ls_fail(err, LS_E_UNSUPPORTED, "%s: the architecture %s has no tensor '%.80s'",
                           c->files[t->file].path, h->arch->gguf, t->name);
    const ls_tensor *embd = ls_checkpoint_find(c, "token_embd.weight");
    if (!embd) return ls_fail(err, LS_E_PARSE, "%s: no tensor 'token_embd.weight'", c->files[0].path);
    if (embd->n_out >= 1 << 21)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: a vocabulary of %llu tokens is not supported", c->files[0].path,
                       (unsigned long long)embd->n_out);
    h->n_vocab = (int32_t)embd->n_out;
    h->tied |= !ls_checkpoint_find(c, "output.weight");
    char name[64];
    bool normed = !h->arch->qk_norm_stated || c->folder;
    for (int layer = 0; layer < h->n_layers && !normed; layer++) {
        snprintf(name, sizeof name, "blk.%d.attn_q_norm.weight", layer);
        normed = ls_checkpoint_find(c, name) != NULL;
    }
    if (!normed) h->qk_norm = LS_QK_NORM_NONE;
    for (int layer = 0; layer < h->n_layers; layer++) {
        for (int i = 0; ls_arch_norm(h->arch, i); i++) {
            const char *norm = ls_arch_norm(h->arch, i);
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, norm);
            const bool of_heads = !strcmp(norm, "attn_q_norm") || !strcmp(norm, "attn_k_norm");
            if ((h->qk_norm != LS_QK_NORM_NONE || !of_heads) && !ls_checkpoint_find(c, name))
                return ls_fail(err, LS_E_PARSE, "%s: no tensor '%s'", c->files[0].path, name);
        }
        snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", layer);
        if (h->arch->balanced && !h->dense[layer] && !ls_checkpoint_find(c, name))
            return ls_fail(err, LS_E_PARSE, "%s: no tensor '%s'", c->files[0].path, name);
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", layer);
        if (h->dense[layer] && ls_checkpoint_find(c, name))
            return ls_fail(err, LS_E_PARSE,
                           "%s: tensor '%s' is of a mixture, but the configuration states a dense layer",
                           c->files[0].path, name);
        snprintf(name, sizeof name, "blk.%d.ffn_up_shexp.weight", layer);
        if (!h->n_ff_shared && ls_checkpoint_find(c, name))
            return ls_fail(err, LS_E_PARSE, "%s: tensor '%s' is of a shared expert, but the configuration states none",
                           c->files[0].path, name);
    }
    // opening the decoder checks its tensors; the following tensors are read before that
    if ((code = check_size(c, "token_embd.weight", h->n_embd, h->n_vocab, err)) ||
        (code = check_size(c, "output_norm.weight", h->n_embd, 1, err)) ||
        (!h->tied && (code = check_size(c, "output.weight", h->n_embd, h->n_vocab, err))))
        return code;
    code = rope_factors(c, err);
    if (!code && c->folder && h->arch->activation == LS_ACT_XIELU) code = read_xielu(c, err);
    return code ? code : ls_pad_checkpoint(c, err);
}

ls_code ls_checkpoint_open(ls_checkpoint **out, const char *path, ls_err *err) {
    struct stat st;
    ls_checkpoint *c = ls_calloc(1, sizeof *c);
    *out = NULL;
    const bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
    ls_code code = folder ? ls_checkpoint_of_folder(c, path, err) : open_gguf(c, path, err);
    if (!code && c->hparams.arch) code = complete(c, err);
    for (int i = 0; i < c->n_tensors; i++) c->n_bytes += c->tensors[i].n_bytes;
    if (code) ls_checkpoint_close(c);
    else *out = c;
    return code;
}

void ls_checkpoint_close(ls_checkpoint *c) {
    if (!c) return;
    for (int i = 0; i < c->n_tensors; i++) free(c->tensors[i].name);
    for (int i = 0; i < c->n_files; i++) ls_file_close(&c->files[i]);
    free(c->tensors);
    ls_map_free(&c->index);
    ls_map_free(&c->modules);
    free(c->files);
    free(c->folder);
    ls_quantized_free(c);
    ls_gguf_free(c->gguf);
    free(c);
}

ls_code ls_checkpoint_read(const ls_checkpoint *c, int i, uint64_t at, uint64_t n, void *dst, ls_err *err) {
    const ls_tensor *t = &c->tensors[i];
    if (t->quantized) return ls_quantized_read(c, t, at, n, dst, err);
    if (t->in.groups || t->out.groups) return ls_pad_read(c, t, at, n, dst, err);
    return ls_file_read(&c->files[t->file], t->offset + at, dst, n, err);
}

ls_code ls_checkpoint_unchanged(const ls_checkpoint *c, ls_err *err) {
    ls_code code = LS_OK;
    for (int i = 0; i < c->n_files && !code; i++) code = ls_file_unchanged(&c->files[i], err);
    return code;
}
