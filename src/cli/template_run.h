// Renders a conversation with a chat template, without a model.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

// path: a Jinja file, or a checkpoint, whose template is chosen by name (see ls_templates_choose). messages: a JSON
// file
// ("-": standard input), whose keys are the template's variables. marks: puts U+27E6 and U+27E7 around text from the
// conversation. Appends the text.
ls_code ls_template_run(const char *path, const char *name, const char *messages, bool marks, ls_buf *out, ls_err *err);
