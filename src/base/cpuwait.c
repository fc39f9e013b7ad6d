#include "base/cpuwait.h"
#include "base/clock.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

// Sums over living threads, in ns. The counters of a thread vanish when it exits, so a sum may fall.
static bool read_threads(uint64_t *ran, uint64_t *waited) {
    DIR *dir = opendir("/proc/self/task");
    bool any = false;
    *ran = *waited = 0;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        unsigned long long r, q;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        if (fscanf(f, "%llu %llu", &r, &q) == 2) {
            *ran += r;
            *waited += q;
            any = true;
        }
        fclose(f);
    }
    if (dir) closedir(dir);
    return any;
}

// Clock ticks of all CPUs since the start of the system; used includes stolen.
static void read_machine(uint64_t *used, uint64_t *stolen) {
    unsigned long long user, nice, system, idle, io, irq, soft, steal;
    FILE *f = fopen("/proc/stat", "re");
    *used = *stolen = 0;
    if (!f) return;
    if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &io, &irq, &soft,
               &steal) == 8) {
        *used = user + nice + system + irq + soft + steal;
        *stolen = steal;
    }
    fclose(f);
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
