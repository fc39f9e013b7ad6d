// SHA-256 by libcrypto (its only user).
#pragma once
#include "base/file.h"

void ls_sha256_hex(const void *p, size_t n, char out[65]); // lower-case hex, NUL-terminated; "" if libcrypto fails
// HMAC-SHA-256 by a string; otherwise as above.
void ls_hmac_hex(void *secret, const void *p, size_t n, char out[65]);
// Hash of an open file of any size, read in pieces. LS_E_IO also if the file changed meanwhile. progress (NULL: none)
// gets the name and the fraction; if it returns false, the result is LS_E_CANCELLED.
ls_code ls_sha256_file(const ls_file *f, char out[65], ls_progress progress, void *ud, ls_err *err);
const char *ls_sha256_version(void); // of the library
