// UTF-8 decoding that never trusts its input (Unicode 15, table 3-7: no overlongs, no surrogates).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Length of the valid sequence at p[0..n): 1..4; 0 if the bytes are a proper prefix of a valid sequence
// that n cuts off; -1 if p[0] cannot start one. n must be at least 1. *cp (may be NULL) gets the code point.
int ls_utf8_decode(const char *p, size_t n, uint32_t *cp);
bool ls_utf8_valid(const char *p, size_t n);
// Writes cp to out (4 bytes of room) and returns its length; 0 for a surrogate or beyond U+10FFFF.
int ls_utf8_encode(uint32_t cp, char out[4]);
