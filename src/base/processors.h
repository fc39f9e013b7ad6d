// The processors of this machine, as threads that compute together see them.
#pragma once
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

// Those that this process may use: its affinity mask, cut by the quotas of control groups (base/cgroup.h).
// LOGITSPEC_PROCESSORS=N says another number, so that tests divide the work as larger machines do.
int32_t ls_processors(void);

// Threads that share work in equal parts, where nobody says or measured how many: one for each core of those
// processors, for the threads of a core share its arithmetic. Where cores have different capacities (Arm's big.LITTLE),
// the slowest takes longest over its part: so many of the fastest ones as do most in a time.
int32_t ls_cores(void);

// The same without quota and variable, of a folder such as /sys/devices/system/cpu: of CPU N it reads
// cpuN/topology/core_cpus_list (thread_siblings_list before Linux 5.3) and cpuN/cpu_capacity. A CPU of which nothing is
// told is a core. At least 1.
int32_t ls_cores_in(const char *folder, const cpu_set_t *usable);

// Their name with family and model ("AMD EPYC (family 25, model 1)"): virtual machines hide the rest of a
// name.
void ls_processor_name(char *out, size_t size);
