// What is saved when the process ends against its will: memory is out, or a library calls abort() or exit().
#pragma once
#include <stddef.h>

// Called in whichever thread the end comes from. Memory that was kept aside is free again. What it writes to said (one
// line, n bytes with the NUL) follows the message. The other threads go on meanwhile.
typedef void (*ls_rescue)(void *ud, char *said, size_t n);
// A few of these; the last one that came is called first. Taken back by the same pair: main returns with none left.
void ls_rescue_add(ls_rescue rescue, void *ud);
void ls_rescue_remove(ls_rescue rescue, void *ud);
// Runs them all, writes "logitspec: why; what they said" to standard error, and ends the process with exit code 1.
_Noreturn void ls_rescue_and_end(const char *why);
