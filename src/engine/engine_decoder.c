#include "engine/engine.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/system.h"
#include "engine/device.h"
#include "engine/library.h"
#include "engine/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_kv_cache base;
    const lst_decoder *lib; // the engine's, as the next field
    ls_ranks *ranks;
    lst_kv_cache *cache;
} decoder_kv_cache;

static ls_code done(const ls_kv_cache *base, int code, ls_err *err) {
    const decoder_kv_cache *t = (const decoder_kv_cache *)base;
    if (!code) return LS_OK;
    const ls_code failed = ls_call_failed(t->lib->last_error(), code, err);
    return t->ranks ? ls_ranks_failed(t->ranks, failed, err) : failed;
}
// A function of the library, on its KV cache.
#define CACHE(base) (((const decoder_kv_cache *)(base))->cache)
#define CALL(name, ...) done(base, ((const decoder_kv_cache *)base)->lib->name(CACHE(base), __VA_ARGS__), err)

static ls_code prefill(ls_kv_cache *base, const int32_t *ids, int32_t n, const lst_sampling *s, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err) {
    return CALL(prefill, ids, n, s, last, progress, ud);
}

static ls_code forward_tree(ls_kv_cache *base, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err) {
    return CALL(forward_tree, ids, parents, n, s, rows);
}

static ls_code grow_tree(ls_kv_cache *base, const int32_t *ids, const int32_t *parents, int32_t n,
                         const lst_sampling *s, lst_row *rows, ls_err *err) {
    return CALL(grow_tree, ids, parents, n, s, rows);
}

static ls_code row_top(ls_kv_cache *base, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err) {
    return CALL(row_top, row, k, ids, logits);
}

static ls_code keep_path(ls_kv_cache *base, const int32_t *rows, int32_t n, ls_err *err) {
    return CALL(keep_path, rows, n);
}

static ls_code rewind_to(ls_kv_cache *base, int32_t n, ls_err *err) {
    return CALL(rewind, n);
}

static ls_code copy(ls_kv_cache *base, ls_kv_cache *from, int32_t n, ls_err *err) {
    return CALL(copy, CACHE(from), n);
}

static ls_code row_logits(ls_kv_cache *base, int32_t row, float *logits, ls_err *err) {
    return CALL(row_logits, row, logits);
}

static ls_code parts(ls_kv_cache *base, double *us, ls_err *err) {
    return CALL(parts, us);
}

static ls_code hidden(ls_kv_cache *base, const int32_t *layers, int32_t n, bool on_device, ls_rows_taker take, void *ud,
                      ls_err *err) {
    return CALL(hidden, layers, n, on_device, take, ud);
}

static ls_code experts(ls_kv_cache *base, lst_experts_seen *out, ls_err *err) {
    return CALL(experts, out);
}

static int32_t length(const ls_kv_cache *base) {
    const decoder_kv_cache *t = (const decoder_kv_cache *)base;
    return t->lib->length(t->cache);
}

static void timings(const ls_kv_cache *base, lst_timing *out) {
    const decoder_kv_cache *t = (const decoder_kv_cache *)base;
    t->lib->timings(t->cache, out);
    if (!base->engine->expert_memory) out->experts_read = -1;
}

// ---- opening

typedef struct {
    const ls_checkpoint *c;
    pthread_mutex_t lock; // of the next field
    ls_err err;           // of a read that failed
} loading;

static int read_tensor(void *ud, int32_t i, uint64_t at, uint64_t n, void *dst) {
    loading *l = ud;
    ls_err err;
    if (!ls_checkpoint_read(l->c, i, at, n, dst, &err)) return 0;
    pthread_mutex_lock(&l->lock);
    l->err = err;
    pthread_mutex_unlock(&l->lock);
    return 1;
}

// Whether only a part of a mixture's experts is in memory.
static bool keeps_experts_apart(const ls_checkpoint *c, const ls_engine_options *opt, const char *device) {
    return opt->expert_memory && c->hparams.n_experts && !opt->reference && !strcmp(device, "cpu");
}

static ls_code open_weights(ls_decoder_engine *e, const ls_checkpoint *c, const ls_engine_options *opt,
                            const char *device, ls_err *err) {
    ls_hparams hp = c->hparams;
    ls_rope_for_context(&hp, opt->context);
    lst_tensor *t = ls_calloc((size_t)c->n_tensors, sizeof *t);
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *s = &c->tensors[i];
        t[i] = (lst_tensor){s->name, s->type, (int64_t)s->n_in, (int64_t)s->n_out, NULL, s->n_bytes, s->order};
    }
    // the file has no name, so nothing else needs a place there
    const bool apart = keeps_experts_apart(c, opt, device);
    char *folder = apart ? ls_user_path("XDG_CACHE_HOME", ".cache", "experts") : NULL;
    if (apart && !folder) {
        free(t);
        return ls_fail(err, LS_E_IO, "--expert-memory needs a cache folder: set HOME or XDG_CACHE_HOME");
    }
    if (folder) {
        ls_make_folders(folder);
        *strrchr(folder, '/') = 0;
    }
    loading l = {.c = c, .lock = PTHREAD_MUTEX_INITIALIZER};
    const lst_open_options o = {.device = device,
                                .dtype = opt->dtype,
                                .weights = opt->weights,
                                .kv = opt->kv,
                                .threads = opt->threads,
                                .progress = opt->progress,
                                .progress_ud = opt->ud,
                                .read = read_tensor,
                                .ud = &l,
                                .expert_memory = apart ? opt->expert_memory : 0,
                                .expert_folder = folder,
                                .ranks = e->ranks ? e->ranks->group : NULL,
                                .beside = e->ranks ? e->ranks->own.beside : 1};
    const int failure = e->lib->model_open(&e->model, &hp, t, c->n_tensors, &o);
    ls_checkpoint_forget(c);
    free(t);
    free(folder);
    if (failure == LST_E_READ) {
        *err = l.err;
        return LS_E_IO;
    }
    if (failure) return ls_call_failed(e->lib->last_error(), failure, err);
    return ls_checkpoint_unchanged(c, err);
}

