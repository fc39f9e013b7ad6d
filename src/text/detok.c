#include "base/utf8.h"
#include "text/vocab.h"

#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

void ls_detok_push(ls_detok *d, const char *bytes, size_t n, ls_buf *out) {
    for (size_t i = 0; i < n; i++) {
        d->pending[d->n_pending++] = bytes[i];
        for (;;) {
            int len = d->n_pending ? ls_utf8_decode(d->pending, (size_t)d->n_pending, NULL) : 0;
            if (len == 0) break; // complete so far, or a character that goes on
            if (len > 0) {
                ls_buf_add(out, d->pending, (size_t)len);
                d->n_pending = 0;
                break;
            }
            // the bytes before the last were a proper prefix: they are one maximal invalid part, the last
            // starts anew
            ls_buf_str(out, replacement);
            if (d->n_pending == 1) {
                d->n_pending = 0;
                break;
            }
            d->pending[0] = d->pending[d->n_pending - 1];
            d->n_pending = 1;
        }
    }
}

void ls_detok_flush(ls_detok *d, ls_buf *out) {
    if (d->n_pending) ls_buf_str(out, replacement);
    d->n_pending = 0;
}
