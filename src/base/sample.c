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

int32_t ls_sample(const float *logits, int32_t n, double temperature, int32_t top_k, double top_p, uint64_t seed,
                  uint64_t position) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
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
    /* Tokens too unlikely to move a double sum are left out before sorting. */
    candidate *c = ls_malloc((size_t)n * sizeof *c);
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++)
        if ((logits[i] - max) * inv > -45) c[m++] = (candidate){logits[i], i};
    qsort(c, (size_t)m, sizeof *c, better_first);
    if (m > k) m = k;
    for (int32_t i = 0; i < m; i++) mass += exp((c[i].logit - max) * inv);
    int32_t cut = 0;
    double kept = 0;
    while (cut < m) { /* the smallest set whose probability reaches top_p */
        kept += exp((c[cut].logit - max) * inv);
        cut++;
        if (kept >= top_p * mass) break;
    }
    double goal = u * kept, sum = 0;
    int32_t chosen = c[cut - 1].id;
    for (int32_t i = 0; i < cut; i++)
        if ((sum += exp((c[i].logit - max) * inv)) > goal) {
            chosen = c[i].id;
            break;
        }
    free(c);
    return chosen;
}
