#include "run/backend_torch.h"
#include "base/mem.h"
#include "base/paths.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Every function of lst.h that is used, once: the table, the loading and the types come from this list.
#define LST_FUNCTIONS(X)                                                                                               \
    X(abi_version)                                                                                                     \
    X(last_error)                                                                                                      \
    X(cpu_level)                                                                                                       \
    X(model_open)                                                                                                      \
    X(model_info)                                                                                                      \
    X(model_close) X(session_new) X(session_free) X(length) X(prefill) X(forward_tree) X(row_top) X(keep_path) X(rewind)

typedef struct {
    void *handle;
#define X(name) __typeof__(&lst_##name) name;
    LST_FUNCTIONS(X)
#undef X
} library;

typedef struct {
    ls_backend base;
    library lib;
    lst_model *model;
    lst_session *session;
} torch_backend;

static ls_code load_library(library *lib, ls_err *err) {
    char *tries[4] = {0};
    int n = 0;
    const char *set = getenv("LOGITSPEC_LSTORCH");
    if (set) tries[n++] = ls_strdup(set);
    else {
        tries[n++] = ls_format("%s/liblstorch.so", ls_exe_dir());
        tries[n++] = ls_format("%s/../liblstorch.so", ls_exe_dir()); // build/san, build/tests
        tries[n++] = ls_format("%s/../lib/logitspec/liblstorch.so", ls_exe_dir());
    }
    // Threads meet some 200 times a forward. OpenMP's default is to spin there for milliseconds, which beside other
    // work costs whole time slices (measured on two cores beside another decoder: 245 ms a forward; with this 17). The
    // runtime reads it as it loads.
    if (!getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "2000", 0);
    for (int i = 0; i < n && !lib->handle; i++) lib->handle = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < n; i++) free(tries[i]);
    if (!lib->handle)
        return ls_fail(err, LS_E_BACKEND,
                       "the compute library liblstorch.so cannot be loaded (%.300s): run 'make setup' "
                       "and 'make', or set LIBTORCH=",
                       dlerror());
    const char *missing = NULL;
