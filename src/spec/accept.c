#include "spec/accept.h"

#include <math.h>

// ---- FLy (arXiv 2511.22972; the authors' program AMD-AGI/FLy, 6667ae8, FLy.py): accepts a mismatch if the target was
// undecided and the drafts after it are the target's choices, because the target would soon have corrected a wrong
// draft. Undecided: the entropy terms of the target's three best tokens sum to at least the threshold (nats). The
// window has the mismatch and the drafts after it. As in the authors' program, the target's rank of the draft does not
// matter. What differs: the program needs one more draft behind the window (test_published has both).

enum { FLY_BEST = 3 };

static int32_t fly_agreeing_below(const ls_tree *t, int32_t row) {
    int32_t most = 0, run[LS_MAX_ROWS] = {0}; // number of consecutive target's choices after each row
    bool below[LS_MAX_ROWS] = {false};
    below[row] = true;
    for (int32_t i = row + 1; i < t->n; i++) {
        const int32_t parent = t->nodes[i].parent;
        below[i] = below[parent] && t->nodes[i].token == t->nodes[parent].target;
        if (below[i]) run[i] = run[parent] + 1;
        if (run[i] > most) most = run[i];
    }
    return most;
}

static double fly_entropy(const ls_node *n) {
    double sum = 0;
    for (int k = 0; k < FLY_BEST && n->top[k].id >= 0; k++) {
        const double log_p = (double)n->top[k].logit - (double)n->lse;
        sum -= exp(log_p) * log_p;
    }
    return sum;
}

static bool fly_stands(const ls_accept *a, const ls_tree *t, int32_t i) {
    return fly_entropy(&t->nodes[t->nodes[i].parent]) >= a->values[0] && fly_agreeing_below(t, i) >= a->values[1] - 1;
}

// ---- Fuzzy speculative decoding (arXiv 2502.20704; the authors' program maxholsman/fsd, e92a157): accepts every draft
// where the draft's and the target's distributions are similar, and none elsewhere, not even the target's choice. If a
// draft model saw the row, the draft distribution is the model's: one outcome for each of its best tokens whose target
// probability is also known, and one for all other tokens. Otherwise it is the drafter's estimate: one outcome for each
// child of the row, and one for all other tokens. A divergence over these outcomes is at most that of the complete
// distributions.
//
// fuzzy-js is the authors' program's formula, in which the mixture is the first argument of both divergences; it has no
// largest value. fuzzy-js-paper is the Jensen-Shannon divergence that the paper names. What differs: the program drafts
// a chain; in a tree the target's choice goes before its siblings. After a rejection the program draws from softmax at
// temperature 1 even in greedy decoding; here the target's own choice follows. CHOICE 1 always accepts that choice.

enum { FUZZY_LIMIT, FUZZY_CHOICE };

static double ratio_part(double by, double p, double q) {
    return by > 0 ? by * log((p > 1e-9 ? p : 1e-9) / (q > 1e-9 ? q : 1e-9)) : 0;
}

// One outcome's part of a divergence; p: the target's probability, q: the draft's.
static double kl(double p, double q) {
    return ratio_part(q, q, p);
}

static double js(double p, double q) {
    const double m = (p + q) / 2;
    return (ratio_part(m, m, p) + ratio_part(m, m, q)) / 2;
}

static double js_paper(double p, double q) {
    const double m = (p + q) / 2;
    return (ratio_part(p, p, m) + ratio_part(q, q, m)) / 2;
}

