#include "base/rng.h"
#include "base/clock.h"

#include <sys/random.h>

void ls_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

double ls_uniform_at(uint64_t seed, uint64_t position) {
    return ls_uniform_of(seed, position, 0);
}

double ls_uniform_of(uint64_t seed, uint64_t position, uint32_t stream) {
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), stream, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, r[4];
    ls_philox4x32_10(counter, key, r);
    uint64_t bits = ((uint64_t)r[0] << 32 | r[1]) >> 11;
    return (double)bits * 0x1p-53;
}

uint64_t ls_seed_draw(void) {
    uint64_t seed;
    // 53 bits, so that the seed survives a round trip through any JSON reader
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = ls_now_ns();
    return seed >> 11;
}
