// Allocation that never returns NULL: when memory is out, what would be lost is saved, the program says so and ends
// with exit code 1. Sizes that come from files are checked against the bytes that are there before they reach these
// functions.
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

// Called when memory is out, in whichever thread found that, while memory that was kept aside is free again. What it
// writes to said (one line, n bytes with the NUL) follows the message. The other threads go on until they need memory.
typedef void (*ls_rescue)(void *ud, char *said, size_t n);
// A few of these; the last one that came is called first. Taken back by the same pair.
void ls_on_out_of_memory(ls_rescue rescue, void *ud);
void ls_not_on_out_of_memory(ls_rescue rescue, void *ud);
