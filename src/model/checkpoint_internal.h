// Both kinds of checkpoints fill the same table.
#pragma once
#include "model/checkpoint.h"

ls_code ls_checkpoint_of_gguf(ls_checkpoint *c, const char *path, bool text, ls_err *err);
ls_code ls_checkpoint_of_folder(ls_checkpoint *c, const char *folder, ls_err *err);

ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_err *err); // opened; it is the last of c->files
void ls_checkpoint_add(ls_checkpoint *c, ls_tensor t);                           // takes its name
