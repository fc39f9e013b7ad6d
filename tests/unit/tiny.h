// Tiny seeded checkpoints of every architecture (tests/tools/tiny.py) in a folder of their own.
#pragma once
#include <jansson.h>
#include <stdbool.h>

// 0, or anything else where they could not be made.
int tiny_make(void);
int tiny_remove(void);
const char *tiny_folder(void);
char *tiny_path(const char *name, bool gguf); // owned by the caller
// Puts a text in the place of another of the same length, in the first bytes of a file.
void tiny_rewrite(const char *path, const char *old, const char *new);
// Sets LOGITSPEC_LSTORCH_CUDA: the emulated GPU, or the library that LOGITSPEC_TEST_GPU names.
void tiny_use_gpu(void);
json_t *tiny_vectors(void); // a name -> prompt, logits and tokens of the reference (tests/vectors/models.json)
