// The chat templates of a checkpoint, by name: chat_template.jinja and additional_chat_templates/NAME.jinja, else
// chat_template of tokenizer_config.json, else of chat_template.json; of a GGUF file tokenizer.chat_template and
// tokenizer.chat_template.NAME. A single one is "default".
#pragma once
#include "model/checkpoint.h"

typedef struct {
    char *name;
    ls_buf text;
} ls_template;

typedef struct {
    ls_template *p;
    size_t n;
} ls_templates;

// config: the contents of tokenizer_config.json (n 0: none).
ls_code ls_templates_read(ls_templates *t, const ls_checkpoint *c, ls_str config, ls_err *err);
void ls_templates_free(ls_templates *t);
// Chooses as transformers' get_chat_template: `name` (NULL: tool_use where there are tools, else default) of the
// model's own; then a file, or a name of configs/chat. *out is borrowed from t, or NULL: the model has none, and no
// name was given. LS_E_USAGE or LS_E_IO names what there is.
ls_code ls_templates_choose(ls_templates *t, const char *name, bool tools, const ls_buf **out, ls_err *err);
