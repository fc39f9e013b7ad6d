#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "model/checkpoint_internal.h"
#include "model/tensor_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_BYTES = 16 << 20, INDEX_BYTES = 64 << 20, HEADER_BYTES = 100 << 20 }; // 100 MB: the format's own limit

ls_code ls_folder_read(const char *folder, const char *name, size_t most, ls_buf *out, bool *there, ls_err *err) {
    char *path = ls_format("%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    ls_code code = LS_OK;
    *there = f != NULL;
    if (!f && errno != ENOENT) code = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    if (f) {
        code = ls_read_all(out, f, path, most, err);
        fclose(f);
    }
    free(path);
    return code;
}

static ls_code add_tensor(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err) {
    char name[96];
    (void)ud;
    const char *path = c->files[c->n_files - 1].path;
    if (!ls_tensor_name(c->hparams.arch, c->hparams.partial, t->name, name, sizeof name))
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: the architecture %s has no tensor '%.80s'", path,
                       c->hparams.arch->hf, t->name);
    if (!*name || (c->hparams.tied && !strcmp(name, "output.weight"))) return LS_OK;
    if (t->type < 0)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: tensor '%.80s' has type '%s'; supported: F32, F16, BF16", path,
                       t->name, t->dtype);
    if (t->n_dims < 1 || t->n_dims > 2)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.80s' has %d dimensions", path, t->name, t->n_dims);
    ls_checkpoint_add(c, (ls_tensor){.name = ls_strdup(name),
                                     .type = t->type,
                                     .n_in = t->dim[t->n_dims - 1],
                                     .n_out = t->n_dims == 2 ? t->dim[0] : 1,
                                     .file = c->n_files - 1,
                                     .offset = t->offset,
                                     .n_bytes = t->n_bytes});
    return LS_OK;
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
    size_t n, cap;
    ls_map index; // hash of a name -> index in names
    ls_code code;
    ls_err *err;
} shards;

static void on_shard(void *ud, const char *tensor, const ls_json *value) {
    shards *s = ud;
    size_t n;
    const char *name = ls_json_str(value, &n);
    if (s->code) return;
    if (!name || !n || n > 200 || strlen(name) != n || strchr(name, '/') || *name == '.') {
        s->code = ls_fail(s->err, LS_E_PARSE, "the file of tensor '%.80s' must be a plain file name", tensor);
        return;
    }
    const int32_t i = *ls_map_at(&s->index, ls_hash_name(name, n), (int32_t)s->n);
    if ((size_t)i < s->n && !strcmp(s->names[i], name)) return;
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 16;
        s->names = ls_realloc(s->names, s->cap * sizeof *s->names);
    }
    s->names[s->n++] = ls_strdup(name);
}

static ls_code add_shards(ls_checkpoint *c, const char *folder, const ls_buf *index, ls_on_safetensor on, void *ud,
                          ls_err *err) {
    ls_json *doc = NULL;
    shards s = {.err = err};
    s.code = ls_json_parse(&doc, index->p, index->n, "model.safetensors.index.json", err);
    if (!s.code && !ls_json_each(ls_json_get(doc, "weight_map"), on_shard, &s))
        s.code = ls_fail(err, LS_E_PARSE, "model.safetensors.index.json has no weight_map");
    if (!s.code && !s.n)
        s.code = ls_fail(err, LS_E_PARSE, "the weight_map of model.safetensors.index.json names no file");
    if (s.code) ls_err_prefix(err, "%s", folder);
    for (size_t i = 0; i < s.n; i++) {
        char *path = ls_format("%s/%s", folder, s.names[i]);
        if (!s.code) s.code = add_file(c, path, on, ud, err);
        free(path);
        free(s.names[i]);
    }
    free(s.names);
    ls_map_free(&s.index);
    ls_json_free(doc);
    return s.code;
}

ls_code ls_checkpoint_safetensors(ls_checkpoint *c, const char *folder, const char *single, ls_on_safetensor on,
                                  void *ud, ls_err *err) {
    ls_buf text = {0};
    bool there = true;
    ls_code code = LS_OK;
    char *path = ls_format("%s/%s", folder, single);
    if (!access(path, F_OK)) code = add_file(c, path, on, ud, err); // an index, if any, is older than the merged file
    else if (!(code = ls_folder_read(folder, "model.safetensors.index.json", INDEX_BYTES, &text, &there, err)))
        code = there ? add_shards(c, folder, &text, on, ud, err)
                     : ls_fail(err, LS_E_IO, "%s: no %s; weights in other formats are not supported", folder, single);
    free(path);
    ls_buf_free(&text);
    return code;
}

static ls_code read_config(ls_checkpoint *c, const char *folder, const ls_buf *text, ls_err *err) {
    ls_json *doc;
    char *where = ls_format("%s/config.json", folder);
    ls_code code = ls_json_parse_pythons(&doc, text->p, text->n, where, err);
    if (!code && (code = ls_hparams_config(&c->hparams, doc, err))) ls_err_prefix(err, "%s", where);
    free(where);
    ls_json_free(doc);
    return code;
}

ls_code ls_checkpoint_of_folder(ls_checkpoint *c, const char *folder, ls_err *err) {
    ls_buf text = {0};
    bool there;
    c->folder = ls_strdup(folder);
    ls_code code = ls_folder_read(folder, "config.json", CONFIG_BYTES, &text, &there, err);
    if (!code && !there)
        code = ls_fail(err, LS_E_IO, "%s: no config.json; a model is a Hugging Face folder or a GGUF file", folder);
    if (!code) code = read_config(c, folder, &text, err);
    if (!code) ls_sha256_hex(text.p, text.n, c->config_sha256);
    ls_buf_free(&text);
    if (!code) code = ls_checkpoint_safetensors(c, folder, "model.safetensors", add_tensor, NULL, err);
    return code;
}
