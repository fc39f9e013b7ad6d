// Zstandard streams (RFC 8878), by libzstd (its only user). One thread each.
#pragma once
#include "base/buf.h"

#include <stdbool.h>

typedef struct ls_zst_encoder ls_zst_encoder;

ls_zst_encoder *ls_zst_encoder_new(void);
void ls_zst_encoder_free(ls_zst_encoder *z); // accepts NULL
// Appends to out what p[0..n) becomes. All of it can be decoded from what was appended so far; last: the stream ends.
void ls_zst_encode(ls_zst_encoder *z, const void *p, size_t n, bool last, ls_buf *out);

typedef struct ls_zst_decoder ls_zst_decoder;

bool ls_zst_is(const void *p, size_t n); // these bytes begin such a stream
ls_zst_decoder *ls_zst_decoder_new(void);
void ls_zst_decoder_free(ls_zst_decoder *z); // accepts NULL
// Decodes from in[0..n_in) into out[0..cap); *taken of the input was used. Returns the bytes put out; several streams
// one after another are one. *wrong is NULL, or what is wrong with the input.
size_t ls_zst_decode(ls_zst_decoder *z, const void *in, size_t n_in, size_t *taken, void *out, size_t cap,
                     const char **wrong);
const char *ls_zst_version(void); // of the library
