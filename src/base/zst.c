#include "base/zst.h"
#include "base/mem.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { LEVEL = 3, MOST_WINDOW_LOG = 27 }; // MOST_WINDOW_LOG: a decoder keeps at most 2^27 bytes

static void *need(void *context) {
    if (!context) ls_out_of_memory(0);
    return context;
}

ls_zst_encoder *ls_zst_encoder_new(void) {
    ZSTD_CCtx *c = need(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    return (ls_zst_encoder *)c;
}

void ls_zst_encoder_free(ls_zst_encoder *z) {
    ZSTD_freeCCtx((ZSTD_CCtx *)z);
}

void ls_zst_encode(ls_zst_encoder *z, const void *p, size_t n, bool last, ls_buf *out) {
    char chunk[1 << 14];
    ZSTD_inBuffer in = {p, n, 0};
    for (size_t left = 1; left;) {
        ZSTD_outBuffer o = {chunk, sizeof chunk, 0};
        left = ZSTD_compressStream2((ZSTD_CCtx *)z, &o, &in, last ? ZSTD_e_end : ZSTD_e_flush);
        if (ZSTD_isError(left)) ls_out_of_memory(0); // nothing else can fail
        ls_buf_add(out, chunk, o.pos);
    }
}

bool ls_zst_is(const void *p, size_t n) {
    const unsigned char *b = p;
    return n >= 4 && b[0] == 0x28 && b[1] == 0xB5 && b[2] == 0x2F && b[3] == 0xFD;
}

ls_zst_decoder *ls_zst_decoder_new(void) {
    ZSTD_DCtx *d = need(ZSTD_createDCtx());
    ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, MOST_WINDOW_LOG);
    return (ls_zst_decoder *)d;
}

void ls_zst_decoder_free(ls_zst_decoder *z) {
    ZSTD_freeDCtx((ZSTD_DCtx *)z);
}

size_t ls_zst_decode(ls_zst_decoder *z, const void *in, size_t n_in, size_t *taken, void *out, size_t cap,
                     const char **wrong) {
    ZSTD_inBuffer i = {in, n_in, 0};
    ZSTD_outBuffer o = {out, cap, 0};
    size_t code = 0;
    do code = ZSTD_decompressStream((ZSTD_DCtx *)z, &o, &i);
    while (!ZSTD_isError(code) && i.pos < n_in && o.pos < cap);
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) ls_out_of_memory(0);
    *wrong = ZSTD_isError(code) ? ZSTD_getErrorName(code) : NULL;
    *taken = i.pos;
    return o.pos;
}

const char *ls_zst_version(void) {
    return ZSTD_versionString();
}
