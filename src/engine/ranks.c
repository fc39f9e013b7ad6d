#include "engine/ranks.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/sha256.h"
#include "base/split.h"
#include "engine/model_hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls_ranks {
    ls_rank_place own;
    lst_ranks *group;
    ls_children *children;  // NULL: a launcher started the others
    bool in_use;            // by a model that is open
    bool (*stop)(void *ud); // of the caller of the last ls_ranks_get; NULL: none, as on another rank
    void *ud;
    char host[LST_MAX_RANKS][64];
};

// A process is one rank for its life, as it has one environment. Used by one thread at a time.
static ls_ranks *of_process;

ls_code ls_devices_count(const char *devices, int32_t *n, ls_err *err) {
    *n = 1;
    if (!devices || !*devices) return LS_OK;
    int32_t count = 0;
    if (devices[strspn(devices, "0123456789")] == 0 && strlen(devices) < 5) {
        count = atoi(devices) - 1;
        if (count < 0) return ls_fail(err, LS_E_USAGE, "--devices 0: at least one process has the model");
    } else
        for (const char *p = devices;; count++) {
            const size_t length = strcspn(p, ",");
            if (length != 3 || strncmp(p, "cpu", 3))
                return ls_fail(
                    err, LS_E_USAGE,
                    "--devices %.60s: '%.*s' cannot hold a part of a model; a list such as cpu,cpu can (ranks on "
                    "GPUs are not there yet)",
                    devices, (int)(length < 40 ? length : 40), p);
            if (!p[length]) break;
            p += length + 1;
        }
    if (++count > LST_MAX_RANKS)
        return ls_fail(err, LS_E_USAGE, "--devices names %d ranks; at most %d share a model", count, LST_MAX_RANKS);
    *n = count;
    return LS_OK;
}

// ---- joining

static int is_stopped(void *ud) {
    const ls_ranks *r = ud;
    return r->stop && r->stop(r->ud);
}

static int stop_joining(void *ud) {
    const ls_ranks *r = ud;
    return (r->children && ls_children_first_ended(r->children)) || is_stopped(ud);
}

static void mac(void *secret, const void *p, size_t n, char out[LST_MAC + 1]) {
    ls_hmac_hex(secret, p, n, out);
}

static ls_code join(ls_ranks *r, const ls_library *lib, ls_err *err) {
    const lst_ranks_options o = {.size = sizeof o,
                                 .rank = r->own.rank,
                                 .n = r->own.n,
                                 .memory = r->own.memory,
                                 .store = r->own.memory < 0 ? r->own.store : NULL,
                                 .serves = r->own.serves,
                                 .address = r->own.address,
                                 .mac = mac,
                                 .secret = r->own.token,
                                 .timeout_ms = r->own.timeout_s * 1000,
                                 .stop = stop_joining,
                                 .ud = r};
    const int failed = lib->ranks_join(&r->group, &o);
    return failed ? ls_library_failed(lib, failed, err) : LS_OK;
}

static void drop(const ls_library *lib) {
    if (!of_process) return;
    if (of_process->group) lib->ranks_leave(of_process->group);
    ls_children_end(of_process->children);
    free(of_process);
    of_process = NULL;
}

static ls_code wanted_ranks(ls_rank_place *launched, int32_t *n, const ls_engine_options *opt, ls_err *err) {
    ls_code code = ls_devices_count(opt->devices, n, err);
    if (!code) code = ls_rank_place_read(launched, err);
    if (code || launched->n < 2) return code;
    if (*n > 1)
        return ls_fail(err, LS_E_USAGE, "--devices starts ranks, but a launcher has started %d already: leave it out",
                       launched->n);
    *n = launched->n;
    return LS_OK;
}

ls_code ls_ranks_wanted(int32_t *n, const ls_engine_options *opt, ls_err *err) {
    ls_rank_place launched;
    *n = 1;
    if (opt->alone) return LS_OK;
    const ls_code code = wanted_ranks(&launched, n, opt, err);
    if (!code && *n > 1 && strcmp(opt->device, "auto") && strcmp(opt->device, "cpu"))
        return ls_fail(err, LS_E_USAGE, "%d ranks cannot share a model on --device %s: ranks on GPUs are not there yet",
                       *n, opt->device);
    return code;
}

