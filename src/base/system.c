#include "base/system.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t ls_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void ls_cond_init(pthread_cond_t *c) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec ls_time_after(uint64_t ns) {
    const uint64_t at = ls_now_ns() + ns;
    return (struct timespec){(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
}

bool ls_thread_start(pthread_t *t, void *(*run)(void *ud), void *ud) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(t, NULL, run, ud);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

bool ls_sysfile_line(const char *path, const char *key, char *out, size_t size) {
    char line[512];
    const size_t n = strlen(key);
    bool found = false;
    FILE *f = fopen(path, "re");
    *out = 0;
    while (f && !found && fgets(line, sizeof line, f))
        if ((found = !strncmp(line, key, n))) snprintf(out, size, "%.*s", (int)strcspn(line + n, "\n"), line + n);
    if (f) fclose(f);
    return found;
}

// ---- CPUs

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

static ls_cgroup limits(void) {
    return ls_cgroup_limits_in("/sys/fs/cgroup", "/proc/self/cgroup");
}

static int32_t cut_by_quota(int32_t n) {
    const double most = ceil(limits().processors);
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

// ---- control groups

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

// ---- memory

uint64_t ls_memory_free(void) {
    char text[64];
    ls_sysfile_line("/proc/meminfo", "MemAvailable:", text, sizeof text);
    const uint64_t n = 1024 * strtoull(text, NULL, 10);
    const double left = limits().memory_bytes;
    if (n ? left >= (double)n : left > 1e18) return n;
    return left < 1 ? 1 : (uint64_t)left; // 0 means unknown
}

// ---- load

// Sums over living threads, in ns. The counters of a thread vanish when it exits, so a sum may fall.
static bool read_threads(uint64_t *ran, uint64_t *waited) {
    DIR *dir = opendir("/proc/self/task");
    bool any = false;
    *ran = *waited = 0;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], text[100];
        unsigned long long r, q;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        if (!ls_sysfile_line(path, "", text, sizeof text) || sscanf(text, "%llu %llu", &r, &q) != 2) continue;
        *ran += r;
        *waited += q;
        any = true;
    }
    if (dir) closedir(dir);
    return any;
}

// Clock ticks of all CPUs since the start of the system; used includes stolen.
static void read_machine(uint64_t *used, uint64_t *stolen) {
    unsigned long long user, nice, system, idle, io, irq, soft, steal;
    char text[300];
    *used = *stolen = 0;
    ls_sysfile_line("/proc/stat", "cpu ", text, sizeof text);
    if (sscanf(text, "%llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &io, &irq, &soft,
               &steal) != 8)
        return;
    *used = user + nice + system + irq + soft + steal;
    *stolen = steal;
}

// The interval between readings begins with LEAST_NS and doubles up to every_ns, so that a short run has a value too.
static bool is_due(const ls_cpu_wait *w, uint64_t now, uint64_t every_ns) {
    enum { LEAST_NS = 20000000 };
    const uint64_t known = w->at_ns - w->first_ns, pause = known > LEAST_NS ? known : LEAST_NS;
    return now - w->at_ns >= (pause < every_ns ? pause : every_ns);
}

double ls_cpu_wait_share(ls_cpu_wait *w, uint64_t every_ns) {
    const uint64_t now = ls_now_ns();
    if (!w->at_ns) {
        w->share = NAN;
        w->first_ns = now;
    } else if (!is_due(w, now, every_ns)) return w->share;
    ls_cpu_wait next = {.first_ns = w->first_ns, .at_ns = now, .share = NAN};
    if (!read_threads(&next.ran_ns, &next.waited_ns)) return w->share;
    read_machine(&next.used, &next.stolen);
    // If a sum fell, a thread has exited: the difference would be wrong, and the share stays NAN.
    if (w->at_ns && next.ran_ns >= w->ran_ns && next.waited_ns >= w->waited_ns) {
        const double ran = (double)(next.ran_ns - w->ran_ns), waited = (double)(next.waited_ns - w->waited_ns);
        const bool known = w->used && next.used > w->used && next.stolen >= w->stolen; // /proc/stat was read both times
        if (ran + waited > 0) next.share = waited / (ran + waited);
        // A thread that "ran" lost a part of that time to the host, too: the shares of time that remains multiply.
        if (!isnan(next.share) && known)
            next.share = 1 - (1 - next.share) * (1 - (double)(next.stolen - w->stolen) / (double)(next.used - w->used));
    }
    *w = next;
    return w->share;
}
