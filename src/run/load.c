#include "run/load.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/sha256.h"
#include "run/backend_script.h"
#include "run/backend_torch.h"
#include "run/vocab_gguf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_file[] = "models/smollm2-135m-instruct.Q4_1.gguf";

static bool is_script(const char *name) {
    return !strcmp(name, "script") || !strncmp(name, "script:", 7);
}

char *ls_model_path(const char *name) {
    if (is_script(name)) return NULL;
    return strcmp(name, "default") ? ls_strdup(name) : ls_data_path(default_file);
}

// Everything but the weights: hyper-parameters, vocabulary, chat frame.
static ls_code load_text(ls_model *m, ls_hparams *hp, const char *path, ls_err *err) {
    ls_str s;
    ls_code code = ls_gguf_open(&m->gguf, path, err);
    if (code) return code;
    if ((code = ls_hparams_read(hp, m->gguf, err)) || (code = ls_vocab_gguf(&m->vocab, m->gguf, err))) {
        ls_err_prefix(err, "%s", path);
        return code;
    }
    if (ls_vocab_size(m->vocab) != hp->n_vocab)
        return ls_fail(err, LS_E_PARSE, "%s: %d tokens for an embedding of %d rows", path, ls_vocab_size(m->vocab),
                       hp->n_vocab);
    if (hp->n_vocab >= 1 << 21)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: a vocabulary of %d tokens", path, hp->n_vocab);
    snprintf(m->file, sizeof m->file, "%s", path);
    const char *base = strrchr(path, '/');
    snprintf(m->name, sizeof m->name, "%s", base ? base + 1 : path);
    char *ext = strstr(m->name, ".gguf");
    if (ext) *ext = 0;
    ls_err why = {0};
    if (!ls_gguf_has(m->gguf, "tokenizer.chat_template"))
        snprintf(m->chat_problem, sizeof m->chat_problem, "the model file has no chat template");
    else if (ls_gguf_str(m->gguf, "tokenizer.chat_template", &s, &why) ||
             ls_chat_new(&m->chat, m->vocab, s.p, s.n, &why))
        snprintf(m->chat_problem, sizeof m->chat_problem, "%.255s", why.msg);
    return LS_OK;
}

static ls_code hash_file(ls_model *m, const char *path, ls_err *err) {
    ls_mapping file;
    ls_code code = ls_map_open(&file, path, err);
    if (code) return code;
    ls_sha256_hex(file.p, file.n, m->sha256);
    ls_map_close(&file);
    return LS_OK;
}

static ls_code load_file(ls_model *m, const char *name, const ls_backend_options *b, ls_err *err) {
    char *path = ls_model_path(name);
    ls_hparams hp;
    ls_code code;
    if (access(path, R_OK))
        code = strcmp(name, "default")
                   ? ls_fail(err, LS_E_IO, "no model file '%s' (a GGUF file or 'default' is expected)", path)
                   : ls_fail(err, LS_E_IO, "the default model is not here yet (%s): run 'make setup'", path);
    else code = load_text(m, &hp, path, err);
    if (!code && b) {
        if (b->progress && !b->progress(b->ud, "checking the model file", 0))
            code = ls_fail(err, LS_E_CANCELLED, "loading was cancelled");
        if (!code) code = hash_file(m, path, err);
        if (!code) code = ls_backend_torch_open(&m->backend, m->gguf, &hp, b, err);
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
    ls_gguf_free(m->gguf);
    *m = (ls_model){0};
}
