#include "base/sha256.h"
#include "base/mem.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20 };

static void hex(const unsigned char digest[32], char out[65]) {
    for (size_t i = 0; i < 32; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

void ls_sha256_hex(const void *p, size_t n, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    out[0] = 0;
    if (EVP_Digest(p, n, digest, NULL, EVP_sha256(), NULL)) hex(digest, out);
}

void ls_hmac_hex(void *secret, const void *p, size_t n, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    out[0] = 0;
    if (HMAC(EVP_sha256(), secret, (int)strlen(secret), p, n, digest, NULL)) hex(digest, out);
}

ls_code ls_sha256_file(const ls_file *f, char out[65], ls_progress progress, void *ud, ls_err *err) {
    unsigned char digest[EVP_MAX_MD_SIZE], *piece = ls_malloc(PIECE);
    ls_code code = LS_OK;
    posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context) ls_out_of_memory(0);
    bool works = EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (uint64_t done = 0; works && !code && done < f->n_bytes;) {
        const size_t n = f->n_bytes - done < PIECE ? (size_t)(f->n_bytes - done) : PIECE;
        if ((code = ls_file_read(f, done, piece, n, err))) break;
        works = EVP_DigestUpdate(context, piece, n);
        done += n;
        if (progress && !progress(ud, f->path, (double)done / (double)f->n_bytes))
            code = ls_fail(err, LS_E_CANCELLED, "%s: interrupted", f->path);
    }
    if (!code && (!works || !EVP_DigestFinal_ex(context, digest, NULL)))
        code = ls_fail(err, LS_E_IO, "%s: libcrypto failed to hash the file", f->path);
    if (!code) code = ls_file_unchanged(f, err);
    if (!code) hex(digest, out);
    free(piece);
    EVP_MD_CTX_free(context);
    return code;
}

const char *ls_sha256_version(void) {
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}
