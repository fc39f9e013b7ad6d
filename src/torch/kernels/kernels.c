/* What does not depend on the CPU level: choosing a level, unpacking GGUF formats, packing. */
#include "torch/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const lsk_table lsk_portable;
#if defined(__x86_64__)
extern const lsk_table lsk_avx2, lsk_avx512, lsk_avx512vnni;
#endif

const lsk_table *lsk_level(const char *name) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    int vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    if (!strcmp(name, "amx")) { /* the vnni level, with bf16 by tiles */
        static lsk_table amx;
        amx = lsk_avx512vnni;
        amx.name = "amx";
        amx.matmul_bf16 = lsk_amx_matmul_bf16;
        return vnni && lsk_amx_usable() ? &amx : NULL;
    }
    if (!strcmp(name, "avx512vnni")) return vnni ? &lsk_avx512vnni : NULL;
    if (!strcmp(name, "avx512")) return avx512 ? &lsk_avx512 : NULL;
    if (!strcmp(name, "avx2")) return avx2 ? &lsk_avx2 : NULL;
#endif
    return strcmp(name, "portable") ? NULL : &lsk_portable;
}

const lsk_table *lsk_pick(int tiles) {
    static const char *const levels[] = {"amx", "avx512vnni", "avx512", "avx2", "portable"};
    enum { N = sizeof levels / sizeof *levels };
    const char *wanted = getenv("LOGITSPEC_CPU");
    int first = tiles || (wanted && *wanted) ? 0 : 1;
    while (wanted && *wanted && first < N && strcmp(wanted, levels[first])) first++;
    if (first == N) return NULL;
    while (!lsk_level(levels[first])) first++; /* the portable one is always there */
    return lsk_level(levels[first]);
}

float lsk_half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3FF, bits;
    if (exp == 31) bits = sign | 0x7F800000 | man << 13;
    else if (exp) bits = sign | (exp + 112) << 23 | man << 13;
    else { /* zero or subnormal: man * 2^-24 is exact in a float */ float f = (float)man * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

uint16_t lsk_float_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float half_at(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return lsk_half_to_float(h);
}

/* f16 bits of -8 * h: exact but for overflow, which lsk_finite rules out. */
static uint16_t half_times_minus8(uint16_t h) {
    uint16_t sign = (uint16_t)((h & 0x8000) ^ 0x8000), exp = h >> 10 & 31, man = h & 0x3FF;
    if (exp) return exp + 3 >= 31 ? (uint16_t)(sign | 0x7C00) : (uint16_t)(sign | (exp + 3) << 10 | man);
    int shift = 3;
    uint32_t m = man; /* subnormal: shift up, normalising on the way */
    while (shift && m && !(m & 0x400)) m <<= 1, shift--;
    if (!(m & 0x400)) return (uint16_t)(sign | m);
    return (uint16_t)(sign | (1 + shift) << 10 | (m & 0x3FF));
}

size_t lsk_row_bytes(int type, int64_t n) {
    switch (type) {
    case 0: return (size_t)n * 4;
    case 1:
    case 30: return (size_t)n * 2;
    case 2: return n % 32 ? 0 : (size_t)n / 32 * 18;
    case 3: return n % 32 ? 0 : (size_t)n / 32 * 20;
    case 8: return n % 32 ? 0 : (size_t)n / 32 * 34;
    default: return 0;
    }
}

int lsk_finite(int type, const void *raw, int64_t n_rows, int64_t n_in) {
    const unsigned char *p = raw;
    size_t step = type == 0 ? 4 : type == 2 ? 18 : type == 3 ? 20 : type == 8 ? 34 : 2;
    size_t n = lsk_row_bytes(type, n_in) * (size_t)n_rows / step;
    int ok = 1;
    for (size_t i = 0; i < n; i++, p += step) {
        uint16_t h, m;
        memcpy(&h, type == 0 ? p + 2 : p, 2);
        if (type == 0 || type == 30) ok &= (h & 0x7F80) != 0x7F80;
        else if (type == 2) ok &= (h >> 10 & 31) < 28; /* -8 d stays finite */
        else ok &= (h >> 10 & 31) != 31;
        if (type == 3) {
            memcpy(&m, p + 2, 2);
            ok &= (m >> 10 & 31) != 31;
        }
    }
    return ok;
}

/* ggml's block layouts: Q4_0 {f16 d; 16 bytes}, Q4_1 {f16 d, m; 16 bytes}: value i in the low nibble of byte
 * i, value i + 16 in its high nibble; Q8_0 {f16 d; 32 int8}. */
void lsk_dequant_row(int type, const void *raw, int64_t n, float *out) {
    const unsigned char *p = raw;
    switch (type) {
    case 0: memcpy(out, p, (size_t)n * 4); break;
    case 1:
        for (int64_t i = 0; i < n; i++) out[i] = half_at(p + 2 * i);
        break;
    case 30:
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)p[2 * i] << 16 | (uint32_t)p[2 * i + 1] << 24;
            memcpy(out + i, &bits, 4);
        }
        break;
    case 2:
    case 3:
        for (int64_t b = 0; b < n / 32; b++, p += type == 2 ? 18 : 20) {
            float d = half_at(p), m = type == 2 ? -8 * d : half_at(p + 2);
            const unsigned char *q = p + (type == 2 ? 2 : 4);
            for (int i = 0; i < 16; i++) {
                out[b * 32 + i] =
                    (float)(q[i] & 15) * d + m; /* the product is exact, so fusing changes nothing */
                out[b * 32 + 16 + i] = (float)(q[i] >> 4) * d + m;
            }
        }
        break;
    case 8:
        for (int64_t b = 0; b < n / 32; b++, p += 34) {
            float d = half_at(p);
            for (int i = 0; i < 32; i++) out[b * 32 + i] = (float)(signed char)p[2 + i] * d;
        }
        break;
    default: break;
    }
}

