/* The levels of the kernels, and the selection of the levels that this processor supports. */
#include "compute/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const lsk_table lsk_portable;

static int always(void) {
    return 1;
}

#if defined(__x86_64__)
#include <cpuid.h>

extern const lsk_table lsk_avx2, lsk_avxvnni, lsk_avx512, lsk_avx512vnni, lsk_avx512bf16, lsk_amx;

static int has_avx2(void) {
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
    __get_cpuid(1, &a, &b, &c, &d); /* F16C: clang before 17 does not know it by name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (c & bit_F16C);
}
static int has_of_leaf_7(int bit) { /* clang before 16 does not know these by name */
    unsigned a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> bit & 1;
}
static int has_avxvnni(void) {
    return has_avx2() && has_of_leaf_7(4);
}
static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static int has_vnni(void) {
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
static int has_bf16(void) {
    return has_vnni() && has_of_leaf_7(5);
}
static int has_amx(void) {
    return has_bf16() && lsk_amx_usable();
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

extern const lsk_table lsk_neon, lsk_neondot, lsk_neoni8mm;

enum { DOT_PRODUCTS = 1 << 20, I8MM = 1 << 13 }; /* HWCAP_ASIMDDP of AT_HWCAP, HWCAP2_I8MM of AT_HWCAP2 */

static int has_dot_products(void) {
    return (getauxval(AT_HWCAP) & DOT_PRODUCTS) != 0;
}
static int has_i8mm(void) {
    return has_dot_products() && (getauxval(AT_HWCAP2) & I8MM);
}
#endif

/* Best first; the last level is always available. */
static const struct level {
    const char *name;
    int (*there)(void);                            /* whether this processor supports it */
    const lsk_table *floats, *integers, *products; /* of bf16; NULL: as of floats */
} levels[] = {
#if defined(__x86_64__)
    {"amx", has_amx, &lsk_avx512vnni, &lsk_amx, &lsk_amx},
    {"avx512bf16", has_bf16, &lsk_avx512vnni, NULL, &lsk_avx512bf16},
    {"avx512vnni", has_vnni, &lsk_avx512vnni, NULL, NULL},
    {"avx512", has_avx512, &lsk_avx512, &lsk_avx2, NULL},
    {"avxvnni", has_avxvnni, &lsk_avxvnni, NULL, NULL},
    {"avx2", has_avx2, &lsk_avx2, NULL, NULL},
#elif defined(__aarch64__)
    {"neoni8mm", has_i8mm, &lsk_neon, &lsk_neoni8mm, NULL},
    {"neondot", has_dot_products, &lsk_neon, &lsk_neondot, NULL},
    {"neon", always, &lsk_neon, &lsk_portable, NULL},
#endif
    {"portable", always, &lsk_portable, NULL, NULL}};
enum { LEVELS = sizeof levels / sizeof *levels };

/* NULL: this processor does not support it. Tables are put together once, because open models point into them. */
static const lsk_table *table_of(const struct level *l) {
    static lsk_table tables[LEVELS];
    if (!l->there()) return NULL;
    lsk_table *t = &tables[l - levels], made = *l->floats;
    if (t->name) return t;
    made.name = l->name;
    if (l->integers) {
        made.matmul_int = l->integers->matmul_int;
        made.peak_int = l->integers->peak_int;
        if (l->integers->quantize) made.quantize = l->integers->quantize;
    }
#if defined(__x86_64__)
    if (l->products) {
        made.matmul_bf16 = l->products->matmul_bf16;
        made.unpacks = l->products->unpacks;
        made.peak_bf16 = l->products->peak_bf16;
        /* On Zen 4 products of pairs halve the multiplications of attention; on Intel's Emerald Rapids two
         * multiply-adds of floats took 37% less time than a pair, of 2,048 tokens and 8 rows or 64. Tests find the same
         * bits. */
        if (l->products == &lsk_amx || !__builtin_cpu_is("intel")) made.attention = l->products->attention;
    }
#endif
    *t = made;
    return t;
}

const char *lsk_level_name(int i) {
    return i >= 0 && i < LEVELS ? levels[i].name : NULL;
}

const lsk_table *lsk_level(const char *name) {
    for (int i = 0; i < LEVELS; i++)
        if (!strcmp(name, levels[i].name)) return table_of(&levels[i]);
    return NULL;
}

const lsk_table *lsk_pick(void) {
    const char *wanted = getenv("LOGITSPEC_CPU");
    int i = 0;
    while (wanted && *wanted && i < LEVELS && strcmp(wanted, levels[i].name)) i++;
    for (; i < LEVELS; i++) {
        const lsk_table *t = table_of(&levels[i]);
        if (t) return t;
    }
    return NULL;
}
