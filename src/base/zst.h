// Zstandard streams (RFC 8878), by libzstd (its only user). One thread each.
#pragma once
#include "base/buf.h"

#include <stdbool.h>

typedef struct ls_zst_encoder ls_zst_encoder;

ls_zst_encoder *ls_zst_encoder_new(void);
void ls_zst_encoder_free(ls_zst_encoder *z); // accepts NULL
// Compresses p[0..n) and appends it to out, flushed: a decoder gets all bytes so far. last: ends the stream.
void ls_zst_encode(ls_zst_encoder *z, const void *p, size_t n, bool last, ls_buf *out);

typedef struct ls_zst_decoder ls_zst_decoder;

bool ls_zst_is(const void *p, size_t n); // whether these bytes begin a Zstandard stream
ls_zst_decoder *ls_zst_decoder_new(void);
void ls_zst_decoder_free(ls_zst_decoder *z); // accepts NULL
// Decodes in[0..n_in) into out[0..cap) and returns the bytes written; *taken: bytes of the input used. Consecutive
// streams decode as one. *wrong: NULL, or the error in the input.
size_t ls_zst_decode(ls_zst_decoder *z, const void *in, size_t n_in, size_t *taken, void *out, size_t cap,
                     const char **wrong);
const char *ls_zst_version(void); // of the library
