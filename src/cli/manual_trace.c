// The page about recordings: the fields of each kind of line, from the JSON Schema of `export --schema`.
#include "base/json.h"
#include "cli/manual.h"
#include "trace/trace.h"

#include <string.h>

typedef struct {
    ls_manual *m;
    const ls_json *definitions;
    const char *before; // prefix of field names: "nodes[]."
} rows;

static void quoted(const ls_json *v, ls_buf *out) {
    int64_t number;
    if (ls_json_str(v, NULL)) ls_buf_fmt(out, "\"%s\"", ls_json_str(v, NULL));
    else if (ls_json_int(v, &number)) ls_buf_fmt(out, "%d", (int)number);
}

static void type_name(const ls_json *s, ls_buf *out) {
    const ls_json *type = ls_json_get(s, "type"), *items = ls_json_get(s, "items"), *words = ls_json_get(s, "enum");
    if (ls_json_get(s, "const")) quoted(ls_json_get(s, "const"), out);
    else if (words)
        for (size_t i = 0; i < ls_json_size(words); i++) {
            if (i) ls_buf_str(out, ", ");
            quoted(ls_json_at(words, i), out);
        }
    else if (ls_json_is(type, "array")) {
        ls_buf_str(out, ls_json_get(items, "minItems") ? "list of pairs"
                        : ls_json_get(items, "$ref")   ? "list"
                                                       : "list of ");
        if (ls_json_get(items, "minItems") || ls_json_get(items, "$ref")) return;
        type_name(items, out);
        ls_buf_char(out, 's');
    } else if (ls_json_get(s, "additionalProperties")) ls_buf_str(out, "object of strings");
    else if (ls_json_is_array(type))
        for (size_t i = 0; i < ls_json_size(type); i++)
            ls_buf_fmt(out, "%s%s", i ? " or " : "", ls_json_str(ls_json_at(type, i), NULL));
    else ls_buf_str(out, ls_json_str(type, NULL));
}

static void object(const rows *r, const ls_json *reference, const char *before);

static void field(void *ud, const char *name, const ls_json *s) {
    const rows *r = ud;
    const bool is_list = ls_json_is(ls_json_get(s, "type"), "array");
    const ls_json *reference = ls_json_get(is_list ? ls_json_get(s, "items") : s, "$ref");
    ls_buf term = {0}, kind = {0};
    ls_buf_fmt(&term, "%s%s", r->before, name);
    type_name(s, &kind);
    ls_manual_item(r->m, term.p, kind.p, ls_json_str(ls_json_get(s, "description"), NULL));
    if (reference) {
        ls_buf_str(&term, is_list ? "[]." : ".");
        object(r, reference, term.p);
    }
    ls_buf_free(&term);
    ls_buf_free(&kind);
}

static void object(const rows *r, const ls_json *reference, const char *before) {
    const char *name = strrchr(ls_json_str(reference, NULL), '/') + 1;
    rows inner = {r->m, r->definitions, before};
    ls_json_each(ls_json_get(ls_json_get(r->definitions, name), "properties"), field, &inner);
}

ls_code ls_manual_trace(ls_manual *m, ls_err *err) {
    ls_buf schema = {0};
    ls_json *doc = NULL;
    ls_trace_schema(&schema);
    const ls_code code = ls_json_parse(&doc, schema.p, schema.n, "schema", err);
    const ls_json *lines = ls_json_get(doc, "oneOf");
    const rows r = {m, ls_json_get(doc, "$defs"), ""};
    for (size_t i = 0; i < ls_json_size(lines); i++) {
        const ls_json *reference = ls_json_get(ls_json_at(lines, i), "$ref");
        ls_manual_head(m, strrchr(ls_json_str(reference, NULL), '/') + 1);
        object(&r, reference, "");
    }
    ls_json_free(doc);
    ls_buf_free(&schema);
    return code;
}
