// Times of single kernels (times.c).
#pragma once

void kernel_times(int tiny); // tiny: small shapes, once, for the emulated device