static void free_kv_cache(ls_kv_cache *base) {
    decoder_kv_cache *t = (decoder_kv_cache *)base;
    t->lib->kv_cache_free(t->cache);
    free(t);
}

static ls_code kv_cache(ls_engine *base, int32_t layers, ls_kv_cache **out, ls_err *err) {
    ls_decoder_engine *e = (ls_decoder_engine *)base;
    lst_kv_cache *cache;
    *out = NULL;
    int failure = e->lib->kv_cache_new(&cache, e->model, base->n_context, layers);
    if (!failure && e->stop && (failure = e->lib->watch(cache, e->stop, e->stop_ud))) e->lib->kv_cache_free(cache);
    if (failure) return ls_call_failed(e->lib->last_error(), failure, err);
    decoder_kv_cache *t = ls_malloc(sizeof *t);
    t->base = (ls_kv_cache){.engine = base,
                            .prefill = prefill,
                            .forward_tree = forward_tree,
                            .grow_tree = grow_tree,
                            .row_top = row_top,
                            .keep_path = keep_path,
                            .rewind = rewind_to,
                            .copy = copy,
                            .length = length,
                            .timings = timings,
                            .parts = parts,
                            .hidden = hidden,
                            .row_logits = row_logits,
                            .experts = base->n_mixtures ? experts : NULL,
                            .free = free_kv_cache};
    t->lib = e->lib;
    t->ranks = e->ranks;
    t->cache = cache;
    *out = &t->base;
    return LS_OK;
}

static ls_code use_threads(ls_engine *base, int32_t threads, ls_err *err) {
    const ls_decoder_engine *e = (ls_decoder_engine *)base;
    if (e->lib->use_threads(e->model, threads)) return ls_call_failed(e->lib->last_error(), LST_E_ARG, err);
    base->threads = threads;
    return LS_OK;
}

static void close_engine(ls_engine *base) {
    ls_decoder_engine *e = (ls_decoder_engine *)base;
    if (e->model) e->lib->model_close(e->model);
    if (e->ranks && e->ranks->in_use) ls_ranks_release(e->ranks);
    free(e);
}

static ls_decoder_engine *engine_new(const ls_checkpoint *c, const ls_engine_options *opt) {
    ls_decoder_engine *e = ls_calloc(1, sizeof *e);
    e->base = (ls_engine){
        .n_vocab = c->hparams.n_vocab, .n_layers = c->hparams.n_layers, .kv_cache = kv_cache, .close = close_engine};
    for (int32_t i = 0; c->hparams.window && i < c->hparams.n_layers; i++) e->base.n_local += c->hparams.local[i];
    e->base.window = c->hparams.window;
    e->stop = opt->stop;
    e->stop_ud = opt->ud;
    return e;
}

