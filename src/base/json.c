#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// With malloc, jansson reports a failed allocation as a malformed document. ls_malloc ends the program instead.
static void take_our_memory(void) {
    json_set_alloc_funcs(ls_malloc, free);
}

static ls_code parse(ls_json **out, const char *text, size_t n, size_t flags, const char *where, ls_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_error_t e;
    *out = NULL;
    pthread_once(&once, take_our_memory);
    if (!n) return ls_fail(err, LS_E_PARSE, "%s: is empty", where);
    *out = json_loadb(text, n, flags, &e);
    // An integer beyond 64 bits ("model_max_length": 1000000000000000019884624838656): parses again, with all integers
    // as reals.
    if (!*out && json_error_code(&e) == json_error_numeric_overflow)
        *out = json_loadb(text, n, flags | JSON_DECODE_INT_AS_REAL, &e);
    if (*out) return LS_OK;
    // a document that is a line of a file has its number already
    const char *digits = strrchr(where, ':');
    const bool is_line = digits && digits[1] && strspn(digits + 1, "0123456789") == strlen(digits + 1);
    if (is_line && e.line == 1) return ls_fail(err, LS_E_PARSE, "%s:%d: not JSON: %.200s", where, e.column, e.text);
    return ls_fail(err, LS_E_PARSE, "%s:%d:%d: not JSON: %.200s", where, e.line, e.column, e.text);
}

ls_code ls_json_parse(ls_json **out, const char *text, size_t n, const char *where, ls_err *err) {
    return parse(out, text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, where, err);
}

ls_code ls_json_parse_pythons(ls_json **out, const char *text, size_t n, const char *where, ls_err *err) {
    static const char *const numbers[] = {"NaN", "Infinity", "-Infinity"};
    ls_buf standard = {0};
    bool quoted = false; // inside a string, which is copied unchanged; a backslash there takes the next byte along
    for (size_t i = 0; i < n;) {
        size_t same = 0; // length of the non-standard number at i; 0: there is none
        for (int k = 0; k < 3 && !quoted && !same; k++) {
            const size_t m = strlen(numbers[k]);
            if (m <= n - i && !memcmp(text + i, numbers[k], m)) same = m;
        }
        if (same) ls_buf_str(&standard, "null");
        else if (text[i] == '"') quoted = !quoted;
        const size_t taken = same ? same : quoted && text[i] == '\\' && i + 1 < n ? 2 : 1;
        if (!same) ls_buf_add(&standard, text + i, taken);
        i += taken;
    }
    const ls_code code = parse(out, standard.p, standard.n, JSON_ALLOW_NUL, where, err);
    ls_buf_free(&standard);
    return code;
}

void ls_json_free(ls_json *doc) {
    json_decref(doc);
}

const ls_json *ls_json_get(const ls_json *object, const char *key) {
    return json_object_get(object, key);
}

const ls_json *ls_json_given(const ls_json *object, const char *key) {
    const ls_json *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

const char *ls_json_str(const ls_json *v, size_t *n) {
    if (!json_is_string(v)) return NULL;
    if (n) *n = json_string_length(v);
    return json_string_value(v);
}

ls_str ls_json_text(const ls_json *v) {
    size_t n = 0;
    const char *p = ls_json_str(v, &n);
    return (ls_str){p, n};
}

bool ls_json_flag(const ls_json *object, const char *key, bool otherwise) {
    ls_json_bool(ls_json_get(object, key), &otherwise);
    return otherwise;
}

bool ls_json_is(const ls_json *v, const char *text) {
    const ls_str s = ls_json_text(v);
    return s.p && ls_str_is(s, text);
}

bool ls_json_int(const ls_json *v, int64_t *out) {
    const double real = json_real_value(v); // 0 if v is not a real
    if (json_is_integer(v)) *out = json_integer_value(v);
    else if (json_is_real(v) && fabs(real) <= 0x1p53 && real == trunc(real)) *out = (int64_t)real;
    else return false;
    return true;
}

bool ls_json_num(const ls_json *v, double *out) {
    if (json_is_number(v)) *out = json_number_value(v);
    if (json_is_null(v)) *out = (double)NAN;
    return json_is_number(v) || json_is_null(v);
}

bool ls_json_bool(const ls_json *v, bool *out) {
    if (json_is_boolean(v)) *out = json_is_true(v);
    return json_is_boolean(v);
}

bool ls_json_is_real(const ls_json *v) {
    return json_is_real(v);
}

bool ls_json_is_null(const ls_json *v) {
    return json_is_null(v);
}

size_t ls_json_size(const ls_json *array) {
    return json_array_size(array);
}

size_t ls_json_members(const ls_json *object) {
    return json_object_size(object);
}

bool ls_json_is_object(const ls_json *v) {
    return json_is_object(v);
}

bool ls_json_is_array(const ls_json *v) {
    return json_is_array(v);
}

const ls_json *ls_json_at(const ls_json *array, size_t i) {
    return json_array_get(array, i);
}

bool ls_json_next(const ls_json *object, ls_json_member *m) {
    json_t *o = (json_t *)object;
    m->at = m->at ? json_object_iter_next(o, m->at) : json_object_iter(o);
    if (!m->at) return false;
    m->key = json_object_iter_key(m->at);
    m->value = json_object_iter_value(m->at);
    return true;
}

const char *ls_json_version(void) {
    return jansson_version_str();
}

// ---- writing

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

ls_jsonw ls_jw_begin(ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
    return w;
}

void ls_jw_end(ls_jsonw *w) {
    ls_jw_close(w, '}');
    ls_buf_char(w->out, '\n');
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

static int add_text(const char *p, size_t n, void *ud) {
    ls_buf_add(ud, p, n);
    return 0;
}

void ls_jw_value(ls_jsonw *w, const ls_json *v) {
    value(w);
    json_dump_callback(v, add_text, w->out, JSON_COMPACT | JSON_ENCODE_ANY);
}

void ls_jw_ids(ls_jsonw *w, const int32_t *ids, size_t n) {
    ls_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) ls_jw_int(w, ids[i]);
    ls_jw_close(w, ']');
}
