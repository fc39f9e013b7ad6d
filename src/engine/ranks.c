#include "engine/ranks.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/system.h"
#include "engine/load.h"
#include "gpu/plan.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What rank 0 offers, with its own data to compare. model "": no model, only exchanges are measured.
typedef struct {
    char program[64], level[96]; // version; level of the CPU's kernels, or kind of GPU
    char model[1024], sha256[65];
    char dtype[16], weights[16], kv[16];
    int32_t threads, context; // context: 0: the default
} rank_offer;

// A process is one rank until it ends, because it has one environment. Used by one thread at a time.
static ls_ranks *of_process;

// Parses one element of a list: number of the GPU; -1: the CPU; -2: not valid.
static int32_t device_of(const char *name, size_t length) {
    if (length == 3 && !strncmp(name, "cpu", 3)) return -1;
    if (length > 5 && !strncmp(name, "cuda:", 5)) name += 5, length -= 5;
    if (!length || length > 2 || strspn(name, "0123456789") < length) return -2;
    return atoi(name);
}

ls_code ls_devices_read(ls_devices *out, const char *devices, const char *device, ls_err *err) {
    *out = (ls_devices){.n = 1};
    const bool on_gpus = device && !strncmp(device, "cuda", 4);
    out->gpu[0] = -1;
    if (!devices || !*devices) return LS_OK;
    if (devices[strspn(devices, "0123456789")] == 0 && strlen(devices) < 5) {
        out->n = atoi(devices);
        if (out->n < 1) return ls_fail(err, LS_E_USAGE, "--devices must be at least 1");
        for (int i = 0; i < out->n && i < LST_MAX_RANKS; i++) out->gpu[i] = on_gpus ? i : -1;
    } else {
        const char *p = devices;
        for (out->n = 1;; out->n++, p++) {
            const size_t length = strcspn(p, ",");
            const int32_t gpu = device_of(p, length);
            if (gpu == -2)
                return ls_fail(err, LS_E_USAGE,
                               "--devices %.60s: '%.*s' is not a device; use a list such as cpu,cpu, or 0,1 for GPUs",
                               devices, (int)(length < 40 ? length : 40), p);
            if (out->n <= LST_MAX_RANKS) out->gpu[out->n - 1] = gpu;
            p += length;
            if (!*p) break;
        }
    }
    if (out->n > LST_MAX_RANKS)
        return ls_fail(err, LS_E_USAGE, "--devices names %d ranks, but at most %d can share a model", out->n,
                       LST_MAX_RANKS);
    for (int32_t i = 0; i < out->n; i++)
        if ((out->gpu[i] < 0) != (out->gpu[0] < 0))
            return ls_fail(err, LS_E_USAGE, "--devices %.60s: CPUs and GPUs cannot share a model", devices);
    if (out->n == 1 && out->gpu[0] >= 0)
        return ls_fail(err, LS_E_USAGE, "--devices %.60s names only one GPU; use --device cuda:%d instead", devices,
                       out->gpu[0]);
    if (out->n > 1 && device && strcmp(device, "auto") && on_gpus != (out->gpu[0] >= 0))
        return ls_fail(err, LS_E_USAGE,
                       "--devices %.60s and --device %s name different kinds of devices; omit --device", devices,
                       device);
    return LS_OK;
}

// ---- joining

static bool is_stopped(void *ud) {
    const ls_ranks *r = ud;
    return r->stop && r->stop(r->ud);
}

static bool stop_joining(void *ud) {
    const ls_ranks *r = ud;
    return (r->children && ls_children_first_ended(r->children)) || is_stopped(ud);
}

// The wire to a launcher's ranks.
static ls_code join_by_gloo(ls_ranks *r, lst_wire *wire, ls_err *err) {
    const lst_torch *torch;
    const lst_gloo_options o = {.rank = r->own.rank,
                                .n = r->own.n,
                                .store = r->own.store,
                                .serves = r->own.serves,
                                .address = r->own.address,
                                .mac = ls_hmac_hex,
                                .secret = r->own.token,
                                .timeout_ms = r->own.timeout_s * 1000,
                                .stop = stop_joining,
                                .ud = r};
    const ls_code code = ls_torch_load(&torch, "a launcher's rank", err);
    const int failed = code ? LST_OK : torch->gloo_join(wire, &o);
    return failed ? ls_call_failed(torch->last_error(), failed, err) : code;
}

