#include "spec/sizing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The rows sorted by path, the most likely first (of equal rows the earlier). The first k rows form a tree for any k.
static void order_rows(const ls_tree *t, const double *path, int32_t *order) {
    for (int32_t i = 0; i < t->n;
         i++) { // stable insertion sort: a row is never more likely than its parent, so parents stay first
        int32_t at = i;
        for (; at > 0 && path[order[at - 1]] < path[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

// The entropy (nats) of the drafter's distribution after each row: the draft model's if it saw the row, otherwise that
// of the children's estimates, with one outcome for all other tokens.
static void entropy_after(const ls_tree *t, double *entropy) {
    double rest[LS_MAX_ROWS];
    for (int32_t i = 0; i < t->n; i++) entropy[i] = 0, rest[i] = 1;
    for (int32_t i = 1; i < t->n; i++) {
        const double p = (double)t->nodes[i].est_p;
        if (p > 0) entropy[t->nodes[i].parent] -= p * log(p);
        rest[t->nodes[i].parent] -= p;
    }
    for (int32_t i = 0; i < t->n; i++) {
        const ls_prediction *prediction = ls_tree_prediction(t, i);
        if (rest[i] > 0) entropy[i] -= rest[i] * log(rest[i]);
        if (prediction) entropy[i] = (double)prediction->entropy;
    }
}

// ---- auto: expected tokens per millisecond: the most likely rows, as many as pay by the measured cost of forwards.
// On a mixture of experts a row also costs the experts that it wakes, so the next row is the one with which the tree
// has the most expected tokens per millisecond: a less likely row may come first, because its experts are awake.

// A forward takes at least this share of its time by rows, whatever is predicted.
static const double LEAST_MS = 0.1;

// What a step takes with n rows that are expected to wake so many experts, ms.
static double ms_of(const ls_cost_curve *z, int32_t n, double n_awake, int32_t context) {
    const double ms = ls_cost_ms(z, n > 1 ? n + z->beside_rows : n, context);
    return fmax(ms + ls_cost_experts_ms(z, n, n_awake), LEAST_MS * ms) + z->beside_ms;
}

static void keep_by_experts(ls_routing *r, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                            int32_t context, bool *keep) {
    enum { AHEAD = 16 };                          // rows that are tried after the best number: costs rise in stairs
    int32_t place[LS_MAX_ROWS] = {0}, best_n = 1; // place: number of the taken row, from 1; 0: not taken
    double expected = 1, best;
    place[0] = 1;
    ls_routing_take(r, 0);
    double n_awake = ls_routing_awake(r);
    best = 1 / ms_of(costs, 1, n_awake, context);
    for (int32_t n = 2; n <= t->n && n <= best_n + AHEAD; n++) {
        int32_t next = 0;
        double rate = -1;
        for (int32_t i = 1; i < t->n; i++) {
            if (place[i] || !place[t->nodes[i].parent]) continue;
            const double with = (expected + path[i]) / ms_of(costs, n, n_awake + ls_routing_wakes(r, i), context);
            if (with > rate) rate = with, next = i;
        }
        ls_routing_take(r, next);
        place[next] = n;
        expected += path[next];
        n_awake = ls_routing_awake(r);
        if (rate > best) best = rate, best_n = n;
    }
    for (int32_t i = 1; i < t->n; i++) keep[i] = place[i] && place[i] <= best_n;
}

static void auto_cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                     int32_t context, bool *keep) {
    int32_t order[LS_MAX_ROWS];
    double best[LS_MAX_ROWS];
    if (z->routing && costs->expert_ms > 0) {
        keep_by_experts(z->routing, t, path, costs, context, keep);
        return;
    }
    order_rows(t, path, order);
    for (int32_t i = 0; i < t->n; i++) best[i] = path[order[i]];
    const int32_t n = ls_cost_choose(costs, best, t->n, context, NULL);
    for (int32_t i = n; i < t->n; i++) keep[order[i]] = false;
}

// ---- AdaEDL, arXiv 2410.18351: stops drafting if a lower bound of the acceptance rate, 1 - sqrt(gamma H), is below a
// threshold. H is the entropy of the draft's distribution at a node: here the estimates of its children, and one
// outcome for all other tokens. The threshold follows the running acceptance: it rises while less than TARGET of the
// drafted levels is accepted, and falls while more is.

static const double ADAEDL_GAMMA = 0.2, ADAEDL_TARGET = 0.9, ADAEDL_ACCEPTANCE = 0.5, ADAEDL_THRESHOLD = 0.9,
                    ADAEDL_STEP = 0.01;

static void adaedl_cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                       int32_t context, bool *keep) {
    (void)costs, (void)context;
    double entropy[LS_MAX_ROWS];
    entropy_after(t, entropy);
    const double threshold = z->threshold > 0 ? z->threshold : z->values[0];
    int32_t first = 0; // the most likely token after the root is always drafted, as in the paper
    for (int32_t i = 1; i < t->n; i++) {
        if (t->nodes[i].parent == 0 && (!first || path[i] > path[first])) first = i;
        keep[i] = 1 - sqrt(ADAEDL_GAMMA * entropy[t->nodes[i].parent]) >= threshold;
    }
    keep[first] = true;
}

static void adaedl_learn(ls_sizing *z, const ls_tree *t, int32_t n_path) {
    const int32_t levels = ls_tree_depth(t);
    if (!levels) return; // nothing was drafted, so there is nothing to learn
    const double rate = (double)(n_path - 1) / levels, old = z->threshold > 0 ? z->threshold : z->values[0];
    z->acceptance = ADAEDL_ACCEPTANCE * z->acceptance + (1 - ADAEDL_ACCEPTANCE) * rate;
    const double moved = old + (z->acceptance < ADAEDL_TARGET ? ADAEDL_STEP : -ADAEDL_STEP);
    z->threshold = ADAEDL_THRESHOLD * old + (1 - ADAEDL_THRESHOLD) * moved;
    if (z->threshold < ADAEDL_STEP) z->threshold = ADAEDL_STEP;
    if (z->threshold > 1 - ADAEDL_STEP) z->threshold = 1 - ADAEDL_STEP;
}

// ---- SpecDec++, arXiv 2405.19715: stops a draft when the probability of at least one rejection, 1 - product of p_i,
// exceeds a threshold; the row that exceeds it is still verified. (The authors' program, Kaffaljidhmah2/SpecDec_pp,
// 9c52edc, verifies one more: its trained head judges a draft in the forward that draws the next one.) The drafter's
// estimates, or hit rates counted online, replace the head. Of the program's bounds for the length of a draft, 2
// applies here to the most likely path and 20 to every path.

enum { SPECDEC_SHORTEST = 2, SPECDEC_LONGEST = 20 };

static void specdec_cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                        int32_t context, bool *keep) {
    (void)costs, (void)context;
    for (int32_t i = 1; i < t->n; i++)
        keep[i] = t->nodes[i].depth <= SPECDEC_LONGEST && 1 - path[t->nodes[i].parent] <= z->values[0];
    for (int32_t depth = 0, at = 0; depth < SPECDEC_SHORTEST; depth++) {
        int32_t best = 0;
        for (int32_t i = at + 1; i < t->n; i++)
            if (t->nodes[i].parent == at && (!best || path[i] > path[best])) best = i;
        if (!best) break;
        keep[at = best] = true;
    }
}

// ---- TETRIS, arXiv 2502.15197, for one request: of all rows that the drafter can propose, the N with the largest
// cumulative products of acceptance.

static void tetris_cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                       int32_t context, bool *keep) {
    (void)costs, (void)context;
    int32_t order[LS_MAX_ROWS];
    order_rows(t, path, order);
    for (int32_t i = (int32_t)z->values[0]; i < t->n; i++) keep[order[i]] = false;
}

