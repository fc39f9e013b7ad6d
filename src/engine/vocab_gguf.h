// The vocabulary of a GGUF file, from tokenizer.ggml.*.
#pragma once
#include "model/gguf.h"
#include "text/vocab.h"

// Kinds gpt2 (BPE with merges, its pre-tokenizer by a name of text/pretok.def), gemma4 (the same, over characters),
// llama (sentencepiece BPE) and t5 (Unigram). LS_E_UNSUPPORTED: another kind, or an unknown pre-tokenizer.
ls_code ls_vocab_gguf(ls_vocab **out, const ls_gguf *g, ls_err *err);
