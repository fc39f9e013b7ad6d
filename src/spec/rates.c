#include "spec/rates.h"

#include <math.h>
#include <string.h>

static const float first_weights[LS_RATE_KEYS] = {
#include "spec/rates_prior.inc"
};

static int32_t below(int32_t v, const int32_t *edges, int32_t n) {
    int32_t b = 0;
    while (b < n && v >= edges[b]) b++;
    return b;
}

static int32_t share(float p, const float edges[4]) {
    int32_t b = 0;
    while (b < 4 && p >= edges[b]) b++;
    return b;
}

// A note packs one value per view into an int32_t: the view's key + 1; 0: the view does not apply.
enum {
    COPY_BITS = 6,
    REMEMBERED_BITS = 5,
    LAST_BITS = 6,
    REMEMBERED_AT = COPY_BITS,
    LAST_AT = REMEMBERED_AT + LS_SUCCESSORS_ORDER * REMEMBERED_BITS,
};
_Static_assert(LS_VIEW_COPY_KEYS < 1 << COPY_BITS && LS_VIEW_REMEMBERED_KEYS < 1 << REMEMBERED_BITS &&
                   LS_VIEW_LAST_KEYS < 1 << LAST_BITS && LAST_AT + LAST_BITS < 32,
               "a note fits 31 bits");

static int32_t part_of(int32_t note, int32_t at, int32_t bits) {
    return note >> at & ((1 << bits) - 1);
}

int32_t ls_rate_note(const ls_features *f) {
    static const int32_t agreement[] = {1, 2, 3, 4, 5, 7, 10}, remembered[] = {1, 2, 3, 5},
                         last[] = {2, 3, 5, 9, 17, 33};
    static const float remembered_p[] = {0.05f, 0.2f, 0.5f, 0.85f}, last_p[] = {0.01f, 0.05f, 0.2f, 0.5f};
    int32_t note = f->copies ? 1 + below(f->agree, agreement, 7) * 4 + (int32_t)f->place : 0;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) {
        const int32_t rank = f->remembered[i].rank,
                      listed = 2 + below(rank, remembered, 4) * 5 + share(f->remembered[i].p, remembered_p);
        note |= (!f->remembered[i].known ? 0 : rank < 0 ? 1 : listed) << (REMEMBERED_AT + i * REMEMBERED_BITS);
    }
    const int32_t rank = f->last_rank, listed = 2 + below(rank, last, 6) * 5 + share(f->last_p, last_p);
    return note | (!f->last ? 0 : rank < 0 ? 1 : listed) << LAST_AT;
}

void ls_rate_keys(int32_t note, int32_t key[LS_VIEWS]) {
    static const int32_t fewer[] = {0, 1, 2, 3, 3, 4, 4, 5}; // agreement in fewer classes
    static const int32_t keys[LS_VIEWS] = {LS_VIEW_COPY_KEYS,
                                           LS_VIEW_REMEMBERED_KEYS,
                                           LS_VIEW_REMEMBERED_KEYS,
                                           LS_VIEW_REMEMBERED_KEYS,
                                           LS_VIEW_LAST_KEYS,
                                           LS_VIEW_BOTH_KEYS,
                                           LS_VIEW_KINDS};
    const int32_t copy = part_of(note, 0, COPY_BITS), agree = copy ? (copy - 1) / 4 : 0;
    int32_t says[LS_VIEWS] = {[LS_VIEW_COPY] = copy, [LS_VIEW_LAST] = part_of(note, LAST_AT, LAST_BITS)};
    bool listed = false;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) {
        says[LS_VIEW_REMEMBERED + i] = part_of(note, REMEMBERED_AT + i * REMEMBERED_BITS, REMEMBERED_BITS);
        listed |= says[LS_VIEW_REMEMBERED + i] > 1;
    }
    // grade of the prediction after one token: nothing known, not listed, listed below the best; the best by its
    // probability class, of which the lower two are merged
    const int32_t one = says[LS_VIEW_REMEMBERED], best = one - 2,
                  grade = one < 2     ? one
                          : best >= 5 ? 2
                          : best < 2  ? 3
                                      : best + 2;
    if (copy || one) says[LS_VIEW_BOTH] = 1 + fewer[agree] * 7 + grade;
    says[LS_VIEW_KIND] = 1 + (agree ? 2 : listed);
    for (int32_t i = 0, at = 0; i < LS_VIEWS; at += keys[i++]) key[i] = says[i] ? at + says[i] - 1 : -1;
}

