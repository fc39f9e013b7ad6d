#include "spec/rates.h"

#include <math.h>
#include <string.h>

static const float first_weights[LS_RATE_KEYS] = {
#include "spec/rates_prior.inc"
};

const int16_t ls_rate_at[LS_VIEWS + 1] = {
#define VIEW(name, weights) LS_AT_##name,
    LS_RATE_VIEWS(VIEW) LS_RATE_KEYS
#undef VIEW
};
#define VIEW(name, weights) _Static_assert((weights) <= UINT8_MAX, "a view's value fits a byte");
LS_RATE_VIEWS(VIEW)
#undef VIEW

static int32_t below(int32_t v, const int32_t *edges, int32_t n) {
    int32_t b = 0;
    for (int32_t i = 0; i < n; i++) b += v >= edges[i];
    return b;
}

// Edges of probabilities, four in one comparison: the search asks for each candidate.
typedef float edges __attribute__((vector_size(16)));
typedef int32_t reached __attribute__((vector_size(16))); // -1: the edge is

static int32_t count(reached r) {
    return -(r[0] + r[1] + r[2] + r[3]);
}

static int32_t share(float p, edges e) {
    return count(p >= e);
}

static int32_t fine_share(float p) { // 0 .. 12
    return count((p >= (edges){.001f, .003f, .01f, .03f}) + (p >= (edges){.06f, .1f, .2f, .35f}) +
                 (p >= (edges){.5f, .7f, .85f, .95f}));
}

static int32_t doublings(int32_t v) { // of v > 0: 1: 0, 2 and 3: 1, 4 to 7: 2 ...
    return 31 - __builtin_clz((uint32_t)v);
}

static int32_t max32(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t min32(int32_t a, int32_t b) {
    return a < b ? a : b;
}

void ls_rate_views(const ls_features *f, uint8_t view[LS_VIEWS]) {
    static const int32_t agreement[] = {1, 2, 3, 4, 5, 7, 10}, remembered[] = {1, 2, 3, 5},
                         last[] = {2, 3, 5, 9, 17, 33}, counts[] = {1, 2, 3, 5, 10, 20}, rows[] = {2, 5, 20};
    const edges remembered_p = {0.05f, 0.2f, 0.5f, 0.85f}, last_p = {0.01f, 0.05f, 0.2f, 0.5f};
    static const uint8_t fewer[] = {0, 1, 2, 3, 3, 4, 4, 5}; // agreement in fewer classes
    uint8_t *restrict const says = view;                     // bytes could be those of the features
    int32_t ranks = 0, longest = 0;
    memset(says, 0, LS_VIEWS);
    const int32_t agree = f->agree ? below(f->agree, agreement, 7) : 0;
    if (f->copies) says[LS_VIEW_COPY] = 1 + agree * 4 + (int32_t)f->place;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) {
        const int32_t rank = f->remembered[i].rank;
        ranks *= 4;
        if (!f->remembered[i].known) continue;
        says[LS_VIEW_REMEMBERED_1 + i] =
            rank < 0 ? 1 : 2 + below(rank, remembered, 4) * 5 + share(f->remembered[i].p, remembered_p);
        ranks += rank < 0 ? 1 : rank < 1 ? 2 : 3;
        if (rank >= 0) longest = i + 1;
    }
    if (f->last)
        says[LS_VIEW_LAST] = f->last_rank < 0 ? 1 : 2 + below(f->last_rank, last, 6) * 5 + share(f->last_p, last_p);
    // grade of the prediction after one token: nothing known, not listed, listed below the best; the best by its
    // probability class, of which the lower two are merged
    const int32_t one = says[LS_VIEW_REMEMBERED_1], best = one - 2,
                  grade = one < 2     ? one
                          : best >= 5 ? 2
                          : best < 2  ? 3
                                      : best + 2;
    if (f->copies || one) says[LS_VIEW_BOTH] = 1 + fewer[agree] * 7 + grade;
    says[LS_VIEW_KIND] = f->agree ? 4 : longest ? 3 : f->last_rank >= 0 ? 2 : 1;
    says[LS_VIEW_RANKS] = 1 + ranks * 2 + (f->agree > 0);
    const int32_t kind = f->agree ? 2 : longest > 0, source = f->agree ? 4 : longest;
    says[LS_VIEW_RECENT] = 1 + (f->ago ? min32(max32(doublings(f->ago), 1), 9) : 0) * 3 + kind;
    says[LS_VIEW_COUNT] = 1 + below(f->count, counts, 6) * 5 + source;
    if (f->average_rows) {
        const int32_t seen = below(f->average_rows, rows, 3);
        says[LS_VIEW_AVERAGE] = 1 + (f->average_rank < 0 ? seen : 4 + seen * 13 + fine_share(f->average_p));
        says[LS_VIEW_AVERAGE_RANK] = 2 + f->average_rank;
    }
    says[LS_VIEW_LISTED] = 1;
    if (f->listed_ago > 0 && f->listed_ago < 64) {
        const int32_t lately = doublings(f->listed_ago * 2 - 1), rank = f->listed_rank;
        says[LS_VIEW_LISTED] = 2 + lately * 4 + (rank > 3 ? 3 : rank > 1 ? 2 : rank);
        says[LS_VIEW_LISTED_P] = 1 + lately * 13 + fine_share(f->listed_p);
    }
}

