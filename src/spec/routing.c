#include "spec/routing.h"
#include "base/mem.h"
#include "spec/drafter.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double DECAY = 0.999; // of the counts, a row
static const double DECAY_TREE = 0.98;

typedef uint16_t number; // of an expert in its layer

struct ls_routing {
    int32_t layers, experts, used;
    size_t width; // layers * used: numbers of a row
    // What is remembered: a table without chains, in which a key replaces another one of its place.
    size_t slots;           // a power of two
    uint64_t *key;          // 0: free
    number *of_slot, *last; // last: of the row that was committed last
    bool has_last;
    double *hits;                    // [kinds][layers]: experts that were named
    double trials[LS_ROUTING_KINDS]; // rows
    double woke, foretold;           // experts that trees woke beside their root's, and those by single predictions
    // of the tree that was predicted
    const number *guess[LS_MAX_ROWS]; // NULL: none
    uint8_t kind[LS_MAX_ROWS];
    int32_t n_taken;
    // of the taken rows: the chance that an expert sleeps is asleep * rest
    double *asleep; // [layers][experts]: by those that predictions named
    double *sum;    // [layers]: of asleep
    double *rest;   // [layers]: by the other experts that rows take where a prediction is wrong
};

ls_routing *ls_routing_new(int32_t n_layers, int32_t n_experts, int32_t n_used) {
    enum { MOST = 1 << 22, SLOTS = 1 << 16 };
    if (n_layers < 1 || n_used < 1 || n_experts < n_used || n_experts > UINT16_MAX || n_layers > MOST / n_experts)
        return NULL;
    ls_routing *r = ls_calloc(1, sizeof *r);
    r->layers = n_layers;
    r->experts = n_experts;
    r->used = n_used;
    r->width = (size_t)n_layers * (size_t)n_used;
    r->slots = SLOTS;
    while (r->slots > 1 && r->slots * (r->width * sizeof(number) + sizeof *r->key) > LS_ROUTING_BYTES) r->slots /= 2;
    r->key = ls_calloc(r->slots, sizeof *r->key);
    r->of_slot = ls_calloc(r->slots * r->width, sizeof *r->of_slot);
    r->last = ls_calloc(r->width, sizeof *r->last);
    r->hits = ls_calloc((size_t)LS_ROUTING_KINDS * (size_t)n_layers, sizeof *r->hits);
    r->asleep = ls_calloc((size_t)n_layers * (size_t)n_experts, sizeof *r->asleep);
    r->sum = ls_calloc((size_t)n_layers, sizeof *r->sum);
    r->rest = ls_calloc((size_t)n_layers, sizeof *r->rest);
    return r;
}

void ls_routing_free(ls_routing *r) {
    if (!r) return;
    free(r->key);
    free(r->of_slot);
    free(r->last);
    free(r->hits);
    free(r->asleep);
    free(r->sum);
    free(r->rest);
    free(r);
}

// The key of the last n tokens: ids are stored + 1, so that leading zeros mark fewer tokens.
static uint64_t key_of(const int32_t *end, int32_t n) {
    uint64_t key = 0;
    for (int32_t i = n; i > 0; i--) key = key << 32 | (uint32_t)(end[-i] + 1);
    return key;
}

static size_t slot_of(const ls_routing *r, uint64_t key) {
    const uint64_t h = key * 0x9E3779B97F4A7C15u;
    return (size_t)((h ^ h >> 32) & (r->slots - 1));
}

// The experts of the longest known key, and its length in *kind. end: behind the row's token. NULL: nothing is known.
static const number *recall(const ls_routing *r, const int32_t *end, int32_t n, uint8_t *kind) {
    for (int32_t k = n < LS_ROUTING_ORDER ? n : LS_ROUTING_ORDER; k > 0; k--) {
        const uint64_t key = key_of(end, k);
        const size_t at = slot_of(r, key);
        if (r->key[at] != key) continue;
        *kind = (uint8_t)k;
        return r->of_slot + at * r->width;
    }
    *kind = LS_ROUTING_LAST;
    return r->has_last ? r->last : NULL;
}

static void keep(number *to, const int32_t *experts, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = (number)experts[i];
}

static void remember(ls_routing *r, const int32_t *end, int32_t n, const int32_t *experts) {
    for (int32_t k = n < LS_ROUTING_ORDER ? n : LS_ROUTING_ORDER; k > 0; k--) {
        const uint64_t key = key_of(end, k);
        const size_t at = slot_of(r, key);
        r->key[at] = key;
        keep(r->of_slot + at * r->width, experts, r->width);
    }
}

// Counts how many of the experts the prediction named.
static void judge(ls_routing *r, const number *guess, int kind, const int32_t *experts) {
    double *hits = r->hits + (size_t)kind * (size_t)r->layers;
    r->trials[kind] = DECAY * r->trials[kind] + 1;
    for (int32_t layer = 0; layer < r->layers; layer++, guess += r->used, experts += r->used) {
        int32_t named = 0;
        for (int32_t i = 0; i < r->used; i++)
            for (int32_t j = 0; j < r->used; j++) named += guess[i] == experts[j];
        hits[layer] = DECAY * hits[layer] + (double)named / r->used;
    }
}

void ls_routing_commit(ls_routing *r, const int32_t *experts) {
    keep(r->last, experts, r->width);
    r->has_last = true;
}

