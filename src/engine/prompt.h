// What reading a prompt takes.
#pragma once
#include "engine/load.h"

// Whether there is memory for the keys and values of n more tokens: LS_E_RANGE with both numbers where there is not. A
// machine that begins to swap, or a system that kills, would say nothing.
ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err);
// What reading n tokens is going to take, in words: "reading 131072 tokens (1.2 GiB)".
void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size);
