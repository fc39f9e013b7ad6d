#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *check(void *p, size_t n) {
    if (!p && n) {
        fprintf(stderr, "logitspec: out of memory (asked for %zu bytes)\n", n);
        abort();
    }
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

char *ls_format(const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = ls_malloc((size_t)(n < 0 ? 0 : n) + 1);
    if (n < 0) p[0] = 0;
    else vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}
