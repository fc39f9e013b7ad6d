// Where a model of the registry lies on this disk, and whether it is still as verified. models/fetch writes a lock
// beside a model's files, logitspec.lock (JSON): the origin, and each file's size, SHA-256 and modification time when
// it was verified.
#pragma once
#include "model/registry.h"

typedef struct {
    char *path;   // the GGUF file or the folder, where it is or would be
    char *folder; // of the files
    bool here;    // something is there
    bool locked;
    bool misfit;          // the problem is not in the files' bytes: verifying does not clear it
    bool installed;       // the model that comes with the program, in its folder
    char problem[512];    // "", or why it cannot be used
    ls_model_file *files; // by the lock, else those that the registry pins
    size_t n_files;
    int64_t size;                                                                  // of these files; -1: not known
    char *from, *repository, *revision, *commit, *licence, *fetched, *requirement; // by the lock; NULL: not said
    char **wanted; // the files that the entry asked for; ends with NULL
} ls_model_place;

void ls_model_place_find(ls_model_place *out, const ls_registry_entry *e);
void ls_model_place_free(ls_model_place *p);

typedef struct {
    bool (*progress)(void *ud, const char *stage, double fraction); // NULL: none
    void (*differs)(void *ud, const char *line);                    // once for each file that differs or is missing
    void *ud;
} ls_model_verify_options;

// Hashes every file; if all are right, updates the modification times in the lock. *wrong: files that differ or are
// missing. LS_E_CANCELLED; LS_E_IO: the lock cannot be written.
ls_code ls_model_verify(ls_model_place *p, size_t *wrong, const ls_model_verify_options *o, ls_err *err);
