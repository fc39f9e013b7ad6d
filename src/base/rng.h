// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11),
// and tokens chosen by them. The same (seed, position) always gives the same number, on every engine.
#pragma once
#include <stdint.h>

// Four 32-bit words for a 128-bit counter and a 64-bit key.
void ls_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
// Uniform in [0, 1) with 53 bits, a function of seed and absolute token position only.
double ls_uniform_at(uint64_t seed, uint64_t position);
// The same for one of several independent streams; ls_uniform_at uses stream 0.
double ls_uniform_of(uint64_t seed, uint64_t position, uint32_t stream);
// A random seed of 53 bits from the operating system.
uint64_t ls_seed_draw(void);
// How many of n things are expected to be taken at least once if each of so many rows takes `each` different ones at
// random: n (1 - (1 - each / n)^rows).
double ls_distinct_at_random(int32_t n, int32_t each, int32_t rows);

// ---- a token from raw logits, the same on every engine and at every place of a tree

// The lowest temperature above 0: lower ones are raised to it, so that 1 / temperature is a finite float.
#define LS_LEAST_TEMPERATURE 1e-30

// temperature <= 0: argmax, ties to the lower index. Otherwise softmax(logits / temperature) over the top_k best
// (0: all), cut to the smallest set whose probability reaches top_p, then the inverse of its cumulative
// distribution at u = ls_uniform_at(seed, position); position is the absolute position the token will take.
int32_t ls_sample(const float *logits, int32_t n, double temperature, int32_t top_k, double top_p, uint64_t seed,
                  uint64_t position);
// The distribution that ls_sample draws from: p[0..n), which sums to 1.
void ls_sample_shape(const float *logits, int32_t n, double temperature, int32_t top_k, double top_p, float *p);
// The token at which the sum of p[0..n), in id order, passes u times its total; p need not sum to 1. -1: it sums to 0.
int32_t ls_sample_from(const float *p, int32_t n, double u);
