// Bytes that this process may still use: the available memory of the system, limited by control groups. 0: not known.
#pragma once
#include <stdint.h>

uint64_t ls_memory_free(void);
