// SHA-256 of memory, by libcrypto (its only user).
#pragma once
#include <stddef.h>

void ls_sha256_hex(const void *p, size_t n, char out[65]); // lower-case hex, NUL-terminated; "" if libcrypto fails
