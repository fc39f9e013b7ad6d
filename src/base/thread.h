// Threads with all signals blocked, so that the main thread or the thread of the screen handles them.
#pragma once
#include <pthread.h>
#include <stdbool.h>

// Threads that run() starts inherit the blocked signals. False: the system cannot start a thread.
bool ls_thread_start(pthread_t *t, void *(*run)(void *ud), void *ud);
