#include "base/cgroup.h"
#include "base/sysfile.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number after key (which ends with a space; "": at the start) in a group's file; *second: the number after it.
// NAN: there is no number, or it is "max".
static double number(const char *folder, const char *file, const char *key, double *second) {
    char path[PATH_MAX], text[64], *end;
    if (second) *second = NAN;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path ||
        !ls_sysfile_line(path, key, text, sizeof text) || *text < '0' || *text > '9')
        return NAN;
    const double v = strtod(text, &end);
    if (second) *second = strtod(end, NULL);
    return v;
}

static void cut(double *to, double limit) {
    if (limit < *to) *to = limit; // false for NAN: no limit
}

static void cut_memory(ls_cgroup *c, const char *folder, const char *limit, const char *used, const char *cached) {
    const double most = number(folder, limit, "", NULL);
    if (isnan(most)) return;
    const double in_use = number(folder, used, "", NULL) - fmax(0, number(folder, "memory.stat", cached, NULL));
    cut(&c->memory_bytes, fmax(0, most - fmax(0, in_use))); // if usage is unknown, fmax(0, NAN) is 0
}

enum { CPU = 1, MEMORY = 2, UNIFIED = 4 }; // the controllers of a hierarchy; version 2 has one hierarchy for all

static void read_group(ls_cgroup *c, const char *folder, int controllers) {
    double period;
    if (controllers & UNIFIED) {
        const double quota = number(folder, "cpu.max", "", &period);
        if (period > 0) cut(&c->processors, quota / period);
        cut_memory(c, folder, "memory.max", "memory.current", "inactive_file ");
    }
    if (controllers & CPU) {
        const double quota = number(folder, "cpu.cfs_quota_us", "", NULL);
        period = number(folder, "cpu.cfs_period_us", "", NULL);
        if (period > 0) cut(&c->processors, quota / period);
    }
    if (controllers & MEMORY)
        cut_memory(c, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ");
}

// Reads the group and all its parents. In a container, the path may be that of the host: missing folders set no limit,
// and a path with ".." falls back to the root.
static void read_groups(ls_cgroup *c, const char *root, const char *group, int controllers) {
    char folder[PATH_MAX];
    const size_t n_root = strlen(root);
    if (snprintf(folder, sizeof folder, "%s%s", root, strstr(group, "/..") ? "" : group) >= (int)sizeof folder) return;
    for (char *end = folder; end;) {
        read_group(c, folder, controllers);
        if ((end = strrchr(folder + n_root, '/'))) *end = 0;
    }
}

static int controllers_of(char *names) { // of version 1, such as "cpu,cpuacct"
    int all = 0;
    for (char *rest = names, *name; (name = strsep(&rest, ","));)
        all |= !strcmp(name, "cpu") ? CPU : !strcmp(name, "memory") ? MEMORY : 0;
    return all;
}

ls_cgroup ls_cgroup_limits_in(const char *mount, const char *membership) {
    static const struct {
        const char *folder;
        int controllers;
    } roots[] = {{"", UNIFIED}, {"/unified", UNIFIED}, {"/cpu", CPU}, {"/memory", MEMORY}};
    ls_cgroup c = {.processors = INFINITY, .memory_bytes = INFINITY};
    char line[PATH_MAX], root[PATH_MAX];
    FILE *f = fopen(membership, "re");
    while (f && fgets(line, sizeof line, f)) { // 0::PATH, or ID:CONTROLLERS:PATH
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group || group[1] != '/') continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const int controllers = names[1] ? controllers_of(names + 1) : UNIFIED;
        for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
            if (controllers & roots[i].controllers &&
                snprintf(root, sizeof root, "%s%s", mount, roots[i].folder) < (int)sizeof root)
                read_groups(&c, root, group, roots[i].controllers);
    }
    if (f) fclose(f);
    return c;
}

ls_cgroup ls_cgroup_limits(void) {
    return ls_cgroup_limits_in("/sys/fs/cgroup", "/proc/self/cgroup");
}
