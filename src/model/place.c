#include "model/registry.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "model/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char lock_name[] = "logitspec.lock";

void ls_model_place_free(ls_model_place *p) {
    ls_json_free(p->lock);
    free(p->path);
    free(p->folder);
    for (size_t i = 0; i < p->n_files; i++) free(p->files[i].name);
    free(p->files);
    *p = (ls_model_place){0};
}

static bool exists(const char *folder, const char *name) {
    char *path = ls_format("%s/%s", folder, name);
    const bool yes = !access(path, F_OK);
    free(path);
    return yes;
}

// NULL: it is missing, or has invisible characters.
static const char *text_of(const ls_json *object, const char *key) {
    size_t n;
    const char *s = ls_json_str(ls_json_get(object, key), &n);
    return s && strlen(s) == n && ls_all_visible(s) ? s : NULL;
}

static bool take_file(ls_model_file *f, const ls_json *v) {
    const char *name = text_of(v, "name"), *sha256 = text_of(v, "sha256");
    *f = (ls_model_file){0};
    if (!name || !ls_model_file_name_ok(name) || !ls_json_int(ls_json_get(v, "size"), &f->size) || f->size < 0 ||
        !ls_json_int(ls_json_get(v, "mtime_ns"), &f->mtime_ns) || !sha256 || !ls_is_sha256(sha256, strlen(sha256)))
        return false;
    memcpy(f->sha256, sha256, 65);
    f->name = ls_strdup(name);
    return true;
}

// False: unreadable; p->problem has the reason.
static bool read_lock(ls_model_place *p) {
    ls_buf text = {0};
    ls_err err = {0};
    char *path = ls_format("%s/%s", p->folder, lock_name);
    const bool read = !ls_read_any(&text, path, 16 << 20, NULL, &err);
    bool ok = read && !ls_json_parse(&p->lock, text.n ? text.p : "", text.n, path, &err);
    const ls_json *files = ls_json_get(p->lock, "files");
    p->repository = text_of(p->lock, "repository");
    p->revision = text_of(p->lock, "revision");
    p->commit = text_of(p->lock, "commit");
    p->licence = text_of(p->lock, "licence");
    p->fetched = text_of(p->lock, "fetched");
    p->files = ls_calloc(ls_json_size(files), sizeof *p->files);
    for (; ok && p->n_files < ls_json_size(files); p->n_files += ok)
        ok = take_file(&p->files[p->n_files], ls_json_at(files, p->n_files));
    if (!read) snprintf(p->problem, sizeof p->problem, "%.350s", err.msg);
    else if (!ok || !p->n_files) {
        snprintf(p->problem, sizeof p->problem, "%.300s is damaged; delete it and fetch the model again", path);
        while (p->n_files) free(p->files[--p->n_files].name);
    }
    ls_buf_free(&text);
    free(path);
    return !*p->problem;
}

// The same lock with the times of p->files.
static ls_code write_lock(const ls_model_place *p, ls_err *err) {
    ls_buf text = {0};
    ls_jsonw w = {.out = &text};
    ls_jw_open(&w, '{');
    for (ls_json_member m = {0}; ls_json_next(p->lock, &m);) {
        ls_jw_any_key(&w, m.key, strlen(m.key));
        if (strcmp(m.key, "files")) {
            ls_jw_value(&w, m.value);
            continue;
        }
        ls_jw_open(&w, '[');
        for (size_t i = 0; i < p->n_files; i++) {
            ls_jw_open(&w, '{');
            ls_jw_field_str(&w, "name", p->files[i].name);
            ls_jw_field_int(&w, "size", p->files[i].size);
            ls_jw_field_str(&w, "sha256", p->files[i].sha256);
            ls_jw_field_int(&w, "mtime_ns", p->files[i].mtime_ns);
            ls_jw_close(&w, '}');
        }
        ls_jw_close(&w, ']');
    }
    ls_jw_close(&w, '}');
    ls_buf_char(&text, '\n');
    char *path = ls_format("%s/%s", p->folder, lock_name);
    const ls_code code = ls_write_file(path, &text, err);
    free(path);
    ls_buf_free(&text);
    return code;
}

