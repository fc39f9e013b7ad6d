#include "spec/usage.h"
#include "base/mem.h"

#include <string.h>

_Static_assert(sizeof(ls_token_usage) == 32 && sizeof(ls_average) == 128, "lines of the cache");
static const float SLOWEST = 0.1f; // least share of the newest row in an average

static ls_token_usage *usage_at(ls_usage *u, int32_t token) {
    if (token >= u->n_tokens) {
        const int32_t n = token + token / 2 + 1024;
        u->tokens = ls_realloc_lines(u->tokens, (size_t)u->n_tokens * sizeof *u->tokens, (size_t)n * sizeof *u->tokens);
        memset(u->tokens + u->n_tokens, 0, (size_t)(n - u->n_tokens) * sizeof *u->tokens);
        u->n_tokens = n;
    }
    ls_token_usage *t = &u->tokens[token];
    if (t->conversation != u->conversation) {
        t->conversation = u->conversation;
        t->last = t->listed_at = t->count = 0;
    }
    return t;
}

const ls_token_usage *ls_usage_of(const ls_usage *u, int32_t token) {
    return token < u->n_tokens ? &u->tokens[token] : NULL;
}

const ls_average *ls_usage_average(const ls_usage *u, int32_t token) {
    return token < u->n_tokens && u->tokens[token].average ? &u->averages[u->tokens[token].average - 1] : NULL;
}

// Keeps the list of the most frequent tokens in order.
static void rank_frequent(ls_usage *u, int32_t token) {
    const uint32_t total = u->tokens[token].total;
    int32_t i = 0;
    if (u->n_frequent == LS_USAGE_FREQUENT && u->tokens[u->frequent[LS_USAGE_FREQUENT - 1]].total > total) return;
    while (i < u->n_frequent && u->frequent[i] != token) i++;
    if (i == u->n_frequent) {
        if (i < LS_USAGE_FREQUENT) u->n_frequent++;
        else i--;
    }
    for (; i > 0 && u->tokens[u->frequent[i - 1]].total < total; i--) u->frequent[i] = u->frequent[i - 1];
    u->frequent[i] = token;
}

void ls_usage_observe(ls_usage *u, const int32_t *context, size_t n, bool reset) {
    if (reset) {
        u->conversation++;
        u->counted = u->n_recent = 0;
    }
    for (int32_t i = u->counted; i < (int32_t)n; i++) {
        ls_token_usage *t = usage_at(u, context[i]);
        t->last = i + 1;
        t->count += t->count < UINT16_MAX;
        t->total += t->total < UINT32_MAX;
        rank_frequent(u, context[i]);
    }
    u->counted = (int32_t)n;
}

static void average(ls_average *a, int32_t rows, const ls_successor *next) {
    const float share = 1 / (float)rows > SLOWEST ? 1 / (float)rows : SLOWEST;
    int32_t n = 0;
    for (; n < LS_AVERAGE_TOP && a->id[n] >= 0; n++) a->p[n] *= 1 - share;
    for (int32_t j = 0; j < LS_ROW_TOP && next->id[j] >= 0; j++) {
        float p = share * ls_successor_p(next, j);
        int32_t i = 0;
        while (i < n && a->id[i] != next->id[j]) i++;
        if (i < n) p += a->p[i];
        else if (i < LS_AVERAGE_TOP) n++;
        else if (a->p[--i] > p) continue;
        for (; i > 0 && a->p[i - 1] < p; i--) a->id[i] = a->id[i - 1], a->p[i] = a->p[i - 1];
        a->id[i] = next->id[j];
        a->p[i] = p;
    }
}

void ls_usage_add(ls_usage *u, int32_t token, int32_t at, const ls_successor *next) {
    if (next->id[0] < 0) return;
    ls_token_usage *t = usage_at(u, token);
    if (!t->average) {
        if (u->n_averages == u->cap_averages) {
            u->cap_averages += u->cap_averages / 2 + 256;
            u->averages = ls_realloc_lines(u->averages, (size_t)u->n_averages * sizeof *u->averages,
                                           (size_t)u->cap_averages * sizeof *u->averages);
        }
        memset(&u->averages[u->n_averages], -1, sizeof *u->averages);
        t->average = ++u->n_averages;
    }
    t->average_rows += t->average_rows < UINT8_MAX;
    average(&u->averages[t->average - 1], t->average_rows, next);
    if (at < 0) return;
    memcpy(u->recent[u->n_recent++ % LS_USAGE_ROWS], next->id, sizeof u->recent[0]);
    for (int32_t j = 0; j < LS_ROW_TOP && next->id[j] >= 0; j++) {
        t = usage_at(u, next->id[j]);
        t->listed_at = at;
        t->listed_p = ls_successor_p(next, j);
        t->listed_rank = (uint8_t)j;
    }
}

void ls_usage_bias(ls_usage *u, int32_t token, float step) {
    usage_at(u, token)->bias += step;
}

void ls_usage_arrays(ls_usage *u, ls_memory_visit *v) {
    ls_memory_array(v, (void **)&u->tokens, (size_t)u->n_tokens * sizeof *u->tokens);
    ls_memory_array(v, (void **)&u->averages, (size_t)u->cap_averages * sizeof *u->averages);
}