static ls_code join(ls_ranks *r, ls_err *err) {
    const bool launched = r->own.memory < 0;
    lst_wire wire;
    const lst_ranks_options o = {.rank = r->own.rank,
                                 .n = r->own.n,
                                 .wire = launched ? &wire : NULL,
                                 .memory = r->own.memory,
                                 .timeout_ms = r->own.timeout_s * 1000,
                                 .stop = stop_joining,
                                 .ud = r};
    const ls_code code = launched ? join_by_gloo(r, &wire, err) : LS_OK;
    const int failed = code ? LST_OK : r->lib->ranks_join(&r->group, &o);
    return failed ? ls_call_failed(r->lib->last_error(), failed, err) : code;
}

// The status of a call of the group's library.
static ls_code status(ls_ranks *r, int failed, ls_err *err) {
    return failed ? ls_ranks_failed(r, ls_call_failed(r->lib->last_error(), failed, err), err) : LS_OK;
}

static void drop(void) {
    if (!of_process) return;
    if (of_process->group) of_process->lib->ranks_leave(of_process->group);
    ls_children_end(of_process->children);
    free(of_process);
    of_process = NULL;
}

static ls_code wanted_ranks(ls_rank_env *launched, ls_devices *out, const ls_engine_options *opt, ls_err *err) {
    ls_code code = ls_devices_read(out, opt->devices, opt->device, err);
    if (!code) code = ls_rank_env_read(launched, err);
    if (code || launched->n < 2) return code;
    if (out->n > 1)
        return ls_fail(err, LS_E_USAGE, "a launcher has already started %d ranks; omit --devices", launched->n);
    if (opt->device && strcmp(opt->device, "auto") && (strcmp(opt->device, "cpu") != 0) != (launched->gpu >= 0))
        return ls_fail(
            err, LS_E_USAGE,
            "--device %s is not used for a launcher's ranks; omit it, and set LOGITSPEC_RANKS_DEVICE to cuda or "
            "cpu for all ranks",
            opt->device);
    out->n = launched->n;
    out->launched = true;
    out->gpu[0] = launched->gpu;
    return LS_OK;
}

ls_code ls_ranks_wanted(ls_devices *out, const ls_engine_options *opt, ls_err *err) {
    ls_rank_env launched;
    *out = (ls_devices){.n = 1, .gpu = {-1}};
    return opt->alone ? LS_OK : wanted_ranks(&launched, out, opt, err);
}

static bool same(const ls_devices *a, const ls_devices *b) {
    if (a->n != b->n || a->launched != b->launched) return false;
    for (int32_t i = 0; i < (a->launched ? 1 : a->n); i++)
        if (a->gpu[i] != b->gpu[i]) return false;
    return true;
}

ls_code ls_ranks_get(ls_ranks **out, const lst_decoder *lib, const ls_engine_options *opt, ls_err *err) {
    ls_devices wanted;
    ls_rank_env launched;
    *out = NULL;
    ls_code code = wanted_ranks(&launched, &wanted, opt, err);
    if (code) return code;
    if (of_process && of_process->in_use)
        return ls_fail(err, LS_E_USAGE, "the ranks of this process are in use by another model; close it first");
    const bool lost = of_process && of_process->lib->ranks_lost(of_process->group) >= 0;
    if (lost && !of_process->children)
        return ls_fail(err, LS_E_BACKEND, "a rank was lost; start the run again with its launcher");
    if (of_process && (lost || !same(&of_process->devices, &wanted))) drop();
    if (wanted.n < 2) return LS_OK;
    if (!of_process) {
        ls_ranks *r = ls_calloc(1, sizeof *r);
        r->own = launched;
        r->devices = wanted;
        r->lib = lib;
        r->stop = opt->stop;
        r->ud = opt->ud;
        if (launched.n < 2) code = ls_children_start(&r->children, &r->own, wanted.n, wanted.gpu, err);
        if (opt->progress) opt->progress(opt->ud, "waiting for the other ranks", 0);
        if (!code) code = join(r, err);
        of_process = r;
        if (code) {
            code = ls_ranks_failed(r, code, err);
            drop();
            return code;
        }
    }
    of_process->stop = opt->stop;
    of_process->ud = opt->ud;
    *out = of_process;
    return LS_OK;
}

void ls_ranks_release(ls_ranks *r) {
    r->in_use = false;
    if (r->children && r->lib->ranks_lost(r->group) >= 0) drop(); // a lost rank may still be running, but not answering
}

ls_shard ls_rank_holds(const ls_hparams *h, int rank, int n, bool gpu) {
    const ls_sizes sizes = ls_hparams_sizes(h);
    const ls_shard part = ls_shard_of(&sizes, rank, n);
    return gpu ? lsg_held(part, h->n_heads, h->n_kv_heads, h->qk_norm == LS_QK_NORM_WHOLE) : part;
}

