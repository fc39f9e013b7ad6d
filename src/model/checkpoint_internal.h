// Both kinds of checkpoints fill the same table.
#pragma once
#include "model/checkpoint.h"
#include "model/safetensors.h"

ls_code ls_checkpoint_of_gguf(ls_checkpoint *c, const char *path, bool text, ls_err *err);
ls_code ls_checkpoint_of_folder(ls_checkpoint *c, const char *folder, ls_err *err);

// What a folder's safetensors hold goes to `on`, tensor by tensor; their file is the last of c->files. The file
// `single`, or where it is not there those that model.safetensors.index.json names (as in transformers); LS_E_IO:
// neither is there.
typedef ls_code (*ls_on_safetensor)(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err);
ls_code ls_checkpoint_safetensors(ls_checkpoint *c, const char *folder, const char *single, ls_on_safetensor on,
                                  void *ud, ls_err *err);

ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_err *err); // opened; it is the last of c->files
void ls_checkpoint_add(ls_checkpoint *c, ls_tensor t);                           // takes its name
