// Memory that this process may still use: what the system says is available, cut by a cgroup's limit. 0: not known.
#pragma once
#include <stdint.h>

uint64_t ls_memory_free(void);