// ---- one model

// Fills an offer with this rank's data: program, level, model and its SHA-256 (progress as in ls_model_hash).
static ls_code describe(rank_offer *out, const ls_ranks *r, const ls_checkpoint *c, ls_progress progress, void *ud,
                        ls_err *err) {
    const int32_t gpu = r->own.gpu;
    *out = (rank_offer){0};
    lst_device_info device = {0};
    if (r->lib->device(gpu < 0 ? 0 : gpu, &device)) return ls_fail(err, LS_E_BACKEND, "%s", r->lib->last_error());
    char *path = ls_real_path(c->folder ? c->folder : c->files[0].path);
    if (!path || strlen(path) >= sizeof out->model) {
        free(path);
        return ls_fail(err, LS_E_IO, "the model's path cannot be sent to the other ranks");
    }
    snprintf(out->program, sizeof out->program, "logitspec %s, interface %d", LS_VERSION, LST_VERSION);
    snprintf(out->level, sizeof out->level, "%.95s", device.name);
    snprintf(out->model, sizeof out->model, "%s", path);
    free(path);
    return ls_model_hash(c, out->sha256, progress, ud, err);
}

ls_code ls_ranks_offer(ls_ranks *r, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err) {
    rank_offer o;
    ls_code code = describe(&o, r, c, opt->progress, opt->ud, err);
    if (code) return code;
    snprintf(o.dtype, sizeof o.dtype, "%.15s", opt->dtype ? opt->dtype : "auto");
    snprintf(o.weights, sizeof o.weights, "%.15s", opt->weights ? opt->weights : "auto");
    snprintf(o.kv, sizeof o.kv, "%.15s", opt->kv ? opt->kv : "auto");
    o.threads = opt->threads;
    o.context = opt->context;
    code = status(r, r->lib->ranks_tell(r->group, &o, sizeof o), err);
    return code ? code : ls_ranks_agree(r, LS_OK, NULL, err);
}

int32_t ls_ranks_kv_heads(const ls_ranks *r, const ls_hparams *h) {
    int32_t n = 0;
    for (int32_t i = 0; i < r->own.n; i++) {
        const ls_shard p = ls_rank_holds(h, i, r->own.n, false);
        if (!strcmp(r->host[i], r->host[r->own.rank])) n += ls_range_size(p.kv_heads);
    }
    return n;
}

typedef struct {
    int32_t code;
    char host[64];
    char text[300];
    ls_rank_part part;
} word;

ls_code ls_ranks_agree(ls_ranks *r, ls_code own, ls_rank_part *part, ls_err *err) {
    word mine = {.code = (int32_t)own, .part = part ? *part : (ls_rank_part){{0}, 0}},
         *all = ls_calloc((size_t)r->own.n, sizeof *all);
    gethostname(mine.host, sizeof mine.host - 1);
    if (own) snprintf(mine.text, sizeof mine.text, "%.299s", err->msg);
    int failed = r->lib->ranks_barrier(r->group, is_stopped, r);
    if (!failed) failed = r->lib->ranks_gather(r->group, &mine, sizeof mine, all);
    ls_code code = own;
    if (!own) code = status(r, failed, err);
    for (int32_t i = 0; i < r->own.n && !failed; i++) {
        word *w = &all[i];
        w->host[sizeof w->host - 1] = w->text[sizeof w->text - 1] = w->part.how[sizeof w->part.how - 1] = 0;
        snprintf(r->host[i], sizeof r->host[i], "%s", w->host);
        if (w->code && !code) code = ls_fail(err, LS_E_BACKEND, "rank %d (%s): %s", i, w->host, w->text);
    }
    for (int32_t i = 0; i < r->own.n && !failed && !code && part; i++) {
        if (strcmp(all[i].part.how, all[0].part.how))
            code = ls_fail(err, LS_E_BACKEND,
                           "rank %d (%s) computes with %s, but rank 0 with %s; if the processors differ, set "
                           "LOGITSPEC_CPU to a level that both support",
                           i, all[i].host, all[i].part.how, all[0].part.how);
        if (all[i].part.context < part->context) part->context = all[i].part.context;
    }
    free(all);
    return code;
}

void ls_ranks_tell_of(const ls_ranks *r, char *line, size_t size) {
    int32_t machines = 0;
    for (int32_t i = 0; i < r->own.n; i++) {
        bool again = false;
        for (int32_t j = 0; j < i; j++) again |= !strcmp(r->host[i], r->host[j]);
        machines += !again;
    }
    const size_t n = strlen(line);
    if (machines > 1) snprintf(line + n, size - n, ", %d ranks on %d machines", r->own.n, machines);
    else snprintf(line + n, size - n, ", %d ranks", r->own.n);
}

