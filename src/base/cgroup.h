// CPU and memory limits by control groups (cgroups(7), versions 1 and 2), which containers, service managers and batch
// systems use. Groups nest: the smallest limit counts, from the process's own group up to the outermost visible group.
#pragma once

typedef struct {
    double processors;   // CPU seconds per second; INFINITY: no limit
    double memory_bytes; // limit minus usage, which excludes inactive file cache; INFINITY: no limit
} ls_cgroup;

ls_cgroup ls_cgroup_limits(void);
// The same with other paths for /sys/fs/cgroup and /proc/self/cgroup. A missing or malformed file sets no limit.
ls_cgroup ls_cgroup_limits_in(const char *mount, const char *membership);
