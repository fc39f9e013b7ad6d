// Fuzzy speculative decoding (arXiv 2502.20704): a draft stands where target and draft distributions are near each
// other, whatever the target chose. The draft distribution here is the drafter's estimate: one outcome for each child
// of the row and one for everything else. On these outcomes a divergence is at most that of the whole distributions.
#include "spec/accept.h"

#include <math.h>

typedef double (*divergence)(double p, double q); // one outcome's part; p: the target's

static double kl(double p, double q) {
    return p > 0 ? p * log(p / (q > 1e-9 ? q : 1e-9)) : 0;
}

static double js(double p, double q) {
    const double m = (p + q) / 2;
    return (kl(p, m) + kl(q, m)) / 2;
}

static double tv(double p, double q) {
    return fabs(p - q) / 2;
}

static bool near(double limit, divergence part, const ls_tree *t, int32_t row) {
    double sum = 0, p_rest = 1, q_rest = 1;
    for (int32_t i = row + 1; i < t->n; i++)
        if (t->nodes[i].parent == row) {
            sum += part((double)t->nodes[i].p, (double)t->nodes[i].est_p);
            p_rest -= (double)t->nodes[i].p;
            q_rest -= (double)t->nodes[i].est_p;
        }
    return sum + part(p_rest > 0 ? p_rest : 0, q_rest > 0 ? q_rest : 0) <= limit;
}

static bool stands_js(const ls_accept *a, const ls_tree *t, int32_t i) {
    return near(a->values[0], js, t, t->nodes[i].parent);
}

static bool stands_kl(const ls_accept *a, const ls_tree *t, int32_t i) {
    return near(a->values[0], kl, t, t->nodes[i].parent);
}

static bool stands_tv(const ls_accept *a, const ls_tree *t, int32_t i) {
    return near(a->values[0], tv, t, t->nodes[i].parent);
}

#define FUZZY(title, by, limit, most)                                                                                  \
    {                                                                                                                  \
        .name = title, .summary = "LOSSY: where target and draft distributions are near each other, by " by,           \
        .source = "arXiv 2502.20704", .number = {                                                                      \
            {"LIMIT", limit, 0, most, false}                                                                           \
        }                                                                                                              \
    }
const ls_accept_rule ls_accept_fuzzy_js = {.is = FUZZY("fuzzy-js", "Jensen-Shannon", 0.1, 0.7), .stands = stands_js};
const ls_accept_rule ls_accept_fuzzy_kl = {.is = FUZZY("fuzzy-kl", "Kullback-Leibler", 0.4, 100), .stands = stands_kl};
const ls_accept_rule ls_accept_fuzzy_tv = {.is = FUZZY("fuzzy-tv", "total variation", 0.3, 1), .stands = stands_tv};
