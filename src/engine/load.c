#include "engine/load.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "engine/measured.h"
#include "model/checkpoint.h"
#include "model/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- checksum

enum { HEX = 64 };

// The path of the cached checksum of the file at this path; *key: identifies that file.
static char *cache_of(const ls_file *f, char **key) {
    char *full = ls_real_path(f->path), *path = NULL;
    *key = full ? ls_file_key(f) : NULL;
    if (*key) {
        char *name = ls_format("sha256/%016llx.txt", (unsigned long long)ls_hash_bytes(full, strlen(full)));
        path = ls_user_path("XDG_CACHE_HOME", ".cache", name);
        free(name);
    }
    free(full);
    return path;
}

static bool load_hash(const char *path, const char *key, char out[65]) {
    char line[HEX + 256];
    FILE *f = fopen(path, "re");
    bool known = f && fgets(line, sizeof line, f) && strspn(line, "0123456789abcdef") == HEX && line[HEX] == ' ';
    if (known) {
        line[strcspn(line, "\n")] = 0;
        known = !strcmp(line + HEX + 1, key);
    }
    if (f) fclose(f);
    if (known) memcpy(out, line, HEX), out[HEX] = 0;
    return known;
}

static ls_code hash_file(ls_file *f, ls_progress progress, void *ud, ls_err *err) {
    char *key = NULL, *path = cache_of(f, &key);
    ls_code code = LS_OK;
    if (!path || !load_hash(path, key, f->sha256)) {
        code = ls_sha256_file(f, f->sha256, progress, ud, err);
        if (!code && path) {
            ls_buf text = {0};
            ls_make_folders(path);
            ls_buf_fmt(&text, "%s %s\n", f->sha256, key);
            ls_write_file(path, &text, NULL); // if this fails, the next run hashes the file again
            ls_buf_free(&text);
        }
    }
    free(key);
    free(path);
    return code;
}

static void add_line(ls_buf *lines, const char *sum, const char *path) {
    const char *name = strrchr(path, '/');
    ls_buf_fmt(lines, "%s  %s\n", sum, name ? name + 1 : path);
}

ls_code ls_model_hash(const ls_checkpoint *c, char out[65], ls_progress progress, void *ud, ls_err *err) {
    ls_buf lines = {0};
    ls_code code = LS_OK;
    for (int i = 0; i < c->n_files && !code; i++) {
        code = hash_file(&c->files[i], progress, ud, err);
        add_line(&lines, c->files[i].sha256, c->files[i].path);
    }
    if (c->folder) add_line(&lines, c->config_sha256, "config.json");
    if (c->n_files == 1 && !c->folder) memcpy(out, c->files[0].sha256, HEX + 1);
    else ls_sha256_hex(lines.p, lines.n, out);
    ls_buf_free(&lines);
    return code;
}

// ---- loading

static bool is_script(const char *name) {
    return !strcmp(name, "script") || !strncmp(name, "script:", 7);
}

