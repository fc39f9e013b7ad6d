// A table of the emitted tokens: probability, draft source, and other choices of the target.
#pragma once
#include "base/buf.h"
#include "decode/step.h"
#include "text/vocab.h"

void ls_alternatives_head(ls_buf *out);
// Appends a line for each emitted token, with up to n (1..LS_ROW_TOP) other choices, best first.
void ls_alternatives(const ls_step *s, const ls_vocab *v, int n, ls_buf *out);