// Weights and facts, on a device whose library is loaded.
static ls_code open_on(ls_decoder_engine *e, const char *device, const ls_checkpoint *c, const ls_engine_options *opt,
                       ls_err *err) {
    ls_engine *base = &e->base;
    lst_model_info_t info = {0};
    ls_code code = LS_OK;
    int32_t context = opt->context;
    code = open_weights(e, c, opt, device, err);
    if (!code && e->lib->model_info(e->model, &info)) code = ls_call_failed(e->lib->last_error(), LST_E_BACKEND, err);
    const uint64_t kv_bytes = ls_hparams_kv_bytes(&c->hparams, info.kv_value_bytes);
    if (!strcmp(device, "cpu")) base->kv_bytes = kv_bytes;
    if (e->ranks) {
        const ls_hparams *h = &c->hparams;
        const int32_t heads = ls_ranks_kv_heads(e->ranks, h);
        const double share = (double)heads / h->n_kv_heads;
        const ls_rank_env *r = &e->ranks->own;
        const ls_shard own = ls_rank_holds(h, r->rank, r->n, r->gpu >= 0);
        ls_rank_part part = {0};
        if (!code) part.context = ls_context_for(h, kv_bytes, (uint64_t)((double)ls_memory_free() / share));
        if (!code && strcmp(device, "cpu"))
            code = ls_device_context(&part.context, e->lib, c, device, &own, kv_bytes, err);
        snprintf(part.how, sizeof part.how, "%.50s, %.15s %.23s", info.kernel, info.weights, info.dtype);
        base->kv_bytes = (uint64_t)((double)base->kv_bytes * share);
        code = ls_ranks_agree(e->ranks, code, &part, err);
        if (!context) context = part.context;
    }
    if (!code && !context && opt->reference && strcmp(device, "cpu")) context = c->hparams.n_context; // grows on demand
    if (!code && !context) code = ls_device_context(&context, e->lib, c, device, NULL, kv_bytes, err);
    if (code) return code;
    base->n_context = context;
    base->kv_value_bytes = info.kv_value_bytes;
    base->weight_bytes = info.weight_bytes;
    base->row_macs = info.row_macs;
    base->head_macs = info.head_macs;
    base->n_mixtures = info.n_mixtures;
    base->expert_memory = keeps_experts_apart(c, opt, device) ? opt->expert_memory : 0;
    if (opt->expert_memory && !base->expert_memory && opt->note)
        opt->note(
            opt->ud,
            "--expert-memory changes nothing: it is for mixtures of experts, on a CPU, with this program's kernels");
    base->n_experts = c->hparams.n_experts;
    base->n_experts_used = c->hparams.n_experts_used;
    base->expert_bytes = info.expert_bytes;
    base->threads = base->usual_threads = info.threads;
    base->most_threads = info.most_threads;
    if (!e->ranks && !opt->threads && info.exact && info.most_threads > 1) base->use_threads = use_threads;
    base->ranks = info.ranks;
    base->exact = info.exact;
    base->slow = *info.slow != 0;
    if (base->slow && opt->note) opt->note(opt->ud, info.slow);
    snprintf(base->device, sizeof base->device, "%s", info.device);
    if (strcmp(info.weights, "auto")) snprintf(base->dtype, sizeof base->dtype, "%.6s %.15s", info.weights, info.dtype);
    else snprintf(base->dtype, sizeof base->dtype, "%s", info.dtype);
    snprintf(base->kernel, sizeof base->kernel, "%s", info.kernel);
    if (e->ranks) ls_ranks_tell_of(e->ranks, base->kernel, sizeof base->kernel);
    snprintf(base->version, sizeof base->version, "%s", info.version);
    return LS_OK;
}

ls_code ls_engine_open(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err) {
    *out = NULL;
    ls_decoder_engine *e = engine_new(c, opt);
    ls_device_choice choice;
    ls_code code = ls_device_choose(&choice, c, opt, err);
    if (!code && opt->context > ls_longest_context(&c->hparams))
        code = ls_fail(err, LS_E_RANGE, "--context %d is more than the model's %d tokens", opt->context,
                       ls_longest_context(&c->hparams));
    if (!code)
        code = ls_decoder_load(&e->lib,
                               opt->reference                  ? LS_DECODER_REFERENCE
                               : !strcmp(choice.device, "cpu") ? LS_DECODER_CPU
                                                               : LS_DECODER_GPU,
                               err);
    if (!code && !opt->alone && !opt->reference) code = ls_ranks_get(&e->ranks, e->lib, opt, err);
    if (!code && e->ranks) code = ls_ranks_offer(e->ranks, c, opt, err);
    if (!code && !e->ranks && !strcmp(choice.device, "cpu")) {
        const uint64_t room = ls_memory_free();
        char said[160];
        code = ls_cpu_fits(c, opt, room, err);
        ls_cpu_says(c, opt, room, said, sizeof said);
        if (!code && *said && opt->note) opt->note(opt->ud, said);
    }
    if (!code) code = open_on(e, choice.device, c, opt, err);
    if (!code && e->ranks) {
        e->ranks->in_use = true;
        e->lib->lead(e->model);
    }
    if (code) close_engine(&e->base);
    else *out = &e->base;
    return code;
}

ls_code ls_engine_open_part(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_ranks *ranks,
                            ls_err *err) {
    *out = NULL;
    ls_decoder_engine *e = engine_new(c, opt);
    e->ranks = ranks;
    ls_code code = ls_decoder_load(&e->lib, strcmp(opt->device, "cpu") ? LS_DECODER_GPU : LS_DECODER_CPU, err);
    if (!code) code = open_on(e, opt->device, c, opt, err);
    if (code) close_engine(&e->base);
    else *out = &e->base;
    return code;
}

ls_code ls_compute_look(ls_compute_facts *out, ls_err *err) {
    *out = (ls_compute_facts){0};
    const lst_torch *torch;
    ls_err no_torch = {0};
    lst_device_info info = {0};
    if (ls_torch_load(&torch, "a trained head, a launcher's rank or the reference engine", &no_torch))
        snprintf(out->no_torch, sizeof out->no_torch, "%s", no_torch.msg);
    else snprintf(out->torch, sizeof out->torch, "%s", torch->torch_version());
    if (lst_device(0, &info)) return ls_fail(err, LS_E_USAGE, "%s", lst_last_error());
    snprintf(out->level, sizeof out->level, "%s", info.name);
    return LS_OK;
}
