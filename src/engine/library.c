#include "engine/library.h"
#include "base/file.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME(table) TEXT(table)
#define TEXT(x) #x
typedef enum { TORCH, CUDA } library;
static const struct {
    const char *file, *variable, *make;
} libraries[] = {
    [TORCH] = {"liblstorch.so", "LOGITSPEC_LSTORCH", "run 'make torch' (it fetches libtorch)"},
    [CUDA] = {"liblstorch_cuda.so", "LOGITSPEC_LSTORCH_CUDA", "run 'make cuda' (it needs the CUDA toolkit)"}};

static ls_code load(const void **table, library which, const char *name, const char *what, ls_err *err) {
    char *tries[4] = {0};
    int n = 0;
    const char *set = getenv(libraries[which].variable), *file = libraries[which].file;
    if (set) tries[n++] = ls_strdup(set);
    else {
        tries[n++] = ls_format("%s/%s", ls_exe_dir(), file);
        tries[n++] = ls_format("%s/../%s", ls_exe_dir(), file); // build/san, build/tests
        tries[n++] = ls_format("%s/../lib/logitspec/%s", ls_exe_dir(), file);
    }
    char why[300] = "no such file";
    bool there = false; // report why an existing file cannot be loaded, not that another path does not exist
    void *handle = NULL;
    for (int i = 0; i < n && !handle; i++) {
        if (access(tries[i], F_OK) && !set) continue; // the loader searches for a name without a folder
        handle = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle && !there) snprintf(why, sizeof why, "%s", dlerror());
        there = true;
    }
    for (int i = 0; i < n; i++) free(tries[i]);
    if (!handle)
        return ls_fail(err, LS_E_BACKEND, "%s needs the library %s, which cannot be loaded (%s): %s%s%s", what, file,
                       why, libraries[which].make, set ? ", or correct " : "", set ? libraries[which].variable : "");
    if (!(*table = dlsym(handle, name)))
        return ls_fail(err, LS_E_BACKEND, "%s is of another version of logitspec (no %s): %s", file, name,
                       libraries[which].make);
    return LS_OK;
}

ls_code ls_decoder_load(const lst_decoder **out, ls_decoder_kind kind, ls_err *err) {
    const char *name = NAME(lst_decoder_table);
    const void *table = &lst_decoder_table;
    const ls_code code = kind == LS_DECODER_GPU         ? load(&table, CUDA, name, "a GPU", err)
                         : kind == LS_DECODER_REFERENCE ? load(&table, TORCH, name, "the reference engine", err)
                                                        : LS_OK;
    *out = table;
    return code;
}

ls_code ls_torch_load(const lst_torch **out, const char *what, ls_err *err) {
    const void *table = NULL;
    const ls_code code = load(&table, TORCH, NAME(lst_torch_table), what, err);
    *out = table;
    return code;
}

ls_code ls_call_failed(const char *message, int code, ls_err *err) {
    static const ls_code map[] = {LS_OK, LS_E_RANGE, LS_E_BACKEND, LS_E_BACKEND, LS_E_CANCELLED, LS_E_BACKEND, LS_E_IO};
    return ls_fail(err, code <= 0 && code >= LST_E_READ ? map[-code] : LS_E_BACKEND, "%s", message);
}
