// Asks the target once what follows each token of its vocabulary, so that `logitspec` knows something after tokens that
// no text had yet (spec/recall.h).
#pragma once
#include "decode/conversation.h"

// Writes the model's file of bigrams; anew: all of them, else those that it lacks. *n: the tokens that it has then,
// fewer than LS_BIGRAMS if the vocabulary is smaller or progress stopped it. *path: the file; the caller frees it.
// Errors: those of the engine, LS_E_IO; LS_E_CANCELLED: it was stopped before the first tokens.
ls_code ls_bigrams_learn(const ls_model *m, ls_prompt_format format, const char *system, bool anew,
                         ls_progress progress, void *ud, int32_t *n, char **path, ls_err *err);
