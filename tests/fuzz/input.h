// The fuzzer's bytes as a file that a path opens.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline const char *fuzz_file(const uint8_t *data, size_t n) {
    static int fd = -1;
    static char path[40];
    if (fd < 0) fd = memfd_create("trace", 0);
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}
