// Shared by checkpoint_gguf.c and checkpoint_folder.c, which fill the same table.
#pragma once
#include "model/checkpoint.h"
#include "model/safetensors.h"

ls_code ls_checkpoint_of_gguf(ls_checkpoint *c, const char *path, bool text, ls_err *err);
ls_code ls_checkpoint_of_folder(ls_checkpoint *c, const char *folder, ls_err *err);

// Calls `on` for each tensor of a folder's safetensors; its file is the last of c->files. Reads the file `single`; if
// there is none, the files of model.safetensors.index.json (as transformers does). LS_E_IO: neither exists.
typedef ls_code (*ls_on_safetensor)(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err);
ls_code ls_checkpoint_safetensors(ls_checkpoint *c, const char *folder, const char *single, ls_on_safetensor on,
                                  void *ud, ls_err *err);

ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_err *err); // opens it as the last of c->files
void ls_checkpoint_add(ls_checkpoint *c, ls_tensor t);                           // takes its name
