// Seeded random numbers and tensors in GGUF's formats.
#pragma once
#include <stdint.h>

float rnd(void); // -1 .. 1
uint32_t rnd_int(uint32_t n);
void rnd_restart(void); // the numbers that a program begins with come again
// n_out rows of n_in values of a ggml type, all finite. Owned by the caller.
unsigned char *random_raw(int type, int64_t n_out, int64_t n_in);
