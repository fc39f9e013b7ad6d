// Measurements of a model on this machine. Times forwards, and keeps results in the user's cache folder
// (logitspec/costs/ in XDG_CACHE_HOME, by default ~/.cache): a text file for each key, with its date and its
// reliability.
#pragma once
#include "base/buf.h"
#include "engine/load.h"

#include <stdio.h>

// The shortest time of `repeats` forwards of a tree with `rows` rows (a root with typical branches of four), ms.
ls_code ls_measure_forward(ls_timeline *t, int32_t rows, int repeats, double *best_ms, ls_err *err);

enum { LS_MEASURED_KEY = 1200 };
// The cache key, one line with everything that affects the time of a forward: program, model, device, arithmetic,
// kernels, library, threads (as given by the caller), processor.
void ls_measured_key(const ls_model *m, const char *threads, char key[LS_MEASURED_KEY]);
// The path of that key's file. Owned by the caller. NULL: nothing is cached (the scripted model, or no cache folder).
char *ls_measured_path(const ls_model *m, const char *key);

// How it was measured: with few forwards, so that an answer begins at once; disturbed by other programs; undisturbed.
typedef enum { LS_MEASURED_BRIEFLY, LS_MEASURED_BUSY, LS_MEASURED_QUIETLY, LS_MEASURED_HOWS } ls_measured_how;
extern const char *const ls_measured_hows[LS_MEASURED_HOWS]; // as the files have it
typedef struct {
    int64_t when; // seconds since 1970
    ls_measured_how how;
} ls_measured;
ls_measured ls_measured_now(ls_measured_how how);
// Whether the measurement is still valid: it was undisturbed, or it is less than ten minutes old.
bool ls_measured_lasts(const ls_measured *m);

// Opens the file and reads its first three lines: magic, key, and the data of *is. NULL: there is no file for this key.
FILE *ls_measured_open(const char *path, const char *magic, const char *key, ls_measured *is);
// Replaces the file: these three lines, then the given text. On an error nothing is written.
void ls_measured_write(const char *path, const char *magic, const char *key, const ls_measured *is, const ls_buf *text);

// Lists all cached measurements, of any model; what: "costs" or "threads".
typedef void (*ls_measured_each)(void *ud, const char *what, const char *key, const ls_measured *is);
void ls_measured_list(ls_measured_each each, void *ud);
int ls_measured_forget(void); // removes all cached measurements; returns the number of files
