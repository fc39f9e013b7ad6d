#include "base/sample.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    float logit;
    int32_t id;
} candidate;

static int better_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// The candidates that top_k and top_p leave, best first: returns how many. *mass: the sum of their weights, which are
// exp((logit - max) * inv). Tokens too unlikely to move a double sum are left out before sorting.
static int32_t cut(const float *logits, int32_t n, double max, double inv, int32_t k, double top_p, candidate *c,
                   double *mass) {
    int32_t m = 0, kept = 0;
    double all = 0;
    for (int32_t i = 0; i < n; i++)
        if ((logits[i] - max) * inv > -45) c[m++] = (candidate){logits[i], i};
    qsort(c, (size_t)m, sizeof *c, better_first);
    if (m > k) m = k;
    for (int32_t i = 0; i < m; i++) all += exp((c[i].logit - max) * inv);
    *mass = 0;
    while (kept < m) { /* the smallest set whose probability reaches top_p */
        *mass += exp((c[kept].logit - max) * inv);
        kept++;
        if (*mass >= top_p * all) break;
    }
    return kept;
}

static int32_t best_of(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

int32_t ls_sample(const float *logits, int32_t n, double temperature, int32_t top_k, double top_p, uint64_t seed,
                  uint64_t position) {
    const int32_t best = best_of(logits, n);
    if (temperature <= 0) return best;
    const double inv = 1.0 / temperature, max = logits[best], u = ls_uniform_at(seed, position);
    double mass = 0;
    const int32_t k = top_k > 0 && top_k < n ? top_k : n;
    if (k == n && top_p >= 1) { /* nothing to cut: walk the vocabulary in id order */
        for (int32_t i = 0; i < n; i++) mass += exp((logits[i] - max) * inv);
        double goal = u * mass, sum = 0;
        int32_t last = best;
        for (int32_t i = 0; i < n; i++) {
            double p = exp((logits[i] - max) * inv);
            if (p > 0) last = i;
            if ((sum += p) > goal) return i;
        }
        return last;
    }
    candidate *c = ls_malloc((size_t)n * sizeof *c);
    const int32_t kept = cut(logits, n, max, inv, k, top_p, c, &mass);
    double goal = u * mass, sum = 0;
    int32_t chosen = c[kept - 1].id;
    for (int32_t i = 0; i < kept; i++)
        if ((sum += exp((c[i].logit - max) * inv)) > goal) {
            chosen = c[i].id;
            break;
        }
    free(c);
    return chosen;
}

void ls_sample_shape(const float *logits, int32_t n, double temperature, int32_t top_k, double top_p, float *p) {
    const int32_t best = best_of(logits, n), k = top_k > 0 && top_k < n ? top_k : n;
    if (temperature <= 0) {
        for (int32_t i = 0; i < n; i++) p[i] = i == best;
        return;
    }
    const double inv = 1.0 / temperature, max = logits[best];
    double mass = 0;
    if (k == n && top_p >= 1) {
        for (int32_t i = 0; i < n; i++) mass += exp((logits[i] - max) * inv);
        for (int32_t i = 0; i < n; i++) p[i] = (float)(exp((logits[i] - max) * inv) / mass);
        return;
    }
    candidate *c = ls_malloc((size_t)n * sizeof *c);
    const int32_t kept = cut(logits, n, max, inv, k, top_p, c, &mass);
    for (int32_t i = 0; i < n; i++) p[i] = 0;
    for (int32_t i = 0; i < kept; i++) p[c[i].id] = (float)(exp((c[i].logit - max) * inv) / mass);
    free(c);
}

int32_t ls_sample_from(const float *p, int32_t n, double u) {
    double mass = 0, sum = 0;
    int32_t last = -1;
    for (int32_t i = 0; i < n; i++) mass += (double)p[i];
    for (int32_t i = 0; i < n; i++) {
        if (!(p[i] > 0)) continue;
        last = i;
        if ((sum += (double)p[i]) > u * mass) break;
    }
    return last;
}
