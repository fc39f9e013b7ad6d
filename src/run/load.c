#include "run/load.h"
#include "base/mem.h"
#include "model/registry.h"
#include "run/backend_script.h"
#include "run/backend_torch.h"
#include "run/model_hash.h"

#include <stdlib.h>
#include <string.h>

static bool is_script(const char *name) {
    return !strcmp(name, "script") || !strncmp(name, "script:", 7);
}

char *ls_model_path(const char *name) {
    if (is_script(name)) return NULL;
    char *path = ls_registry_path(name);
    return path ? path : ls_strdup(name);
}

static ls_code read_vocab(ls_vocab **out, const ls_gguf *g, ls_err *err) {
    ls_str *tokens = NULL, *merges = NULL, kind, pre;
    int32_t *types = NULL;
    size_t n_tokens = 0, n_types = 0, n_merges = 0;
    uint32_t bos = 0, eos = 0;
    ls_code code;
    if ((code = ls_gguf_str(g, "tokenizer.ggml.model", &kind, err))) return code;
    if (kind.n != 4 || memcmp(kind.p, "gpt2", 4))
        return ls_fail(err, LS_E_UNSUPPORTED, "tokenizer '%.*s'; only byte-level BPE ('gpt2') is supported",
                       (int)(kind.n < 64 ? kind.n : 64), kind.p);
    char pre_name[64] = "gpt-2";
    if (ls_gguf_has(g, "tokenizer.ggml.pre")) {
        if ((code = ls_gguf_str(g, "tokenizer.ggml.pre", &pre, err))) return code;
        snprintf(pre_name, sizeof pre_name, "%.*s", (int)(pre.n < 63 ? pre.n : 63), pre.p);
    }
    bool has_bos = ls_gguf_has(g, "tokenizer.ggml.bos_token_id"),
         has_eos = ls_gguf_has(g, "tokenizer.ggml.eos_token_id");
    if ((has_bos && (code = ls_gguf_u32(g, "tokenizer.ggml.bos_token_id", &bos, err))) ||
        (has_eos && (code = ls_gguf_u32(g, "tokenizer.ggml.eos_token_id", &eos, err))) ||
        (code = ls_gguf_str_array(g, "tokenizer.ggml.tokens", &tokens, &n_tokens, err)) ||
        (code = ls_gguf_i32_array(g, "tokenizer.ggml.token_type", &types, &n_types, err)) ||
        (code = ls_gguf_str_array(g, "tokenizer.ggml.merges", &merges, &n_merges, err))) {
    } else if (n_types != n_tokens)
        code = ls_fail(err, LS_E_PARSE, "the file has %zu tokens but %zu token types", n_tokens, n_types);
    else if ((has_bos && bos >= n_tokens) || (has_eos && eos >= n_tokens))
        code = ls_fail(err, LS_E_PARSE, "the begin or end token (%u, %u) is outside the vocabulary of %zu", bos, eos,
                       n_tokens);
    else
        code = ls_vocab_new(out,
                            &(ls_vocab_source){tokens, n_tokens, types, merges, n_merges, pre_name,
                                               has_bos ? (int32_t)bos : -1, has_eos ? (int32_t)eos : -1},
                            err);
    free(tokens);
    free(types);
    free(merges);
    return code;
}

static ls_code read_chat(ls_model *m, const ls_gguf *g) {
    ls_str s;
    ls_err why = {0};
    if (!ls_gguf_has(g, "tokenizer.chat_template"))
        snprintf(m->chat_problem, sizeof m->chat_problem, "the model file has no chat template");
    else if (ls_gguf_str(g, "tokenizer.chat_template", &s, &why) || ls_chat_new(&m->chat, m->vocab, s.p, s.n, &why))
        snprintf(m->chat_problem, sizeof m->chat_problem, "%.255s", why.msg);
    return LS_OK;
}

// Everything but the weights: hyper-parameters, vocabulary, chat frame.
static ls_code load_text(ls_model *m, const char *path, ls_err *err) {
    ls_code code = ls_checkpoint_open(&m->checkpoint, path, err);
    if (code) return code;
    const ls_checkpoint *c = m->checkpoint;
    code = c->gguf ? read_vocab(&m->vocab, c->gguf, err) : ls_fail(err, LS_E_UNSUPPORTED, "no tokenizer yet");
    if (code) {
        ls_err_prefix(err, "%s", path);
        return code;
    }
    snprintf(m->file, sizeof m->file, "%s", path);
    const char *base = strrchr(path, '/');
    snprintf(m->name, sizeof m->name, "%s", base ? base + 1 : path);
    char *ext = strstr(m->name, ".gguf");
    if (ext) *ext = 0;
    return read_chat(m, c->gguf);
}

static ls_code load_file(ls_model *m, const char *name, const ls_backend_options *b, ls_err *err) {
    char *path = ls_model_path(name);
    ls_code code = ls_registry_ready(name, err);
    if (!code) code = load_text(m, path, err);
    if (!code && b) {
        code = ls_model_hash(m->checkpoint, m->sha256, b->progress, b->ud, err);
        if (!code) code = ls_backend_torch_open(&m->backend, m->checkpoint, b, err);
    }
    free(path);
    return code;
}

static ls_code load(ls_model *out, const char *name, const ls_backend_options *b, ls_err *err) {
    *out = (ls_model){0};
    ls_code code;
    if (!is_script(name)) code = load_file(out, name, b, err);
    else {
        code = ls_script_vocab(&out->vocab, err);
        if (!code)
            code = ls_chat_new(&out->chat, out->vocab, ls_script_chat_template, strlen(ls_script_chat_template), err);
        if (!code && b) out->backend = ls_backend_script_new(name[6] ? atoi(name + 7) : 0);
        snprintf(out->name, sizeof out->name, "%s", name);
    }
    if (code) ls_model_free(out);
    return code;
}

ls_code ls_model_load(ls_model *out, const ls_model_options *opt, ls_err *err) {
    return load(out, opt->name, &opt->backend, err);
}

ls_code ls_model_load_text(ls_model *out, const char *name, ls_err *err) {
    return load(out, name, NULL, err);
}

void ls_model_free(ls_model *m) {
    if (m->backend) m->backend->close(m->backend);
    ls_chat_free(m->chat);
    ls_vocab_free(m->vocab);
    ls_checkpoint_close(m->checkpoint);
    *m = (ls_model){0};
}
