#include "base/sysmem.h"
#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number_in(const char *path, const char *key) {
    char line[256];
    unsigned long long v = 0;
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        if ((found = !strncmp(line, key, strlen(key)))) v = strtoull(line + strlen(key), NULL, 10);
    if (f) fclose(f);
    return v;
}

uint64_t ls_memory_free(void) {
    const uint64_t n = 1024 * number_in("/proc/meminfo", "MemAvailable:");
    const double left = ls_cgroup_limits().memory_bytes;
    if (n ? left >= (double)n : left > 1e18) return n;
    return left < 1 ? 1 : (uint64_t)left; // 0 is for what is not known
}
