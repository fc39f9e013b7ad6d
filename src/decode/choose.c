#include "decode/choose.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t ls_draw(float *q, int32_t n, uint64_t seed, uint64_t position, int32_t k, bool removes) {
    const int32_t token =
        ls_sample_from(q, n, ls_uniform_of(seed, position, LS_STREAM_DRAW + (uint32_t)k)); // q need not sum to 1
    if (token >= 0 && removes) q[token] = 0;
    return token;
}

ls_code ls_draw_prediction(const ls_accept *a, const lst_sampling *s, ls_draft_model *draft_model, int32_t row,
                           int32_t n, uint64_t position, ls_prediction *prediction, ls_err *err) {
    const int32_t draws = ls_accept_draws(a, s->temperature);
    if (!draws) return LS_OK;
    float *q = ls_malloc(2 * (size_t)n * sizeof *q), *left = q + n;
    const ls_code code = draft_model->distribution(draft_model, row, q, n, err);
    if (!code) memcpy(left, q, (size_t)n * sizeof *q);
    int32_t different = 0;
    prediction->n_draws = 0;
    prediction->chosen = -1;
    while (!code && prediction->n_draws < draws) {
        const int32_t x = ls_draw(left, n, s->seed, position, prediction->n_draws, !a->rule->replaces);
        if (x < 0) break;
        bool again = false;
        for (int32_t i = 0; i < prediction->n_draws; i++) again |= prediction->draw[i] == x;
        prediction->draw[prediction->n_draws++] = x;
        if (again) continue;
        prediction->id[different] = x;
        prediction->p[different++] = q[x];
    }
    for (; different < LS_PREDICTION_TOP; different++) prediction->id[different] = -1;
    free(q);
    return code;
}

// Makes p[0..n) sum to 1. False: the sum is 0 but for rounding errors.
static bool normalise(float *p, int32_t n) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += (double)p[i];
    if (sum < 1e-6) return false;
    for (int32_t i = 0; i < n; i++) p[i] = (float)((double)p[i] / sum);
    return true;
}

