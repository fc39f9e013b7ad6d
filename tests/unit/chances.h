// Tests of chances.
#pragma once
#include <stdint.h>

double test_chi_square_p(double x, int degrees); // the upper tail of the chi-square distribution
// Pearson's test of so many draws, of which seen[i] were i, whose chance is p[i]; what is expected fewer than five
// times is one class.
double test_agreement(const int *seen, const double *p, int32_t n, int draws);
