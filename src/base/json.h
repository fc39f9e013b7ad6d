// JSON: a reader, the only user of jansson, whose values are borrowed from the document that holds them; and a writer.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json_t ls_json;

// One document. LS_E_PARSE with "line:column: what"; `where` (a file and line, say) is put in front. ls_json_free it.
ls_code ls_json_parse(ls_json **out, const char *text, size_t n, const char *where, ls_err *err);
// The same with the extensions of Python's json, for a model's configuration files: of duplicate keys the last one
// counts, and NaN, Infinity and -Infinity are read as null.
ls_code ls_json_parse_pythons(ls_json **out, const char *text, size_t n, const char *where, ls_err *err);
void ls_json_free(ls_json *doc);

const ls_json *ls_json_get(const ls_json *object, const char *key);        // NULL: not an object, or no such key
const ls_json *ls_json_given(const ls_json *object, const char *key);      // the same, and NULL for null
const char *ls_json_str(const ls_json *v, size_t *n);                      // NULL: not a string (v may be NULL)
ls_str ls_json_text(const ls_json *v);                                     // the same; else {NULL, 0}
bool ls_json_flag(const ls_json *object, const char *key, bool otherwise); // the value, if it is true or false
bool ls_json_is(const ls_json *v, const char *text);                       // a string, and this one
bool ls_json_int(const ls_json *v, int64_t *out);                          // also 3.0
bool ls_json_num(const ls_json *v, double *out);                           // null is NAN
bool ls_json_bool(const ls_json *v, bool *out);
bool ls_json_is_real(const ls_json *v);        // a number with a fraction or an exponent: 3.0
bool ls_json_is_null(const ls_json *v);        // false if v is NULL
size_t ls_json_size(const ls_json *array);     // 0: not an array
size_t ls_json_members(const ls_json *object); // keys; 0: not an object
bool ls_json_is_array(const ls_json *v);
bool ls_json_is_object(const ls_json *v);
const ls_json *ls_json_at(const ls_json *array, size_t i); // NULL: not an array, or shorter
// The members in the document's order: for (ls_json_member m = {0}; ls_json_next(object, &m);). False: no more, or no
// object.
typedef struct {
    const char *key;
    const ls_json *value;
    void *at;
} ls_json_member;
bool ls_json_next(const ls_json *object, ls_json_member *m);
const char *ls_json_version(void); // of the library

// ---- writes JSON straight into a buffer, with commas placed automatically. Compact, one line.

typedef struct {
    ls_buf *out;
    bool comma; // a value was written at this level: the next one needs a comma
} ls_jsonw;

ls_jsonw ls_jw_begin(ls_buf *out);            // opens an object that is a document of its own
void ls_jw_end(ls_jsonw *w);                  // ... and closes it, and the line
void ls_jw_open(ls_jsonw *w, char bracket);   // '{' or '['
void ls_jw_close(ls_jsonw *w, char bracket);  // '}' or ']'
void ls_jw_key(ls_jsonw *w, const char *key); // key is plain ASCII
void ls_jw_any_key(ls_jsonw *w, const char *key, size_t n);
void ls_jw_int(ls_jsonw *w, int64_t v);
void ls_jw_u64(ls_jsonw *w, uint64_t v);
void ls_jw_num(ls_jsonw *w, double v, int digits); // significant digits; NaN and infinities become null
void ls_jw_bool(ls_jsonw *w, bool v);
void ls_jw_null(ls_jsonw *w);
// Invalid UTF-8 becomes U+FFFD. Characters that are unsafe for a terminal (base/utf8.h) are escaped as \uXXXX.
void ls_jw_strn(ls_jsonw *w, const char *s, size_t n);
void ls_jw_str(ls_jsonw *w, const char *s); // NULL becomes null
void ls_jw_base64(ls_jsonw *w, const char *s, size_t n);
void ls_jw_value(ls_jsonw *w, const ls_json *v);           // a value of a document, as it is
void ls_jw_ids(ls_jsonw *w, const int32_t *ids, size_t n); // an array of integers

// A key and its value.
#define ls_jw_field_int(w, key, v) (ls_jw_key(w, key), ls_jw_int(w, v))
#define ls_jw_field_u64(w, key, v) (ls_jw_key(w, key), ls_jw_u64(w, v))
#define ls_jw_field_num(w, key, v, digits) (ls_jw_key(w, key), ls_jw_num(w, v, digits))
#define ls_jw_field_bool(w, key, v) (ls_jw_key(w, key), ls_jw_bool(w, v))
#define ls_jw_field_str(w, key, v) (ls_jw_key(w, key), ls_jw_str(w, v))
#define ls_jw_field_ids(w, key, ids, n) (ls_jw_key(w, key), ls_jw_ids(w, ids, n))
#define ls_jw_field_open(w, key, bracket) (ls_jw_key(w, key), ls_jw_open(w, bracket))
