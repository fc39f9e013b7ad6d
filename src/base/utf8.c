#include "base/utf8.h"

int ls_utf8_decode(const char *s, size_t n, uint32_t *cp) {
    const unsigned char *p = (const unsigned char *)s;
    uint32_t c = p[0];
    int len = c < 0x80 ? 1 : c < 0xC2 ? -1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : -1;
    if (len < 0) return -1;
    uint32_t v = len == 1 ? c : c & (0xFFu >> (len + 1));
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n) return 0;
        unsigned lo = 0x80, hi = 0xBF;
        if (i == 1) { // the second byte carries the limits that rule out overlongs and surrogates
            if (c == 0xE0) lo = 0xA0;
            if (c == 0xED) hi = 0x9F;
            if (c == 0xF0) lo = 0x90;
            if (c == 0xF4) hi = 0x8F;
        }
        if (p[i] < lo || p[i] > hi) return -1;
        v = v << 6 | (p[i] & 0x3F);
    }
    if (cp) *cp = v;
    return len;
}

bool ls_utf8_valid(const char *p, size_t n) {
    for (size_t i = 0; i < n;) {
        int len = ls_utf8_decode(p + i, n - i, NULL);
        if (len <= 0) return false;
        i += (size_t)len;
    }
    return true;
}

int ls_utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        if (cp >= 0xD800 && cp < 0xE000) return 0;
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    if (cp > 0x10FFFF) return 0;
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}
