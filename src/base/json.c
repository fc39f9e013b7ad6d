#include "base/json.h"
#include "base/buf.h"
#include "base/mem.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
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

const char *ls_json_str(const ls_json *v, size_t *n) {
    if (!json_is_string(v)) return NULL;
    if (n) *n = json_string_length(v);
    return json_string_value(v);
}

bool ls_json_is(const ls_json *v, const char *text) {
    size_t n;
    const char *p = ls_json_str(v, &n);
    return p && n == strlen(text) && !memcmp(p, text, n);
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

bool ls_json_is_object(const ls_json *v) {
    return json_is_object(v);
}

bool ls_json_is_array(const ls_json *v) {
    return json_is_array(v);
}

const ls_json *ls_json_at(const ls_json *array, size_t i) {
    return json_array_get(array, i);
}

bool ls_json_each(const ls_json *object, void (*fn)(void *ud, const char *key, const ls_json *value), void *ud) {
    if (!json_is_object(object)) return false;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) fn(ud, key, value);
    return true;
}

const char *ls_json_version(void) {
    return jansson_version_str();
}
