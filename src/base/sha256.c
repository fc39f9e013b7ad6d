#include "base/sha256.h"

#include <openssl/evp.h>
#include <stdio.h>

void ls_sha256_hex(const void *p, size_t n, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    out[0] = 0;
    if (!EVP_Digest(p, n, digest, &len, EVP_sha256(), NULL)) return;
    for (unsigned i = 0; i < len && i < 32; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
