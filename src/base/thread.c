#include "base/thread.h"

#include <signal.h>

bool ls_thread_start(pthread_t *t, void *(*run)(void *ud), void *ud) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(t, NULL, run, ud);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}
