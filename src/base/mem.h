// Allocation that never returns NULL: if memory is out, the rescues run, and the program prints a message and ends with
// exit code 1. Callers check sizes that come from files against the size of the file first.
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

void *ls_malloc(size_t n);
void *ls_calloc(size_t n, size_t size);
void *ls_realloc(void *p, size_t n);
// The same for an array whose items are lines of the cache, or parts of them: it begins with a line. had: its size
// until now.
void *ls_realloc_lines(void *p, size_t had, size_t n);
// An array of n items with room for one more: call it before each addition. It begins with room for 8, and doubles
// where n is a power of two.
void *ls_grown(void *p, size_t n, size_t size);
char *ls_strdup(const char *s);
char *ls_strndup(const char *s, size_t n);
char *ls_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // owned by the caller
char *ls_format_list(const char *fmt, va_list ap);                           // the same

bool ls_ends_with(const char *s, const char *end); // and there is something before it
void ls_sort(double *v, size_t n);                 // the smallest first

// For libraries that return an error when memory is out.
_Noreturn void ls_out_of_memory(size_t n); // n: requested bytes; 0: not known

// Rescues: callbacks that save data when the process must end, because memory is out or a library calls abort() or
// exit(). Called in the thread that ends the process; other threads keep running. A memory reserve is free again. The
// callback may write one line to said (n bytes with the NUL), which is appended to the message.
typedef void (*ls_rescue)(void *ud, char *said, size_t n);
// At most 8; the last one added is called first. Remove takes the same pair. None may be left when main returns.
void ls_rescue_add(ls_rescue rescue, void *ud);
void ls_rescue_remove(ls_rescue rescue, void *ud);
// Runs all rescues, writes "logitspec: why; their lines" to standard error, and ends the process with exit code 1.
_Noreturn void ls_rescue_and_end(const char *why);