ls_code ls_ranks_get(ls_ranks **out, const ls_library *lib, const ls_engine_options *opt, ls_err *err) {
    int32_t wanted;
    ls_rank_place launched;
    *out = NULL;
    ls_code code = wanted_ranks(&launched, &wanted, opt, err);
    if (code) return code;
    if (of_process && of_process->in_use)
        return ls_fail(err, LS_E_USAGE, "the ranks of this process hold another model: close it first");
    const bool lost = of_process && lib->ranks_lost(of_process->group) >= 0;
    if (lost && !of_process->children)
        return ls_fail(err, LS_E_BACKEND, "a rank was lost: start the run again with its launcher");
    if (of_process && (lost || of_process->own.n != wanted)) drop(lib);
    if (wanted < 2) return LS_OK;
    if (!of_process) {
        ls_ranks *r = ls_calloc(1, sizeof *r);
        r->own = launched;
        r->stop = opt->stop;
        r->ud = opt->ud;
        if (launched.n < 2) code = ls_children_start(&r->children, &r->own, wanted, err);
        if (opt->progress) opt->progress(opt->ud, "waiting for the other ranks", 0);
        if (!code) code = join(r, lib, err);
        of_process = r;
        if (code) {
            code = ls_ranks_failed(r, lib, code, err);
            drop(lib);
            return code;
        }
    }
    of_process->stop = opt->stop;
    of_process->ud = opt->ud;
    *out = of_process;
    return LS_OK;
}

void ls_ranks_take(ls_ranks *r) {
    r->in_use = true;
}

void ls_ranks_release(ls_ranks *r, const ls_library *lib) {
    r->in_use = false;
    if (r->children && lib->ranks_lost(r->group) >= 0) drop(lib); // one of them may stand still
}

lst_ranks *ls_ranks_group(const ls_ranks *r) {
    return r->group;
}

int32_t ls_ranks_beside(const ls_ranks *r) {
    return r->own.beside;
}

ls_code ls_ranks_join(ls_ranks **out, const ls_library *lib, const ls_rank_place *place, ls_err *err) {
    ls_ranks *r = ls_calloc(1, sizeof *r);
    *out = of_process = r;
    r->own = *place;
    return join(r, lib, err);
}

// ---- one model

ls_code ls_rank_describe(ls_rank_offer *out, const ls_library *lib, const ls_checkpoint *c, ls_progress progress,
                         void *ud, ls_err *err) {
    *out = (ls_rank_offer){0};
    lst_device_info cpu = {.size = sizeof cpu};
    if (lib->device(0, &cpu)) return ls_fail(err, LS_E_BACKEND, "%s", lib->last_error());
    char *path = ls_real_path(c->folder ? c->folder : c->files[0].path);
    if (!path || strlen(path) >= sizeof out->model) {
        free(path);
        return ls_fail(err, LS_E_IO, "the model's path cannot be told to the other ranks");
    }
    snprintf(out->program, sizeof out->program, "logitspec %s, interface %d", LS_VERSION, LST_ABI_VERSION);
    snprintf(out->level, sizeof out->level, "%.31s", cpu.name);
    snprintf(out->model, sizeof out->model, "%s", path);
    free(path);
    return ls_model_hash(c, out->sha256, progress, ud, err);
}

ls_code ls_ranks_offer(ls_ranks *r, const ls_library *lib, const ls_checkpoint *c, const ls_engine_options *opt,
                       ls_err *err) {
    ls_rank_offer o;
    const ls_code code = ls_rank_describe(&o, lib, c, opt->progress, opt->ud, err);
    if (code) return code;
    snprintf(o.dtype, sizeof o.dtype, "%.15s", opt->dtype ? opt->dtype : "auto");
    snprintf(o.weights, sizeof o.weights, "%.15s", opt->weights ? opt->weights : "auto");
    o.threads = opt->threads;
    const int failed = lib->ranks_tell(r->group, &o, sizeof o);
    return failed ? ls_ranks_failed(r, lib, ls_library_failed(lib, failed, err), err)
                  : ls_ranks_agree(r, lib, LS_OK, NULL, err);
}

