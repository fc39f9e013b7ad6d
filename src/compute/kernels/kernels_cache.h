/* Keys and values of one key/value head of a layer, for the attention of the kernels.
 *
 * Numbers lie in words of 4 bytes: a float, or a pair of bf16 whose first is the high half, so that a word shifted by
 * 16 bits, or without its low bits, is one of them as a float.
 *
 *   K  [column / 16][rows][16]  a row holds a dimension of 16 columns, or a pair of dimensions: one vector of words
 *   V  [rows][head_dim]         a row holds a column, or a pair of columns
 */
#pragma once
#include <stdint.h>
#include <string.h>

enum { LSK_TILE = 16 }; /* outputs of a packed weight tile, columns of a block of keys */

typedef struct {
    void *k, *v;
    int bf16;         /* 0: floats */
    int32_t head_dim; /* a multiple of 16 */
} lsk_cache;

/* Half of a word: the high one, which is the first, or the low one, which is the second. */
static inline uint16_t *lsk_cache_half(void *words, int64_t word, int64_t second) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (uint16_t *)words + 2 * word + second;
#else
    return (uint16_t *)words + 2 * word + 1 - second;
#endif
}

/* Writes a column. Numbers of a cache of bf16 are already rounded: the low halves of these floats are 0. Threads may
 * write different columns at the same time. */
static inline void lsk_cache_write(const lsk_cache *c, int64_t column, const float *key, const float *value) {
    const int64_t hd = c->head_dim, rows = c->bf16 ? hd / 2 : hd,
                  first = column / LSK_TILE * rows * LSK_TILE + column % LSK_TILE;
    if (!c->bf16) {
        for (int64_t d = 0; d < hd; d++) ((float *)c->k)[first + d * LSK_TILE] = key[d];
        memcpy((float *)c->v + column * hd, value, (size_t)hd * sizeof *value);
        return;
    }
    uint32_t bits[2];
    for (int64_t d = 0; d < rows; d++) {
        memcpy(bits, key + 2 * d, sizeof bits);
        ((uint32_t *)c->k)[first + d * LSK_TILE] = bits[0] | bits[1] >> 16;
    }
    for (int64_t d = 0; d < hd; d++) {
        memcpy(bits, value + d, sizeof *bits);
        *lsk_cache_half(c->v, column / 2 * hd + d, column % 2) = (uint16_t)(bits[0] >> 16);
    }
}

/* Copies a column to another. */
static inline void lsk_cache_move(const lsk_cache *c, int64_t from, int64_t to) {
    const int64_t hd = c->head_dim, rows = c->bf16 ? hd / 2 : hd;
    const char *src = (const char *)c->k + 4 * (from / LSK_TILE * rows * LSK_TILE + from % LSK_TILE);
    char *dst = (char *)c->k + 4 * (to / LSK_TILE * rows * LSK_TILE + to % LSK_TILE);
    for (int64_t d = 0; d < rows; d++) memcpy(dst + 4 * d * LSK_TILE, src + 4 * d * LSK_TILE, 4);
    if (!c->bf16) memcpy((float *)c->v + to * hd, (const float *)c->v + from * hd, (size_t)hd * sizeof(float));
    for (int64_t d = 0; d < hd && c->bf16; d++)
        *lsk_cache_half(c->v, to / 2 * hd + d, to % 2) = *lsk_cache_half(c->v, from / 2 * hd + d, from % 2);
}