// ---- Dynamic Depth Decoding, arXiv 2409.00142: the draft grows level by level while the beam is likely to have the
// right text. The paper drafts with EAGLE-2, whose beam is the ten most likely rows of a level, to a depth of at most
// eleven. A check costs the paper's draft model time, so it is made only at the depths 5, 7 and 9: it compares log(sum
// of exp(log-probability of the path)) over the beam with a threshold, and stops below it.
//
// Here a drafter proposes its complete tree at once, so the rule cuts the rows deeper than the failing level; the level
// itself is kept, because it has been drafted by then. The tree's estimates replace the draft model's probabilities.
// The threshold is for the sum itself, because a probability is easier to set than its logarithm. The default is this
// program's; the paper's is tuned for its draft models. The first of the three checks can be moved. A level keeps also
// the rows outside the beam, because the method and max_rows determine the number of rows.

enum { DDD_BEAM = 10, DDD_DEEPEST = 11, DDD_CHECKS = 3, DDD_APART = 2 };

// The sum of the beam's path probabilities at a depth.
static double beam_chance(const ls_tree *t, const double *path, int32_t depth) {
    double best[DDD_BEAM] = {0}, sum = 0;
    for (int32_t i = 1; i < t->n; i++) {
        if (t->nodes[i].depth != depth) continue;
        int32_t at = DDD_BEAM; // insertion sort, the most likely first
        for (; at > 0 && best[at - 1] < path[i]; at--)
            if (at < DDD_BEAM) best[at] = best[at - 1];
        if (at < DDD_BEAM) best[at] = path[i];
    }
    for (int32_t i = 0; i < DDD_BEAM; i++) sum += best[i];
    return sum;
}

