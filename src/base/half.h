// Floats rounded to 16 bits, to nearest, ties to even; and floats of 16 and 8 bits.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t ls_to_half(float x) { // IEEE binary16
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00); // rounds beyond 65504
    if (magnitude < 0x38800000) {                                  // subnormal: steps of 2^-24
        float f;
        memcpy(&f, &magnitude, 4);
        f = f * 0x1p24f + 0x1p23f;
        uint32_t n;
        memcpy(&n, &f, 4);
        return (uint16_t)(sign | (n & 0x7FFFFF));
    }
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13);
}

static inline uint16_t ls_to_bf16(float x) { // NaN stays NaN
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline float ls_of_half(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3FF;
    const float small = (float)man * 0x1p-24f; // of zero and subnormals; exact
    uint32_t bits = exp == 31 ? 0x7F800000 | man << 13 : (exp + 112) << 23 | man << 13;
    if (!exp) memcpy(&bits, &small, 4);
    bits |= sign;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

static inline float ls_of_e4m3(unsigned b) { // the finite kind of OCP's FP8: no infinity
    const int e = b >> 3 & 15, man = b & 7;
    const float f = e ? ldexpf((float)(8 + man), e - 10) : ldexpf((float)man, -9);
    return (b & 127) == 127 ? NAN : b >> 7 ? -f : f;
}