static lsk_format format_of(int type, lsk_arith arith) {
    if (arith == LSK_ARITH_BF16) return LSK_BF16;
    if (type == 2 || type == 3) return arith != LSK_ARITH_F32 ? LSK_Q4I : LSK_Q4;
    if (type == 8) return arith != LSK_ARITH_F32 ? LSK_Q8I : LSK_Q8;
    return LSK_F32;
}

static size_t tile_bytes(lsk_format f, int64_t n_in) {
    size_t groups = (size_t)n_in / 32;
    if (f == LSK_F32) return (size_t)n_in * 64;
    if (f == LSK_BF16) return (size_t)n_in * 32;
    return groups * (f == LSK_Q4 || f == LSK_Q4I ? 320 : 544);
}

size_t lsk_pack_bytes(int type, int64_t n_out, int64_t n_in, lsk_arith arith) {
    if (n_out < 1 || n_in < 1 || n_in % 32 || !lsk_row_bytes(type, n_in)) return 0;
    return (size_t)((n_out + LSK_TILE - 1) / LSK_TILE) * tile_bytes(format_of(type, arith), n_in);
}

void lsk_pack_init(lsk_matrix *m, int type, int64_t n_out, int64_t n_in, lsk_arith arith) {
    m->format = format_of(type, arith);
    m->n_out = (int32_t)n_out;
    m->n_in = (int32_t)n_in;
    m->tile_bytes = tile_bytes(m->format, n_in);
}

/* Where the 4-bit value (low or high half of a byte) or the byte of input k (of 32) and an output stands in a group:
 * f32 keeps the outputs of one input together, integers four inputs of one output. */
static size_t q4_at(lsk_format f, int k, int64_t lane, int *high) {
    if (f == LSK_Q4) {
        *high = k & 1;
        return 64 + (size_t)(k / 2) * 16 + (size_t)lane;
    }
    *high = k >= 16;
    return 64 + (size_t)(k % 16) / 4 * 64 + (size_t)lane * 4 + (size_t)k % 4;
}

void lsk_pack_rows(lsk_matrix *m, int64_t row_begin, int type, const void *raw, int64_t n_rows) {
    const size_t row_bytes = lsk_row_bytes(type, m->n_in);
    float *plain = m->format == LSK_F32 || m->format == LSK_BF16 ? malloc((size_t)m->n_in * sizeof *plain) : NULL;
    for (int64_t r = 0; r < n_rows; r++) {
        const unsigned char *src = (const unsigned char *)raw + (size_t)r * row_bytes;
        const int64_t row = row_begin + r, lane = row % LSK_TILE;
        unsigned char *tile = m->data + (size_t)(row / LSK_TILE) * m->tile_bytes;
        if (m->format == LSK_F32) {
            lsk_dequant_row(type, src, m->n_in, plain);
            for (int32_t k = 0; k < m->n_in; k++)
                memcpy(tile + ((size_t)k * 16 + (size_t)lane) * 4, plain + k, 4);
        } else if (m->format == LSK_BF16) {
            lsk_dequant_row(type, src, m->n_in, plain);
            for (int32_t k = 0; k < m->n_in; k++) {
                const uint16_t bits = lsk_float_to_bf16(plain[k]);
                memcpy(tile + ((size_t)(k / 2) * 32 + (size_t)lane * 2 + (size_t)k % 2) * 2, &bits, 2);
            }
        } else if (m->format == LSK_Q8 || m->format == LSK_Q8I) {
            for (int32_t g = 0; g < m->n_in / 32; g++, src += 34) {
                unsigned char *p = tile + (size_t)g * 544;
                memcpy(p + 2 * lane, src, 2);
                for (int k = 0; k < 32; k++)
                    if (m->format == LSK_Q8) p[32 + k * 16 + lane] = src[2 + k];
                    else p[32 + k / 4 * 64 + lane * 4 + k % 4] = (unsigned char)(src[2 + k] ^ 0x80); /* q + 128 */
            }
        } else {
            for (int32_t g = 0; g < m->n_in / 32; g++, src += type == 2 ? 18 : 20) {
                unsigned char *p = tile + (size_t)g * 320;
                const unsigned char *q = src + (type == 2 ? 2 : 4);
                uint16_t d, min;
                memcpy(&d, src, 2);
                if (type == 2) min = half_times_minus8(d);
                else memcpy(&min, src + 2, 2);
                memcpy(p + 2 * lane, &d, 2);
                memcpy(p + 32 + 2 * lane, &min, 2);
                for (int k = 0; k < 32; k++) {
                    int high;
                    unsigned char *at = p + q4_at(m->format, k, lane, &high);
                    const unsigned v = k < 16 ? q[k] & 15u : q[k - 16] >> 4;
                    *at = (unsigned char)(high ? (*at & 15u) | v << 4 : (*at & 0xF0u) | v);
                }
            }
        }
    }
    free(plain);
}
