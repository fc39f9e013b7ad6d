// The SHA-256 that identifies a model in traces and caches. It is the hash of the model's file. If the weights are in
// several files, it is the hash of the lines "SHA256  NAME" of all of them and config.json. The opened file is hashed,
// even if another file has its path by now. The cache folder keeps the hashes of unchanged files (ls_file_key), which
// are not read again.
#pragma once
#include "model/checkpoint.h"
#include "engine/engine.h"

// Also fills the hashes of c->files. LS_E_CANCELLED: progress (may be NULL) returned false.
ls_code ls_model_hash(const ls_checkpoint *c, char out[65], ls_progress progress, void *ud, ls_err *err);
