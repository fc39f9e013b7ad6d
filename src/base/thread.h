// Threads that take no signals: those belong to the thread that started the program, or that draws the screen.
#pragma once
#include <pthread.h>
#include <stdbool.h>

// Threads that run() starts inherit this. False: the system refuses.
bool ls_thread_start(pthread_t *t, void *(*run)(void *ud), void *ud);
