// How busy the machine is with other programs: threads of this process wait for a CPU, because other programs use it
// (/proc/self/task/*/schedstat) or the host of a virtual machine does (steal in /proc/stat). The share is waiting time
// divided by runnable time (waiting or running). Unknown if the kernel has no such counters.
#pragma once
#include <stdint.h>

#define LS_BUSY 0.1 // from this share on, the machine counts as busy: measured times are unreliable

// Zero-initialise. Not thread-safe: one per owner.
typedef struct {
    uint64_t first_ns;                 // of the first reading
    uint64_t at_ns, ran_ns, waited_ns; // of the last reading; of all threads
    uint64_t used, stolen;             // of the whole machine, clock ticks
    double share;                      // between the last two readings; NAN: not known
} ls_cpu_wait;

// Returns 0 (no thread waited) to 1; NAN: not known yet. Reads the counters (some microseconds per thread) if
// `every_ns` have passed since the last reading; soon after the first reading, the interval is shorter. every_ns 0:
// reads now.
double ls_cpu_wait_share(ls_cpu_wait *w, uint64_t every_ns);
