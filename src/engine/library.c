#include "engine/library.h"
#include "base/file.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *file, *variable, *make;
} flavours[] = {{"liblstorch.so", "LOGITSPEC_LSTORCH", "run 'make setup' and 'make'"},
                {"liblstorch_cuda.so", "LOGITSPEC_LSTORCH_CUDA", "run 'make cuda' (it needs the CUDA toolkit)"}};

ls_code ls_library_load(ls_library *lib, int kind, ls_err *err) {
    char *tries[4] = {0};
    int n = 0;
    const char *set = getenv(flavours[kind].variable), *file = flavours[kind].file;
    if (set) tries[n++] = ls_strdup(set);
    else {
        tries[n++] = ls_format("%s/%s", ls_exe_dir(), file);
        tries[n++] = ls_format("%s/../%s", ls_exe_dir(), file); // build/san, build/tests
        tries[n++] = ls_format("%s/../lib/logitspec/%s", ls_exe_dir(), file);
    }
    char why[300] = "no such file";
    bool there = false; // report why an existing file cannot be loaded, not that another path does not exist
    for (int i = 0; i < n && !lib->handle; i++) {
        if (access(tries[i], F_OK) && !set) continue; // the loader searches for a name without a folder
        lib->handle = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib->handle && !there) snprintf(why, sizeof why, "%s", dlerror());
        there = true;
    }
    for (int i = 0; i < n; i++) free(tries[i]);
    if (!lib->handle)
        return ls_fail(err, LS_E_BACKEND, "the compute library %s cannot be loaded (%s): %s%s%s", file, why,
                       flavours[kind].make, set ? ", or correct " : "", set ? flavours[kind].variable : "");
    const char *missing = NULL;
#define X(name)                                                                                                        \
    lib->name = (__typeof__(&lst_##name))(uintptr_t)dlsym(lib->handle, "lst_" #name);                                  \
    if (!lib->name) missing = "lst_" #name;
    LST_FUNCTIONS(X)
#undef X
    if (missing)
        return ls_fail(err, LS_E_BACKEND, "%s has no function %s; rebuild it: %s", file, missing, flavours[kind].make);
    if (lib->abi_version() != LST_ABI_VERSION)
        return ls_fail(err, LS_E_BACKEND, "%s has interface version %d; this program needs %d; rebuild it: %s", file,
                       lib->abi_version(), LST_ABI_VERSION, flavours[kind].make);
    return LS_OK;
}

ls_code ls_library_failed(const ls_library *lib, int code, ls_err *err) {
    static const ls_code map[] = {LS_OK, LS_E_RANGE, LS_E_BACKEND, LS_E_BACKEND, LS_E_CANCELLED, LS_E_BACKEND, LS_E_IO};
    return ls_fail(err, code <= 0 && code >= LST_E_READ ? map[-code] : LS_E_BACKEND, "%s", lib->last_error());
}

bool ls_library_for_gpus_is_set(void) {
    return getenv(flavours[LS_ON_GPU].variable) != NULL;
}

int ls_relay_progress(void *ud, const char *stage, double fraction) {
    ls_relay *r = ud;
    return r->progress && !r->progress(r->ud, stage, fraction);
}
