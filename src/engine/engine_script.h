// A deterministic scripted language model over bytes: predicts from n-gram matches in a small built-in text plus fixed
// noise. Like a model, it repeats itself and varies in confidence. It needs no files, so decoding, screen and traces
// are tested with it. Vocabulary: 256 byte tokens, then <|im_start|> and <|im_end|>.
#pragma once
#include "engine/engine.h"
#include "text/vocab.h"

// delay_ms: simulated time of a forward, for tests of pausing and cancelling. n_context: 0 for 4096.
ls_engine *ls_engine_script_new(int delay_ms, int32_t n_context);
ls_code ls_script_vocab(ls_vocab **out, ls_err *err);
extern const char ls_script_chat_template[];
