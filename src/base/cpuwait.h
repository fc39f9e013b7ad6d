// How busy the machine is with other work: the share of the time in which threads of this process could have run that
// they waited, because other programs had the processors (/proc/self/task/*/schedstat) or the host of a virtual machine
// did (the steal of /proc/stat). Linux only; elsewhere, and where the kernel keeps no such counts, it is not known.
#pragma once
#include <stdint.h>

#define LS_BUSY 0.1 // from this share on, the machine is busy with other work, and times tell little

// Zeroed: nothing was read yet. Not thread-safe; each owner has its own.
typedef struct {
    uint64_t first_ns;                 // of the first reading
    uint64_t at_ns, ran_ns, waited_ns; // of the last reading; of all threads
    uint64_t used, stolen;             // of the whole machine, clock ticks
    double share;                      // between the last two readings; NAN: not known
} ls_cpu_wait;

// 0 (none waited) to 1; NAN: not known yet. Reads the counters when `every_ns` have passed since the last reading, and
// sooner soon after the first one: some microseconds a thread. every_ns 0: now.
double ls_cpu_wait_share(ls_cpu_wait *w, uint64_t every_ns);