int32_t ls_choose_token(const ls_accept *a, const ls_prediction *prediction, float *q, const int32_t *others,
                        int32_t n_others, float *p, int32_t n, uint64_t seed, uint64_t position) {
    uint32_t test = LS_STREAM_TEST;
    for (int32_t k = 0; prediction && k < prediction->n_draws; k++) {
        const int32_t x = prediction->draw[k];
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
static int32_t others_of(const ls_tree *tree, const bool *here, const ls_prediction *prediction, int32_t *out) {
    int32_t n = 0;
    for (int32_t i = 1; i < tree->n; i++) {
        const int32_t token = tree->nodes[i].token;
        bool known = !here[tree->nodes[i].parent];
        for (int32_t k = 0; k < n && !known; k++) known = out[k] == token;
        for (int32_t k = 0; prediction && k < prediction->n_draws && !known; k++) known = prediction->draw[k] == token;
        if (!known) out[n++] = token;
    }
    return n;
}

// Rows of a place: those with one path of tokens, more than one where siblings may be equal. All of them get the
// choice.
static void set_choice(const ls_tree *t, const bool *here, lst_row *rows, int32_t token, float logit) {
    for (int32_t i = 0; i < t->n; i++)
        if (here[i]) rows[i].chosen = token, rows[i].chosen_logit = logit;
}

// The place below with this token. Returns its first row; -1: there is none.
static int32_t go_down(const ls_tree *t, bool *here, int32_t token) {
    int32_t first = -1;
    for (int32_t i = t->n - 1; i >= 0; i--) { // children come after their parents
        here[i] = i && here[t->nodes[i].parent] && t->nodes[i].token == token;
        if (here[i]) first = i;
    }
    return first;
}

ls_code ls_choose(const ls_accept *a, const lst_sampling *s, ls_kv_cache *kv, ls_draft_model *draft_model,
                  const ls_tree *tree, int32_t context, lst_row *rows, ls_err *err) {
    const int32_t n = kv->engine->n_vocab;
    float *logits = ls_malloc(3 * (size_t)n * sizeof *logits), *p = logits + n, *q = p + n;
    bool here[LS_MAX_ROWS] = {true};
    ls_code code = LS_OK;
    for (int32_t first = 0; first >= 0 && !code;) {
        const ls_node *row = &tree->nodes[first];
        const ls_prediction *prediction = ls_tree_prediction(tree, first);
        if (prediction && !prediction->n_draws) prediction = NULL;
        int32_t others[LS_MAX_ROWS];
        const int32_t n_others = others_of(tree, here, prediction, others);
        if (!prediction && !n_others) break; // no drafts here: the choice of the forward remains
        code = kv->row_logits(kv, first, logits, err);
        if (!code && prediction) code = draft_model->distribution(draft_model, row->prediction - 1, q, n, err);
        if (code) break;
        ls_sample_shape(logits, n, s->temperature, s->top_k, s->top_p, p);
        const int32_t token =
            ls_choose_token(a, prediction, q, others, n_others, p, n, s->seed, (uint64_t)(context + row->depth + 1));
        if (token >= 0) set_choice(tree, here, rows, token, logits[token]);
        first = token >= 0 ? go_down(tree, here, token) : -1;
    }
    free(logits);
    return code;
}

ls_code ls_shape_tree(double temperature, ls_kv_cache *kv, const ls_tree *tree, ls_shaped *shaped, ls_err *err) {
    const int32_t n = kv->engine->n_vocab;
    float *logits = ls_malloc(2 * (size_t)n * sizeof *logits), *p = logits + n;
    bool has_children[LS_MAX_ROWS] = {0};
    ls_code code = LS_OK;
    for (int32_t i = 1; i < tree->n; i++) has_children[tree->nodes[i].parent] = true;
    for (int32_t row = 0; row < tree->n && !code; row++) {
        double entropy = 0;
        shaped[row].entropy = 0;
        if (!has_children[row] || (code = kv->row_logits(kv, row, logits, err))) continue;
        ls_sample_shape(logits, n, temperature, 0, 1, p);
        for (int32_t k = 0; k < n; k++) entropy -= p[k] > 0 ? (double)p[k] * log((double)p[k]) : 0;
        shaped[row].entropy = (float)entropy;
        for (int32_t i = row + 1; i < tree->n; i++)
            if (tree->nodes[i].parent == row) shaped[i].p = p[tree->nodes[i].token];
    }
    free(logits);
    return code;
}

// ---- a second look

// The row whose path is expected to have the most drafts accepted; of equals the first.
static int32_t likeliest_end(const ls_tree *t) {
    double chance[LS_MAX_ROWS] = {1}, accepted[LS_MAX_ROWS] = {0};
    int32_t best = 0;
    for (int32_t i = 1; i < t->n; i++) {
        const int32_t parent = t->nodes[i].parent;
        chance[i] = chance[parent] * (double)t->nodes[i].est_p;
        accepted[i] = accepted[parent] + chance[i];
        if (!best || accepted[i] > accepted[best]) best = i;
    }
    return best;
}

void ls_probe_add(ls_probe *p, const ls_tree *tree, const ls_ids *prompt, int32_t room, int32_t *ids,
                  int32_t *parents) {
    *p = (ls_probe){0};
    const int32_t end = likeliest_end(tree), depth = tree->nodes[end].depth;
    const size_t n = prompt->n + (size_t)depth;
    if (!end || n > (size_t)(LS_MAX_ROWS - tree->n) || n + (size_t)depth >= (size_t)room) return;
    p->n = (int32_t)n;
    p->copies = tree->n + (int32_t)prompt->n;
    p->n_path = ls_tree_path(tree, end, p->path);
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t row = tree->n + i;
        ids[row] = row < p->copies ? prompt->p[i] : tree->nodes[p->path[row - p->copies]].token;
        parents[row] = i ? row - 1 : end;
    }
}

static double log_sum(const float *logits, int32_t n, double inv) {
    double max = (double)logits[0];
    for (int32_t i = 1; i < n; i++) max = (double)logits[i] > max ? (double)logits[i] : max;
    double sum = exp(((double)logits[0] - max) * inv);
    for (int32_t i = 1; i < n; i++) sum += exp(((double)logits[i] - max) * inv);
    return max * inv + log(sum);
}

void ls_fuse(const float *own, const float *reflected, int32_t n, double weight, double temperature, float *fused) {
    const double scale = temperature > 0 ? temperature : 1, inv = 1 / scale;
    const double apart = log_sum(reflected, n, inv) - log_sum(own, n, inv);
    for (int32_t i = 0; i < n; i++) {
        const double ratio = exp(((double)reflected[i] - (double)own[i]) * inv - apart); // of the probabilities
        fused[i] = (float)((double)own[i] + scale * log1p(weight * (ratio - 1)));
    }
}

ls_code ls_reflect(const ls_probe *p, double weight, const lst_sampling *s, ls_kv_cache *kv, const ls_tree *tree,
                   int32_t context, lst_row *rows, int32_t *own, ls_err *err) {
    const int32_t n = kv->engine->n_vocab;
    float *alone = ls_malloc(3 * (size_t)n * sizeof *alone), *reflected = alone + n, *fused = reflected + n;
    bool here[LS_MAX_ROWS] = {true};
    ls_code code = LS_OK;
    for (int32_t i = 0; i < tree->n; i++) own[i] = -1;
    for (int32_t k = 0; k + 1 < p->n_path && !code; k++) {
        const int32_t row = p->path[k];
        code = kv->row_logits(kv, row, alone, err);
        if (!code) code = kv->row_logits(kv, p->copies + k, reflected, err);
        if (code) break;
        ls_fuse(alone, reflected, n, weight, s->temperature, fused);
        const int32_t draft = tree->nodes[p->path[k + 1]].token;
        const bool stands =
            ls_sample(fused, n, s->temperature, s->top_k, s->top_p, s->seed, (uint64_t)(context + k + 1)) == draft;
        for (int32_t i = 0; i < tree->n; i++)
            if (here[i]) own[i] = rows[i].chosen;
        if (stands) set_choice(tree, here, rows, draft, alone[draft]);
        go_down(tree, here, draft);
    }
    free(alone);
    return code;
}
