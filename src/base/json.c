#include "base/json.h"

#include <jansson.h>

ls_code ls_json_parse(ls_json **out, const char *text, size_t n, const char *where, ls_err *err) {
    json_error_t e;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    return *out ? LS_OK : ls_fail(err, LS_E_PARSE, "%s: %d:%d: not JSON: %.200s", where, e.line, e.column, e.text);
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

bool ls_json_int(const ls_json *v, int64_t *out) {
    if (json_is_integer(v)) *out = json_integer_value(v);
    return json_is_integer(v);
}

const ls_json *ls_json_at(const ls_json *array, size_t i) {
    return json_array_get(array, i);
}
