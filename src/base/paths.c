#include "base/paths.h"
#include "base/mem.h"

#include <errno.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static char exe_dir[4096] = ".";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_exe(void) {
    ssize_t n = readlink("/proc/self/exe", exe_dir, sizeof exe_dir - 1);
    const char *called = n > 0 ? NULL : (const char *)getauxval(AT_EXECFN); // where /proc is not mounted
    if (n > 0) exe_dir[n] = 0;
    else if (called && strchr(called, '/') && strlen(called) < sizeof exe_dir) strcpy(exe_dir, called);
    else return;
    char *slash = strrchr(exe_dir, '/');
    if (slash && slash > exe_dir) *slash = 0;
}

const char *ls_exe_dir(void) {
    pthread_once(&once, find_exe);
    return exe_dir;
}

char *ls_real_path(const char *path) {
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM) ls_out_of_memory(0);
    return real;
}

char *ls_data_path(const char *rel) {
    static const char *const places[] = {"../", "../../", "../../../", "../share/logitspec/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *p = ls_format("%s/%s%s", ls_exe_dir(), places[i], rel), *real = ls_real_path(p);
        free(p);
        if (real) return real;
    }
    char *parent = ls_strdup(ls_exe_dir()), *slash = strrchr(parent, '/');
    if (slash) *slash = 0;
    char *p = ls_format("%s/%s", parent, rel);
    free(parent);
    return p;
}

char *ls_user_path(const char *variable, const char *fallback, const char *name) {
    const char *xdg = getenv(variable), *home = getenv("HOME");
    if (xdg && *xdg == '/') return ls_format("%s/logitspec/%s", xdg, name);
    return home && *home == '/' ? ls_format("%s/%s/logitspec/%s", home, fallback, name) : NULL;
}

bool ls_is_missing(int error) {
    return error == ENOENT || error == ENOTDIR;
}

void ls_make_folders(const char *path) {
    char *copy = ls_strdup(path);
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(copy, 0700);
        *p = '/';
    }
    free(copy);
}
