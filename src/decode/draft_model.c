#include "decode/draft_model.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/system.h"
#include "decode/choose.h"
#include "engine/load.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAIN = 32,   // more new tokens than this are read by a prefill
    RESUMED = 64, // with more pending rows a draft does not resume: their path is committed, the others are dropped
};

typedef struct {
    ls_draft_model base;
    ls_model *target, *model; // model: the target, or another one
    int32_t differs;          // the first token id that the two models do not share; -1: they share all
    ls_kv_cache *kv;
    const lst_sampling *sampling;
    const ls_accept *accept;
    ls_ids text; // committed tokens of the KV cache
    // pending rows after the text: a chain of new tokens from the first forward, then drafts
    int32_t token[LST_MAX_ROWS], parent[LST_MAX_ROWS], n;
    ls_prediction predictions[LST_MAX_ROWS];
    int32_t row[LS_MAX_PREDICTIONS], n_rows; // those of the present draft, the root first
} model;
_Static_assert((int)LST_ROW_TOP <= (int)LS_PREDICTION_TOP,
               "ls_prediction has room for the top tokens of a row of the engine");
_Static_assert(CHAIN + 1 <= RESUMED && RESUMED + LS_MAX_PREDICTIONS <= LST_MAX_ROWS,
               "a resumed draft has room for all its rows");

// Over the tokens that both models have.
static ls_code model_distribution(ls_draft_model *base, int32_t row, float *q, int32_t n_vocab, ls_err *err) {
    model *m = (model *)base;
    const lst_sampling *s = m->sampling;
    const int32_t own = m->kv->engine->n_vocab, both = m->differs >= 0 ? m->differs : own < n_vocab ? own : n_vocab;
    float *logits = ls_malloc((size_t)(own > n_vocab ? own : n_vocab) * sizeof *logits);
    const ls_code code = m->kv->row_logits(m->kv, m->row[row], logits, err);
    for (int32_t i = both; i < n_vocab; i++) logits[i] = -INFINITY;
    if (!code) ls_sample_shape(logits, n_vocab, s->temperature, s->top_k, s->top_p, q);
    free(logits);
    return code;
}

ls_prediction ls_prediction_of(const lst_row *r, int32_t differs) {
    ls_prediction s = {.chosen = differs < 0 || r->chosen < differs ? r->chosen : -1, .entropy = r->entropy};
    int n = 0;
    for (int i = 0; i < LST_ROW_TOP; i++) {
        if (r->top_id[i] < 0 || (differs >= 0 && r->top_id[i] >= differs)) continue;
        s.id[n] = r->top_id[i];
        s.p[n++] = expf(r->top_logit[i] - r->lse);
    }
    for (; n < LS_PREDICTION_TOP; n++) s.id[n] = -1;
    return s;
}

void ls_draft_forward_timed(ls_draft_model *m, uint64_t start_ns, int32_t n, int32_t context) {
    const double us = (double)(ls_now_ns() - start_ns) / 1e3;
    ls_cost_observe(&m->costs, n, context, -1, us / 1e3);
    m->forwards++;
    m->forward_us += us;
}

// Runs and times a forward of rows first .. first + n - 1.
static ls_code model_forward(model *m, int32_t first, int32_t n, ls_err *err) {
    lst_row rows[LST_MAX_ROWS];
    const uint64_t start = ls_now_ns();
    const ls_code code = (first ? m->kv->grow_tree : m->kv->forward_tree)(m->kv, m->token + first, m->parent + first, n,
                                                                          m->sampling, rows, err);
    if (code) return code;
    ls_draft_forward_timed(&m->base, start, n, (int32_t)m->text.n);
    for (int32_t i = 0; i < n; i++) m->predictions[first + i] = ls_prediction_of(&rows[i], m->differs);
    return LS_OK;
}

static ls_code model_forget(model *m, size_t n, ls_err *err) {
    m->n = 0;
    m->text.n = n;
    return m->kv->rewind(m->kv, (int32_t)n, err);
}

// The pending rows that became text, as a path.
static int32_t taken(const model *m, const int32_t *context, size_t n, int32_t *path) {
    int32_t n_path = 0, at = -1;
    for (int32_t i = 0; i < m->n && m->text.n + (size_t)n_path < n; i++)
        if (m->parent[i] == at && m->token[i] == context[m->text.n + (size_t)n_path]) path[n_path++] = at = i;
    return n_path;
}

