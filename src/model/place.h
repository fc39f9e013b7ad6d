// Where a model of the registry lies on this disk, and whether it is what was verified. A fetched model has a lock
// beside its files, logitspec.lock (JSON, written by models/fetch): where it came from, and of each file size, SHA-256
// and time of change when it was verified.
#pragma once
#include "model/registry.h"

typedef struct {
    char *path;   // the GGUF file, or the folder; where it would be if it is not here
    char *folder; // that the files are in
    bool here;    // something is there
    bool locked;
    bool misfit;          // the problem is not one of the files' bytes: no verification clears it
    bool installed;       // the model that comes with the program, in its folder
    char problem[512];    // "", or why it cannot be used
    ls_model_file *files; // by the lock, else those that the registry pins
    size_t n_files;
    int64_t size;                                                                  // of these files; -1: not known
    char *from, *repository, *revision, *commit, *licence, *fetched, *requirement; // by the lock; NULL: not said
    char **wanted; // what was asked for, with a NULL at the end
} ls_model_place;

void ls_model_place_find(ls_model_place *out, const ls_registry_entry *e);
void ls_model_place_free(ls_model_place *p);

typedef struct {
    bool (*progress)(void *ud, const char *stage, double fraction); // NULL: none
    void (*differs)(void *ud, const char *line);                    // once for each file that differs or lacks
    void *ud;
} ls_model_verify_options;

// Hashes every file; where all are right, the lock has their times of change again. *wrong: how many differ or lack.
// LS_E_CANCELLED, LS_E_IO for a lock that cannot be written.
ls_code ls_model_verify(ls_model_place *p, size_t *wrong, const ls_model_verify_options *o, ls_err *err);