static void ddd_cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                    int32_t context, bool *keep) {
    (void)costs, (void)context;
    const int32_t first = (int32_t)z->values[1];
    int32_t deepest = DDD_DEEPEST;
    for (int32_t check = DDD_CHECKS - 1; check >= 0; check--) {
        const int32_t depth = first + check * DDD_APART;
        if (depth < deepest && beam_chance(t, path, depth) < z->values[0]) deepest = depth;
    }
    for (int32_t i = 1; i < t->n; i++) keep[i] = t->nodes[i].depth <= deepest;
}

// ---- C2T, arXiv 2502.13652: a classifier predicts for each row of the draft whether it will be accepted, from the
// joint probability of its path, the entropy of the draft's distribution and the depth. Rows below a threshold are not
// verified and get no children.
//
// The paper trains a two-layer network on the outputs of a draft model and builds its tree with it, level by level.
// Here the classifier is a logistic regression with five weights, which `logitspec tune --fit c2t` fits to a user's
// recordings in a second. Its probabilities are the estimates of the drafter in use, the entropy is that of the
// estimates at the row's parent, and a row's own estimate is another feature. It cuts a complete tree. The result is
// the same, because a row is cut together with its parent. The default threshold was found by that command.
//
// The weights below equal those of configs/sizings/c2t.yaml; its comment describes the fit.

_Static_assert((int)LS_C2T_FEATURES == (int)LS_SIZING_KNOBS, "one weight for each feature");

static double log_odds(double p) {
    const double least = 1e-6, q = p < least ? least : p > 1 - least ? 1 - least : p;
    return log(q / (1 - q));
}

void ls_c2t_features(const ls_tree *t, const double *path, double (*x)[LS_C2T_FEATURES]) {
    double entropy[LS_MAX_ROWS];
    entropy_after(t, entropy);
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        x[i][0] = 1;
        x[i][1] = log_odds(path[i]);
        x[i][2] = log_odds((double)n->est_p);
        x[i][3] = entropy[n->parent];
        x[i][4] = n->depth;
    }
}

double ls_c2t_chance(const double *weights, const double *x) {
    double z = 0;
    for (int i = 0; i < LS_C2T_FEATURES; i++) z += weights[i] * x[i];
    return 1 / (1 + exp(-z));
}

static void c2t_cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs,
                    int32_t context, bool *keep) {
    (void)costs, (void)context;
    double x[LS_MAX_ROWS][LS_C2T_FEATURES];
    ls_c2t_features(t, path, x);
    for (int32_t i = 1; i < t->n; i++) keep[i] = ls_c2t_chance(z->knobs, x[i]) >= z->values[0];
}

static const ls_knob c2t_knobs[] = {
    {"c2t.bias", LS_KNOB_NUMBER, 0.422042, -100, 100, "constant term, in log-odds", offsetof(ls_sizing, knobs[0])},
    {"c2t.path", LS_KNOB_NUMBER, 1.05658, -100, 100, "weight of the path's estimate, in log-odds",
     offsetof(ls_sizing, knobs[1])},
    {"c2t.estimate", LS_KNOB_NUMBER, -0.0469687, -100, 100, "weight of the row's own estimate, in log-odds",
     offsetof(ls_sizing, knobs[2])},
    {"c2t.entropy", LS_KNOB_NUMBER, -0.231759, -100, 100, "weight of the entropy of its siblings' estimates",
     offsetof(ls_sizing, knobs[3])},
    {"c2t.depth", LS_KNOB_NUMBER, 0.0795973, -100, 100, "weight of its depth", offsetof(ls_sizing, knobs[4])},
    {0},
};

// ---- the rules

