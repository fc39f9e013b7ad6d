// Fuzzy speculative decoding (arXiv 2502.20704): accepts a draft if the target's and the draft's distributions are
// similar, regardless of the target's choice. If a second model saw the row, the draft distribution is the model's: one
// outcome for each of its best tokens whose target probability is also known, and one for all other tokens. Otherwise
// it is the drafter's estimate: one outcome for each child of the row, and one for all other tokens. A divergence over
// these outcomes is at most that of the complete distributions.
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

// Adds one outcome for all other tokens.
static bool within(double limit, double sum, divergence part, double p_rest, double q_rest) {
    return sum + part(p_rest > 0 ? p_rest : 0, q_rest > 0 ? q_rest : 0) <= limit;
}

// The target's probability of a token after a row; negative: not known.
static double target_p(const ls_tree *t, int32_t row, int32_t token) {
    const ls_node *n = &t->nodes[row];
    for (int32_t i = row + 1; i < t->n; i++)
        if (t->nodes[i].parent == row && t->nodes[i].token == token) return (double)t->nodes[i].p;
    for (int k = 0; k < LS_ROW_TOP && n->top[k].id >= 0; k++)
        if (n->top[k].id == token) return exp((double)n->top[k].logit - (double)n->lse);
    return -1;
}

static bool near_models(double limit, divergence part, const ls_tree *t, int32_t row) {
    const ls_said *said = &t->said[t->nodes[row].said - 1];
    double sum = 0, p_rest = 1, q_rest = 1;
    for (int k = 0; k < LS_SAID_TOP && said->id[k] >= 0; k++) {
        const double p = target_p(t, row, said->id[k]), q = (double)said->p[k];
        if (!(p >= 0)) continue;
        sum += part(p, q);
        p_rest -= p;
        q_rest -= q;
    }
    return within(limit, sum, part, p_rest, q_rest);
}

static bool near(double limit, divergence part, const ls_tree *t, int32_t row) {
    double sum = 0, p_rest = 1, q_rest = 1;
    if (t->nodes[row].said) return near_models(limit, part, t, row);
    for (int32_t i = row + 1; i < t->n; i++)
        if (t->nodes[i].parent == row) {
            sum += part((double)t->nodes[i].p, (double)t->nodes[i].est_p);
            p_rest -= (double)t->nodes[i].p;
            q_rest -= (double)t->nodes[i].est_p;
        }
    return within(limit, sum, part, p_rest, q_rest);
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
        .name = title, .summary = "LOSSY: accepts a draft if target and draft distributions are similar, by " by,      \
        .source = "arXiv 2502.20704", .number = {                                                                      \
            {"LIMIT", limit, 0, most, false}                                                                           \
        }                                                                                                              \
    }
const ls_accept_rule ls_accept_fuzzy_js = {.is = FUZZY("fuzzy-js", "Jensen-Shannon", 0.1, 0.7), .stands = stands_js};
const ls_accept_rule ls_accept_fuzzy_kl = {.is = FUZZY("fuzzy-kl", "Kullback-Leibler", 0.4, 100), .stands = stands_kl};
const ls_accept_rule ls_accept_fuzzy_tv = {.is = FUZZY("fuzzy-tv", "total variation", 0.3, 1), .stands = stands_tv};
