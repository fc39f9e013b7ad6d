// Times of single kernels (times.c).
#pragma once

// what: "" or "small" (each kernel, on the shapes of an 8B model or SmolLM2), "tiny" (once, for the emulated device),
// "cuts" or "cuts-small" (matmuls and their readers by the number of chunks, on the shapes of an 8B model and of
// SmolLM2). only: a kernel's name, format and number of rows, which alone are timed; NULL: all.
void kernel_times(const char *what, char **only);
