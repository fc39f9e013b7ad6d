#include "spec/rates.h"

#include <math.h>
#include <string.h>

static const float prior[LS_RATE_KEYS] = {
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
    SAID_BITS = 5,
    LAST_BITS = 6,
    SAID_AT = COPY_BITS,
    LAST_AT = SAID_AT + LS_SUCCESSORS_ORDER * SAID_BITS,
};
_Static_assert(LS_VIEW_COPY_KEYS < 1 << COPY_BITS && LS_VIEW_SAID_KEYS < 1 << SAID_BITS &&
                   LS_VIEW_LAST_KEYS < 1 << LAST_BITS && LAST_AT + LAST_BITS < 32,
               "a note fits 31 bits");

static int32_t part_of(int32_t note, int32_t at, int32_t bits) {
    return note >> at & ((1 << bits) - 1);
}

int32_t ls_rate_note(const ls_features *f) {
    static const int32_t agreement[] = {1, 2, 3, 4, 5, 7, 10}, said[] = {1, 2, 3, 5}, last[] = {2, 3, 5, 9, 17, 33};
    static const float said_p[] = {0.05f, 0.2f, 0.5f, 0.85f}, last_p[] = {0.01f, 0.05f, 0.2f, 0.5f};
    int32_t note = f->copies ? 1 + below(f->agree, agreement, 7) * 4 + (int32_t)f->place : 0;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) {
        const int32_t rank = f->said[i].rank, listed = 2 + below(rank, said, 4) * 5 + share(f->said[i].p, said_p);
        note |= (!f->said[i].known ? 0 : rank < 0 ? 1 : listed) << (SAID_AT + i * SAID_BITS);
    }
    const int32_t rank = f->last_rank, listed = 2 + below(rank, last, 6) * 5 + share(f->last_p, last_p);
    return note | (!f->last ? 0 : rank < 0 ? 1 : listed) << LAST_AT;
}

void ls_rate_keys(int32_t note, int32_t key[LS_VIEWS]) {
    static const int32_t fewer[] = {0, 1, 2, 3, 3, 4, 4, 5}; // agreement in fewer classes
    static const int32_t keys[LS_VIEWS] = {LS_VIEW_COPY_KEYS, LS_VIEW_SAID_KEYS, LS_VIEW_SAID_KEYS, LS_VIEW_SAID_KEYS,
                                           LS_VIEW_LAST_KEYS, LS_VIEW_BOTH_KEYS, LS_VIEW_KINDS};
    const int32_t copy = part_of(note, 0, COPY_BITS), agree = copy ? (copy - 1) / 4 : 0;
    int32_t says[LS_VIEWS] = {[LS_VIEW_COPY] = copy, [LS_VIEW_LAST] = part_of(note, LAST_AT, LAST_BITS)};
    bool listed = false;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) {
        says[LS_VIEW_SAID + i] = part_of(note, SAID_AT + i * SAID_BITS, SAID_BITS);
        listed |= says[LS_VIEW_SAID + i] > 1;
    }
    // grade of the prediction after one token: nothing known, not listed, listed below the best; the best by its
    // probability class, of which the lower two are merged
    const int32_t one = says[LS_VIEW_SAID], best = one - 2,
                  grade = one < 2     ? one
                          : best >= 5 ? 2
                          : best < 2  ? 3
                                      : best + 2;
    if (copy || one) says[LS_VIEW_BOTH] = 1 + fewer[agree] * 7 + grade;
    says[LS_VIEW_KIND] = 1 + (agree ? 2 : listed);
    for (int32_t i = 0, at = 0; i < LS_VIEWS; at += keys[i++]) key[i] = says[i] ? at + says[i] - 1 : -1;
}

void ls_rates_init(ls_rates *r) {
    memcpy(r->weight, prior, sizeof r->weight);
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
