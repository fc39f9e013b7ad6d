// Loads the vocabulary and the chat template of a checkpoint: from GGUF metadata, or from the files of a folder
// (tokenizer.json or tokenizer.model, the templates of engine/templates.h, generation_config.json).
#pragma once
#include "model/checkpoint.h"
#include "engine/load.h"

// Fills vocab, and chat or chat_problem. Uses the template and variables of the options, if any. Messages begin with
// the path.
ls_code ls_load_text(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, ls_err *err);
// The text of a template, by name (NULL: the default), empty if there is none; and the template's variables, as JSON
// text.
ls_code ls_load_template(const ls_checkpoint *c, const char *name, ls_buf *out, ls_buf *variables, ls_err *err);
