// Where the files of a registry model are on this disk, and whether they are unchanged since they were verified.
// models/fetch writes a lock file, logitspec.lock (JSON), beside a model's files: the origin, and each file's size,
// SHA-256 and modification time at verification.
#pragma once
#include "base/json.h"
#include "model/registry.h"

typedef struct {
    char *path;           // the GGUF file or the folder, whether it exists or not
    char *folder;         // of the files
    bool here;            // path exists
    bool misfit;          // the problem is not in the files' bytes, so verifying cannot clear it
    bool installed;       // the model that is installed with the program, in its folder
    char problem[512];    // "", or why the model cannot be used
    ls_model_file *files; // from the lock; without a lock the files that the registry pins
    size_t n_files;
    int64_t size;                                                   // of these files; -1: not known
    ls_json *lock;                                                  // NULL: there is none that can be read
    const char *repository, *revision, *commit, *licence, *fetched; // from the lock; NULL: not in it
} ls_model_place;

void ls_model_place_find(ls_model_place *out, const ls_registry_entry *e);
void ls_model_place_free(ls_model_place *p);

// Fails with `code`: the name is neither of the registry nor hf:OWNER/REPO.
ls_code ls_model_unknown(const ls_registry *r, const char *name, ls_code code, ls_err *err);

typedef struct {
    ls_progress progress;                        // NULL: none
    void (*differs)(void *ud, const char *line); // once for each file that differs or is missing
    void *ud;
} ls_model_verify_options;

// Hashes every file. If all match, updates the modification times in the lock. *wrong: number of files that differ or
// are missing. LS_E_CANCELLED; LS_E_IO: the lock cannot be written.
ls_code ls_model_verify(ls_model_place *p, size_t *wrong, const ls_model_verify_options *o, ls_err *err);
