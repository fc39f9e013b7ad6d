// Callbacks that save data when the process must end: memory is out, or a library calls abort() or exit().
#pragma once
#include <stddef.h>

// Called in the thread that ends the process; other threads keep running. A memory reserve is free again. The callback
// may write one line to said (n bytes with the NUL), which is appended to the message.
typedef void (*ls_rescue)(void *ud, char *said, size_t n);
// At most 8; the last one added is called first. Remove takes the same pair. None may be left when main returns.
void ls_rescue_add(ls_rescue rescue, void *ud);
void ls_rescue_remove(ls_rescue rescue, void *ud);
// Runs all rescues, writes "logitspec: why; their lines" to standard error, and ends the process with exit code 1.
_Noreturn void ls_rescue_and_end(const char *why);