static void take_pins(ls_model_place *p, const ls_registry_entry *e) {
    p->files = ls_calloc(e->n_files, sizeof *p->files);
    for (size_t i = 0; i < e->n_files; i++)
        if (*e->files[i].sha256) {
            p->files[p->n_files] = e->files[i];
            p->files[p->n_files++].name = ls_strdup(e->files[i].name);
        }
}

static int64_t mtime_ns(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

// Checks sizes and modification times; only ls_model_verify reads the bytes.
static void check_files(ls_model_place *p, const ls_registry_entry *e) {
    for (size_t i = 0; i < p->n_files && !*p->problem; i++) {
        const ls_model_file *f = &p->files[i];
        struct stat st;
        char *path = ls_format("%s/%s", p->folder, f->name);
        if (stat(path, &st))
            snprintf(p->problem, sizeof p->problem, "%.200s: %s; run 'logitspec models fetch %s'", path,
                     strerror(errno), e->name);
        else if (!S_ISREG(st.st_mode) || st.st_size != f->size)
            snprintf(p->problem, sizeof p->problem,
                     "%.200s has %" PRId64 " bytes instead of %" PRId64 "; run 'logitspec models fetch %s'", path,
                     (int64_t)st.st_size, f->size, e->name);
        else if (f->mtime_ns && f->mtime_ns != mtime_ns(&st))
            snprintf(p->problem, sizeof p->problem,
                     "%.200s has changed since it was verified; run 'logitspec models verify %s'", path, e->name);
        free(path);
    }
}

static void compare(ls_model_place *p, const ls_registry_entry *e) {
    if (e->from == LS_FROM_HUGGINGFACE &&
        (!p->repository || strcmp(p->repository, e->repository) || !p->revision || strcmp(p->revision, e->revision)))
        snprintf(p->problem, sizeof p->problem,
                 "%.150s has %.80s, which differs from %.80s; run 'logitspec models remove %s' and fetch it again",
                 p->folder, p->repository ? p->repository : "another model", e->where, e->name);
    ls_map held = {0}; // by name
    for (size_t j = 0; j < p->n_files; j++)
        ls_map_put(&held, ls_hash_name(p->files[j].name, strlen(p->files[j].name)), (int32_t)j);
    for (size_t i = 0; i < e->n_files && !*p->problem; i++) {
        const ls_model_file *f = &e->files[i];
        int32_t j;
        const bool same = !*f->sha256 || (ls_map_get(&held, ls_hash_name(f->name, strlen(f->name)), &j) &&
                                          !strcmp(f->name, p->files[j].name) && !strcmp(f->sha256, p->files[j].sha256));
        if (!same)
            snprintf(p->problem, sizeof p->problem, "%.200s/%s has no '%.80s' with the SHA-256 of %.80s", p->folder,
                     lock_name, f->name, e->where);
    }
    ls_map_free(&held);
}

// The folder's GGUF file if it has one (of a split file the first part), otherwise the folder.
static char *path_in(const ls_model_place *p) {
    const char *best = NULL;
    for (size_t i = 0; i < p->n_files; i++)
        if (ls_ends_with(p->files[i].name, ".gguf") && (!best || strcmp(p->files[i].name, best) < 0))
            best = p->files[i].name;
    if (p->n_files) return best ? ls_format("%s/%s", p->folder, best) : ls_strdup(p->folder);
    char *found = NULL;
    DIR *d = exists(p->folder, "config.json") ? NULL : opendir(p->folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (*e->d_name != '.' && ls_ends_with(e->d_name, ".gguf") && (!found || strcmp(e->d_name, found) < 0)) {
            free(found);
            found = ls_strdup(e->d_name);
        }
    if (d) closedir(d);
    char *path = found ? ls_format("%s/%s", p->folder, found) : ls_strdup(p->folder);
    free(found);
    return path;
}

// The folder of the default model is that of the registry, at least in a checkout.
static bool find_installed(ls_model_place *p, const ls_registry_entry *e) {
    char *user = ls_models_folder(), *registry = ls_data_path("models/registry.json");
    char *folder = ls_folder_of(registry), *mine = user ? ls_format("%s/%s", user, e->name) : NULL;
    const bool here = exists(folder, e->files[0].name);
    // a model that is not fetched yet goes there if the folder is writable
    p->installed = here || !mine || (!exists(mine, lock_name) && !access(folder, W_OK));
    if (p->installed) {
        p->folder = ls_strdup(folder);
        p->path = ls_format("%s/%s", folder, e->files[0].name);
        p->here = here;
        take_pins(p, e);
        if (here) check_files(p, e);
    }
    free(user);
    free(registry);
    free(folder);
    free(mine);
    return p->installed;
}

static void find_folder(ls_model_place *p, const ls_registry_entry *e) {
    char *models = ls_models_folder();
    if (e->path) p->folder = ls_strdup(e->path);
    else p->folder = models ? ls_format("%s/%s", models, e->name) : ls_strdup("");
    free(models);
    if (exists(p->folder, lock_name)) {
        p->here = true;
        if (read_lock(p)) compare(p, e);
        p->misfit = *p->problem;
        check_files(p, e);
    } else if (e->from == LS_FROM_FOLDER && !exists(p->folder, "logitspec.lock.part")) p->here = true; // the user's own
    else {
        take_pins(p, e);
        p->here = p->misfit = exists(p->folder, "logitspec.lock.part");
        if (p->here)
            snprintf(p->problem, sizeof p->problem,
                     "%.100s is incomplete; run 'logitspec models fetch %s' to resume the download", e->name, e->name);
    }
    p->path = path_in(p);
}

void ls_model_place_find(ls_model_place *p, const ls_registry_entry *e) {
    *p = (ls_model_place){.size = -1};
    struct stat st;
    if (e->from == LS_FROM_PATH) {
        p->path = ls_strdup(e->path);
        p->here = !stat(e->path, &st);
        p->folder = p->here && S_ISDIR(st.st_mode) ? ls_strdup(e->path) : ls_folder_of(e->path);
        take_pins(p, e);
        if (p->here) check_files(p, e);
    } else if (!(e->from == LS_FROM_PYPI && e->installed && find_installed(p, e))) find_folder(p, e);
    for (size_t i = 0; i < p->n_files; i++) p->size = (i ? p->size : 0) + p->files[i].size;
}

ls_code ls_model_verify(ls_model_place *p, size_t *wrong, const ls_model_verify_options *o, ls_err *err) {
    ls_code code = LS_OK;
    bool moved = false;
    *wrong = 0;
    for (size_t i = 0; i < p->n_files; i++) {
        ls_model_file *f = &p->files[i];
        char *path = ls_format("%s/%s", p->folder, f->name), *line = NULL, sha256[65];
        ls_file file;
        ls_err why = {0};
        code = ls_file_open(&file, path, &why);
        if (!code && file.n_bytes != (uint64_t)f->size)
            line = ls_format("%s: %" PRIu64 " bytes instead of %" PRId64, path, file.n_bytes, f->size);
        else if (!code) code = ls_sha256_file(&file, sha256, o->progress, o->ud, &why);
        const int64_t mtime =
            mtime_ns(&file.opened); // read before the bytes, so that a later change is detected next time
        ls_file_close(&file);
        if (code == LS_E_CANCELLED) {
            free(path);
            return ls_fail(err, code, "%s", why.msg);
        }
        if (code) line = ls_strdup(why.msg);
        else if (!line && strcmp(sha256, f->sha256))
            line = ls_format("%s: sha256 %s instead of %s", path, sha256, f->sha256);
        if (line) {
            o->differs(o->ud, line);
            ++*wrong;
        } else if (f->mtime_ns != mtime) {
            f->mtime_ns = mtime;
            moved = true;
        }
        free(line);
        free(path);
    }
    return p->lock && moved && !*wrong ? write_lock(p, err) : LS_OK;
}

char *ls_registry_path(const char *name) {
    ls_registry r;
    ls_model_place p = {0};
    const ls_registry_entry *e = ls_registry_read(&r, NULL) ? NULL : ls_registry_get(&r, name);
    if (e) ls_model_place_find(&p, e);
    char *path = p.path;
    p.path = NULL;
    ls_model_place_free(&p);
    ls_registry_free(&r);
    return path;
}

static ls_code not_pinned(const ls_file *f, const char *name, ls_err *err) {
    return ls_fail(err, LS_E_IO, "%s differs from the verified file (SHA-256 %s); run 'logitspec models verify %s'",
                   f->path, f->sha256, name);
}

ls_code ls_model_unknown(const ls_registry *r, const char *name, ls_code code, ls_err *err) {
    if (!access(name, F_OK))
        return ls_fail(err, code,
                       "no model is named '%.200s': a file or folder that is not in the registry has no checksums, and "
                       "is not removed",
                       name);
    if (strchr(name, '/') || ls_ends_with(name, ".gguf"))
        return ls_fail(err, code, "the model '%.200s' does not exist (a GGUF file or a folder of a model)", name);
    return ls_fail(
        err, code,
        "no model is named '%.100s' ('logitspec models list' prints the %zu names; hf:OWNER/REPO also works)", name,
        r->n);
}

static ls_code not_here(const ls_registry *r, const ls_registry_entry *e, const ls_model_place *p, const char *name,
                        ls_err *err) {
    if (e && p->installed)
        return ls_fail(err, LS_E_IO,
                       "the default model has not been fetched (%s): run 'make setup' or "
                       "'logitspec models fetch %s'",
                       p->path, name);
    if (e && e->from == LS_FROM_PATH) return ls_fail(err, LS_E_IO, "%s: '%s' does not exist", e->where, e->path);
    if (e) return ls_fail(err, LS_E_IO, "model '%s' has not been fetched: run 'logitspec models fetch %s'", name, name);
    if (!strncmp(name, "hf:", 3) && !strchr(name, '/'))
        return ls_fail(err, LS_E_IO, "'%.100s': expected hf:OWNER/REPO[@REVISION]", name);
    if (!strncmp(name, "hf:", 3))
        return ls_fail(err, LS_E_IO, "model '%.200s' has not been fetched: run 'logitspec models fetch %.200s'", name,
                       name);
    return ls_model_unknown(r, name, LS_E_IO, err);
}

// Size and modification time do not prove that a file is unchanged. Weights are hashed when they are loaded
// (ls_registry_pinned); the other files are small and are hashed here.
static ls_code check_texts(const ls_model_place *p, const char *name, ls_err *err) {
    ls_code code = LS_OK;
    for (size_t i = 0; i < p->n_files && !code; i++) {
        const ls_model_file *f = &p->files[i];
        if (ls_ends_with(f->name, ".gguf") || ls_ends_with(f->name, ".safetensors")) continue;
        char *path = ls_format("%s/%s", p->folder, f->name);
        ls_file file;
        if (!(code = ls_file_open(&file, path, err)) && !(code = ls_sha256_file(&file, file.sha256, NULL, NULL, err)) &&
            strcmp(file.sha256, f->sha256))
            code = not_pinned(&file, name, err);
        ls_file_close(&file);
        free(path);
    }
    return code;
}

ls_code ls_registry_ready(const char *name, ls_err *err) {
    ls_registry r;
    ls_code code = ls_registry_read(&r, err);
    const ls_registry_entry *e = code ? NULL : ls_registry_find(&r, name);
    if (!code && (e || access(name, F_OK))) {
        ls_model_place p = {0};
        if (e) ls_model_place_find(&p, e);
        if (!p.here) code = not_here(&r, e, &p, name, err);
        else if (*p.problem) code = ls_fail(err, LS_E_IO, "%s", p.problem);
        else code = check_texts(&p, e->name, err);
        ls_model_place_free(&p);
    }
    ls_registry_free(&r);
    return code;
}

ls_code ls_registry_pinned(const char *name, const ls_checkpoint *c, ls_err *err) {
    ls_registry r;
    ls_code code = ls_registry_read(&r, err);
    const ls_registry_entry *e = code ? NULL : ls_registry_find(&r, name);
    ls_model_place p = {0};
    if (e) ls_model_place_find(&p, e);
    for (int i = 0; i < c->n_files && !code; i++) {
        const char *slash = strrchr(c->files[i].path, '/'), *base = slash ? slash + 1 : c->files[i].path;
        for (size_t j = 0; j < p.n_files && !code; j++)
            if (!strcmp(p.files[j].name, base) && strcmp(p.files[j].sha256, c->files[i].sha256))
                code = not_pinned(&c->files[i], e->name, err);
    }
    ls_model_place_free(&p);
    ls_registry_free(&r);
    return code;
}
