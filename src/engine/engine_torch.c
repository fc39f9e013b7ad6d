#include "engine/engine_torch.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/sysmem.h"
#include "engine/gpu_model.h"
#include "engine/trained.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Every function of lst.h that is used, once: the table, the loading and the types come from this list.
#define LST_FUNCTIONS(X)                                                                                               \
    X(abi_version)                                                                                                     \
    X(last_error)                                                                                                      \
    X(device)                                                                                                          \
    X(model_open)                                                                                                      \
    X(model_info)                                                                                                      \
    X(model_close)                                                                                                     \
    X(session_new)                                                                                                     \
    X(session_free)                                                                                                    \
    X(length)                                                                                                          \
    X(prefill)                                                                                                         \
    X(hidden)                                                                                                          \
    X(copy)                                                                                                            \
    X(forward_tree)                                                                                                    \
    X(grow_tree)                                                                                                       \
    X(row_top)                                                                                                         \
    X(keep_path)                                                                                                       \
    X(rewind) X(row_logits) X(timings) X(probe) X(parts) X(watch) X(head_open) X(head_close) X(head_bytes)             \
        X(draft_new) X(draft_free) X(draft_begin) X(draft_grow) X(draft_bytes) X(head_guess) X(draft_logits)

// One library a kind of device, so that a machine without a GPU loads nothing of CUDA.
static const struct {
    const char *file, *variable, *make;
} flavours[] = {{"liblstorch.so", "LOGITSPEC_LSTORCH", "run 'make setup' and 'make', or set LIBTORCH="},
                {"liblstorch_cuda.so", "LOGITSPEC_LSTORCH_CUDA", "run 'make cuda' (it needs the CUDA toolkit)"}};
enum { ON_CPU, ON_GPU };

typedef struct {
    void *handle;
#define X(name) __typeof__(&lst_##name) name;
    LST_FUNCTIONS(X)
#undef X
} library;

typedef struct {
    ls_engine base;
    library lib;
    lst_model *model;
    bool (*stop)(void *ud);
    void *stop_ud;
} torch_engine;

typedef struct {
    ls_timeline base;
    const library *lib; // the engine's
    lst_session *session;
} torch_timeline;

static ls_code load_library(library *lib, int flavour, ls_err *err) {
    char *tries[4] = {0};
    int n = 0;
    const char *set = getenv(flavours[flavour].variable), *file = flavours[flavour].file;
    if (set) tries[n++] = ls_strdup(set);
    else {
        tries[n++] = ls_format("%s/%s", ls_exe_dir(), file);
        tries[n++] = ls_format("%s/../%s", ls_exe_dir(), file); // build/san, build/tests
        tries[n++] = ls_format("%s/../lib/logitspec/%s", ls_exe_dir(), file);
    }
    for (int i = 0; i < n && !lib->handle; i++) lib->handle = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < n; i++) free(tries[i]);
    if (!lib->handle)
        return ls_fail(err, LS_E_BACKEND, "the compute library %s cannot be loaded (%.300s): %s", file, dlerror(),
                       flavours[flavour].make);
    const char *missing = NULL;