#define X(name)                                                                                                        \
    lib->name = (__typeof__(&lst_##name))(uintptr_t)dlsym(lib->handle, "lst_" #name);                                  \
    if (!lib->name) missing = "lst_" #name;
    LST_FUNCTIONS(X)
#undef X
    if (missing) return ls_fail(err, LS_E_BACKEND, "liblstorch.so lacks %s: rebuild it with 'make'", missing);
    if (lib->abi_version() != LST_ABI_VERSION)
        return ls_fail(err, LS_E_BACKEND,
                       "liblstorch.so has interface version %d, this program needs %d: rebuild it with 'make'",
                       lib->abi_version(), LST_ABI_VERSION);
    return LS_OK;
}

static ls_code failed(const torch_backend *b, int code, ls_err *err) {
    static const ls_code map[] = {LS_OK, LS_E_RANGE, LS_E_BACKEND, LS_E_BACKEND, LS_E_CANCELLED, LS_E_BACKEND};
    return ls_fail(err, code <= 0 && code >= LST_E_NAN ? map[-code] : LS_E_BACKEND, "%s", b->lib.last_error());
}

typedef struct {
    ls_progress progress;
    void *ud;
} relay;

static int relay_progress(void *ud, const char *stage, double fraction) {
    relay *r = ud;
    return r->progress && !r->progress(r->ud, stage, fraction);
}

static ls_code prefill(ls_backend *base, const int32_t *ids, int32_t n, const lst_sampling *s, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err) {
    torch_backend *b = (torch_backend *)base;
    relay r = {progress, ud};
    int code = b->lib.prefill(b->session, ids, n, s, last, relay_progress, &r);
    return code ? failed(b, code, err) : LS_OK;
}

static ls_code forward_tree(ls_backend *base, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err) {
    torch_backend *b = (torch_backend *)base;
    int code = b->lib.forward_tree(b->session, ids, parents, n, s, rows);
    return code ? failed(b, code, err) : LS_OK;
}

static ls_code row_top(ls_backend *base, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err) {
    torch_backend *b = (torch_backend *)base;
    int code = b->lib.row_top(b->session, row, k, ids, logits);
    return code ? failed(b, code, err) : LS_OK;
}

static ls_code keep_path(ls_backend *base, const int32_t *rows, int32_t n, ls_err *err) {
    torch_backend *b = (torch_backend *)base;
    int code = b->lib.keep_path(b->session, rows, n);
    return code ? failed(b, code, err) : LS_OK;
}

static ls_code rewind_to(ls_backend *base, int32_t n, ls_err *err) {
    torch_backend *b = (torch_backend *)base;
    int code = b->lib.rewind(b->session, n);
    return code ? failed(b, code, err) : LS_OK;
}

static int32_t length(const ls_backend *base) {
    const torch_backend *b = (const torch_backend *)base;
    return b->lib.length(b->session);
}

// The library stays loaded: libtorch does not support being unloaded.
static void close_backend(ls_backend *base) {
    torch_backend *b = (torch_backend *)base;
    if (b->session) b->lib.session_free(b->session);
    if (b->model) b->lib.model_close(b->model);
    free(b);
}

static int open_model(torch_backend *b, const ls_gguf *g, const ls_hparams *hp, const ls_backend_options *opt) {
    int n = ls_gguf_n_tensors(g);
    lst_tensor *t = ls_calloc((size_t)n, sizeof *t);
    char **names = ls_calloc((size_t)n, sizeof *names);
    for (int i = 0; i < n; i++) {
        const ls_gguf_tensor *src = ls_gguf_tensor_at(g, i);
        names[i] = ls_strndup(src->name.p, src->name.n);
        t[i] = (lst_tensor){
            names[i],  src->type,   (int64_t)src->dim[0], (int64_t)(src->dim[1] * src->dim[2] * src->dim[3]),
            src->data, src->n_bytes};
    }
    lst_hparams h = {sizeof h,     hp->n_layers, hp->n_embd,    hp->n_ff,    hp->n_heads, hp->n_kv_heads,
                     hp->head_dim, hp->n_vocab,  hp->rope_base, hp->rms_eps, hp->tied};
    relay r = {opt->progress, opt->ud};
    lst_open_options o = {sizeof o, opt->device, opt->dtype, opt->threads, relay_progress, &r};
    int code = b->lib.model_open(&b->model, &h, t, n, &o);
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
    free(t);
    return code ? code : b->lib.session_new(&b->session, b->model, hp->n_context);
}

ls_code ls_backend_torch_open(ls_backend **out, const ls_gguf *g, const ls_hparams *hp, const ls_backend_options *opt,
                              ls_err *err) {
    *out = NULL;
    torch_backend *b = ls_calloc(1, sizeof *b);
    b->base = (ls_backend){.prefill = prefill,
                           .forward_tree = forward_tree,
                           .row_top = row_top,
                           .keep_path = keep_path,
                           .rewind = rewind_to,
                           .length = length,
                           .close = close_backend};
    ls_code code = load_library(&b->lib, err);
    if (code) {
        free(b);
        return code;
    }
    int failure = open_model(b, g, hp, opt);
    lst_model_info_t info = {.size = sizeof info};
    if (!failure) failure = b->lib.model_info(b->model, &info);
    if (failure) {
        code = failed(b, failure, err);
        close_backend(&b->base);
        return code;
    }
    b->base.n_vocab = hp->n_vocab;
    b->base.n_context = hp->n_context;
    b->base.threads = info.threads;
    b->base.exact = info.exact;
    snprintf(b->base.device, sizeof b->base.device, "%s", info.device);
    snprintf(b->base.dtype, sizeof b->base.dtype, "%s", info.dtype);
    snprintf(b->base.kernel, sizeof b->base.kernel, "%s", info.kernel);
    snprintf(b->base.version, sizeof b->base.version, "libtorch %s", info.torch_version);
    *out = &b->base;
    return LS_OK;
}

ls_code ls_backend_torch_probe(char *level, size_t n, ls_err *err) {
    library lib = {0};
    ls_code code = load_library(&lib, err);
    if (code) return code;
    snprintf(level, n, "%s", lib.cpu_level());
    return *level ? LS_OK
                  : ls_fail(err, LS_E_USAGE,
                            "LOGITSPEC_CPU='%.40s' is no CPU level (portable, avx2, avx512, avx512vnni, amx)",
                            getenv("LOGITSPEC_CPU"));
}
