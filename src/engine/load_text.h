// What a model needs to speak: its vocabulary and its chat frame, from wherever its checkpoint has them (GGUF metadata;
// a folder's tokenizer.json or tokenizer.model, tokenizer_config.json, chat_template.jinja, generation_config.json).
#pragma once
#include "model/checkpoint.h"
#include "engine/load.h"

// Fills vocab, chat or chat_problem. chat_template: a file with the template to use instead of the model's own; NULL:
// none. Messages begin with the path.
ls_code ls_load_text(ls_model *m, const ls_checkpoint *c, const char *chat_template, ls_err *err);
