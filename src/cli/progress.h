// A progress line on standard error, and the signals that end a command.
#pragma once
#include "engine/engine.h"

#include <signal.h>
#include <stdbool.h>

extern volatile sig_atomic_t ls_interrupted; // the signal that was received; 0: none
// The first SIGINT, SIGTERM or SIGHUP sets ls_interrupted, a second one ends the process. Ignores SIGPIPE.
void ls_catch_signals(void);
void ls_leave_signals(void); // their default actions again, for whoever handles them next

// ---- the progress line of the process. The functions that print (commands.h) clear it first.

void ls_gauge_begin(bool quiet); // quiet, and before this call: no line and no note is shown
// An ls_progress function (ud is not read): shows the progress of long work (fraction below zero: unknown). False:
// interrupted.
bool ls_gauge_show(void *ud, const char *stage, double fraction);
void ls_gauge_hurry(void); // the next line is shown at once, not after some time
// Shows the loading of a model and the notes of its engine; an interrupt ends its forwards.
void ls_gauge_watch(ls_engine_options *b);
// Catches signals. From now on, the line shows the progress of reading a file, and an interrupt ends the reading
// (LS_E_CANCELLED).
void ls_gauge_reads(void);
void ls_gauge_clear(void);
