// What is measured of a model on this machine: how a forward is timed, and where the result is kept, a text file for
// each key in the user's cache folder (XDG_CACHE_HOME, else ~/.cache; logitspec/costs/), with its date and how sure it
// is.
#pragma once
#include "base/buf.h"
#include "engine/load.h"

#include <stdio.h>

// The shortest of so many forwards of a tree of rows (a root with branches of four, as drafts have them), ms.
ls_code ls_measure_forward(ls_timeline *t, int32_t rows, int repeats, double *best_ms, ls_err *err);

enum { LS_MEASURED_KEY = 1200 };
// What times of forwards depend on, one line: program, model, device, arithmetic, kernels, library, threads (as the
// caller counts them), processor.
void ls_measured_key(const ls_model *m, const char *threads, char key[LS_MEASURED_KEY]);
// Where the file of that key lies. Owned by the caller. NULL: nothing is kept (of the scripted model, or without a
// cache).
char *ls_measured_path(const ls_model *m, const char *key);

// How it was measured: by a few forwards, so that an answer begins at once; while other programs disturbed it; quietly.
typedef enum { LS_MEASURED_BRIEFLY, LS_MEASURED_BUSY, LS_MEASURED_QUIETLY, LS_MEASURED_HOWS } ls_measured_how;
extern const char *const ls_measured_hows[LS_MEASURED_HOWS]; // as the files have it
typedef struct {
    int64_t when; // seconds since 1970
    ls_measured_how how;
} ls_measured;
ls_measured ls_measured_now(ls_measured_how how);
// Whether it need not be measured again: it was measured quietly, or within the last ten minutes.
bool ls_measured_lasts(const ls_measured *m);

// The file, open behind its first three lines: magic, key, and what goes to *is. NULL: there is none of that key.
FILE *ls_measured_open(const char *path, const char *magic, const char *key, ls_measured *is);
// Writes it anew, with what follows these three lines. On an error nothing is kept.
void ls_measured_write(const char *path, const char *magic, const char *key, const ls_measured *is, const ls_buf *text);

// All that is kept, of any model; what: "costs" or "threads".
typedef void (*ls_measured_each)(void *ud, const char *what, const char *key, const ls_measured *is);
void ls_measured_list(ls_measured_each each, void *ud);
int ls_measured_forget(void); // removes it all; returns how many files that were