static double tv(double p, double q) {
    return fabs(p - q) / 2;
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

// The outcomes of both distributions after a row; the last one is that of all other tokens. Returns their number.
static int32_t outcomes(const ls_tree *t, int32_t row, double *p, double *q) {
    const ls_prediction *prediction = ls_tree_prediction(t, row);
    double p_rest = 1, q_rest = 1;
    int32_t n = 0;
    for (int k = 0; prediction && k < LS_PREDICTION_TOP && prediction->id[k] >= 0; k++) {
        p[n] = target_p(t, row, prediction->id[k]), q[n] = (double)prediction->p[k];
        if (p[n] >= 0) p_rest -= p[n], q_rest -= q[n], n++;
    }
    for (int32_t i = row + 1; !prediction && i < t->n; i++) {
        if (t->nodes[i].parent != row) continue;
        p[n] = (double)t->nodes[i].p, q[n] = (double)t->nodes[i].est_p;
        p_rest -= p[n], q_rest -= q[n], n++;
    }
    p[n] = p_rest > 0 ? p_rest : 0, q[n] = q_rest > 0 ? q_rest : 0;
    return n + 1;
}

static bool fuzzy_stands(const ls_accept *a, const ls_tree *t, int32_t i) {
    double p[LS_MAX_ROWS], q[LS_MAX_ROWS], sum = 0;
    const int32_t n = outcomes(t, t->nodes[i].parent, p, q);
    for (int32_t k = 0; k < n; k++) sum += a->rule->divergence(p[k], q[k]);
    return sum <= a->values[FUZZY_LIMIT];
}

// ---- Typical acceptance (Medusa, arXiv 2401.10774; the authors' program FasterDecoding/Medusa, e2a5d20): accepts a
// draft if its target probability is above min(epsilon, delta exp(-H)), whether or not the target chose it. H is the
// entropy of the target's distribution there in nats; delta = 0.3. Both are those of softmax(logits / temperature), so
// greedy decoding is exact. Of the longest paths the likeliest is accepted. What differs: the next root is the target's
// sample, not the likeliest token. TEMPERATURE sets another temperature than the run's, also in greedy decoding.

enum { TYPICAL_EPSILON, TYPICAL_TEMPERATURE };
static const double TYPICAL_DELTA = 0.3;

static double shaped_p(const ls_accept *a, const ls_tree *t, int32_t i) {
    return (double)(a->shaped ? a->shaped[i].p : t->nodes[i].p);
}

static bool typical_stands(const ls_accept *a, const ls_tree *t, int32_t i) {
    const int32_t parent = t->nodes[i].parent;
    const double entropy = (double)(a->shaped ? a->shaped[parent].entropy : t->nodes[parent].entropy);
    const double by_entropy = TYPICAL_DELTA * exp(-entropy);
    return shaped_p(a, t, i) > fmin(a->values[TYPICAL_EPSILON], by_entropy);
}

double ls_accept_temperature(const ls_accept *a, double temperature) {
    if (!a->rule || !a->rule->by_chance) return 1;
    return a->values[TYPICAL_TEMPERATURE] > 0 ? a->values[TYPICAL_TEMPERATURE] : temperature;
}

// ---- the rules

#define FUZZY(title, what, limit, most)                                                                                \
    {                                                                                                                  \
        .name = title,                                                                                                 \
        .summary = "LOSSY: accepts drafts only where target and draft distributions are similar: " what,               \
        .source = "arXiv 2502.20704", .number = {                                                                      \
            {"LIMIT", limit, 0, most, false},                                                                          \
            {"CHOICE", 0, 0, 1, true}                                                                                  \
        }                                                                                                              \
    }

static const ls_accept_rule rules[] = {
    {.is = {.name = "exact",
            .summary = "accepts only the target's choice: the text equals plain decoding's",
            .source = "the standard rule; with sampling, the target's seeded sample"}},
    {.is = {.name = "fly",
            .summary = "LOSSY: accepts a draft if the target is undecided there and agrees with the next drafts",
            .source = "arXiv 2511.22972",
            .number = {{"ENTROPY", 0.3, 0, 20, false}, {"WINDOW", 6, 1, 64, true}}},
     .stands = fly_stands},
    {.is = FUZZY("fuzzy-js", "the authors' program's Jensen-Shannon", 0.1, 100),
     .stands = fuzzy_stands,
     .refuses = true,
     .divergence = js},
    {.is = FUZZY("fuzzy-js-paper", "the paper's Jensen-Shannon", 0.1, 0.7),
     .stands = fuzzy_stands,
     .refuses = true,
     .divergence = js_paper},
    {.is = FUZZY("fuzzy-kl", "Kullback-Leibler of draft from target", 0.4, 100),
     .stands = fuzzy_stands,
     .refuses = true,
     .divergence = kl},
    {.is = FUZZY("fuzzy-tv", "total variation", 0.3, 1), .stands = fuzzy_stands, .refuses = true, .divergence = tv},
    {.is = {.name = "typical",
            .summary = "LOSSY: accepts a draft if its target probability is above min(EPSILON, 0.3 exp(-H))",
            .source = "arXiv 2401.10774",
            .number = {{"EPSILON", 0.09, 0, 1, false}, {"TEMPERATURE", 0, 0, 100, false}}},
     .stands = typical_stands,
     .refuses = true,
     .by_chance = true},
    // "Think Before You Accept": in the forward that verifies the drafts, a prompt makes the target judge them a second
    // time, and the second distribution is mixed with the first. The idea, the probe in the same forward and the fusion
    // of both distributions are from the paper's abstract. The authors' program was not found, so the rest is this
    // program's own (decode/choose.h): the weight, the prompt's text, the place of the probe, the path that it
    // repeats, and that a reflection can only accept drafts. If the fused choice is not a draft, the target's first
    // choice is emitted. So each emitted token is from the drafter or from the target alone.
    {.is = {.name = "reflective",
            .summary = "LOSSY: the target judges the drafts a second time, with a prompt that asks it to repeat them",
            .source = "arXiv 2505.18629",
            .number = {{"WEIGHT", 0.3, 0, 1, false}}},
     .reflects = true},
    // Speculative sampling and its variants: the draft is drawn from the draft model's distribution q and accepted
    // with probability min(1, p / q). If it is rejected, the target samples from the residual norm(max(0, p - q)).
    // Several draws are tested in turn. The emitted token has the distribution p (proved in the papers; a test counts).
    // With greedy decoding p is one token, and each rule equals `exact`. mcsd and mcsd-wor are the checks of the
    // authors' program, NJUNLP/MCSD, 8aadd65.
    {.is = {.name = "speculative",
            .summary =
                "speculative sampling: same distribution as plain decoding, other samples; one draft after each row",
            .source = "arXiv 2211.17192 and 2302.01318"},
     .draws = true,
     .replaces = true},
    {.is = {.name = "mcsd",
            .summary = "the same with several drafts after each row, drawn with replacement",
            .source = "arXiv 2305.09781 and 2401.06706",
            .number = {{"DRAWS", 4, 1, LS_PREDICTION_TOP, true}}},
     .draws = true,
     .replaces = true},
    {.is = {.name = "mcsd-wor",
            .summary = "the same, drawn without replacement",
            .source = "arXiv 2401.06706 and 2402.14160",
            .number = {{"DRAWS", 4, 1, LS_PREDICTION_TOP, true}}},
     .draws = true},
};
_Static_assert(sizeof rules / sizeof *rules == LS_ACCEPT_COUNT, "the header counts the rules");

const ls_rule *ls_accept_at(int i) {
    return i < LS_ACCEPT_COUNT ? &rules[i].is : NULL;
}

ls_code ls_accept_read(ls_accept *out, const char *what, const char *text, ls_err *err) {
    int i;
    *out = (ls_accept){0};
    const ls_code code = ls_rule_read(ls_accept_at, "", what, text, &i, out->values, err);
    if (!code && i) out->rule = &rules[i];
    return code;
}

ls_accept ls_accept_usual(int i) {
    ls_accept a = {.rule = i ? &rules[i] : NULL};
    for (int k = 0; k < LS_RULE_NUMBERS; k++) a.values[k] = rules[i].is.number[k].fallback;
    if (rules[i].by_chance) a.values[TYPICAL_TEMPERATURE] = 1;
    return a;
}

void ls_accept_write(const ls_accept *a, char *out, size_t size) {
    ls_rule_write(&(a->rule ? a->rule : rules)->is, a->values, out, size);
}

const char *ls_guarantee_name(ls_guarantee p) {
    static const char *const names[] = {"text", "distribution", "none"};
    return names[p];
}

bool ls_accept_previews(const ls_accept *a) {
    return a->rule && a->rule->stands;
}

int32_t ls_accept_draws(const ls_accept *a, double temperature) {
    if (!a->rule || !a->rule->draws || temperature <= 0) return 0;
    return a->rule->is.number[0].name ? (int32_t)a->values[0] : 1;
}

ls_guarantee ls_accept_guarantee(const ls_accept *a, double temperature) {
    if (ls_accept_previews(a) || (a->rule && a->rule->reflects)) return LS_LOSSY;
    return ls_accept_draws(a, temperature) ? LS_SAME_DISTRIBUTION : LS_SAME_TEXT;
}

// Whether row i is accepted, its parent being so. has_choice: a sibling or the row itself is the target's choice.
static bool row_stands(const ls_accept *a, const ls_tree *t, int32_t i, bool is_choice, bool has_choice) {
    if (!ls_accept_previews(a)) return is_choice;
    const ls_accept_rule *r = a->rule;
    if (is_choice && (!r->refuses || (r->divergence && a->values[FUZZY_CHOICE] > 0))) return true;
    if (has_choice && !is_choice && !r->by_chance) return false;
    return r->stands(a, t, i);
}

int32_t ls_accept_path(const ls_accept *a, const ls_tree *t, int32_t *path) {
    bool has_choice[LS_MAX_ROWS] = {0}, stands[LS_MAX_ROWS] = {true};
    double chance[LS_MAX_ROWS] = {1}; // of the path, by the target
    int32_t best = 0;
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        has_choice[n->parent] |= n->token == t->nodes[n->parent].target;
    }
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        const bool is_choice = n->token == t->nodes[n->parent].target;
        stands[i] = stands[n->parent] && row_stands(a, t, i, is_choice, has_choice[n->parent]);
        if (!stands[i]) continue;
        chance[i] = a->rule && a->rule->by_chance ? chance[n->parent] * shaped_p(a, t, i) : 0;
        const int32_t deeper = n->depth - t->nodes[best].depth;
        if (deeper > 0 || (deeper == 0 && chance[i] > chance[best])) best = i;
    }
    return ls_tree_path(t, best, path);
}
