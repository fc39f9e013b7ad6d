// From what the user typed to the ids that a turn appends to the conversation.
#pragma once
#include "engine/load.h"

// Whether there is memory for the keys and values of n more tokens: LS_E_RANGE with both numbers where there is not. A
// machine that begins to swap, or a system that kills, would say nothing.
ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err);
// What reading n tokens is going to take, in words: "reading 131072 tokens (1.2 GiB)".
void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size);

typedef enum { LS_FORMAT_AUTO, LS_FORMAT_CHAT, LS_FORMAT_RAW } ls_prompt_format;

// auto: the chat template where the model has one. chat without a template is LS_E_USAGE with the reason. raw: the
// bytes as they are, behind the vocabulary's begin token where it has one and the conversation is empty (first);
// spelled-out special tokens become their ids. system: NULL for the template's own message, "" for none. Appends to
// out.
ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, bool first, const char *text,
                         size_t n, ls_ids *out, ls_err *err);
