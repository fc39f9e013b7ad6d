#include "base/sysmem.h"
#include "base/cgroup.h"
#include "base/sysfile.h"

#include <stdlib.h>

uint64_t ls_memory_free(void) {
    char text[64];
    ls_sysfile_line("/proc/meminfo", "MemAvailable:", text, sizeof text);
    const uint64_t n = 1024 * strtoull(text, NULL, 10);
    const double left = ls_cgroup_limits().memory_bytes;
    if (n ? left >= (double)n : left > 1e18) return n;
    return left < 1 ? 1 : (uint64_t)left; // 0 means unknown
}
