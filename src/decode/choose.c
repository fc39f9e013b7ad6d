#include "decode/choose.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

int32_t ls_draw(float *q, int32_t n, uint64_t seed, uint64_t position, int32_t k, bool removes) {
    const int32_t token =
        ls_sample_from(q, n, ls_uniform_of(seed, position, LS_STREAM_DRAW + (uint32_t)k)); // q need not sum to 1
    if (token >= 0 && removes) q[token] = 0;
    return token;
}

ls_code ls_draw_said(const ls_accept *a, const lst_sampling *s, ls_second *second, int32_t row, int32_t n,
                     uint64_t position, ls_said *said, ls_err *err) {
    const int32_t draws = ls_accept_draws(a, s->temperature);
    float *q = ls_malloc(2 * (size_t)n * sizeof *q), *left = q + n;
    const ls_code code = second->distribution(second, row, q, n, err);
    if (!code) memcpy(left, q, (size_t)n * sizeof *q);
    int32_t different = 0;
    said->n_draws = 0;
    said->chosen = -1;
    while (!code && said->n_draws < draws) {
        const int32_t x = ls_draw(left, n, s->seed, position, said->n_draws, !a->rule->replaces);
        if (x < 0) break;
        bool again = false;
        for (int32_t i = 0; i < said->n_draws; i++) again |= said->draw[i] == x;
        said->draw[said->n_draws++] = x;
        if (again) continue;
        said->id[different] = x;
        said->p[different++] = q[x];
    }
    for (; different < LS_SAID_TOP; different++) said->id[different] = -1;
    free(q);
    return code;
}

static double sum_of(const float *p, int32_t n) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += (double)p[i];
    return sum;
}

// Makes p[0..n) sum to 1. False: the sum is 0 but for rounding errors.
static bool normalise(float *p, int32_t n) {
    const double sum = sum_of(p, n);
    if (sum < 1e-6) return false;
    for (int32_t i = 0; i < n; i++) p[i] = (float)((double)p[i] / sum);
    return true;
}

int32_t ls_choose_token(const ls_accept *a, const ls_said *said, float *q, const int32_t *others, int32_t n_others,
                        float *p, int32_t n, uint64_t seed, uint64_t position) {
    uint32_t test = LS_STREAM_TEST;
    for (int32_t k = 0; said && k < said->n_draws; k++) {
        const int32_t x = said->draw[k];
        // accepts x with probability min(1, p[x] / q[x]); else the rest, max(p - q, 0), is the distribution to test
        if (ls_uniform_of(seed, position, test++) * (double)q[x] < (double)p[x]) return x;
        for (int32_t i = 0; i < n; i++) p[i] = p[i] > q[i] ? p[i] - q[i] : 0;
        if (!normalise(p, n)) return x; // q is p but for rounding
        if (!a->rule->replaces) {
            q[x] = 0;
            if (!normalise(q, n)) break;
        }
    }
    for (int32_t k = 0; k < n_others; k++) {
        const int32_t x = others[k];
        // not drawn from a distribution: accepts x with probability p[x], else removes it from p
        if (ls_uniform_of(seed, position, test++) < (double)p[x]) return x;
        const float before = p[x];
        p[x] = 0;
        if (!normalise(p, n)) return before > 0 ? x : -1;
    }
    return ls_sample_from(p, n,
                          ls_uniform_of(seed, position, test == LS_STREAM_TEST ? LS_STREAM_PLAIN : LS_STREAM_REST));
}

// The tokens under these rows that were not drawn: each once.
static int32_t others_of(const ls_tree *tree, const bool *here, const ls_said *said, int32_t *out) {
    int32_t n = 0;
    for (int32_t i = 1; i < tree->n; i++) {
        const int32_t token = tree->nodes[i].token;
        bool known = !here[tree->nodes[i].parent];
        for (int32_t k = 0; k < n && !known; k++) known = out[k] == token;
        for (int32_t k = 0; said && k < said->n_draws && !known; k++) known = said->draw[k] == token;
        if (!known) out[n++] = token;
    }
    return n;
}

ls_code ls_choose(const ls_accept *a, const lst_sampling *s, ls_timeline *t, ls_second *second, const ls_tree *tree,
                  int32_t context, lst_row *rows, ls_err *err) {
    const int32_t n = t->engine->n_vocab;
    float *logits = ls_malloc(3 * (size_t)n * sizeof *logits), *p = logits + n, *q = p + n;
    bool here[LS_MAX_ROWS] = {true}; // the rows at this place: more than one where siblings may be equal
    ls_code code = LS_OK;
    for (int32_t first = 0; first >= 0 && !code;) {
        const ls_node *row = &tree->nodes[first];
        const ls_said *said = row->said && tree->said[row->said - 1].n_draws ? &tree->said[row->said - 1] : NULL;
        int32_t others[LS_MAX_ROWS], next = -1;
        const int32_t n_others = others_of(tree, here, said, others);
        if (!said && !n_others) break; // no drafts here: the choice of the forward remains
        code = t->row_logits(t, first, logits, err);
        if (!code && said) code = second->distribution(second, row->said - 1, q, n, err);
        if (code) break;
        ls_sample_shape(logits, n, s->temperature, s->top_k, s->top_p, p);
        const int32_t token =
            ls_choose_token(a, said, q, others, n_others, p, n, s->seed, (uint64_t)(context + row->depth + 1));
        bool there[LS_MAX_ROWS] = {0};
        for (int32_t i = 0; i < tree->n && token >= 0; i++) {
            if (here[i]) rows[i].chosen = token, rows[i].chosen_logit = logits[token];
            if (!i || !here[tree->nodes[i].parent] || tree->nodes[i].token != token) continue;
            there[i] = true;
            if (next < 0) next = i;
        }
        for (int32_t i = 0; i < tree->n; i++) here[i] = there[i];
        first = next;
    }
    free(logits);
    return code;
}
