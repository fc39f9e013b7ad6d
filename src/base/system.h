// The machine and what it grants this process: time, threads, CPUs, memory, and other programs' load.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

uint64_t ls_now_ns(void); // monotonic

// Starts a thread with all signals blocked, so that the main thread or the thread of the screen handles them. Threads
// that run() starts inherit the blocked signals. False: the system cannot start a thread.
bool ls_thread_start(pthread_t *t, void *(*run)(void *ud), void *ud);

// A condition whose waits end at such a time: a change of the system time does not change them.
void ls_cond_init(pthread_cond_t *c);
struct timespec ls_time_after(uint64_t ns); // from now

// A system file with facts and limits of the machine (/proc, /sys): finds the first line that begins with key ("": the
// first line) and copies the text after key to out, without the newline, cut to size. False: there is no such file or
// line, and out is "".
bool ls_sysfile_line(const char *path, const char *key, char *out, size_t size);

// CPUs that this process may use: its affinity mask, limited by the quotas of control groups.
// LOGITSPEC_PROCESSORS=N overrides the number, so that tests divide the work as on larger machines.
int32_t ls_processors(void);

// The default number of threads that share work in equal parts: one for each core of those CPUs, because hardware
// threads share the arithmetic of their core. If cores have different capacities (Arm's big.LITTLE), the slowest core
// determines the time: the number of fastest cores with the highest throughput.
int32_t ls_cores(void);

// The same without quota and variable, from a folder such as /sys/devices/system/cpu. For CPU N it reads
// cpuN/topology/core_cpus_list (thread_siblings_list before Linux 5.3) and cpuN/cpu_capacity. A CPU without these files
// counts as a core. Returns at least 1.
int32_t ls_cores_in(const char *folder, const cpu_set_t *usable);

// Name of the CPU with family and model ("AMD EPYC (family 25, model 1)"): virtual machines hide the rest of the name.
void ls_processor_name(char *out, size_t size);

// CPU and memory limits by control groups (cgroups(7), versions 1 and 2), which containers, service managers and batch
// systems use. Groups nest: the smallest limit counts, from the process's own group up to the outermost visible group.
typedef struct {
    double processors;   // CPU seconds per second; INFINITY: no limit
    double memory_bytes; // limit minus usage, which excludes inactive file cache; INFINITY: no limit
} ls_cgroup;

// mount, membership: /sys/fs/cgroup and /proc/self/cgroup. A missing or malformed file sets no limit.
ls_cgroup ls_cgroup_limits_in(const char *mount, const char *membership);

// Bytes that this process may still use: the available memory of the system, limited by control groups. 0: not known.
uint64_t ls_memory_free(void);

// How busy the machine is with other programs: threads of this process wait for a CPU, because other programs use it
// (/proc/self/task/*/schedstat) or the host of a virtual machine does (steal in /proc/stat). The share is waiting time
// divided by runnable time (waiting or running). Unknown if the kernel has no such counters.

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