static ls_code measure(ls_ranks *r, ls_ranks_speed *out, ls_err *err) {
    enum { TIMES = 101 };
    static const int32_t sizes[] = {LS_RANKS_SMALL, LS_RANKS_LARGE};
    double us[TIMES], median[2] = {0};
    char *mine = ls_calloc(1, LS_RANKS_LARGE), *all = ls_malloc((size_t)r->own.n * LS_RANKS_LARGE);
    ls_code code = ls_ranks_agree(r, LS_OK, NULL, err);
    for (int s = 0; s < 2 && !code; s++) {
        for (int i = 0; i < TIMES && !code; i++) {
            const uint64_t from = ls_now_ns();
            code = status(r, r->lib->ranks_gather(r->group, mine, sizes[s], all), err);
            us[i] = (double)(ls_now_ns() - from) / 1e3;
        }
        if (code) break;
        ls_sort(us, TIMES);
        median[s] = us[TIMES / 2];
    }
    free(mine);
    free(all);
    *out = (ls_ranks_speed){.n = r->own.n, .small_us = median[0], .large_us = median[1]};
    for (int32_t i = 0; i < r->own.n; i++) {
        const size_t at = strlen(out->hosts);
        snprintf(out->hosts + at, sizeof out->hosts - at, "%s%s", i ? ", " : "", r->host[i]);
    }
    return code;
}

ls_code ls_ranks_try(ls_ranks_speed *out, const ls_engine_options *opt, ls_err *err) {
    const lst_decoder *lib = NULL;
    ls_ranks *r;
    rank_offer nothing = {0};
    ls_devices devices;
    *out = (ls_ranks_speed){0};
    ls_code code = ls_ranks_wanted(&devices, opt, err);
    if (!code) code = ls_decoder_load(&lib, devices.gpu[0] >= 0 ? LS_DECODER_GPU : LS_DECODER_CPU, err);
    if (!code) code = ls_ranks_get(&r, lib, opt, err);
    if (code) return code;
    code = status(r, lib->ranks_tell(r->group, &nothing, sizeof nothing), err);
    return code ? code : measure(r, out, err);
}

ls_code ls_ranks_failed(ls_ranks *r, ls_code code, ls_err *err) {
    const int32_t lost = r->group ? r->lib->ranks_lost(r->group) : -1;
    ls_buf how = {0};
    if (lost > 0 && r->children && ls_children_ended(r->children, lost, &how)) {
        ls_fail(err, code,
                "rank %d of %d %s; run the program again (on the screen, ':save FILE' keeps the conversation)", lost,
                r->own.n, how.p);
    } else if (lost > 0 && *r->host[lost]) {
        ls_buf_fmt(&how, "rank %d is on %s; run the program again (on the screen, ':save FILE' keeps the conversation)",
                   lost, r->host[lost]);
        ls_err_suffix(err, how.p);
    }
    const int32_t ended = !r->group && r->children ? ls_children_first_ended(r->children) : 0;
    if (ended && ls_children_ended(r->children, ended, &how)) // ended before the ranks had connected
        code = ls_fail(err, LS_E_BACKEND, "rank %d of %d %s", ended, r->own.n, how.p);
    ls_buf_free(&how);
    return code;
}

// Waits for rank 0's next model. LS_E_CANCELLED: rank 0 has ended.
static ls_code wait_for_offer(ls_ranks *r, rank_offer *out, ls_err *err) {
    if (r->lib->ranks_tell(r->group, out, sizeof *out)) return ls_fail(err, LS_E_CANCELLED, "rank 0 has ended");
    // terminate the received strings
    out->program[sizeof out->program - 1] = out->level[sizeof out->level - 1] = out->model[sizeof out->model - 1] = 0;
    out->sha256[sizeof out->sha256 - 1] = out->dtype[sizeof out->dtype - 1] = out->weights[sizeof out->weights - 1] = 0;
    out->kv[sizeof out->kv - 1] = 0;
    return LS_OK;
}

// ---- the other ranks

// Rank 0 holds the other end of this pipe, so the pipe closes when rank 0 ends for any reason.
static void *end_with_parent(void *unused) {
    (void)unused;
    char byte;
    while (read(0, &byte, 1) > 0) continue;
    _exit(0);
}