static int32_t model_unread(const ls_draft_model *base, const int32_t *context, size_t n) {
    const model *m = (const model *)base;
    int32_t path[LST_MAX_ROWS];
    const size_t same = ls_ids_common(m->text.p, m->text.n, context, n);
    return (int32_t)(n - same) - (same < m->text.n ? 0 : taken(m, context, n, path));
}

// Commits these rows.
static ls_code model_keep(model *m, const int32_t *context, size_t n, ls_err *err) {
    int32_t path[LST_MAX_ROWS];
    const int32_t n_path = taken(m, context, n, path);
    m->n = 0;
    if (!n_path) return LS_OK;
    const ls_code code = m->kv->keep_path(m->kv, path, n_path, err);
    if (!code) ls_ids_add(&m->text, context + m->text.n, (size_t)n_path);
    return code;
}

// Commits the text to the KV cache, except for at most CHAIN tokens at its end.
static ls_code model_follow(model *m, const int32_t *context, size_t n, ls_err *err) {
    const size_t same = ls_ids_common(m->text.p, m->text.n, context, n);
    ls_code code = same < m->text.n ? model_forget(m, same, err) : model_keep(m, context, n, err);
    const size_t more = n - m->text.n;
    if (code || more <= CHAIN) return code;
    const uint64_t start = ls_now_ns();
    lst_row last;
    code = m->kv->prefill(m->kv, context + m->text.n, (int32_t)more, m->sampling, &last, NULL, NULL, err);
    if (code) return code;
    ls_ids_add(&m->text, context + m->text.n, more);
    m->base.forwards++;
    m->base.forward_us += (double)(ls_now_ns() - start) / 1e3;
    return LS_OK;
}

static bool knows_all(const model *m, const int32_t *ids, size_t n) {
    if (m->differs < 0) return true;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= m->differs) return false;
    return true;
}

static ls_code model_begin(ls_draft_model *base, const int32_t *context, size_t n, int32_t root,
                           ls_prediction *prediction, ls_err *err) {
    model *m = (model *)base;
    if (n + 1 >= (size_t)m->kv->engine->n_context)
        return ls_fail(err, LS_E_RANGE,
                       "the draft model's context of %d tokens is full: the answer continues without its drafts",
                       m->kv->engine->n_context);
    if (!knows_all(m, context, n) || !knows_all(m, &root, 1))
        return ls_fail(
            err, LS_E_RANGE,
            "the text has special tokens that the draft model lacks: the answer continues without its drafts");
    ls_code code = model_follow(m, context, n, err);
    for (size_t i = m->text.n; i < n && !code; i++) m->token[m->n++] = context[i];
    m->row[0] = m->n;
    m->n_rows = 1;
    m->token[m->n++] = root;
    for (int32_t i = 0; i < m->n; i++) m->parent[i] = i - 1;
    if (!code) code = model_forward(m, 0, m->n, err);
    if (code) {
        model_forget(m, m->text.n, NULL); // what was committed before stays
        return code;
    }
    *prediction = m->predictions[m->row[0]];
    return ls_draw_prediction(m->accept, m->sampling, base, 0, m->target->engine->n_vocab, (uint64_t)n + 1, prediction,
                              err);
}

// If the text continued as an earlier draft, the new draft begins with the remaining rows of that draft: no row is
// forwarded twice.
static bool model_resume(ls_draft_model *base, const int32_t *context, size_t n, int32_t root, ls_draft_rows *out) {
    model *m = (model *)base;
    int32_t path[LST_MAX_ROWS], at[LST_MAX_ROWS]; // at: a row's place in the draft
    if (m->n > RESUMED || n + 1 >= (size_t)m->kv->engine->n_context || n < m->text.n ||
        ls_ids_common(m->text.p, m->text.n, context, n) < m->text.n ||
        ls_accept_draws(m->accept, m->sampling->temperature))
        return false; // drawn drafts must not be used twice
    const int32_t n_path = taken(m, context, n, path), end = n_path ? path[n_path - 1] : -1;
    if (m->text.n + (size_t)n_path < n) return false;
    m->n_rows = 0;
    for (int32_t i = 0; i < m->n; i++) {
        const int32_t up = m->parent[i];
        at[i] = -1;
        // first finds the root after the path, then the rows below it
        if (m->n_rows ? up < 0 || at[up] < 0 : up != end || m->token[i] != root) continue;
        out->token[m->n_rows] = m->token[i];
        out->parent[m->n_rows] = m->n_rows ? at[up] : -1;
        out->predictions[m->n_rows] = m->predictions[i];
        m->row[at[i] = m->n_rows++] = i;
    }
    out->n = m->n_rows;
    return m->n_rows > 0;
}

