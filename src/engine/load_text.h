// What a model needs to speak: its vocabulary and its chat template, from wherever its checkpoint has them (GGUF
// metadata; a folder's tokenizer.json or tokenizer.model and what stands beside it, engine/templates.h,
// generation_config.json).
#pragma once
#include "model/checkpoint.h"
#include "engine/load.h"

// Fills vocab, chat or chat_problem, by the template of the options and its variables if there are any. Messages begin
// with the path.
ls_code ls_load_text(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, ls_err *err);
// A template itself, by name (NULL: the default), nothing where there is none; and the variables that it is given, as
// JSON text.
ls_code ls_load_template(const ls_checkpoint *c, const char *name, ls_buf *out, ls_buf *variables, ls_err *err);
