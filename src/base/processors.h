// The CPUs of this machine, and how many threads may share a computation.
#pragma once
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

// CPUs that this process may use: its affinity mask, limited by the quotas of control groups (base/cgroup.h).
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
