#include "base/jsonw.h"
#include "base/utf8.h"
#include "base/visible.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void value(ls_jsonw *w) {
    if (w->comma) ls_buf_char(w->out, ',');
    w->comma = true;
}

void ls_jw_open(ls_jsonw *w, char bracket) {
    value(w);
    ls_buf_char(w->out, bracket);
    w->comma = false;
}

void ls_jw_close(ls_jsonw *w, char bracket) {
    ls_buf_char(w->out, bracket);
    w->comma = true;
}

void ls_jw_key(ls_jsonw *w, const char *key) {
    value(w);
    ls_buf_char(w->out, '"');
    ls_buf_str(w->out, key);
    ls_buf_add(w->out, "\":", 2);
    w->comma = false;
}

void ls_jw_any_key(ls_jsonw *w, const char *key, size_t n) {
    ls_jw_strn(w, key, n);
    ls_buf_char(w->out, ':');
    w->comma = false;
}

// Decimal digits without printf: traces write thousands of integers a step.
static void add_u64(ls_buf *b, uint64_t v) {
    char t[20];
    int n = 20;
    do t[--n] = (char)('0' + v % 10);
    while (v /= 10);
    ls_buf_add(b, t + n, (size_t)(20 - n));
}

void ls_jw_u64(ls_jsonw *w, uint64_t v) {
    value(w);
    add_u64(w->out, v);
}

void ls_jw_int(ls_jsonw *w, int64_t v) {
    value(w);
    if (v < 0) ls_buf_char(w->out, '-');
    add_u64(w->out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

// Writes what printf's %.*g writes, about ten times as fast. Returns the length, or 0 for a number that needs printf.
// With at most 9 digits, the rounding error of the one multiplication or division is far below the last digit.
static int fast_number(char *out, double v, int digits) {
    enum { EXACT = 23, MOST_DIGITS = 9 }; // powers of ten that a double holds exactly
    static const double powers[EXACT] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const double a = fabs(v);
    if (digits > MOST_DIGITS || !(a >= 1e-13 && a < 1e15)) return 0;
    int two;
    frexp(a, &two);
    int e = (int)floor((two - 1) * 0.30102999566398120); // of ten; if one too small, the loop corrects it
    uint64_t n = 0;
    for (int tries = 0; tries < 2; tries++) {
        const int shift = digits - 1 - e;
        if (shift >= EXACT) return 0;
        n = (uint64_t)(shift < 0 ? a / powers[-shift] + 0.5 : a * powers[shift] + 0.5);
        if (n < (uint64_t)powers[digits]) break;
        e++;
    }
    if (e < -4 || e >= digits) return 0; // %g would write an exponent
    while (digits > 1 && digits > e + 1 && n % 10 == 0) n /= 10, digits--;
    char t[24];
    for (int i = digits; i-- > 0; n /= 10) t[i] = (char)('0' + n % 10);
    char *p = out;
    if (v < 0) *p++ = '-';
    if (e < 0) {
        *p++ = '0', *p++ = '.';
        for (int i = -1; i > e; i--) *p++ = '0';
    }
    for (int i = 0; i < digits; i++) {
        if (e >= 0 && i == e + 1) *p++ = '.';
        *p++ = t[i];
    }
    return (int)(p - out);
}

void ls_jw_num(ls_jsonw *w, double v, int digits) {
    value(w);
    char t[40];
    int n = fast_number(t, v, digits);
    if (!n) n = isfinite(v) ? snprintf(t, sizeof t, "%.*g", digits, v) : snprintf(t, sizeof t, "null");
    ls_buf_add(w->out, t, (size_t)n);
}

void ls_jw_bool(ls_jsonw *w, bool v) {
    value(w);
    ls_buf_str(w->out, v ? "true" : "false");
}

void ls_jw_null(ls_jsonw *w) {
    value(w);
    ls_buf_str(w->out, "null");
}

void ls_jw_strn(ls_jsonw *w, const char *s, size_t n) {
    uint32_t before = 0;
    value(w);
    ls_buf_char(w->out, '"');
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0xFFFD;
        const int len = ls_utf8_decode(s + i, n - i, &cp);
        const bool plain = len <= 0 || ls_is_visible(cp, before);
        if (cp == '"' || cp == '\\') ls_buf_char(w->out, '\\');
        if (len <= 0) ls_buf_str(w->out, "\xEF\xBF\xBD");
        else if (plain) ls_buf_add(w->out, s + i, (size_t)len);
        else if (cp == '\n') ls_buf_str(w->out, "\\n");
        else if (cp < 0x10000) ls_buf_fmt(w->out, "\\u%04x", cp);
        else ls_buf_fmt(w->out, "\\u%04x\\u%04x", 0xD7C0 + (cp >> 10), 0xDC00 + (cp & 0x3FF));
        before = plain ? cp : 0;
        i += len > 0 ? (size_t)len : 1;
    }
    ls_buf_char(w->out, '"');
}

void ls_jw_str(ls_jsonw *w, const char *s) {
    if (s) ls_jw_strn(w, s, strlen(s));
    else ls_jw_null(w);
}

void ls_jw_base64(ls_jsonw *w, const char *s, size_t n) {
    value(w);
    ls_buf_char(w->out, '"');
    ls_buf_base64(w->out, s, n);
    ls_buf_char(w->out, '"');
}

void ls_jw_ids(ls_jsonw *w, const int32_t *ids, size_t n) {
    ls_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) ls_jw_int(w, ids[i]);
    ls_jw_close(w, ']');
}

void ls_jw_field_int(ls_jsonw *w, const char *key, int64_t v) {
    ls_jw_key(w, key);
    ls_jw_int(w, v);
}

void ls_jw_field_u64(ls_jsonw *w, const char *key, uint64_t v) {
    ls_jw_key(w, key);
    ls_jw_u64(w, v);
}

void ls_jw_field_num(ls_jsonw *w, const char *key, double v, int digits) {
    ls_jw_key(w, key);
    ls_jw_num(w, v, digits);
}

void ls_jw_field_bool(ls_jsonw *w, const char *key, bool v) {
    ls_jw_key(w, key);
    ls_jw_bool(w, v);
}

void ls_jw_field_str(ls_jsonw *w, const char *key, const char *s) {
    ls_jw_key(w, key);
    ls_jw_str(w, s);
}

void ls_jw_field_open(ls_jsonw *w, const char *key, char bracket) {
    ls_jw_key(w, key);
    ls_jw_open(w, bracket);
}