#define X(name)                                                                                                        \
    lib->name = (__typeof__(&lst_##name))(uintptr_t)dlsym(lib->handle, "lst_" #name);                                  \
    if (!lib->name) missing = "lst_" #name;
    LST_FUNCTIONS(X)
#undef X
    if (missing)
        return ls_fail(err, LS_E_BACKEND, "%s lacks %s: rebuild it: %s", file, missing, flavours[flavour].make);
    if (lib->abi_version() != LST_ABI_VERSION)
        return ls_fail(err, LS_E_BACKEND, "%s has interface version %d, this program needs %d: rebuild it: %s", file,
                       lib->abi_version(), LST_ABI_VERSION, flavours[flavour].make);
    return LS_OK;
}

static ls_code failed(const library *lib, int code, ls_err *err) {
    static const ls_code map[] = {LS_OK, LS_E_RANGE, LS_E_BACKEND, LS_E_BACKEND, LS_E_CANCELLED, LS_E_BACKEND, LS_E_IO};
    return ls_fail(err, code <= 0 && code >= LST_E_READ ? map[-code] : LS_E_BACKEND, "%s", lib->last_error());
}

typedef struct {
    ls_progress progress;
    void *ud;
} relay;

static int relay_progress(void *ud, const char *stage, double fraction) {
    relay *r = ud;
    return r->progress && !r->progress(r->ud, stage, fraction);
}

static ls_code prefill(ls_timeline *base, const int32_t *ids, int32_t n, const lst_sampling *s, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    relay r = {progress, ud};
    int code = t->lib->prefill(t->session, ids, n, s, last, relay_progress, &r);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code forward_tree(ls_timeline *base, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->forward_tree(t->session, ids, parents, n, s, rows);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code grow_tree(ls_timeline *base, const int32_t *ids, const int32_t *parents, int32_t n,
                         const lst_sampling *s, lst_row *rows, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->grow_tree(t->session, ids, parents, n, s, rows);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code row_top(ls_timeline *base, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->row_top(t->session, row, k, ids, logits);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code keep_path(ls_timeline *base, const int32_t *rows, int32_t n, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->keep_path(t->session, rows, n);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code rewind_to(ls_timeline *base, int32_t n, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->rewind(t->session, n);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code copy(ls_timeline *base, ls_timeline *from, int32_t n, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->copy(t->session, ((const torch_timeline *)from)->session, n);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code row_logits(ls_timeline *base, int32_t row, float *logits, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->row_logits(t->session, row, logits);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code parts(ls_timeline *base, double *us, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->parts(t->session, us);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code probe(ls_timeline *base, float *layers, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->probe(t->session, layers);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code hidden(ls_timeline *base, const int32_t *layers, int32_t n, ls_rows_taker take, void *ud, ls_err *err) {
    const torch_timeline *t = (const torch_timeline *)base;
    int code = t->lib->hidden(t->session, layers, n, take, ud);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static int relay_stop(void *ud) {
    const torch_engine *e = ud;
    return e->stop(e->stop_ud);
}

static int32_t length(const ls_timeline *base) {
    const torch_timeline *t = (const torch_timeline *)base;
    return t->lib->length(t->session);
}

static double device_us(const ls_timeline *base) {
    const torch_timeline *t = (const torch_timeline *)base;
    lst_timing timing = {.size = sizeof timing};
    return !t->lib->timings(t->session, &timing) && timing.device_us > 0 ? timing.device_us : 0;
}

// ---- opening

typedef struct {
    relay progress; // first: progress calls get this
    const ls_checkpoint *c;
    ls_err err; // of the last read
} loading;

static int read_tensor(void *ud, int32_t i, void *dst) {
    loading *l = ud;
    return ls_checkpoint_read(l->c, i, dst, &l->err) != LS_OK;
}

static ls_code open_weights(torch_engine *e, const ls_checkpoint *c, const ls_engine_options *opt, const char *device,
                            ls_err *err) {
    const ls_hparams *h = &c->hparams;
    lst_tensor *t = ls_calloc((size_t)c->n_tensors, sizeof *t);
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *s = &c->tensors[i];
        t[i] = (lst_tensor){s->name, s->type, (int64_t)s->n_in, (int64_t)s->n_out, NULL, s->n_bytes};
    }
    const lst_hparams hp = {.size = sizeof hp,
                            .n_layers = h->n_layers,
                            .n_embd = h->n_embd,
                            .n_ff = h->n_ff,
                            .n_heads = h->n_heads,
                            .n_kv_heads = h->n_kv_heads,
                            .head_dim = h->head_dim,
                            .n_vocab = h->n_vocab,
                            .tied = h->tied,
                            .activation = h->arch->activation == LS_ACT_SILU ? LST_ACT_SILU : LST_ACT_GELU_TANH,
                            .qk_norm = (int32_t)h->arch->qk_norm, // the same numbers
                            .rms_eps = h->rms_eps,
                            .norm_offset = h->norm_offset,
                            .embd_scale = h->embd_scale,
                            .attn_scale = h->attn_scale,
                            .residual_scale = h->residual_scale,
                            .logit_scale = h->logit_scale,
                            .attn_softcap = h->attn_softcap,
                            .logit_softcap = h->logit_softcap,
                            .rope_interleaved = h->rope_interleaved,
                            .rope_dims = h->rope_dims,
                            .rope_freq = {h->rope_freq[0], h->rope_freq[1]},
                            .rope_magnitude = {h->rope_magnitude[0], h->rope_magnitude[1]},
                            .window = h->window,
                            .local = h->local};
    loading l = {{opt->progress, opt->ud}, c, {0}};
    const lst_open_options o = {sizeof o,     device,         opt->dtype,  opt->weights,
                                opt->threads, relay_progress, read_tensor, &l};
    const int failure = e->lib.model_open(&e->model, &hp, t, c->n_tensors, &o);
    free(t);
    if (failure == LST_E_READ) {
        *err = l.err;
        return LS_E_IO;
    }
    if (failure) return failed(&e->lib, failure, err);
    return ls_checkpoint_unchanged(c, err);
}

static void free_timeline(ls_timeline *base) {
    torch_timeline *t = (torch_timeline *)base;
    t->lib->session_free(t->session);
    free(t);
}

static ls_code timeline(ls_engine *base, int32_t layers, ls_timeline **out, ls_err *err) {
    torch_engine *e = (torch_engine *)base;
    lst_session *session;
    *out = NULL;
    int failure = e->lib.session_new(&session, e->model, base->n_context, layers);
    if (!failure && e->stop && (failure = e->lib.watch(session, relay_stop, e))) e->lib.session_free(session);
    if (failure) return failed(&e->lib, failure, err);
    torch_timeline *t = ls_malloc(sizeof *t);
    t->base = (ls_timeline){.engine = base,
                            .prefill = prefill,
                            .forward_tree = forward_tree,
                            .grow_tree = grow_tree,
                            .row_top = row_top,
                            .keep_path = keep_path,
                            .rewind = rewind_to,
                            .copy = copy,
                            .length = length,
                            .device_us = device_us,
                            .probe = probe,
                            .parts = parts,
                            .hidden = hidden,
                            .row_logits = row_logits,
                            .free = free_timeline};
    t->lib = &e->lib;
    t->session = session;
    *out = &t->base;
    return LS_OK;
}

// The library stays loaded: libtorch does not support being unloaded.
static void close_engine(ls_engine *base) {
    torch_engine *e = (torch_engine *)base;
    if (e->model) e->lib.model_close(e->model);
    free(e);
}

static int32_t context_in(const ls_hparams *h, uint64_t room) {
    if (room >= (uint64_t)h->n_context || h->n_context <= LS_MIN_CONTEXT) return h->n_context;
    return room < LS_MIN_CONTEXT ? LS_MIN_CONTEXT : (int32_t)room;
}

int32_t ls_context_for(const ls_hparams *h, uint64_t memory) {
    return memory ? context_in(h, memory / 2 / ls_hparams_kv_bytes(h)) : h->n_context;
}

// ---- which device

// A GPU's keys and values take half of the CPU's: they are bf16.
static uint64_t gpu_kv_bytes(const ls_hparams *h) {
    return ls_hparams_kv_bytes(h) / 2;
}

static bool has_nvidia_device(void) {
    static const char *const places[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-gpu"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!access(places[i], F_OK)) return true;
    return getenv(flavours[ON_GPU].variable) != NULL;
}

void ls_gpus_look(ls_gpus *out) {
    *out = (ls_gpus){0};
    library lib = {0};
    ls_err err = {0};
    if (!has_nvidia_device())
        snprintf(out->problem, sizeof out->problem, "no NVIDIA GPU is in this machine (no /dev/nvidiactl)");
    else if (load_library(&lib, ON_GPU, &err)) snprintf(out->problem, sizeof out->problem, "%s", err.msg);
    else {
        lst_device_info info = {.size = sizeof info};
        while (out->n < LS_MAX_GPUS && !lib.device(out->n, &info)) {
            ls_gpu *g = &out->gpu[out->n++];
            snprintf(g->name, sizeof g->name, "%s", info.name);
            g->resident = info.resident;
            g->free_bytes = info.free_bytes;
            g->total_bytes = info.total_bytes;
        }
        if (!out->n) snprintf(out->problem, sizeof out->problem, "%s", lib.last_error());
    }
}

static int gpu_number(const char *device) { // of "cuda" or "cuda:N"
    return device[4] ? atoi(device + 5) : 0;
}

static bool gpu_fits(const ls_gpu *g, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err) {
    const int32_t context = opt->context ? opt->context : LS_MIN_CONTEXT;
    ls_gpu_model m;
    ls_gpu_model_of(&m, c, opt->weights, g->resident);
    const uint64_t weights = m.weight_bytes, work = lsg_session_bytes(&m.shape, context),
                   kv = gpu_kv_bytes(&c->hparams) * (uint64_t)context;
    ls_gpu_model_free(&m);
    if (weights + work + kv <= g->free_bytes) return true;
    ls_fail(err, LS_E_RANGE,
            "the model needs about %llu MiB of GPU memory (weights %llu, %d tokens of context %llu, forwards %llu), "
            "%llu are "
            "free: %stake a shorter --context, or --device cpu",
            (unsigned long long)((weights + work + kv) >> 20), (unsigned long long)(weights >> 20), context,
            (unsigned long long)(kv >> 20), (unsigned long long)(work >> 20), (unsigned long long)(g->free_bytes >> 20),
            strcmp(opt->weights, "q4") ? "take --weights q8 or q4, " : "");
    return false;
}

ls_code ls_device_choose(ls_device_choice *out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err) {
    ls_err no_room;
    ls_gpus gpus;
    *out = (ls_device_choice){0};
    snprintf(out->device, sizeof out->device, "%s", opt->device);
    snprintf(out->why, sizeof out->why, "it was asked for");
    const bool is_auto = !strcmp(opt->device, "auto");
    if (is_auto) {
        snprintf(out->device, sizeof out->device, "cpu");
        if (strcmp(opt->dtype, "auto") && strcmp(opt->dtype, "bf16")) {
            snprintf(out->why, sizeof out->why, "dtype %.20s is the CPU's", opt->dtype);
            return LS_OK;
        }
    } else if (!strcmp(opt->device, "cpu")) return LS_OK;
    ls_gpus_look(&gpus);
    const int number = is_auto ? 0 : gpu_number(opt->device), n = gpus.n;
    if (!n) {
        snprintf(out->why, sizeof out->why, "%s", gpus.problem);
        return is_auto ? LS_OK
                       : ls_fail(err, LS_E_BACKEND, "--device %s cannot be used: %s", opt->device, gpus.problem);
    }
    if (number >= n)
        return ls_fail(err, LS_E_RANGE, "--device %s: there %s only %d GPU%s (cuda:0%s)", opt->device,
                       n > 1 ? "are" : "is", n, n > 1 ? "s" : "", n > 1 ? " and on" : "");
    if (!gpu_fits(&gpus.gpu[number], c, opt, &no_room)) {
        snprintf(out->why, sizeof out->why, "%.580s", no_room.msg);
        return is_auto ? LS_OK : ls_fail(err, no_room.code, "%s", no_room.msg);
    }
    if (is_auto) {
        snprintf(out->device, sizeof out->device, "cuda");
        snprintf(out->why, sizeof out->why, "a GPU can be used and the model fits into its memory");
    }
    return LS_OK;
}

// The context that is given where none was asked for; after the weights are there, so that what is left is known.
static ls_code choose_context(const torch_engine *e, const ls_checkpoint *c, const char *device, int32_t *out,
                              ls_err *err) {
    const ls_hparams *h = &c->hparams;
    if (!strcmp(device, "cpu")) {
        *out = ls_context_for(h, ls_memory_free());
        return LS_OK;
    }
    lst_device_info info = {.size = sizeof info};
    if (e->lib.device(gpu_number(device), &info)) return failed(&e->lib, LST_E_BACKEND, err);
    const lsg_shape shape = ls_gpu_shape(h, info.resident);
    const uint64_t work = lsg_session_bytes(&shape, h->n_context),
                   left = info.free_bytes > work ? info.free_bytes - work : 0;
    *out = context_in(h, left / gpu_kv_bytes(h));
    return LS_OK;
}

ls_code ls_engine_torch_open(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err) {
    *out = NULL;
    torch_engine *e = ls_calloc(1, sizeof *e);
    ls_engine *base = &e->base;
    *base = (ls_engine){.n_vocab = c->hparams.n_vocab,
                        .n_context = opt->context,
                        .n_layers = c->hparams.n_layers,
                        .timeline = timeline,
                        .close = close_engine};
    e->stop = opt->stop;
    e->stop_ud = opt->ud;
    lst_model_info_t info = {.size = sizeof info};
    ls_device_choice choice;
    const char *const device = choice.device;
    ls_code code = ls_device_choose(&choice, c, opt, err);
    if (!code) code = load_library(&e->lib, strcmp(device, "cpu") ? ON_GPU : ON_CPU, err);
    if (!code && opt->context > c->hparams.n_context)
        code = ls_fail(err, LS_E_RANGE, "a context of %d tokens was asked for, the model has %d", opt->context,
                       c->hparams.n_context);
    if (!code) code = open_weights(e, c, opt, device, err);
    if (!code && !opt->context) code = choose_context(e, c, device, &base->n_context, err);
    if (!code && e->lib.model_info(e->model, &info)) code = failed(&e->lib, LST_E_BACKEND, err);
    if (code) {
        close_engine(base);
        return code;
    }
    if (!strcmp(device, "cpu")) base->kv_bytes = ls_hparams_kv_bytes(&c->hparams);
    base->threads = info.threads;
    base->exact = info.exact;
    base->slow = *info.slow != 0;
    if (base->slow && opt->note) opt->note(opt->ud, info.slow);
    snprintf(base->device, sizeof base->device, "%s", info.device);
    if (strcmp(info.weights, "auto")) snprintf(base->dtype, sizeof base->dtype, "%.6s %.8s", info.weights, info.dtype);
    else snprintf(base->dtype, sizeof base->dtype, "%s", info.dtype);
    snprintf(base->kernel, sizeof base->kernel, "%s", info.kernel);
    snprintf(base->version, sizeof base->version, "%s", info.version);
    *out = base;
    return LS_OK;
}

ls_code ls_engine_torch_probe(char *level, size_t n, ls_err *err) {
    library lib = {0};
    ls_code code = load_library(&lib, ON_CPU, err);
    if (code) return code;
    lst_device_info info = {.size = sizeof info};
    if (lib.device(0, &info)) return ls_fail(err, LS_E_USAGE, "%s", lib.last_error());
    snprintf(level, n, "%s", info.name);
    return LS_OK;
}

// ---- trained heads

typedef struct {
    ls_trained base;
    const library *lib; // the engine's
    lst_head *head;
    lst_draft *draft; // NULL: Medusa
} torch_trained;

static ls_code trained_begin(ls_trained *base, int32_t keep, int32_t at, const int32_t *tokens, const float *values,
                             int32_t n, const lst_sampling *s, lst_row *row, ls_err *err) {
    const torch_trained *t = (const torch_trained *)base;
    const int code = t->lib->draft_begin(t->draft, keep, at, tokens, values, n, s, row);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code trained_grow(ls_trained *base, const int32_t *tokens, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err) {
    const torch_trained *t = (const torch_trained *)base;
    const int code = t->lib->draft_grow(t->draft, tokens, parents, n, s, rows);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code trained_logits(ls_trained *base, int32_t row, float *logits, ls_err *err) {
    const torch_trained *t = (const torch_trained *)base;
    const int code = t->lib->draft_logits(t->draft, row, logits);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static ls_code trained_guess(ls_trained *base, const float *values, int32_t k, int32_t *ids, float *p, ls_err *err) {
    const torch_trained *t = (const torch_trained *)base;
    const int code = t->lib->head_guess(t->head, values, k, ids, p);
    return code ? failed(t->lib, code, err) : LS_OK;
}

static uint64_t trained_bytes(const ls_trained *base) {
    const torch_trained *t = (const torch_trained *)base;
    return t->draft ? t->lib->draft_bytes(t->draft) : 0;
}

static void trained_free(ls_trained *base) {
    torch_trained *t = (torch_trained *)base;
    if (t->draft) t->lib->draft_free(t->draft);
    if (t->head) t->lib->head_close(t->head);
    free(t);
}

typedef struct {
    relay progress; // first: progress calls get this
    const ls_checkpoint *head, *target;
    int borrowed[2]; // the target's tensors that follow the head's own
    ls_err err;      // of the last read
} head_loading;

static int read_head_tensor(void *ud, int32_t i, void *dst) {
    head_loading *l = ud;
    const int own = l->head->n_tensors;
    return (i < own ? ls_checkpoint_read(l->head, i, dst, &l->err)
                    : ls_checkpoint_read(l->target, l->borrowed[i - own], dst, &l->err)) != LS_OK;
}

static lst_tensor table_row(const ls_tensor *t, const char *name) {
    return (lst_tensor){name, t->type, (int64_t)t->n_in, (int64_t)t->n_out, NULL, t->n_bytes};
}

// Weights of the head, and of the target what the head has not.
static ls_code open_head(torch_trained *t, const ls_head *h, const ls_checkpoint *target, const ls_engine_options *opt,
                         ls_err *err) {
    const ls_hparams *hp = &h->hparams;
    head_loading l = {{opt->progress, opt->ud}, h->weights, target, {0}, {0}};
    lst_tensor *tensors = ls_calloc((size_t)h->weights->n_tensors + 2, sizeof *tensors);
    int n = 0, borrowed = 0;
    for (; n < h->weights->n_tensors; n++) tensors[n] = table_row(&h->weights->tensors[n], h->weights->tensors[n].name);
    for (int which = 0; which < 2 && h->kind != LS_HEAD_MEDUSA; which++) {
        const char *name = which ? "output.weight" : "token_embd.weight",
                   *there = which && target->hparams.tied ? "token_embd.weight" : name;
        if (which ? h->own_output : h->own_embedding) continue;
        for (int i = 0; i < target->n_tensors; i++)
            if (!strcmp(target->tensors[i].name, there)) {
                tensors[n++] = table_row(&target->tensors[i], name);
                l.borrowed[borrowed++] = i;
            }
    }
    const lst_head_params p = {.size = sizeof p,
                               .kind = (int32_t)h->kind, // the same numbers
                               .n_values = t->base.n_values,
                               .n_vocab = hp->n_vocab,
                               .n_draft = h->n_draft,
                               .d2t = h->d2t,
                               .n_embd = hp->n_embd,
                               .n_ff = hp->n_ff,
                               .n_heads = hp->n_heads,
                               .n_kv_heads = hp->n_kv_heads,
                               .head_dim = hp->head_dim,
                               .rope_dims = hp->rope_dims,
                               .rms_eps = hp->rms_eps,
                               .rope_magnitude = hp->rope_magnitude[0],
                               .rope_freq = hp->rope_freq[0],
                               .n_guesses = h->n_heads,
                               .n_blocks = h->n_blocks};
    const lst_open_options o = {
        .size = sizeof o, .progress = relay_progress, .read = read_head_tensor, .ud = &l}; // threads: as for the model
    const int code = t->lib->head_open(&t->head, &p, tensors, n, &o);
    free(tensors);
    if (code == LST_E_READ) {
        *err = l.err;
        return LS_E_IO;
    }
    if (code) return failed(t->lib, code, err);
    if (h->kind == LS_HEAD_MEDUSA) return ls_checkpoint_unchanged(h->weights, err);
    const int room = t->lib->draft_new(&t->draft, t->head, t->base.n_context);
    return room ? failed(t->lib, room, err) : ls_checkpoint_unchanged(h->weights, err);
}

ls_code ls_trained_open(ls_trained **out, ls_engine *e, const ls_checkpoint *target, const char *folder,
                        const ls_engine_options *opt, ls_err *err) {
    ls_head *h;
    *out = NULL;
    ls_code code = ls_head_open(&h, folder, err);
    if (code) return code;
    torch_trained *t = ls_calloc(1, sizeof *t);
    const char *slash = strrchr(folder, '/');
    t->lib = &((const torch_engine *)e)->lib;
    t->base = (ls_trained){.n_vocab = h->hparams.n_vocab,
                           .n_context = e->n_context,
                           .begin = trained_begin,
                           .grow = trained_grow,
                           .row_logits = trained_logits,
                           .guess = trained_guess,
                           .bytes = trained_bytes,
                           .free = trained_free};
    snprintf(t->base.name, sizeof t->base.name, "%s head %.48s", h->name, slash && slash[1] ? slash + 1 : folder);
    code = ls_head_fits(h, &target->hparams, t->base.takes, &t->base.n_takes, err);
    t->base.n_values = t->base.n_takes * target->hparams.n_embd;
    if (h->kind == LS_HEAD_MEDUSA) t->base.n_guesses = h->n_heads;
    if (!code) code = open_head(t, h, target, opt, err);
    ls_head_close(h);
    if (code) {
        trained_free(&t->base);
        return code;
    }
    t->base.weight_bytes = t->lib->head_bytes(t->head);
    *out = &t->base;
    return LS_OK;
}
