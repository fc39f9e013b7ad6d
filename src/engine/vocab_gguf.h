// The vocabulary that a GGUF file holds in tokenizer.ggml.*.
#pragma once
#include "model/gguf.h"
#include "text/vocab.h"

// Kinds gpt2 (BPE with merges, its pre-tokenizer by a name of text/pretok.def), gemma4 (the same, over characters),
// llama (sentencepiece BPE) and t5 (Unigram). Another one, or an unknown pre-tokenizer, is LS_E_UNSUPPORTED.
ls_code ls_vocab_gguf(ls_vocab **out, const ls_gguf *g, ls_err *err);
