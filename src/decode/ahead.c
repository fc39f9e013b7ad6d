#include "decode/ahead.h"
#include "base/mem.h"
#include "base/system.h"

#include <stdlib.h>

enum { BLOCK = 16, BLOCKS_AT_FIRST = 4, BLOCKS_BETWEEN = 16 };
static const double KEPT = 0.5; // factor for older times and tokens at each new block

struct ls_ahead {
    bool fixed; // the user chose `on`: nothing is compared
    // times (us) and tokens of steps, [0] without and [1] with drafting ahead
    struct {
        double us, tokens;
    } of[2];
    bool on;
    int32_t steps, blocks; // of the present block; blocks so far
    // the thread, once it was needed
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ls_drafter *drafter; // the one that drafts now; NULL: none
    const ls_draft_state *state;
    atomic_bool stop;
    bool quit;
};

bool ls_ahead_can(const ls_drafter *d) {
    return d && d->ahead && d->draft_model->threads;
}

ls_ahead *ls_ahead_new(ls_overlap how, const ls_drafter *d, int32_t target_threads) {
    if (!ls_ahead_can(d) || how == LS_OVERLAP_OFF) return NULL;
    if (how == LS_OVERLAP_AUTO && d->draft_model->threads + target_threads > ls_cores()) return NULL;
    ls_ahead *a = ls_calloc(1, sizeof *a);
    a->fixed = how == LS_OVERLAP_ON;
    a->on = true;
    atomic_init(&a->stop, false);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    return a;
}

void ls_ahead_free(ls_ahead *a) {
    if (!a) return;
    if (a->started) {
        pthread_mutex_lock(&a->lock);
        a->quit = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

bool ls_ahead_is_on(const ls_ahead *a) {
    return a && a->on;
}

static void *ahead_run(void *ud) {
    ls_ahead *a = ud;
    pthread_mutex_lock(&a->lock);
    while (!a->quit) {
        if (!a->drafter) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        a->drafter->ahead(a->drafter, a->state, &a->stop);
        pthread_mutex_lock(&a->lock);
        a->drafter = NULL;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

bool ls_ahead_start(ls_ahead *a, ls_drafter *d, const ls_draft_state *s) {
    if (!a->started && !(a->started = ls_thread_start(&a->thread, ahead_run, a))) {
        a->on = false;
        a->fixed = true;
        return false;
    }
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->stop, false);
    a->state = s;
    a->drafter = d;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return true;
}

void ls_ahead_stop(ls_ahead *a) {
    atomic_store(&a->stop, true);
    pthread_mutex_lock(&a->lock);
    while (a->drafter) pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

// The first blocks alternate. Then the faster way is used, and every BLOCKS_BETWEEN-th block tries the other one.
static bool next_way(const ls_ahead *a) {
    // compares the time per token
    const bool ahead_pays = a->of[1].us * a->of[0].tokens < a->of[0].us * a->of[1].tokens;
    if (a->blocks < BLOCKS_AT_FIRST) return !a->on;
    return a->blocks % BLOCKS_BETWEEN ? ahead_pays : !ahead_pays;
}

void ls_ahead_learn(ls_ahead *a, double us, int32_t tokens) {
    if (!a || a->fixed) return;
    a->of[a->on].us += us;
    a->of[a->on].tokens += tokens;
    if (++a->steps < BLOCK) return;
    a->steps = 0;
    a->blocks++;
    a->on = next_way(a);
    a->of[a->on].us *= KEPT;
    a->of[a->on].tokens *= KEPT;
}