static const ls_sizing_rule rules[] = {
    {.is = {.name = "auto",
            .summary = "the rows with the most expected tokens per millisecond, by measured costs",
            .source = "this program's own"},
     .by_cost = true,
     .rows = 64,
     .cut = auto_cut},
    {.is = {.name = "rows",
            .summary = "as auto, but by the number of rows alone: experts of a mixture have no cost",
            .source = "this program's own"},
     .by_cost = true,
     .by_rows_alone = true,
     .rows = 64,
     .cut = auto_cut},
    {.is = {.name = "fixed",
            .summary = "exactly ROWS rows, if there are enough candidates",
            .source = "",
            .number = {{"ROWS", 64, 1, LS_MAX_ROWS, true}}},
     .counts = true},
    {.is = {.name = "paper", .summary = "the number of rows that the method's paper uses", .source = ""}},
    {.is = {.name = "adaedl",
            .summary = "stops a branch if 1 - sqrt(0.2 H) is below a threshold that follows the acceptance",
            .source = "arXiv 2410.18351",
            .number = {{"THRESHOLD", 0.6, 0, 1, false}}},
     .cut = adaedl_cut,
     .learn = adaedl_learn},
    {.is = {.name = "specdec++",
            .summary = "stops a branch when the probability of a rejection in it exceeds P",
            .source = "arXiv 2405.19715",
            .number = {{"P", 0.7, 0, 1, false}}},
     .cut = specdec_cut},
    {.is = {.name = "tetris",
            .summary = "the rows with the largest cumulative products, of all that the drafter can propose",
            .source = "arXiv 2502.15197",
            .number = {{"ROWS", 16, 1, LS_MAX_ROWS, true}}},
     .picks = true,
     .rows = LS_MAX_ROWS,
     .cut = tetris_cut},
    {.is = {.name = "ddd",
            .summary = "stops at a level where the beam's ten rows together are less likely than P",
            .source = "arXiv 2409.00142",
            .number = {{"P", 0.3, 0, 1, false}, {"FIRST", 5, 1, DDD_DEEPEST, true}}},
     .cut = ddd_cut},
    {.is = {.name = "c2t",
            .summary = "rows with a probability of at least P by a classifier of path, estimate, entropy and depth",
            .source = "arXiv 2502.13652",
            .number = {{"P", 0.2, 0, 1, false}}},
     .knobs = c2t_knobs,
     .cut = c2t_cut},
};

const ls_rule *ls_sizing_at(int i) {
    return ls_sizing_rule_at(i) ? &rules[i].is : NULL;
}

ls_code ls_sizing_read(ls_sizing *out, const char *what, const char *text, ls_err *err) {
    *out = (ls_sizing){0};
    if (!strcmp(text, "default")) return LS_OK;
    int i;
    const ls_code code = ls_rule_read(ls_sizing_at, "default, ", what, text, &i, out->values, err);
    if (!code) out->rule = &rules[i];
    ls_sizing_tune(out, NULL);
    return code;
}

const ls_sizing_rule *ls_sizing_rule_at(int i) {
    return i < (int)(sizeof rules / sizeof *rules) ? &rules[i] : NULL;
}

void ls_sizing_tune(ls_sizing *z, const ls_knob_value *all) {
    if (z->rule) ls_knobs_set(z, z->rule->knobs, all ? all + ls_knob_of_sizing(z->rule) : NULL);
}

void ls_sizing_settle(ls_sizing *z, const ls_method *m, int32_t max_rows) {
    if (z->rule) return;
    ls_sizing_read(z, "", max_rows > 0 ? "fixed" : m->sized ? "auto" : "paper", NULL);
    if (max_rows > 0) z->values[0] = max_rows;
}

int32_t ls_sizing_ask(const ls_sizing *z, const ls_method *m, int32_t max_rows) {
    int32_t rows = z->rule->counts ? (int32_t)z->values[0] : z->rule->rows ? z->rule->rows : m->rows;
    if (max_rows > 0 && rows > max_rows && !z->rule->picks) rows = max_rows;
    return rows < 1 ? 1 : rows > LS_MAX_ROWS ? LS_MAX_ROWS : rows;
}

void ls_sizing_cut(const ls_sizing *z, ls_tree *t, const ls_cost_curve *costs, int32_t context, int32_t max_rows) {
    if (!z->rule->cut) return;
    double path[LS_MAX_ROWS];
    bool keep[LS_MAX_ROWS];
    int32_t order[LS_MAX_ROWS], kept = 0;
    for (int32_t i = 0; i < t->n; i++) {
        path[i] = i ? path[t->nodes[i].parent] * (double)t->nodes[i].est_p : 1;
        keep[i] = true;
    }
    z->rule->cut(z, t, path, costs, context, keep);
    if (z->rule->picks && max_rows > 0) {
        order_rows(t, path, order);
        for (int32_t i = 0; i < t->n; i++) keep[order[i]] &= kept < max_rows, kept += keep[order[i]];
    }
    for (int32_t i = 1; i < t->n; i++) { // the drawn tokens must not influence which rows the target verifies
        const ls_prediction *prediction = ls_tree_prediction(t, i);
        keep[i] |= prediction && prediction->n_draws;
    }
    ls_tree_keep(t, keep);
}

void ls_sizing_write(const ls_sizing *z, char *out, size_t size) {
    if (z->rule) ls_rule_write(&z->rule->is, z->values, out, size);
    else snprintf(out, size, "default");
}
