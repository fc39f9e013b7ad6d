// A progress line on standard error, and the signals that ask a command to end.
#pragma once
#include "engine/engine.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

extern volatile sig_atomic_t ls_interrupted; // the signal that asked for the end; 0: none
// The first SIGINT, SIGTERM or SIGHUP sets ls_interrupted, a second one ends the process. Ignores SIGPIPE.
void ls_catch_signals(void);

typedef struct {
    bool quiet, tty, shown;
    uint64_t last_ns;
} ls_gauge;

ls_gauge ls_gauge_start(bool quiet);
// The next line appears at once, however soon the work may end.
void ls_gauge_at_once(ls_gauge *g);
// An ls_progress function over an ls_gauge: shows work that takes long (fraction below zero: unknown). False once
// interrupted.
bool ls_gauge_show(void *gauge, const char *stage, double fraction);
// Shows how a model loads and what it has to say, and ends its forwards once interrupted.
void ls_gauge_watch(ls_gauge *g, ls_engine_options *b);
// Catches signals. From here on every text that is read is shown while it takes long, and ends once interrupted
// (LS_E_CANCELLED). g must last as long as anything is read.
void ls_gauge_reads(ls_gauge *g);
void ls_gauge_clear(ls_gauge *g);
