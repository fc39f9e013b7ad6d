#include "base/yaml.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 32 };

typedef struct {
    yaml_parser_t parser;
    const char *name;
    ls_err *err;
} reader;

static ls_code fail_at(reader *r, yaml_mark_t mark, const char *what) {
    return ls_fail(r->err, LS_E_USAGE, "%s:%zu:%zu: %s", r->name, mark.line + 1, mark.column + 1, what);
}

static ls_code next(reader *r, yaml_event_t *e) {
    if (yaml_parser_parse(&r->parser, e)) return LS_OK;
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) ls_out_of_memory(0);
    if (p->error == YAML_READER_ERROR)
        return ls_fail(r->err, LS_E_USAGE, "%s: byte %zu: %s", r->name, p->problem_offset,
                       p->problem ? p->problem : "unreadable");
    char what[160];
    snprintf(what, sizeof what, "invalid YAML: %s", p->problem ? p->problem : "unknown error");
    return fail_at(r, p->problem_mark, what);
}

static void clear(ls_yaml *y) {
    for (size_t i = 0; i < y->n_items; i++) clear(&y->items[i]);
    free(y->items);
    free(y->key);
    free(y->text);
}

void ls_yaml_free(ls_yaml *y) {
    if (!y) return;
    clear(y);
    free(y);
}

static ls_yaml *add_child(ls_yaml *parent) {
    parent->items = ls_grown(parent->items, parent->n_items, sizeof *parent->items);
    ls_yaml *y = &parent->items[parent->n_items++];
    *y = (ls_yaml){0};
    return y;
}

static ls_code take_text(reader *r, const yaml_event_t *e, char **out) {
    const char *s = (const char *)e->data.scalar.value;
    if (memchr(s, 0, e->data.scalar.length)) return fail_at(r, e->start_mark, "NUL characters are not allowed here");
    *out = ls_strndup(s, e->data.scalar.length);
    return LS_OK;
}

static ls_code read_node(reader *r, const yaml_event_t *e, ls_yaml *out, int depth);

// Whether an earlier item has this key. A new key gets the index of this item, the last one.
static bool occurs(ls_map *keys, const ls_yaml *y, const char *key) {
    const int32_t last = (int32_t)y->n_items - 1;
    const int32_t first = *ls_map_at(keys, ls_hash_name(key, strlen(key)), last);
    return first != last && !strcmp(y->items[first].key, key);
}

static ls_code read_items(reader *r, ls_yaml *out, yaml_event_type_t end, int depth) {
    ls_map keys = {0};
    ls_code code = LS_OK;
    for (;;) {
        yaml_event_t e;
        if ((code = next(r, &e))) break;
        if (e.type == end) {
            yaml_event_delete(&e);
            break;
        }
        ls_yaml *item = add_child(out);
        if (out->kind == LS_YAML_MAPPING) {
            item->key_line = (int)e.start_mark.line + 1;
            item->key_column = (int)e.start_mark.column + 1;
            if (e.type != YAML_SCALAR_EVENT) code = fail_at(r, e.start_mark, "a key must be a plain word");
            else code = take_text(r, &e, &item->key);
            if (!code && occurs(&keys, out, item->key)) code = fail_at(r, e.start_mark, "this key occurs twice");
            yaml_event_delete(&e);
            if (code || (code = next(r, &e))) break;
        }
        code = read_node(r, &e, item, depth + 1);
        yaml_event_delete(&e);
        if (code) break;
    }
    ls_map_free(&keys);
    return code;
}

static ls_code read_node(reader *r, const yaml_event_t *e, ls_yaml *out, int depth) {
    out->line = (int)e->start_mark.line + 1;
    out->column = (int)e->start_mark.column + 1;
    if (depth > MAX_DEPTH) return fail_at(r, e->start_mark, "nested too deeply");
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        if (e->data.scalar.anchor) return fail_at(r, e->start_mark, "anchors are not supported");
        out->kind = LS_YAML_SCALAR;
        out->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        return take_text(r, e, &out->text);
    case YAML_SEQUENCE_START_EVENT:
        if (e->data.sequence_start.anchor) return fail_at(r, e->start_mark, "anchors are not supported");
        out->kind = LS_YAML_SEQUENCE;
        return read_items(r, out, YAML_SEQUENCE_END_EVENT, depth);
    case YAML_MAPPING_START_EVENT:
        if (e->data.mapping_start.anchor) return fail_at(r, e->start_mark, "anchors are not supported");
        out->kind = LS_YAML_MAPPING;
        return read_items(r, out, YAML_MAPPING_END_EVENT, depth);
    case YAML_ALIAS_EVENT: return fail_at(r, e->start_mark, "aliases are not supported");
    default: return fail_at(r, e->start_mark, "not expected here");
    }
}

static ls_code read_stream(reader *r, ls_yaml *out) {
    yaml_event_t e;
    ls_code code = LS_OK;
    bool seen = false;
    out->kind = LS_YAML_MAPPING;
    out->line = out->column = 1;
    for (bool more = true; more && !code;) {
        if ((code = next(r, &e))) break;
        switch (e.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_STREAM_END_EVENT: more = false; break;
        case YAML_DOCUMENT_START_EVENT:
            if (seen) code = fail_at(r, e.start_mark, "only one document is allowed");
            seen = true;
            break;
        default:
            if (e.type == YAML_SCALAR_EVENT && !e.data.scalar.length && e.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
                break;
            code = read_node(r, &e, out, 0);
        }
        yaml_event_delete(&e);
    }
    return code;
}

ls_code ls_yaml_parse(ls_yaml **out, const char *p, size_t n, const char *name, ls_err *err) {
    *out = NULL;
    if (n > MAX_BYTES) return ls_fail(err, LS_E_USAGE, "%s: larger than 1 MiB", name);
    if (!ls_utf8_valid(p, n)) return ls_fail(err, LS_E_USAGE, "%s: not valid UTF-8", name);
    reader r = {.name = name, .err = err};
    if (!yaml_parser_initialize(&r.parser)) ls_out_of_memory(0); // nothing else can fail
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)p, n);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    ls_yaml *y = ls_calloc(1, sizeof *y);
    ls_code code = read_stream(&r, y);
    yaml_parser_delete(&r.parser);
    if (code) ls_yaml_free(y);
    else *out = y;
    return code;
}

ls_code ls_yaml_read(ls_yaml **out, const char *path, ls_err *err) {
    *out = NULL;
    ls_buf text = {0};
    int unopened;
    ls_code code = ls_read_any(&text, path, (size_t)2 * MAX_BYTES, &unopened, err);
    if (unopened) code = ls_fail(err, LS_E_USAGE, "%s: %s", path, strerror(unopened));
    if (!code) code = ls_yaml_parse(out, text.n ? text.p : "", text.n, path, err);
    ls_buf_free(&text);
    return code;
}

const ls_yaml *ls_yaml_get(const ls_yaml *y, const char *key) {
    for (size_t i = 0; y && y->kind == LS_YAML_MAPPING && i < y->n_items; i++)
        if (!strcmp(y->items[i].key, key)) return &y->items[i];
    return NULL;
}

const char *ls_yaml_version(void) {
    return yaml_get_version_string();
}