void ls_rates_init(ls_rates *r) {
    memcpy(r->weight, first_weights, sizeof r->weight);
}

double ls_rate_odds(const ls_rates *r, int32_t note) {
    int32_t key[LS_VIEWS];
    float z = 0;
    ls_rate_keys(note, key);
    for (int32_t i = 0; i < LS_VIEWS; i++)
        if (key[i] >= 0) z += r->weight[key[i]];
    return exp((double)z);
}

void ls_rates_learn(ls_rates *r, int32_t note, double error, double step) {
    int32_t key[LS_VIEWS];
    ls_rate_keys(note, key);
    const float move = (float)(step * error);
    for (int32_t i = 0; i < LS_VIEWS; i++)
        if (key[i] >= 0) r->weight[key[i]] += move;
}

// ---- counted rates

static const float MEMORY = 400; // trials; more of them halve the counts

static void count_trial(float *hit, float *trial, bool right) {
    *hit += right;
    *trial += 1;
    if (*trial > MEMORY) *hit /= 2, *trial /= 2;
}

static const float BLEND_PRIOR = 6; // trials
static const double BEYOND =
    0.25; // factor for a look-up's probability if the token is not among the draft model's best

int32_t ls_blend_key(const ls_views *v) {
    static const float p_below[LS_BLEND_MODEL - 1] = {0.02f, 0.05f, 0.1f, 0.2f, 0.35f, 0.5f, 0.7f, 0.9f};
    static const double looked_below[LS_BLEND_LOOKED - 2] = {0.05, 0.15, 0.3, 0.5, 0.75};
    int32_t model = 0, looked = 0;
    if (v->p >= 0) {
        while (model < LS_BLEND_MODEL - 1 && v->p >= p_below[model]) model++;
        model = 1 + 2 * model + v->chosen;
    }
    if (v->looked >= 0) {
        while (looked < LS_BLEND_LOOKED - 2 && v->looked >= looked_below[looked]) looked++;
        looked++;
    }
    return model * LS_BLEND_LOOKED + looked;
}

double ls_blend_rate(const ls_blend *b, const ls_views *v) {
    const int32_t key = ls_blend_key(v);
    const double p = v->p > 0 ? (double)v->p : 0, looked = v->looked > 0 ? v->looked : 0,
                 either = v->p < 0 ? looked * BEYOND : 1 - (1 - p) * (1 - looked);
    return ((double)b->hit[key] + (double)BLEND_PRIOR * either) / (double)(b->trial[key] + BLEND_PRIOR);
}

void ls_blend_learn(ls_blend *b, int32_t key, bool hit) {
    count_trial(&b->hit[key], &b->trial[key], hit);
}

static const float SCORES_PRIOR = 4; // trials

static int32_t bucket(double v, const double *below, int32_t n) {
    int32_t b = 0;
    while (b < n && v >= below[b]) b++;
    return b;
}

static int32_t min32(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t depth_of(int32_t depth) { // classes: 1, 2, 3, 4, 5-6, above
    return depth < 5 ? depth - 1 : depth < 7 ? 4 : 5;
}

static double trial_rate(float hit, float trial, double prior) {
    return ((double)hit + (double)SCORES_PRIOR * prior) / ((double)trial + (double)SCORES_PRIOR);
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
        const double all = trial_rate(s->hit[kind][LS_SCORE_DEPTHS], s->trial[kind][LS_SCORE_DEPTHS], prior);
        n->kind = (int16_t)kind;
        n->est_p = (float)trial_rate(s->hit[kind][d], s->trial[kind][d], all);
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
        const int32_t d = depth_of(n->depth);
        count_trial(&s->hit[n->kind][d], &s->trial[n->kind][d], right);
        count_trial(&s->hit[n->kind][LS_SCORE_DEPTHS], &s->trial[n->kind][LS_SCORE_DEPTHS], right);
    }
}
