#include "engine/model_hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX = 64 };

static char *cache_of(const ls_file *f, char **key) {
    char *full = ls_real_path(f->path);
    if (!full) return NULL;
    char *name = ls_format("sha256/%016llx.txt", (unsigned long long)ls_hash_bytes(full, strlen(full)));
    *key = ls_format("%llu %lld.%09lld %s\n", (unsigned long long)f->n_bytes, (long long)f->changed_s,
                     (long long)f->changed_ns, full);
    char *path = ls_user_path("XDG_CACHE_HOME", ".cache", name);
    free(name);
    free(full);
    return path;
}

static bool load(const char *path, const char *key, char out[65]) {
    char sum[HEX + 2] = "", *line = ls_malloc(strlen(key) + 2);
    FILE *f = path ? fopen(path, "re") : NULL;
    const bool known = f && fgets(sum, sizeof sum, f) && sum[HEX] == '\n' && strspn(sum, "0123456789abcdef") == HEX &&
                       fgets(line, (int)strlen(key) + 2, f) && !strcmp(line, key);
    if (f) fclose(f);
    free(line);
    if (known) memcpy(out, sum, HEX), out[HEX] = 0;
    return known;
}

static ls_code hash_file(const ls_file *f, char out[65], ls_progress progress, void *ud, ls_err *err) {
    char *key = NULL, *path = cache_of(f, &key);
    ls_code code = LS_OK;
    if (!path || !load(path, key, out)) {
        code = ls_sha256_file(f->path, out, progress, ud, err);
        if (!code) code = ls_file_unchanged(f, err);
        if (!code && path) {
            ls_buf text = {0};
            ls_make_folders(path);
            ls_buf_fmt(&text, "%s\n%s", out, key);
            ls_write_file(path, &text, NULL); // else it is read again next time
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
    if (c->n_files == 1 && !c->folder) return hash_file(&c->files[0], out, progress, ud, err);
    ls_buf lines = {0};
    ls_code code = LS_OK;
    char *config = c->folder ? ls_format("%s/config.json", c->folder) : NULL;
    ls_file f;
    for (int i = 0; i < c->n_files && !code; i++)
        if (!(code = hash_file(&c->files[i], out, progress, ud, err))) add_line(&lines, out, c->files[i].path);
    if (!code && config && !(code = ls_file_open(&f, config, err))) {
        if (!(code = hash_file(&f, out, progress, ud, err))) add_line(&lines, out, config);
        ls_file_close(&f);
    }
    if (!code) ls_sha256_hex(lines.p, lines.n, out);
    ls_buf_free(&lines);
    free(config);
    return code;
}
