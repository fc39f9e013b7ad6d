#include "spec/rates.h"

// A prior weighs as much as so many trials; a rate remembers about so many.
static const float PRIOR_TRIALS = 12, MEMORY = 400;

enum { COPIED = 0, REMEMBERED = 28, GUESSED = 28 + 80 };

// Copied tokens by length of agreement (1, 2, 3, 4, 5-6, 7-9, 10 or more) and what the remembered choices say
// (nothing known, not among them, first, among them).
static const float copied_prior[7][4] = {
    {0.27f, 0.10f, 0.65f, 0.25f}, {0.50f, 0.20f, 0.80f, 0.35f}, {0.72f, 0.35f, 0.90f, 0.50f},
    {0.80f, 0.45f, 0.93f, 0.55f}, {0.86f, 0.50f, 0.95f, 0.60f}, {0.90f, 0.55f, 0.96f, 0.65f},
    {0.95f, 0.60f, 0.98f, 0.70f},
};
// Remembered tokens by rank (0, 1, 2, 3-4, 5-7) and probability (below .05, .2, .5, above), after the same pair.
static const float remembered_prior[5][4] = {
    {0.06f, 0.14f, 0.33f, 0.65f}, {0.05f, 0.12f, 0.25f, 0.30f}, {0.04f, 0.09f, 0.15f, 0.15f},
    {0.02f, 0.06f, 0.08f, 0.08f}, {0.01f, 0.03f, 0.03f, 0.03f},
};
// Guesses from the last logits by rank (1, 2, 3-4, 5-8, 9-16, 17-32, beyond) and share of what is left beside the root
// (below .01, .05, .2, above): measured on the paper's trees.
static const float guessed_prior[7][4] = {
    {0.01f, 0.02f, 0.029f, 0.056f},    {0.02f, 0.036f, 0.032f, 0.035f}, {0.016f, 0.021f, 0.023f, 0.06f},
    {0.014f, 0.011f, 0.021f, 0.02f},   {0.009f, 0.007f, 0.01f, 0.01f},  {0.005f, 0.0034f, 0.004f, 0.004f},
    {0.0022f, 0.002f, 0.002f, 0.002f},
};

static int bucket(int32_t v, const int32_t *below, int n) {
    int b = 0;
    while (b < n && v >= below[b]) b++;
    return b;
}

static int share(float p, float a, float b, float c) {
    return p < a ? 0 : p < b ? 1 : p < c ? 2 : 3;
}

int32_t ls_rate_key(const ls_features *f) {
    static const int32_t agreement[] = {2, 3, 4, 5, 7, 10}, succ[] = {1, 2, 3, 5}, last[] = {2, 3, 5, 9, 17, 33};
    if (f->agree > 0) {
        int says = !f->known ? 0 : f->succ_rank < 0 ? 1 : f->succ_rank == 0 ? 2 : 3;
        return COPIED + bucket(f->agree, agreement, 6) * 4 + says;
    }
    if (f->succ_rank >= 0)
        return REMEMBERED + ((f->pair * 2 + (f->last_rank >= 0)) * 5 + bucket(f->succ_rank, succ, 4)) * 4 +
               share(f->succ_p, 0.05f, 0.2f, 0.5f);
    return GUESSED + bucket(f->last_rank, last, 6) * 4 + share(f->last_p, 0.01f, 0.05f, 0.2f);
}

void ls_rates_init(ls_rates *r) {
    for (int k = 0; k < LS_RATE_KEYS; k++) {
        float p;
        if (k < REMEMBERED) p = copied_prior[k / 4][k % 4];
        else if (k < GUESSED) {
            const int at = k - REMEMBERED;
            p = remembered_prior[at / 4 % 5][at % 4] * (at < 40 ? 0.5f : 1.0f); // after one token: half as sure
        } else p = guessed_prior[(k - GUESSED) / 4][(k - GUESSED) % 4];
        r->hit[k] = p * PRIOR_TRIALS;
        r->trial[k] = PRIOR_TRIALS;
    }
}

double ls_rate(const ls_rates *r, int32_t key) {
    return (double)r->hit[key] / (double)r->trial[key];
}

void ls_rates_learn(ls_rates *r, int32_t key, bool hit) {
    r->hit[key] += hit;
    r->trial[key] += 1;
    if (r->trial[key] > MEMORY) {
        r->hit[key] /= 2;
        r->trial[key] /= 2;
    }
}
