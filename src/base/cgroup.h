// What the control groups (cgroups(7), versions 1 and 2) leave the process: containers, service managers and batch
// systems limit by them. Groups nest, so the least limit counts of those from the process's own group up to the
// outermost that it can see.
#pragma once

typedef struct {
    double processors;   // CPU time a second; INFINITY: no limit
    double memory_bytes; // the limit less what is used, without the cached files that nobody read lately; INFINITY
} ls_cgroup;

ls_cgroup ls_cgroup_limits(void);
// The same of other places than /sys/fs/cgroup and /proc/self/cgroup. What is missing or makes no sense is no limit.
ls_cgroup ls_cgroup_limits_in(const char *mount, const char *membership);