// "script", "script:MS", "script:mixture"
static int script_delay(const char *name) {
    return !name[6] ? 0 : !strcmp(name + 7, "mixture") ? -1 : atoi(name + 7);
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
    if (!code) code = ls_checkpoint_open(&m->checkpoint, path, err);
    if (!code && what != VOCABULARY && !m->checkpoint->n_tensors)
        code = ls_fail(err, LS_E_PARSE, "%s: the file has no tensors, so only tokenize can use it", path);
    if (!code) code = ls_load_text(m, m->checkpoint, opt, err);
    if (!code) name_of(m, path);
    if (!code && !m->checkpoint->n_tensors) {
        ls_checkpoint_close(m->checkpoint);
        m->checkpoint = NULL;
    }
    if (!code && what == ALL) {
        // (which comes first, as other ranks wait for this one)
        code = ls_engine_open(&m->engine, m->checkpoint, b, err);
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
        if (!code && what == ALL) out->engine = ls_engine_script_new(script_delay(name), opt->engine.context);
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

// ---- draft models

struct ls_loaded_draft_model {
    ls_model model;
    char *name, *weights, *device; // as requested
    int32_t threads;
    int32_t differs;
    int users;
    ls_loaded_draft_model *next;
};

static bool same_token(const ls_vocab *a, const ls_vocab *b, int32_t id) {
    size_t n, m;
    const char *p = ls_vocab_bytes(a, id, &n), *q = ls_vocab_bytes(b, id, &m);
    return n == m && !memcmp(p, q, n) && ls_vocab_is_special(a, id) == ls_vocab_is_special(b, id);
}

// Whether all tokens of a vocabulary from id on are special.
static bool special_from(const ls_vocab *v, int32_t id) {
    for (; id < ls_vocab_size(v); id++)
        if (!ls_vocab_is_special(v, id)) return false;
    return true;
}

static void add_token(ls_buf *out, const ls_vocab *v, int32_t id) {
    size_t n;
    const char *bytes = ls_vocab_bytes(v, id, &n);
    ls_buf_str(out, "'");
    ls_sanitize_line(out, bytes, n < 40 ? n : 40);
    ls_buf_str(out, "'");
}

static ls_code agree(const ls_model *target, const ls_model *draft_model, int32_t *differs, ls_err *err) {
    const ls_vocab *a = target->vocab, *b = draft_model->vocab;
    const int32_t n = ls_vocab_size(a), m = ls_vocab_size(b), both = n < m ? n : m;
    int32_t id = 0;
    *differs = -1;
    if (ls_vocab_id(a) == ls_vocab_id(b)) return LS_OK;
    while (id < both && same_token(a, b, id)) id++;
    *differs = id;
    if (special_from(a, id) && special_from(b, id)) return LS_OK;
    ls_buf x = {0}, y = {0};
    add_token(&x, a, id);
    add_token(&y, b, id);
    ls_fail(err, LS_E_UNSUPPORTED,
            "%.60s (%d tokens) cannot draft for %.60s (%d tokens): token %d is %s in the draft model and %s in the "
            "target; use a model with the target's tokenizer",
            draft_model->name, m, target->name, n, id, y.p, x.p);
    ls_buf_free(&x);
    ls_buf_free(&y);
    return LS_E_UNSUPPORTED;
}

static void drop(ls_loaded_draft_model *s) {
    ls_model_free(&s->model);
    free(s->name);
    free(s->weights);
    free(s->device);
    free(s);
}

static void drop_unused(ls_model *target) {
    for (ls_loaded_draft_model **at = &target->draft_models; *at;) {
        ls_loaded_draft_model *s = *at;
        if (s->users) at = &s->next;
        else {
            *at = s->next;
            drop(s);
        }
    }
}

ls_code ls_draft_model_get(ls_model *target, const ls_draft_model_want *want, ls_model **out, int32_t *differs,
                           ls_err *err) {
    const char *file = want->name && *want->name ? want->name : *target->file ? target->file : target->name;
    const char *device = want->device && strcmp(want->device, "auto") ? want->device : target->engine->device;
    ls_loaded_draft_model *s = target->draft_models;
    *out = NULL;
    while (s && (strcmp(s->name, file) || strcmp(s->weights, want->weights) || strcmp(s->device, device) ||
                 s->threads != want->threads))
        s = s->next;
    if (!s) {
        const ls_model_options o = {.name = file,
                                    .engine = {.device = device,
                                               .alone = true,
                                               .dtype = "auto",
                                               .weights = want->weights,
                                               .threads = want->threads ? want->threads
                                                          : strcmp(device, target->engine->device)
                                                              ? 0
                                                              : target->engine->threads,
                                               .stop = target->stop,
                                               .ud = target->stop_ud}};
        s = ls_calloc(1, sizeof *s);
        s->name = ls_strdup(file);
        s->weights = ls_strdup(want->weights);
        s->device = ls_strdup(device);
        s->threads = want->threads;
        ls_code code = ls_model_load(&s->model, &o, err);
        if (!code) code = agree(target, &s->model, &s->differs, err);
        if (code) {
            drop(s);
            return ls_err_prefix(err, "the draft model");
        }
        s->next = target->draft_models;
        target->draft_models = s;
    }
    s->users++;
    drop_unused(target);
    *out = &s->model;
    *differs = s->differs;
    return LS_OK;
}

void ls_draft_model_done(ls_model *target, ls_model *draft_model) {
    for (ls_loaded_draft_model *s = target->draft_models; s; s = s->next)
        if (&s->model == draft_model) s->users--;
}

void ls_model_free(ls_model *m) {
    for (ls_loaded_draft_model *s = m->draft_models; s; s = s->next) s->users = 0;
    drop_unused(m);
    if (m->engine) m->engine->close(m->engine);
    ls_chat_free(m->chat);
    ls_vocab_free(m->vocab);
    ls_checkpoint_close(m->checkpoint);
    free(m->costs);
    *m = (ls_model){0};
}
