// The memory for the prefill of a prompt.
#pragma once
#include "engine/load.h"

// Checks that there is memory for the KV cache of n more tokens; the message of LS_E_RANGE has both sizes. Without this
// check the machine would swap, or the system would kill the process without a message.
ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err);
// Describes the prefill of n tokens: "reading 131072 tokens (1.2 GiB)".
void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size);
