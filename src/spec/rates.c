#include "spec/rates.h"

// A prior weighs as much as so many trials; a rate remembers about so many.
static const float PRIOR_TRIALS = 12, MEMORY = 400;

enum { COPIED = 0, REMEMBERED = 28, GUESSED = 28 + 80 };

// Copied tokens by length of agreement (1, 2, 3, 4, 5-6, 7-9, 10 or more) and what the remembered choices say (nothing
// known, not among them, first, among them); remembered tokens by key (one token, one and in the last logits, a pair, a
// pair and in the last logits), rank (0, 1, 2, 3-4, 5-7) and probability (below .05, .2, .5, above); guesses from the
// last logits by rank (1, 2, 3-4, 5-8, 9-16, 17-32, beyond) and share of what is left beside the root (below .01, .05,
// .2, above).
static const float prior[LS_RATE_KEYS] = {
#include "spec/rates_prior.inc"
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
    *r = (ls_rates){0};
    for (int k = 0; k < LS_RATE_KEYS; k++) {
        r->hit[k] = prior[k] * PRIOR_TRIALS;
        r->trial[k] = PRIOR_TRIALS;
    }
}

double ls_rate(const ls_rates *r, int32_t key) {
    return (double)r->hit[key] / (double)r->trial[key];
}

void ls_rates_learn(ls_rates *r, int32_t key, bool hit) {
    r->hits[key] += hit;
    r->trials[key]++;
    r->hit[key] += hit;
    r->trial[key] += 1;
    if (r->trial[key] > MEMORY) {
        r->hit[key] /= 2;
        r->trial[key] /= 2;
    }
}
