#include "decode/reflect.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

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

ls_code ls_reflect(const ls_probe *p, double weight, const lst_sampling *s, ls_timeline *t, const ls_tree *tree,
                   int32_t context, lst_row *rows, int32_t *own, ls_err *err) {
    const int32_t n = t->engine->n_vocab;
    float *alone = ls_malloc(3 * (size_t)n * sizeof *alone), *reflected = alone + n, *fused = reflected + n;
    bool here[LS_MAX_ROWS] = {true}; // the rows at this place: more than one where siblings may be equal
    ls_code code = LS_OK;
    for (int32_t i = 0; i < tree->n; i++) own[i] = -1;
    for (int32_t k = 0; k + 1 < p->n_path && !code; k++) {
        const int32_t row = p->path[k];
        code = t->row_logits(t, row, alone, err);
        if (!code) code = t->row_logits(t, p->copies + k, reflected, err);
        if (code) break;
        ls_fuse(alone, reflected, n, weight, s->temperature, fused);
        const int32_t draft = tree->nodes[p->path[k + 1]].token;
        const bool stands =
            ls_sample(fused, n, s->temperature, s->top_k, s->top_p, s->seed, (uint64_t)(context + k + 1)) == draft;
        bool there[LS_MAX_ROWS] = {0};
        for (int32_t i = 0; i < tree->n; i++) {
            if (here[i]) own[i] = rows[i].chosen;
            if (here[i] && stands) rows[i].chosen = draft, rows[i].chosen_logit = alone[draft];
            there[i] = i && here[tree->nodes[i].parent] && tree->nodes[i].token == draft;
        }
        for (int32_t i = 0; i < tree->n; i++) here[i] = there[i];
    }
    free(alone);
    return code;
}