void ls_rates_init(ls_rates *r) {
    memcpy(r->weight, first_weights, sizeof r->weight);
}

double ls_rate_odds(const ls_rates *r, const uint8_t view[LS_VIEWS], float bias) {
    float z = bias;
#define VIEW(name, weights) z += r->weight[LS_AT_##name + view[LS_VIEW_##name]];
    LS_RATE_VIEWS(VIEW)
#undef VIEW
    return (double)expf(z);
}

void ls_rates_learn(ls_rates *r, const uint8_t view[LS_VIEWS], double error, double step) {
    const float move = (float)(step * error);
    for (int32_t i = 0; i < LS_VIEWS; i++)
        if (view[i]) r->weight[ls_rate_at[i] + view[i]] += move;
}

// ---- counted rates

static const float MEMORY = 400; // trials; more of them halve the counts

static void count_trial(ls_hits *h, bool right) {
    h->hit += right;
    h->trial += 1;
    if (h->trial > MEMORY) h->hit /= 2, h->trial /= 2;
}

static int32_t bucket(double v, const double *below, int32_t n) {
    int32_t b = 0;
    while (b < n && v >= below[b]) b++;
    return b;
}

static const float BLEND_PRIOR = 6; // trials
static const double BEYOND =
    0.25; // factor for a look-up's probability if the token is not among the draft model's best

int32_t ls_blend_key(const ls_blend_input *v) {
    static const float p_below[LS_BLEND_MODEL - 1] = {0.02f, 0.05f, 0.1f, 0.2f, 0.35f, 0.5f, 0.7f, 0.9f};
    static const double looked_below[LS_BLEND_LOOKED - 2] = {0.05, 0.15, 0.3, 0.5, 0.75};
    int32_t model = 0;
    if (v->p >= 0) {
        while (model < LS_BLEND_MODEL - 1 && v->p >= p_below[model]) model++;
        model = 1 + 2 * model + v->chosen;
    }
    const int32_t looked = v->looked >= 0 ? 1 + bucket(v->looked, looked_below, LS_BLEND_LOOKED - 2) : 0;
    return model * LS_BLEND_LOOKED + looked;
}

double ls_blend_rate(const ls_blend *b, const ls_blend_input *v) {
    const ls_hits *h = &b->of[ls_blend_key(v)];
    const double p = v->p > 0 ? (double)v->p : 0, looked = v->looked > 0 ? v->looked : 0,
                 either = v->p < 0 ? looked * BEYOND : 1 - (1 - p) * (1 - looked);
    return ((double)h->hit + (double)BLEND_PRIOR * either) / (double)(h->trial + BLEND_PRIOR);
}

void ls_blend_learn(ls_blend *b, int32_t key, bool hit) {
    count_trial(&b->of[key], hit);
}

static const float SCORES_PRIOR = 4; // trials

static int32_t depth_of(int32_t depth) { // classes: 1, 2, 3, 4, 5-6, above
    return depth < 5 ? depth - 1 : depth < 7 ? 4 : 5;
}

static double trial_rate(const ls_hits *h, double prior) {
    return ((double)h->hit + (double)SCORES_PRIOR * prior) / ((double)h->trial + (double)SCORES_PRIOR);
}

void ls_scores_fill(const ls_scores *s, ls_tree *t) {
    static const double shares[] = {0.05, 0.15, 0.35, 0.6, 0.85};
    static const double guess[5] = {0.4, 0.15, 0.08, 0.05, 0.02}; // initial rate by place among the siblings
    double sum[LS_MAX_ROWS] = {0};
    int32_t children[LS_MAX_ROWS] = {0};
    for (int32_t i = 1; i < t->n; i++) {
        ls_node *n = &t->nodes[i];
        const int32_t place = children[n->parent]++, sibling = place < 3 ? place : place < 5 ? 3 : 4;
        const bool own = !isnan(n->est_p);
        const int32_t share = own ? 1 + bucket((double)n->est_p, shares, 5) : 0;
        const int32_t kind = ((n->from * 5 + min32(n->match_n, 4)) * 7 + share) * 5 + sibling;
        const int32_t d = depth_of(n->depth);
        const double prior = own ? 0.8 * (double)n->est_p : guess[sibling];
        const double all = trial_rate(&s->of[kind][LS_SCORE_DEPTHS], prior);
        n->kind = (int16_t)kind;
        n->est_p = (float)trial_rate(&s->of[kind][d], all);
        sum[n->parent] += (double)n->est_p;
    }
    for (int32_t i = 1; i < t->n; i++) { // at most one child is right, so limit the sum of the children to 1
        ls_node *n = &t->nodes[i];
        if (sum[n->parent] > 1) n->est_p /= (float)sum[n->parent];
    }
}

void ls_scores_learn(ls_scores *s, const ls_tree *t) {
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (n->state == LS_NODE_NOT_REACHED) continue; // not verified, because its parent was not accepted
        const bool right = n->state == LS_NODE_ACCEPTED;
        count_trial(&s->of[n->kind][depth_of(n->depth)], right);
        count_trial(&s->of[n->kind][LS_SCORE_DEPTHS], right);
    }
}
