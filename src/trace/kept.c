#include "trace/kept.h"
#include "base/mem.h"
#include "base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *path_of(const char *name) {
    return ls_user_path("XDG_STATE_HOME", ".local/state", name);
}

char *ls_kept_path(void) {
    static char name[64]; // the same at a sudden end
    if (!*name) snprintf(name, sizeof name, "conversation-%lld-%d.jsonl.zst", (long long)time(NULL), (int)getpid());
    return path_of(name);
}

// The process of a file of this name; 0: it has another name.
static int process_of(const char *name) {
    long long began;
    int pid, end = 0;
    return sscanf(name, "conversation-%lld-%d.jsonl.zst%n", &began, &pid, &end) == 2 && end && !name[end] ? pid : 0;
}

bool ls_kept_is(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || !process_of(slash + 1)) return false;
    char *there = path_of(slash + 1);
    const bool same = there && !strcmp(there, path);
    free(there);
    return same;
}

typedef struct {
    char *path;
    time_t changed;
} kept;

static int newest_first(const void *a, const void *b) {
    const time_t x = ((const kept *)a)->changed, y = ((const kept *)b)->changed;
    return (x < y) - (x > y);
}

char *ls_kept_left(void) {
    char *folder = path_of(""), *newest = NULL;
    DIR *d = folder ? opendir(folder) : NULL;
    kept *files = NULL;
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        const int pid = process_of(e->d_name);
        if (!pid || pid == getpid() || !kill(pid, 0) || errno == EPERM) continue; // it runs
        char *path = path_of(e->d_name);
        if (lstat(path, &st) || !S_ISREG(st.st_mode)) {
            free(path);
            continue;
        }
        files = ls_realloc(files, (n + 1) * sizeof *files);
        files[n++] = (kept){path, st.st_mtime};
    }
    if (d) closedir(d);
    if (n) qsort(files, n, sizeof *files, newest_first);
    for (size_t i = 0; i < n; i++) {
        const bool too_old = files[i].changed < time(NULL) - LS_KEPT_DAYS * 86400;
        if (i >= LS_KEPT_FILES || too_old) unlink(files[i].path);
        else if (i == 0) newest = ls_strdup(files[i].path);
        free(files[i].path);
    }
    free(files);
    free(folder);
    return newest;
}
