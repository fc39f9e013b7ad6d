// Allocation that aborts with a message when memory is out. Sizes that come from files are checked
// against the bytes that are there before they reach these functions.
#pragma once
#include <stddef.h>

void *ls_malloc(size_t n);
void *ls_calloc(size_t n, size_t size);
void *ls_realloc(void *p, size_t n);
char *ls_strdup(const char *s);
char *ls_strndup(const char *s, size_t n);
char *ls_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // owned by the caller
