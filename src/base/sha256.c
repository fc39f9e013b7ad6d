#include "base/sha256.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static void hex(const unsigned char digest[32], char out[65]) {
    for (size_t i = 0; i < 32; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

void ls_sha256_hex(const void *p, size_t n, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    out[0] = 0;
    if (EVP_Digest(p, n, digest, NULL, EVP_sha256(), NULL)) hex(digest, out);
}

void ls_hmac_hex(const char *secret, const void *p, size_t n, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    out[0] = 0;
    if (HMAC(EVP_sha256(), secret, (int)strlen(secret), p, n, digest, NULL)) hex(digest, out);
}

ls_code ls_sha256_file(const char *path, char out[65], bool (*progress)(void *ud, const char *stage, double fraction),
                       void *ud, ls_err *err) {
    unsigned char digest[EVP_MAX_MD_SIZE], *piece;
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    ls_code code = LS_OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return ls_fail(err, LS_E_IO, "%s: not a regular file", path);
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context) ls_out_of_memory(0);
    bool works = EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    piece = ls_malloc(PIECE);
    int64_t done = 0;
    for (ssize_t n; works && !code && (n = read(fd, piece, PIECE));) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) code = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
        else works = EVP_DigestUpdate(context, piece, (size_t)n);
        done += n;
        if (!code && progress && !progress(ud, path, st.st_size ? (double)done / (double)st.st_size : 1))
            code = ls_fail(err, LS_E_CANCELLED, "%s: interrupted", path);
    }
    if (!code && (!works || !EVP_DigestFinal_ex(context, digest, NULL)))
        code = ls_fail(err, LS_E_IO, "%s: libcrypto cannot hash it", path);
    if (!code) hex(digest, out);
    free(piece);
    EVP_MD_CTX_free(context);
    close(fd);
    return code;
}

const char *ls_sha256_version(void) {
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}
