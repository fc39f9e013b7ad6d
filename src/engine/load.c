#include "engine/load.h"
#include "base/mem.h"
#include "model/registry.h"
#include "engine/engine_script.h"
#include "engine/engine_torch.h"
#include "engine/load_text.h"
#include "engine/model_hash.h"
#include "engine/second.h"
#include "engine/threads.h"

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

static void name_of(ls_model *m, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--; // a folder may be written with a slash
    const char *base = memrchr(path, '/', n);
    base = base ? base + 1 : path;
    snprintf(m->file, sizeof m->file, "%s", path);
    snprintf(m->name, sizeof m->name, "%.*s", (int)(path + n - base), base);
    char *ext = strstr(m->name, ".gguf");
    if (ext) *ext = 0;
}

typedef enum { ALL, TEXT, VOCABULARY } extent;

static ls_code load_file(ls_model *m, const ls_model_options *opt, extent what, ls_err *err) {
    const ls_engine_options *b = &opt->engine;
    char *path = ls_model_path(opt->name);
    ls_code code = ls_registry_ready(opt->name, err);
    if (!code) code = (what == VOCABULARY ? ls_checkpoint_open_text : ls_checkpoint_open)(&m->checkpoint, path, err);
    if (!code) code = ls_load_text(m, m->checkpoint, opt, err);
    if (!code) name_of(m, path);
    if (!code && !m->checkpoint->n_tensors) {
        ls_checkpoint_close(m->checkpoint);
        m->checkpoint = NULL;
    }
    if (!code && what == ALL) {
        // (which comes first, as other ranks wait for this one)
        code = ls_engine_torch_open(&m->engine, m->checkpoint, b, err);
        if (!code) code = ls_model_hash(m->checkpoint, m->sha256, b->progress, b->ud, err);
        if (!code) code = ls_registry_pinned(opt->name, m->checkpoint, err);
        if (!code) code = ls_threads_choose(m, false, b->progress, b->ud, err);
    }
    free(path);
    return code;
}

static ls_code load(ls_model *out, const ls_model_options *opt, extent what, ls_err *err) {
    const char *name = opt->name;
    *out = (ls_model){0};
    ls_code code;
    if (!is_script(name)) code = load_file(out, opt, what, err);
    else {
        code = ls_script_vocab(&out->vocab, err);
        if (!code)
            code = ls_chat_new(&out->chat, out->vocab, ls_script_chat_template, strlen(ls_script_chat_template), err);
        if (!code && what == ALL) out->engine = ls_engine_script_new(name[6] ? atoi(name + 7) : 0, opt->engine.context);
        snprintf(out->name, sizeof out->name, "%s", name);
    }
    out->stop = opt->engine.stop;
    out->stop_ud = opt->engine.ud;
    if (code) ls_model_free(out);
    else ls_vocab_stop(out->vocab, out->stop, out->stop_ud);
    return code;
}

ls_code ls_model_load(ls_model *out, const ls_model_options *opt, ls_err *err) {
    return load(out, opt, ALL, err);
}

ls_code ls_model_load_text(ls_model *out, const ls_model_options *opt, ls_err *err) {
    return load(out, opt, TEXT, err);
}

ls_code ls_model_load_vocabulary(ls_model *out, const ls_model_options *opt, ls_err *err) {
    return load(out, opt, VOCABULARY, err);
}

void ls_model_free(ls_model *m) {
    ls_second_models_free(m);
    if (m->engine) m->engine->close(m->engine);
    ls_chat_free(m->chat);
    ls_vocab_free(m->vocab);
    ls_checkpoint_close(m->checkpoint);
    free(m->costs);
    *m = (ls_model){0};
}
