// Monotonic time in nanoseconds.
#pragma once
#include <stdint.h>

uint64_t ls_now_ns(void);