// Another program may accept a connection at that port and never answer.
static void give_up(int signal) {
    static const char text[] = "logitspec: the program at MASTER_ADDR:MASTER_PORT does not answer as rank 0\n";
    (void)signal;
    _exit(write(2, text, sizeof text - 1) < 0 ? 2 : 1);
}

static volatile sig_atomic_t asked_to_end;

static void end_with_rank_0(int unused) {
    (void)unused;
    asked_to_end = 1;
}

static void end_soon(int unused) {
    enum { SECONDS = 10 };
    end_with_rank_0(unused);
    signal(SIGALRM, SIG_DFL);
    alarm(SECONDS);
}

// Checks that this rank has the program, file and kernels that rank 0 offers.
static ls_code compare(const rank_offer *o, const ls_ranks *r, const ls_checkpoint *c, ls_err *err) {
    rank_offer own;
    const ls_code code = describe(&own, r, c, NULL, NULL, err);
    if (code) return code;
    const struct {
        const char *what, *of_rank_0, *here;
    } same[] = {{"program", o->program, own.program},
                {"file (SHA-256)", o->sha256, own.sha256},
                {"kernel level or kind of GPU", o->level, own.level}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(same[i].of_rank_0, same[i].here))
            return ls_fail(err, LS_E_USAGE, "%s mismatch: this rank has %.80s, rank 0 has %.80s", same[i].what,
                           same[i].here, same[i].of_rank_0);
    return LS_OK;
}

// *out_of_step: only this rank failed in a collective call. It must exit, because the other ranks would misread its
// next bytes.
static ls_code follow_one(ls_ranks *r, const rank_offer *o, bool *out_of_step, ls_err *err) {
    ls_checkpoint *c = NULL;
    ls_engine *engine = NULL;
    ls_code code = ls_checkpoint_open(&c, o->model, err);
    if (!code) code = compare(o, r, c, err);
    code = ls_ranks_agree(r, code, NULL, err);
    if (!code) {
        char device[32] = "cpu";
        if (r->own.gpu >= 0) snprintf(device, sizeof device, "cuda:%d", r->own.gpu);
        const ls_engine_options opt = {.device = device,
                                       .dtype = o->dtype,
                                       .weights = o->weights,
                                       .kv = o->kv,
                                       .threads = o->threads,
                                       .context = o->context ? o->context : 1};
        code = ls_engine_open_part(&engine, c, &opt, r, err);
    }
    ls_checkpoint_close(c);
    if (!code) {
        const ls_decoder_engine *e = (const ls_decoder_engine *)engine;
        const int failed = r->lib->follow(e->model);
        if (failed) code = ls_call_failed(r->lib->last_error(), failed, err);
        *out_of_step = failed != 0;
    }
    if (engine) engine->close(engine);
    return code;
}

ls_code ls_follow(ls_err *err) {
    const lst_decoder *lib = NULL;
    ls_ranks *r = NULL;
    ls_rank_env place;
    ls_code code = ls_rank_env_read(&place, err);
    if (!code && place.n < 2)
        code = ls_fail(err, LS_E_USAGE,
                       "'rank' is started only by a launcher or by --devices: RANK and WORLD_SIZE are not set");
    if (code) return code;
    pthread_t watcher;
    // If a launcher signals all ranks, rank 0 stops first and the other ranks end with it.
    signal(SIGINT, end_with_rank_0);
    signal(SIGHUP, end_with_rank_0);
    if (place.memory >= 0 && !pthread_create(&watcher, NULL, end_with_parent, NULL)) pthread_detach(watcher);
    code = ls_decoder_load(&lib, place.gpu >= 0 ? LS_DECODER_GPU : LS_DECODER_CPU, err);
    signal(SIGALRM, give_up);
    alarm((unsigned)place.timeout_s * 4 + 1); // longer than the sum of the four timeouts that can elapse in sequence
    if (!code) {
        r = of_process = ls_calloc(1, sizeof *r);
        r->own = place;
        r->lib = lib;
        code = join(r, err);
    }
    alarm(0);
    signal(SIGTERM, end_soon); // end_soon sets another alarm
    while (!code) {
        rank_offer offer;
        if (wait_for_offer(r, &offer, err)) return LS_OK;
        ls_ranks_speed speed;
        bool out_of_step = false;
        code = *offer.model ? follow_one(r, &offer, &out_of_step, err) : measure(r, &speed, err);
        // otherwise rank 0 knows of the failure, and may offer another model
        const int32_t lost = lib->ranks_lost(r->group);
        if (!out_of_step && lost < 0) code = LS_OK;
        if (lost == 0 && asked_to_end) return LS_OK; // rank 0 got the signal first, and ended during an exchange
    }
    return code;
}
