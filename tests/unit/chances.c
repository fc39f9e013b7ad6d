#include "chances.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

// The regularised incomplete gamma function Q(k/2, x/2).
double test_chi_square_p(double x, int degrees) {
    const double a = degrees / 2.0, z = x / 2, scale = exp(a * log(z) - z - lgamma(a));
    if (z < a + 1) { // the series of the lower tail
        double term = 1 / a, sum = term;
        for (int i = 1; term > sum * 1e-15; i++) sum += term *= z / (a + i);
        return 1 - scale * sum;
    }
    double b = z + 1 - a, c = 1e300, d = 1 / b, h = d; // Lentz's continued fraction
    for (int i = 1; i < 10000; i++) {
        const double an = -i * (i - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        h *= c * d;
        if (fabs(c * d - 1) < 1e-15) break;
    }
    return scale * h;
}

double test_agreement(const int *seen, const double *p, int32_t n, int draws) {
    double x = 0, rare = 0, rare_seen = 0;
    int classes = 0;
    for (int32_t i = 0; i < n; i++) {
        const double e = p[i] * draws;
        if (e < 5) {
            rare += e;
            rare_seen += seen[i];
            continue;
        }
        x += (seen[i] - e) * (seen[i] - e) / e;
        classes++;
    }
    if (rare >= 5) x += (rare_seen - rare) * (rare_seen - rare) / rare, classes++;
    assert_true(classes > 1);
    return test_chi_square_p(x, classes - 1);
}
