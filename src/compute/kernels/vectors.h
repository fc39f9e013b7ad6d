/* What follows from the width W of a level's vector (vector_*.h). */
#pragma once
#include "compute/kernels/kernels.h"

#define NV (LSK_TILE / W) /* vectors a tile */
/* For each format and number of rows a copy of its own with loops written out, so that arrays that i indexes become
 * registers. With the checks of a sanitizer, or emulated, one copy is enough: those take minutes to compile. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined LSK_EMULATED
#define INLINE static inline
#define EACH(i, from, end) for (int i = (from); i < (end); i++)
#else
#define INLINE static inline __attribute__((always_inline))
#define EACH(i, from, end) _Pragma("GCC unroll 16") for (int i = (from); i < (end); i++)
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef float vf_at __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef uint8_t vbytes __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));
typedef uint16_t vh __attribute__((vector_size(W * 2)));

static inline vf vf_set(float x) {
    return x - (vf){0};
}
static inline vf vf_load(const float *p) {
    return (vf) * (const vf_at *)p;
}
static inline void vf_store(float *p, vf a) {
    *(vf_at *)p = (vf_at)a;
}

/* X(n, ...) for each number of rows up to the one named. */
#define UP_TO_1(X, ...) X(1, __VA_ARGS__)
#define UP_TO_3(X, ...) UP_TO_1(X, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__)
#define UP_TO_6(X, ...) UP_TO_3(X, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)
#define UP_TO_8(X, ...) UP_TO_6(X, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
#define UP_TO_12(X, ...)                                                                                               \
    UP_TO_8(X, __VA_ARGS__) X(9, __VA_ARGS__) X(10, __VA_ARGS__) X(11, __VA_ARGS__) X(12, __VA_ARGS__)

/* Lines of 64 bytes to fetch in each turn of a loop. */
typedef struct {
    const char *at;
    int32_t lines;
} ahead;
INLINE ahead fetch(ahead a) {
    for (int32_t i = 0; i < a.lines; i++, a.at += 64) __builtin_prefetch(a.at);
    return a;
}
/* Pass i of so many, each of `turns`: its share of per_turn * turns lines. */
INLINE ahead share_of(const void *next, int32_t i, int32_t passes, int32_t turns, int32_t per_turn) {
    if (passes < 2) return (ahead){0};
    const int32_t lines = (per_turn + passes - 1) / passes;
    if (i * lines >= per_turn) return (ahead){0};
    return (ahead){(const char *)next + (size_t)i * (size_t)lines * (size_t)turns * 64, lines};
}
