// What a chat template makes of a conversation, without a model.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

// path: a checkpoint, of which name chooses a template (see ls_templates_choose), or a Jinja file; messages: a JSON
// file ("-": standard input), whose keys are the template's variables. marks: what comes from the conversation stands
// between U+27E6 and U+27E7. Appends the text.
ls_code ls_template_run(const char *path, const char *name, const char *messages, bool marks, ls_buf *out, ls_err *err);
