#include "engine/follow.h"
#include "engine/engine_torch.h"
#include "engine/model_hash.h"
#include "engine/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static ls_code compare(const ls_rank_offer *o, const ls_ranks *r, const ls_library *lib, const ls_checkpoint *c,
                       ls_err *err) {
    ls_rank_offer own;
    const ls_code code = ls_rank_describe(&own, r, lib, c, NULL, NULL, err);
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
static ls_code follow_one(ls_ranks *r, const ls_library *lib, const ls_rank_offer *o, bool *out_of_step, ls_err *err) {
    ls_checkpoint *c = NULL;
    ls_engine *engine = NULL;
    ls_code code = ls_checkpoint_open(&c, o->model, err);
    if (!code) code = compare(o, r, lib, c, err);
    code = ls_ranks_agree(r, lib, code, NULL, err);
    if (!code) {
        char device[32];
        ls_ranks_device(r, device);
        const ls_engine_options opt = {.device = device,
                                       .dtype = o->dtype,
                                       .weights = o->weights,
                                       .kv = o->kv,
                                       .threads = o->threads,
                                       .context = 1};
        code = ls_engine_torch_part(&engine, c, &opt, r, err);
    }
    ls_checkpoint_close(c);
    if (!code) {
        const ls_torch_engine *e = (const ls_torch_engine *)engine;
        const int failed = lib->follow(e->model);
        if (failed) code = ls_library_failed(lib, failed, err);
        *out_of_step = failed != 0;
    }
    if (engine) engine->close(engine);
    return code;
}

ls_code ls_follow(ls_err *err) {
    ls_library lib = {0};
    ls_ranks *r = NULL;
    ls_rank_place place;
    ls_code code = ls_rank_place_read(&place, err);
    if (!code && place.n < 2)
        code = ls_fail(err, LS_E_USAGE,
                       "'rank' is started only by a launcher or by --devices: RANK and WORLD_SIZE are not set");
    if (code) return code;
    pthread_t watcher;
    // If a launcher signals all ranks, rank 0 stops first and the other ranks end with it.
    signal(SIGINT, end_with_rank_0);
    signal(SIGHUP, end_with_rank_0);
    if (place.is_child && !pthread_create(&watcher, NULL, end_with_parent, NULL)) pthread_detach(watcher);
    code = ls_library_load(&lib, place.gpu < 0 ? LS_ON_CPU : LS_ON_GPU, err);
    signal(SIGALRM, give_up);
    alarm((unsigned)place.timeout_s * 4 + 1); // longer than the sum of the four timeouts that can elapse in sequence
    if (!code) code = ls_ranks_join(&r, &lib, &place, err);
    alarm(0);
    signal(SIGTERM, end_soon); // end_soon sets another alarm
    while (!code) {
        ls_rank_offer offer;
        if (ls_ranks_wait(r, &lib, &offer, err)) return LS_OK;
        ls_ranks_speed speed;
        bool out_of_step = false;
        code = *offer.model ? follow_one(r, &lib, &offer, &out_of_step, err) : ls_ranks_measure(r, &lib, &speed, err);
        // otherwise rank 0 knows of the failure, and may offer another model
        const int32_t lost = lib.ranks_lost(ls_ranks_group(r));
        if (!out_of_step && lost < 0) code = LS_OK;
        if (lost == 0 && asked_to_end) return LS_OK; // rank 0 got the signal first, and ended during an exchange
    }
    return code;
}
