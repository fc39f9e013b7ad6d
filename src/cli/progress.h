// A progress line on standard error, and the signals that end a command.
#pragma once
#include "engine/engine.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

extern volatile sig_atomic_t ls_interrupted; // the signal that was received; 0: none
// The first SIGINT, SIGTERM or SIGHUP sets ls_interrupted, a second one ends the process. Ignores SIGPIPE.
void ls_catch_signals(void);
void ls_leave_signals(void); // their default actions again, for whoever handles them next

typedef struct {
    bool quiet, tty; // tty: standard error is a terminal
    bool shown;
    uint64_t last_ns; // when a line was shown, or the work began; 1: long ago, so that the next line is shown at once
} ls_gauge;

// An ls_progress function for an ls_gauge: shows the progress of long work (fraction below zero: unknown). False:
// interrupted.
bool ls_gauge_show(void *gauge, const char *stage, double fraction);
// Shows the loading of a model and the notes of its engine; an interrupt ends its forwards.
void ls_gauge_watch(ls_gauge *g, ls_engine_options *b);
// Catches signals. From now on, the gauge shows the progress of reading a file, and an interrupt ends the reading
// (LS_E_CANCELLED). g must outlive all readers.
void ls_gauge_reads(ls_gauge *g);
void ls_gauge_clear(ls_gauge *g);
