#include "engine/measured.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/system.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

const char *const ls_measured_hows[] = {"briefly", "busy", "quietly"};

ls_measured ls_measured_now(ls_measured_how how) {
    return (ls_measured){.when = time(NULL), .how = how};
}

bool ls_measured_lasts(const ls_measured *m) {
    enum { AGAIN_S = 600 };
    const int64_t age = time(NULL) - m->when; // negative if the clock was set back
    return m->how == LS_MEASURED_QUIETLY || (age >= 0 && age < AGAIN_S);
}

typedef struct {
    char magic[64], key[LS_MEASURED_KEY];
    ls_measured is;
} head;

static bool read_line(FILE *f, char *line, int size) {
    if (!fgets(line, size, f)) return false;
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    return end != NULL;
}

// Opens the file, positioned after its first three lines. NULL: it does not exist, or is not of this program.
static FILE *open_file(const char *path, head *h) {
    FILE *f = fopen(path, "re");
    char word[16] = "";
    int how = 0;
    const bool ok = f && read_line(f, h->magic, sizeof h->magic) && read_line(f, h->key, sizeof h->key) &&
                    fscanf(f, "measured %" SCNd64 " %15s", &h->is.when, word) == 2;
    while (how < LS_MEASURED_HOWS && strcmp(word, ls_measured_hows[how])) how++;
    h->is.how = (ls_measured_how)how;
    if (ok && how < LS_MEASURED_HOWS) return f;
    if (f) fclose(f);
    return NULL;
}

FILE *ls_measured_open(const char *path, const char *magic, const char *key, ls_measured *is) {
    head h;
    FILE *f = open_file(path, &h);
    if (!f) return NULL;
    *is = h.is;
    if (!strcmp(h.magic, magic) && !strcmp(h.key, key)) return f;
    fclose(f);
    return NULL;
}

// Calls the function with each file of this program in the folder; returns their number.
static int walk(void (*visit)(void *ud, const char *path, const head *h), void *ud) {
    static const char own[] = "logitspec-";
    char *folder = ls_user_path("XDG_CACHE_HOME", ".cache", "costs");
    DIR *d = folder ? opendir(folder) : NULL;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = ls_format("%s/%s", folder, e->d_name);
        head h;
        FILE *f = *e->d_name == '.' ? NULL : open_file(path, &h);
        if (f) fclose(f);
        if (f && !strncmp(h.magic, own, sizeof own - 1)) {
            visit(ud, path, &h);
            n++;
        }
        free(path);
    }
    if (d) closedir(d);
    free(folder);
    return n;
}

typedef struct {
    ls_measured_each each;
    void *ud;
} listener;

static void tell(void *ud, const char *path, const head *h) {
    const listener *l = ud;
    (void)path;
    l->each(l->ud, strstr(h->magic, "threads") ? "threads" : "costs", h->key, &h->is);
}

void ls_measured_list(ls_measured_each each, void *ud) {
    walk(tell, &(listener){each, ud});
}

static void remove_file(void *ud, const char *path, const head *h) {
    (void)ud;
    (void)h;
    unlink(path);
}

int ls_measured_forget(void) {
    return walk(remove_file, NULL);
}

void ls_measured_write(const char *path, const char *magic, const char *key, const ls_measured *is,
                       const ls_buf *text) {
    ls_buf all = {0};
    ls_buf_fmt(&all, "%s\n%s\nmeasured %" PRId64 " %s\n", magic, key, is->when, ls_measured_hows[is->how]);
    ls_buf_add(&all, text->p, text->n);
    ls_make_folders(path);
    ls_write_file(path, &all, NULL); // if this fails, the next run measures again
    ls_buf_free(&all);
}
