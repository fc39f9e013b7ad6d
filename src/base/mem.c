#include "base/mem.h"
#include "base/rescue.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_out_of_memory(size_t n) {
    char why[80];
    snprintf(why, sizeof why, n ? "out of memory (%zu bytes requested)" : "out of memory", n);
    ls_rescue_and_end(why);
}

static void *check(void *p, size_t n) {
    if (!p && n) ls_out_of_memory(n);
    return p;
}

void *ls_malloc(size_t n) {
    return check(malloc(n ? n : 1), n);
}
void *ls_calloc(size_t n, size_t size) {
    return check(calloc(n ? n : 1, size ? size : 1), n * size);
}
void *ls_realloc(void *p, size_t n) {
    return check(realloc(p, n ? n : 1), n);
}
char *ls_strdup(const char *s) {
    return ls_strndup(s, strlen(s));
}

char *ls_strndup(const char *s, size_t n) {
    char *p = ls_malloc(n + 1);
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *ls_format_list(const char *fmt, va_list ap) {
    char *p;
    if (vasprintf(&p, fmt, ap) < 0) ls_out_of_memory(0); // with our formats, only the allocation can fail
    return p;
}

char *ls_format(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *p = ls_format_list(fmt, ap);
    va_end(ap);
    return p;
}
