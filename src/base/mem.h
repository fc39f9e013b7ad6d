// Allocation that never returns NULL: when memory is out, what would be lost is saved (base/rescue.h), the program
// says so and ends with exit code 1. Sizes that come from files are checked against the bytes that are there before
// they reach these functions.
#pragma once
#include <stdarg.h>
#include <stddef.h>

void *ls_malloc(size_t n);
void *ls_calloc(size_t n, size_t size);
void *ls_realloc(void *p, size_t n);
char *ls_strdup(const char *s);
char *ls_strndup(const char *s, size_t n);
char *ls_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // owned by the caller
char *ls_format_list(const char *fmt, va_list ap);                           // the same

// For libraries that report it in their own way.
_Noreturn void ls_out_of_memory(size_t n); // n: bytes that were asked for; 0: not known
