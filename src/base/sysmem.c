#include "base/sysmem.h"

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
    uint64_t n = 1024 * number_in("/proc/meminfo", "MemAvailable:");
    const uint64_t limit = number_in("/sys/fs/cgroup/memory.max", ""),
                   used = number_in("/sys/fs/cgroup/memory.current", "");
    if (limit && used < limit && (!n || limit - used < n)) n = limit - used;
    return n;
}
