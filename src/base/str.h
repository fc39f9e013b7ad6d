// A borrowed run of bytes: never NUL-terminated, may hold anything.
#pragma once
#include <stddef.h>

typedef struct {
    const char *p;
    size_t n;
} ls_str;
