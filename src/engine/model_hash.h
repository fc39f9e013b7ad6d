// The SHA-256 that traces and caches know a model by: of its file, or where weights lie in several, of the lines
// "SHA256  NAME" of all of them with config.json. It is of the bytes that were opened, whatever the path leads to
// since. Files that were hashed before and are the same files, unchanged (ls_file_key), are not read again: their sums
// are kept in the cache folder.
#pragma once
#include "model/checkpoint.h"
#include "engine/engine.h"

// Fills the sums of c->files too. LS_E_CANCELLED where progress (NULL: none) returned false.
ls_code ls_model_hash(const ls_checkpoint *c, char out[65], ls_progress progress, void *ud, ls_err *err);
