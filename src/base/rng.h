// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). The same (seed, position) always gives the same number, on every engine.
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
