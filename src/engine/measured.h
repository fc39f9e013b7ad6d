// What is measured of a model on this machine, once: how a forward is timed, and where the result is kept, a text file
// for each key in the user's cache folder (XDG_CACHE_HOME, else ~/.cache; logitspec/costs/).
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
// The file, open behind its first two lines, which are magic and key. NULL: there is none of that key.
FILE *ls_measured_open(const char *path, const char *magic, const char *key);
// Writes it anew, with what follows these two lines. On an error nothing is kept.
void ls_measured_write(const char *path, const char *magic, const char *key, const ls_buf *text);
