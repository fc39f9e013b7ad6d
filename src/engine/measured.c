#include "engine/measured.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/processors.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

ls_code ls_measure_forward(ls_timeline *t, int32_t rows, int repeats, double *best_ms, ls_err *err) {
    static const lst_sampling greedy = {.top_p = 1};
    int32_t ids[LST_MAX_ROWS], parents[LST_MAX_ROWS];
    lst_row *out = ls_malloc(sizeof *out * LST_MAX_ROWS);
    for (int32_t i = 0; i < rows; i++) {
        ids[i] = i % t->engine->n_vocab;
        parents[i] = i == 0 ? -1 : i % 4 == 1 ? 0 : i - 1;
    }
    ls_code code = LS_OK;
    for (int r = 0; r < repeats && !code; r++) {
        const uint64_t start = ls_now_ns();
        code = t->forward_tree(t, ids, parents, rows, &greedy, out, err);
        const double ms = (double)(ls_now_ns() - start) / 1e6;
        if (r == 0 || ms < *best_ms) *best_ms = ms;
    }
    free(out);
    return code;
}

void ls_measured_key(const ls_model *m, const char *threads, char key[LS_MEASURED_KEY]) {
    char processor[128];
    ls_processor_name(processor, sizeof processor);
    const ls_engine *e = m->engine;
    snprintf(key, LS_MEASURED_KEY, "%s | %s | %s | %s | %s | %s | %s threads | %s", LS_VERSION, m->sha256, e->device,
             e->dtype, e->kernel, e->version, threads, processor);
}

char *ls_measured_path(const ls_model *m, const char *key) {
    if (!*m->file) return NULL;
    uint32_t hash = 2166136261u; // FNV-1a; the file repeats the key, so a collision is only a miss
    for (const char *p = key; *p; p++) hash = (hash ^ (unsigned char)*p) * 16777619u;
    char *name = ls_format("costs/%.12s-%s-%08x.txt", m->sha256, m->engine->dtype, hash);
    char *path = ls_user_path("XDG_CACHE_HOME", ".cache", name);
    free(name);
    return path;
}

static bool next_is(FILE *f, const char *want) {
    char line[LS_MEASURED_KEY + 8];
    const size_t n = strlen(want);
    return fgets(line, sizeof line, f) && !strncmp(line, want, n) && line[n] == '\n';
}

FILE *ls_measured_open(const char *path, const char *magic, const char *key) {
    FILE *f = fopen(path, "re");
    if (!f || (next_is(f, magic) && next_is(f, key))) return f;
    fclose(f);
    return NULL;
}

void ls_measured_write(const char *path, const char *magic, const char *key, const ls_buf *text) {
    ls_buf all = {0};
    ls_buf_fmt(&all, "%s\n%s\n", magic, key);
    ls_buf_add(&all, text->p, text->n);
    ls_make_folders(path);
    ls_write_file(path, &all, NULL); // else it is measured again next time
    ls_buf_free(&all);
}
