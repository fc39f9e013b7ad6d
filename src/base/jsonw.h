// Writes JSON straight into a buffer, with commas placed automatically. Compact, one line.
#pragma once
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    ls_buf *out;
    bool comma; // a value was written at this level: the next one needs a comma
} ls_jsonw;

void ls_jw_open(ls_jsonw *w, char bracket);   // '{' or '['
void ls_jw_close(ls_jsonw *w, char bracket);  // '}' or ']'
void ls_jw_key(ls_jsonw *w, const char *key); // key is plain ASCII
void ls_jw_any_key(ls_jsonw *w, const char *key, size_t n);
void ls_jw_int(ls_jsonw *w, int64_t v);
void ls_jw_u64(ls_jsonw *w, uint64_t v);
void ls_jw_num(ls_jsonw *w, double v, int digits); // significant digits; NaN and infinities become null
void ls_jw_bool(ls_jsonw *w, bool v);
void ls_jw_null(ls_jsonw *w);
// Invalid UTF-8 becomes U+FFFD. Characters that are unsafe for a terminal (base/visible.h) are escaped as \uXXXX.
void ls_jw_strn(ls_jsonw *w, const char *s, size_t n);
void ls_jw_str(ls_jsonw *w, const char *s); // NULL becomes null
void ls_jw_base64(ls_jsonw *w, const char *s, size_t n);
void ls_jw_ids(ls_jsonw *w, const int32_t *ids, size_t n); // an array of integers

// A key and its value.
void ls_jw_field_int(ls_jsonw *w, const char *key, int64_t v);
void ls_jw_field_u64(ls_jsonw *w, const char *key, uint64_t v);
void ls_jw_field_num(ls_jsonw *w, const char *key, double v, int digits);
void ls_jw_field_bool(ls_jsonw *w, const char *key, bool v);
void ls_jw_field_str(ls_jsonw *w, const char *key, const char *s);
void ls_jw_field_open(ls_jsonw *w, const char *key, char bracket);