static ls_code model_more(ls_draft_model *base, const int32_t *tokens, const int32_t *parents, int32_t n,
                          ls_prediction *prediction, ls_err *err) {
    model *m = (model *)base;
    const int32_t first = m->n;
    if (n > LST_MAX_ROWS - first || n > LS_MAX_PREDICTIONS - m->n_rows || !knows_all(m, tokens, (size_t)n))
        return ls_fail(err, LS_E_RANGE, "the draft model has no room for more rows, or lacks a token");
    int32_t depth[LST_MAX_ROWS];
    for (int32_t i = 0; i < n; i++) {
        depth[i] = 0;
        m->token[first + i] = tokens[i];
        m->parent[first + i] = parents[i] < m->n_rows ? m->row[parents[i]] : first + parents[i] - m->n_rows;
        for (int32_t at = m->parent[first + i]; at >= 0; at = m->parent[at]) depth[i]++;
        if (m->text.n + (size_t)depth[i] + 1 >= (size_t)m->kv->engine->n_context)
            return ls_fail(err, LS_E_RANGE, "the draft model's context is full");
    }
    ls_code code = model_forward(m, first, n, err);
    if (code) {
        model_forget(m, m->text.n, NULL); // a GPU that failed has also lost the old rows
        return code;
    }
    m->n = first + n;
    for (int32_t i = 0; i < n && !code; i++) {
        prediction[i] = m->predictions[first + i];
        m->row[m->n_rows] = first + i;
        code = ls_draw_prediction(m->accept, m->sampling, base, m->n_rows, m->target->engine->n_vocab,
                                  (uint64_t)m->text.n + (uint64_t)depth[i] + 1, &prediction[i], err);
        m->n_rows++;
    }
    return code;
}

static void model_free(ls_draft_model *base) {
    model *m = (model *)base;
    if (m->kv) m->kv->free(m->kv);
    if (m->model && m->model != m->target) ls_draft_model_done(m->target, m->model);
    ls_ids_free(&m->text);
    free(m);
}

static ls_code open_model(model *m, const ls_draft_options *o, ls_err *err) {
    const ls_draft_model_want want = {o->model, o->weights, o->device, o->threads};
    const bool same = (!o->model || !*o->model) && !strcmp(o->weights, "auto"),  // the target's weights
        own = same && !o->threads && (!o->device || !strcmp(o->device, "auto")); // ... as they are loaded
    int32_t layers = o->layers;
    ls_code code = LS_OK;
    m->differs = -1;
    if (own) m->model = m->target;
    else code = ls_draft_model_get(m->target, &want, &m->model, &m->differs, err);
    if (code) return code;
    const ls_engine *e = m->model->engine;
    if (layers > e->n_layers)
        return ls_fail(err, LS_E_RANGE, "draft.layers is %d, but %s has %d layers", layers, m->model->name,
                       e->n_layers);
    if (same && !layers) layers = (e->n_layers + 1) / 2;
    if (layers && layers < e->n_layers)
        snprintf(m->base.name, sizeof m->base.name, "%.30s, its first %d layers", m->model->name, layers);
    else snprintf(m->base.name, sizeof m->base.name, "%.60s", m->model->name);
    m->base.threads = strcmp(e->device, "cpu") ? 0 : e->threads;
    code = m->model->engine->kv_cache(m->model->engine, layers, &m->kv, err);
    return code ? code : ls_costs_measure_briefly(&m->base.costs, m->kv, err);
}

ls_code ls_draft_model_open(ls_draft_model **out, ls_model *target, const ls_draft_options *o,
                            const lst_sampling *sampling, const ls_accept *accept, ls_err *err) {
    model *m = ls_calloc(1, sizeof *m);
    *out = NULL;
    m->base = (ls_draft_model){.begin = model_begin,
                               .resume = model_resume,
                               .more = model_more,
                               .distribution = model_distribution,
                               .unread = model_unread,
                               .free = model_free};
    m->target = target;
    m->sampling = sampling;
    m->accept = accept;
    const ls_code code = open_model(m, o, err);
    if (code) model_free(&m->base);
    else *out = &m->base;
    return code;
}
