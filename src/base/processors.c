#include "base/processors.h"
#include "base/cgroup.h"
#include "base/sysfile.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_text(const char *folder, int cpu, const char *name, char *out, size_t size) {
    char path[256];
    return snprintf(path, sizeof path, "%s/cpu%d/%s", folder, cpu, name) < (int)sizeof path &&
           ls_sysfile_line(path, "", out, size);
}

// The first usable CPU of a list such as "0,8" or "0-1"; `cpu` if the list has none.
static int first_of(const char *list, int cpu, const cpu_set_t *usable) {
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        const long from = strtol(at, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        for (long i = from; i <= to && i < CPU_SETSIZE; i++)
            if (CPU_ISSET((size_t)i, usable)) return (int)i;
        at = *end == ',' ? end + 1 : "";
    }
    return cpu;
}

static int larger_first(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

int32_t ls_cores_in(const char *folder, const cpu_set_t *usable) {
    static const char *const lists[] = {"topology/core_cpus_list", "topology/thread_siblings_list"};
    int capacity[CPU_SETSIZE], n = 0, best = 1;
    char text[256];
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, usable)) continue;
        int first = cpu;
        for (int i = 0; i < 2; i++)
            if (read_text(folder, cpu, lists[i], text, sizeof text)) {
                first = first_of(text, cpu, usable);
                break;
            }
        if (first != cpu) continue;
        const int told = read_text(folder, cpu, "cpu_capacity", text, sizeof text) ? atoi(text) : 0;
        capacity[n++] = told > 0 && told <= 1024 ? told : 1024;
    }
    qsort(capacity, (size_t)n, sizeof *capacity, larger_first);
    // Equal parts end with the slowest core: i cores have the throughput of i times the i-th capacity.
    for (int i = 2; i <= n; i++)
        if (i * capacity[i - 1] >= best * capacity[best - 1]) best = i;
    return best;
}

// LOGITSPEC_PROCESSORS; 0: not set.
static int32_t said(void) {
    const char *text = getenv("LOGITSPEC_PROCESSORS");
    const int n = text ? atoi(text) : 0;
    return n > 0 ? n : 0;
}

static bool affinity(cpu_set_t *set) {
    CPU_ZERO(set);
    return !sched_getaffinity(0, sizeof *set, set);
}

static int32_t cut_by_quota(int32_t n) {
    const double most = ceil(ls_cgroup_limits().processors);
    return most < 1 ? 1 : most < n ? (int32_t)most : n;
}

int32_t ls_processors(void) {
    cpu_set_t set;
    return said() ? said() : cut_by_quota(affinity(&set) ? CPU_COUNT(&set) : 1);
}

int32_t ls_cores(void) {
    cpu_set_t set;
    return said() ? said() : cut_by_quota(affinity(&set) ? ls_cores_in("/sys/devices/system/cpu", &set) : 1);
}

// The value after "KEY : " in the first line that begins with the key.
static void read_cpuinfo(const char *key, char *out, size_t size) {
    char text[256];
    ls_sysfile_line("/proc/cpuinfo", key, text, sizeof text);
    snprintf(out, size, "%s", text + strspn(text, ": \t"));
}

void ls_processor_name(char *out, size_t size) {
    char family[32], model[32];
    read_cpuinfo("model name", out, size);
    if (!*out) read_cpuinfo("CPU part", out, size); // Arm's
    if (!*out) snprintf(out, size, "unknown processor");
    read_cpuinfo("cpu family", family, sizeof family);
    read_cpuinfo("model\t", model, sizeof model);
    const size_t n = strlen(out);
    if (*family && *model) snprintf(out + n, size - n, " (family %s, model %s)", family, model);
}
