// Reference: the double array of darts-clone (darts.h, DoubleArrayUnit) in the little-endian layout that sentencepiece
// stores: size of the array in bytes, the array, then the replacements, each ended by a NUL.
#include "base/mem.h"
#include "base/utf8.h"
#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>

struct ls_charsmap {
    uint32_t *units;
    size_t n_units;
    char *by;
    size_t n_by;
};

ls_code ls_charsmap_new(ls_charsmap **out, const void *blob, size_t n, ls_err *err) {
    const unsigned char *p = blob;
    const size_t size = n < 4 ? 0 : (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    *out = NULL;
    if (n < 4 || size > n - 4 || size % 4 || !size)
        return ls_fail(err, LS_E_PARSE, "the tokenizer's charsmap of %zu bytes has an array of %zu", n, size);
    ls_charsmap *m = ls_calloc(1, sizeof *m);
    m->n_units = size / 4;
    m->units = ls_calloc(m->n_units, sizeof *m->units);
    for (size_t i = 0; i < m->n_units; i++) {
        const unsigned char *u = p + 4 + 4 * i;
        m->units[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    m->n_by = n - 4 - size;
    m->by = ls_calloc(m->n_by + 1, 1); // the last ends, whatever the file says
    memcpy(m->by, p + 4 + size, m->n_by);
    *out = m;
    return LS_OK;
}

void ls_charsmap_free(ls_charsmap *m) {
    if (!m) return;
    free(m->units);
    free(m->by);
    free(m);
}

static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

const char *ls_charsmap_find(const ls_charsmap *m, const char *p, size_t n, bool longest, size_t *taken, size_t *len) {
    size_t at = offset_of(m->units[0]);
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        at ^= c;
        if (at >= m->n_units || (m->units[at] & (1u << 31 | 0xFF)) != c) break;
        const uint32_t unit = m->units[at];
        at ^= offset_of(unit);
        if (at >= m->n_units) break;
        if (!(unit >> 8 & 1)) continue;
        const size_t value = m->units[at] & 0x7FFFFFFF;
        if (value > m->n_by) continue;
        const size_t n_by = strlen(m->by + value);
        if (!ls_utf8_valid(m->by + value, n_by)) continue;
        found = m->by + value;
        *taken = i + 1;
        *len = n_by;
        if (!longest) break;
    }
    return found;
}
