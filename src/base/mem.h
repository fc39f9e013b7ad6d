// Allocation that never returns NULL: if memory is out, the rescues run (base/rescue.h), and the program prints a
// message and ends with exit code 1. Callers check sizes that come from files against the size of the file first.
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

// For libraries that return an error when memory is out.
_Noreturn void ls_out_of_memory(size_t n); // n: requested bytes; 0: not known
