/* The levels of the kernels, and the selection of the levels that this processor supports. */
#include "compute/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const lsk_table lsk_portable;

#if defined(__x86_64__) || defined(__aarch64__)
/* Composite tables are built once, because open models point into them. */
static const lsk_table *once(lsk_table *kept, const lsk_table *made) {
    if (!kept->name) *kept = *made;
    return kept;
}
/* A level whose integer arithmetic is that of another. */
static const lsk_table *with_integers(lsk_table *kept, const char *name, const lsk_table *level,
                                      const lsk_table *integers) {
    lsk_table made = *level;
    made.name = name;
    made.matmul_int = integers->matmul_int;
    made.quantize = integers->quantize;
    made.peak_int = integers->peak_int;
    return once(kept, &made);
}
#endif

#if defined(__x86_64__)
#include <cpuid.h>

extern const lsk_table lsk_avx2, lsk_avxvnni, lsk_avx512, lsk_avx512vnni, lsk_avx512bf16;

static int has_avx2(void) {
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
    __get_cpuid(1, &a, &b, &c, &d); /* F16C: clang before 17 does not know it by name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (c & bit_F16C);
}
static int has_avxvnni(void) { /* clang before 16 does not know it by name */
    unsigned a = 0, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}
static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static int has_vnni(void) {
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static int has_bf16(void) {
    unsigned a = 0, b, c, d;
    return has_vnni() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
}

static const lsk_table *avx2(void) {
    return has_avx2() ? &lsk_avx2 : NULL;
}
static const lsk_table *avxvnni(void) {
    return has_avxvnni() ? &lsk_avxvnni : NULL;
}
static const lsk_table *avx512(void) { /* its integer kernels are those of AVX2 */
    static lsk_table mixed;
    return has_avx512() ? with_integers(&mixed, "avx512", &lsk_avx512, &lsk_avx2) : NULL;
}
static const lsk_table *avx512vnni(void) {
    return has_vnni() ? &lsk_avx512vnni : NULL;
}
/* The next level, with products of bf16 pairs. On Zen 4 they halve the multiplications of attention; on Intel's Emerald
 * Rapids two multiply-adds of floats took 37% less time than a pair, of 2,048 tokens and 8 rows or 64. Tests find the
 * same bits. */
static const lsk_table *avx512bf16(void) {
    static lsk_table pairs;
    lsk_table made = lsk_avx512vnni;
    made.name = lsk_avx512bf16.name;
    if (!__builtin_cpu_is("intel")) made.attention = lsk_avx512bf16.attention;
    made.matmul_bf16 = lsk_avx512bf16.matmul_bf16;
    made.peak_bf16 = lsk_avx512bf16.peak_bf16;
    return has_bf16() ? once(&pairs, &made) : NULL;
}
static const lsk_table *amx(void) { /* the next level, with matmuls by tiles */
    static lsk_table tiles;
    const lsk_table *rest = avx512bf16();
    if (!rest) return NULL;
    lsk_table made = *rest;
    made.name = "amx";
    made.matmul_int = lsk_amx_matmul_int;
    made.matmul_bf16 = lsk_amx_matmul_bf16;
    made.unpacks = 1;
    made.attention = lsk_amx_attention;
    made.peak_int = lsk_amx_peak_int;
    made.peak_bf16 = lsk_amx_peak_bf16;
    return lsk_amx_usable() ? once(&tiles, &made) : NULL;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

extern const lsk_table lsk_neon, lsk_neondot, lsk_neoni8mm;

enum { DOT_PRODUCTS = 1 << 20, I8MM = 1 << 13 }; /* HWCAP_ASIMDDP of AT_HWCAP, HWCAP2_I8MM of AT_HWCAP2 */

static int has_dot_products(void) {
    return (getauxval(AT_HWCAP) & DOT_PRODUCTS) != 0;
}
static const lsk_table *neon(void) {
    static lsk_table slow;
    return with_integers(&slow, "neon", &lsk_neon, &lsk_portable);
}
static const lsk_table *neondot(void) {
    static lsk_table dot;
    return has_dot_products() ? with_integers(&dot, "neondot", &lsk_neon, &lsk_neondot) : NULL;
}
static const lsk_table *neoni8mm(void) {
    static lsk_table matrices;
    return has_dot_products() && (getauxval(AT_HWCAP2) & I8MM)
               ? with_integers(&matrices, "neoni8mm", &lsk_neon, &lsk_neoni8mm)
               : NULL;
}
#endif

static const lsk_table *portable(void) {
    return &lsk_portable;
}

/* Best first; the last level is always available. */
static const struct {
    const char *name;
    const lsk_table *(*there)(void); /* NULL: this processor does not support it */
} levels[] = {
#if defined(__x86_64__)
    {"amx", amx},          {"avx512bf16", avx512bf16}, {"avx512vnni", avx512vnni},
    {"avx512", avx512},    {"avxvnni", avxvnni},       {"avx2", avx2},
#elif defined(__aarch64__)
    {"neoni8mm", neoni8mm},
    {"neondot", neondot},
    {"neon", neon},
#endif
    {"portable", portable}};
enum { LEVELS = sizeof levels / sizeof *levels };

const char *lsk_level_name(int i) {
    return i >= 0 && i < LEVELS ? levels[i].name : NULL;
}

const lsk_table *lsk_level(const char *name) {
    for (int i = 0; i < LEVELS; i++)
        if (!strcmp(name, levels[i].name)) return levels[i].there();
    return NULL;
}

const lsk_table *lsk_pick(void) {
    const char *wanted = getenv("LOGITSPEC_CPU");
    int i = 0;
    while (wanted && *wanted && i < LEVELS && strcmp(wanted, levels[i].name)) i++;
    for (; i < LEVELS; i++) {
        const lsk_table *t = levels[i].there();
        if (t) return t;
    }
    return NULL;
}
