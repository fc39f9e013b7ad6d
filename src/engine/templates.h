// The chat templates of a checkpoint, by name. A folder: chat_template.jinja and additional_chat_templates/NAME.jinja,
// otherwise chat_template of tokenizer_config.json, otherwise of chat_template.json. A GGUF file:
// tokenizer.chat_template and tokenizer.chat_template.NAME. A single template is named "default".
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
// Chooses as transformers' get_chat_template: `name` of the model's own templates (NULL: tool_use if there are tools,
// otherwise default); then a file, or a name of configs/chat. *out is borrowed from t; NULL: the model has none, and
// name is NULL. The messages of LS_E_USAGE and LS_E_IO list the available templates.
ls_code ls_templates_choose(ls_templates *t, const char *name, bool tools, const ls_buf **out, ls_err *err);
