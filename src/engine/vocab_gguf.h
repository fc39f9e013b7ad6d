// The vocabulary that a GGUF file holds in tokenizer.ggml.*.
#pragma once
#include "model/gguf.h"
#include "text/vocab.h"

// Kinds gpt2 (byte-level BPE, its pre-tokenizer by name), llama (sentencepiece BPE) and t5 (Unigram); another one, or
// an unknown pre-tokenizer, is LS_E_UNSUPPORTED with what is supported.
ls_code ls_vocab_gguf(ls_vocab **out, const ls_gguf *g, ls_err *err);
