#include "base/rng.h"
#include "base/mem.h"
#include "base/system.h"

#include <math.h>
#include <stdlib.h>
#include <sys/random.h>

void ls_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

double ls_uniform_at(uint64_t seed, uint64_t position) {
    return ls_uniform_of(seed, position, 0);
}

double ls_uniform_of(uint64_t seed, uint64_t position, uint32_t stream) {
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), stream, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, r[4];
    ls_philox4x32_10(counter, key, r);
    uint64_t bits = ((uint64_t)r[0] << 32 | r[1]) >> 11;
    return (double)bits * 0x1p-53;
}

uint64_t ls_seed_draw(void) {
    uint64_t seed;
    // 53 bits, so that the seed survives a round trip through any JSON reader
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = ls_now_ns();
    return seed >> 11;
}

double ls_distinct_at_random(int32_t n, int32_t each, int32_t rows) {
    return n * (1 - pow(1 - (double)each / n, rows));
}

// ---- choosing a token

typedef struct {
    float logit;
    int32_t id;
} candidate;

static int better_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

enum { LEAST = -45, IN_ONE = 16, CLASSES = -LEAST * IN_ONE }; // smallest exponent, classes per unit, classes

static int class_of(double exponent) { // 0: the largest weights
    return (int)(exponent * -IN_ONE);
}

// Fills c with the candidates that remain after top_k and top_p, best first; returns their number. A token's weight is
// exp((logit - max) * inv); *mass: the sum of the candidates' weights. Tokens with exponents below LEAST cannot change
// a sum of doubles and are skipped. Tokens are counted in classes of similar weight; the classes give the lowest weight
// of a candidate, so that only few tokens are sorted.
static int32_t cut(const float *logits, int32_t n, double max, double inv, int32_t k, double top_p, candidate *c,
                   double *mass) {
    int32_t count[CLASSES + 1] = {0}, m = 0, kept = 0, last = 0;
    double weight[CLASSES + 1] = {0}, all = 0;
    for (int32_t i = 0; i < n; i++) {
        const double x = (logits[i] - max) * inv;
        if (!(x > LEAST)) continue;
        count[class_of(x)]++;
        if (k == n) weight[class_of(x)] += exp(x);
    }
    for (int i = 0; i <= CLASSES; i++) all += weight[i];
    // 1 + 1e-9: the sum of sorted weights, which decides below, may differ from `all` in its last bits
    const double enough = top_p * all * (1 + 1e-9);
    double reached = weight[0];
    for (int32_t counted = count[0]; last < CLASSES && (k == n ? reached < enough : counted < k);) {
        counted += count[++last];
        reached += weight[last];
    }
    for (int32_t i = 0; i < n; i++) {
        const double x = (logits[i] - max) * inv;
        if (x > LEAST && class_of(x) <= last) c[m++] = (candidate){logits[i], i};
    }
    qsort(c, (size_t)m, sizeof *c, better_first);
    if (m > k) m = k;
    if (k < n)
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

// Without top_k and top_p: inverts the cumulative distribution in id order. The sums before each block give the block
// in which the search ends.
static int32_t walk(const float *logits, int32_t n, int32_t best, double inv, double u) {
    enum { BLOCK = 512 };
    const double max = logits[best];
    double *before = ls_malloc(((size_t)n / BLOCK + 1) * sizeof *before), mass = 0;
    for (int32_t i = 0; i < n; i++) {
        if (i % BLOCK == 0) before[i / BLOCK] = mass;
        mass += exp((logits[i] - max) * inv);
    }
    const double goal = u * mass;
    int32_t block = (n - 1) / BLOCK, chosen = best;
    while (block > 0 && before[block] > goal) block--;
    double sum = before[block];
    for (int32_t i = block * BLOCK; i < n; i++) {
        const double p = exp((logits[i] - max) * inv);
        if (p > 0) chosen = i;
        if ((sum += p) > goal) break;
    }
    free(before);
    return chosen;
}

static double inverse(double temperature) {
    return 1.0 / (temperature > LS_LEAST_TEMPERATURE ? temperature : LS_LEAST_TEMPERATURE);
}

int32_t ls_sample(const float *logits, int32_t n, double temperature, int32_t top_k, double top_p, uint64_t seed,
                  uint64_t position) {
    const int32_t best = best_of(logits, n);
    if (temperature <= 0) return best;
    const double inv = inverse(temperature), max = logits[best], u = ls_uniform_at(seed, position);
    const int32_t k = top_k > 0 && top_k < n ? top_k : n;
    if (k == n && top_p >= 1) return walk(logits, n, best, inv, u);
    candidate *c = ls_malloc((size_t)n * sizeof *c);
    double mass;
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
    const double inv = inverse(temperature), max = logits[best];
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