int32_t ls_ranks_kv_heads(const ls_ranks *r, const ls_hparams *h) {
    int32_t n = 0;
    for (int32_t i = 0; i < r->own.n; i++) {
        const ls_part p = ls_part_of(h->n_heads, h->n_kv_heads, h->n_ff, h->n_embd, h->n_vocab, i, r->own.n);
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

ls_code ls_ranks_agree(ls_ranks *r, const ls_library *lib, ls_code own, ls_rank_part *part, ls_err *err) {
    word mine = {.code = (int32_t)own, .part = part ? *part : (ls_rank_part){{0}, 0}},
         *all = ls_calloc((size_t)r->own.n, sizeof *all);
    gethostname(mine.host, sizeof mine.host - 1);
    if (own) snprintf(mine.text, sizeof mine.text, "%.299s", err->msg);
    int failed = lib->ranks_meet(r->group, is_stopped, r);
    if (!failed) failed = lib->ranks_gather(r->group, &mine, sizeof mine, all);
    ls_code code = own;
    if (failed && !own) code = ls_ranks_failed(r, lib, ls_library_failed(lib, failed, err), err);
    for (int32_t i = 0; i < r->own.n && !failed; i++) {
        word *w = &all[i];
        w->host[sizeof w->host - 1] = w->text[sizeof w->text - 1] = w->part.how[sizeof w->part.how - 1] = 0;
        snprintf(r->host[i], sizeof r->host[i], "%s", w->host);
        if (w->code && !code) code = ls_fail(err, LS_E_BACKEND, "rank %d (%s): %s", i, w->host, w->text);
    }
    for (int32_t i = 0; i < r->own.n && !failed && !code && part; i++) {
        if (strcmp(all[i].part.how, all[0].part.how))
            code = ls_fail(err, LS_E_BACKEND, "rank %d (%s) computes by %s, rank 0 by %s", i, all[i].host,
                           all[i].part.how, all[0].part.how);
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

static int by_time(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ls_code ls_ranks_measure(ls_ranks *r, const ls_library *lib, ls_ranks_speed *out, ls_err *err) {
    enum { TIMES = 101 };
    static const int32_t sizes[] = {LS_RANKS_SMALL, LS_RANKS_LARGE};
    double us[TIMES], median[2] = {0};
    char *mine = ls_calloc(1, LS_RANKS_LARGE), *all = ls_malloc((size_t)r->own.n * LS_RANKS_LARGE);
    ls_code code = ls_ranks_agree(r, lib, LS_OK, NULL, err);
    for (int s = 0; s < 2 && !code; s++) {
        for (int i = 0; i < TIMES && !code; i++) {
            const uint64_t from = ls_now_ns();
            const int failed = lib->ranks_gather(r->group, mine, sizes[s], all);
            us[i] = (double)(ls_now_ns() - from) / 1e3;
            if (failed) code = ls_ranks_failed(r, lib, ls_library_failed(lib, failed, err), err);
        }
        if (code) break;
        qsort(us, TIMES, sizeof *us, by_time);
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
    ls_library lib = {0};
    ls_ranks *r;
    ls_rank_offer nothing = {0};
    *out = (ls_ranks_speed){0};
    ls_code code = ls_library_load(&lib, LS_ON_CPU, err);
    if (!code) code = ls_ranks_get(&r, &lib, opt, err);
    if (code) return code;
    const int failed = lib.ranks_tell(r->group, &nothing, sizeof nothing);
    return failed ? ls_ranks_failed(r, &lib, ls_library_failed(&lib, failed, err), err)
                  : ls_ranks_measure(r, &lib, out, err);
}

ls_code ls_ranks_failed(ls_ranks *r, const ls_library *lib, ls_code code, ls_err *err) {
    const int32_t lost = r->group ? lib->ranks_lost(r->group) : -1;
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
    if (ended && ls_children_ended(r->children, ended, &how)) // before they met
        code = ls_fail(err, LS_E_BACKEND, "rank %d of %d %s", ended, r->own.n, how.p);
    ls_buf_free(&how);
    return code;
}

ls_code ls_ranks_wait(ls_ranks *r, const ls_library *lib, ls_rank_offer *out, ls_err *err) {
    if (lib->ranks_tell(r->group, out, sizeof *out)) return ls_fail(err, LS_E_CANCELLED, "rank 0 has ended");
    // what comes from elsewhere ends somewhere
    out->program[sizeof out->program - 1] = out->level[sizeof out->level - 1] = out->model[sizeof out->model - 1] = 0;
    out->sha256[sizeof out->sha256 - 1] = out->dtype[sizeof out->dtype - 1] = out->weights[sizeof out->weights - 1] = 0;
    return LS_OK;
}
