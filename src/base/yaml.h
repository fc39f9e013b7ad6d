// YAML by libyaml (its only user): a document as a tree of nodes with line and column. Stricter than
// the library: aliases, anchors, tags, duplicate keys, several documents, nesting beyond 32 and files beyond 1 MiB
// are errors with file:line:column.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum { LS_YAML_SCALAR, LS_YAML_SEQUENCE, LS_YAML_MAPPING } ls_yaml_kind;

typedef struct ls_yaml ls_yaml;
struct ls_yaml {
    ls_yaml_kind kind;
    int line, column; // 1-based
    char *key;        // inside a mapping: its key, NUL-terminated (keys with NULs are refused)
    int key_line, key_column;
    char *text;     // scalar, NUL-terminated
    bool plain;     // scalar without quotes
    ls_yaml *items; // sequence or mapping
    size_t n_items;
};

// Parses n bytes; name is for messages. An empty document is an empty mapping. *out is owned by the caller.
ls_code ls_yaml_parse(ls_yaml **out, const char *p, size_t n, const char *name, ls_err *err);
ls_code ls_yaml_read(ls_yaml **out, const char *path, ls_err *err); // a file; LS_E_USAGE also if it cannot be read
// The value of a key of a mapping; NULL: not there.
const ls_yaml *ls_yaml_get(const ls_yaml *y, const char *key);
void ls_yaml_free(ls_yaml *y);     // accepts NULL
const char *ls_yaml_version(void); // of the library