void ls_routing_read(ls_routing *r, const int32_t *text, size_t n, int32_t n_rows, const int32_t *experts) {
    for (int32_t i = 0; i < n_rows; i++) {
        const size_t end = n - (size_t)(n_rows - i) + 1;
        const int32_t known = end < LS_ROUTING_ORDER ? (int32_t)end : LS_ROUTING_ORDER;
        const int32_t *took = experts + (size_t)i * r->width;
        uint8_t kind;
        const number *guess = recall(r, text + end, known, &kind);
        if (guess) judge(r, guess, kind, took);
        remember(r, text + end, known, took);
        ls_routing_commit(r, took);
    }
}

void ls_routing_predict(ls_routing *r, const int32_t *context, size_t n, const ls_tree *t) {
    const ls_draft_state s = {.context = context, .n_context = n};
    int32_t tail[LS_ROUTING_ORDER];
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t known = ls_draft_tail(&s, t->nodes, sizeof *t->nodes, i, tail, LS_ROUTING_ORDER);
        r->guess[i] = recall(r, tail + known, known, &r->kind[i]);
    }
    r->n_taken = 0;
    for (size_t i = 0; i < (size_t)r->layers * (size_t)r->experts; i++) r->asleep[i] = 1;
    for (int32_t i = 0; i < r->layers; i++) {
        r->sum[i] = r->experts;
        r->rest[i] = 1;
    }
}

// The chance that an expert that a row's prediction names in a layer is right.
static double right(const ls_routing *r, int32_t row, int32_t layer) {
    static const double FIRST = 0.5; // before anything was counted
    const int kind = r->kind[row];
    if (!r->guess[row]) return 0;
    return (r->hits[(size_t)kind * (size_t)r->layers + (size_t)layer] + FIRST) / (r->trials[kind] + 1);
}

// How many of the experts that single predictions foretell for a tree, beside its root's, are awake.
static double share(const ls_routing *r) {
    const double first = (double)r->width; // before anything was counted: all
    return (r->woke + first) / (r->foretold + first);
}

double ls_routing_wakes(const ls_routing *r, int32_t row) {
    double all = 0;
    if (!r->n_taken) return (double)r->width;
    for (int32_t layer = 0; layer < r->layers; layer++) {
        const double p = right(r, row, layer), *asleep = r->asleep + (size_t)layer * (size_t)r->experts;
        const number *guess = r->guess[row] ? r->guess[row] + (size_t)layer * (size_t)r->used : NULL;
        double named = 0;
        for (int32_t i = 0; guess && i < r->used; i++) named += asleep[guess[i]];
        all += r->rest[layer] * (p * named + (1 - p) * r->used * r->sum[layer] / r->experts);
    }
    return share(r) * all;
}

void ls_routing_take(ls_routing *r, int32_t row) {
    for (int32_t layer = 0; layer < r->layers; layer++) {
        const double p = right(r, row, layer), others = 1 - (1 - p) * r->used / r->experts; // an expert sleeps on
        double *asleep = r->asleep + (size_t)layer * (size_t)r->experts;
        const number *guess = r->guess[row] ? r->guess[row] + (size_t)layer * (size_t)r->used : NULL;
        for (int32_t i = 0; guess && others > 0 && i < r->used; i++) { // named: it sleeps on with others - p
            r->sum[layer] -= asleep[guess[i]] * p / others;
            asleep[guess[i]] *= 1 - p / others;
        }
        r->rest[layer] *= others;
    }
    r->n_taken++;
}

// Experts that are awake beside those of the first taken row, by single predictions.
static double foretold(const ls_routing *r) {
    double all = -(double)r->width;
    for (int32_t layer = 0; layer < r->layers; layer++) all += r->experts - r->rest[layer] * r->sum[layer];
    return all;
}

double ls_routing_awake(const ls_routing *r) {
    return r->n_taken ? (double)r->width + share(r) * foretold(r) : 0;
}

double ls_routing_expect(ls_routing *r, const int32_t *context, size_t n, const ls_tree *t) {
    ls_routing_predict(r, context, n, t);
    for (int32_t i = 0; i < t->n; i++) ls_routing_take(r, i);
    return ls_routing_awake(r);
}

void ls_routing_learn(ls_routing *r, const int32_t *context, size_t n, const ls_tree *t, const int32_t *experts,
                      int32_t n_awake) {
    const ls_draft_state s = {.context = context, .n_context = n};
    int32_t tail[LS_ROUTING_ORDER];
    r->woke = DECAY_TREE * r->woke + n_awake - (double)r->width;
    r->foretold = DECAY_TREE * r->foretold + foretold(r);
    for (int32_t i = 0; i < t->n; i++)
        if (r->guess[i]) judge(r, r->guess[i], r->kind[i], experts + (size_t)i * r->width);
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t known = ls_draft_tail(&s, t->nodes, sizeof *t->nodes, i, tail, LS_ROUTING_ORDER);
        remember(r, tail + known, known, experts + (size_t)i * r->width);
    }
}

double ls_routing_rate(const ls_routing *r, int kind, double *trials) {
    double all = 0;
    *trials = r->trials[kind];
    for (int32_t layer = 0; layer < r->layers; layer++)
        all += r->hits[(size_t)kind * (size_t)r->layers + (size_t)layer];
    return *trials > 0 ? all / r->layers / *trials : (double)NAN;
}

void ls_routing_memory(ls_routing *r, ls_memory_visit *v) {
    ls_memory_part(v, r, sizeof *r);
    ls_memory_array(v, (void **)&r->key, r->slots * sizeof *r->key);
    ls_memory_array(v, (void **)&r->of_slot, r->slots * r->width * sizeof *r->of_slot);
    ls_memory_array(v, (void **)&r->last, r->width * sizeof *r->last);
    ls_memory_array(v, (void **)&r->hits, (size_t)LS_ROUTING_KINDS * (size_t)r->layers * sizeof *r->hits);
}
