#include "decode/draft_model.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/system.h"
#include "decode/choose.h"
#include "decode/hidden.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- EAGLE: input at position i is a pair: token[i + 1] and the target's hidden state of token[i]. The head reads the
// pairs of the text as they become known; the token of the last pair is the root. Pairs that the head drafted are
// forgotten, because they used its own outputs instead of the target's hidden states.
_Static_assert((int)LS_PREDICTION_TOP <= (int)LST_DRAFT_TOP, "a head says enough of a row");
enum { UNSEEN = -1 }; // token of a pair that was skipped, because its hidden state was unknown

typedef struct {
    ls_draft_model base;
    ls_trained *head;
    ls_hidden *hidden;
    const lst_sampling *sampling;
    const ls_accept *accept;
    int32_t children; // the number of best tokens that a row has to have
    int32_t first;    // first token of the text: no pair has it
    ls_ids read;      // token of each pair that the head has read
    // of the last draft
    size_t n; // tokens before its root
    int32_t n_rows, depth[LST_MAX_ROWS];
} eagle;

static int32_t pair_token(const int32_t *context, size_t n, int32_t root, size_t i) {
    return i + 1 < n ? context[i + 1] : root;
}

// Number of leading pairs of the text that the head has read. The pair of the root is always read again: it starts a
// draft.
static size_t same_pairs(const eagle *m, const int32_t *context, size_t n, int32_t root) {
    size_t same = 0;
    if (!n || m->first != context[0]) return 0;
    while (same < m->read.n && same + 1 < n &&
           (m->read.p[same] == UNSEEN || m->read.p[same] == pair_token(context, n, root, same)))
        same++;
    return same;
}

static void eagle_timed(eagle *m, uint64_t start, int32_t rows) {
    const double us = (double)(ls_now_ns() - start) / 1e3;
    ls_cost_observe(&m->base.costs, rows, (int32_t)m->n, -1, us / 1e3);
    m->base.forwards++;
    m->base.forward_us += us;
}

// The prediction after a row of the draft; r has fewer of its best tokens than EAGLE expands.
static ls_code eagle_predict(eagle *m, const lst_row *r, int32_t row, ls_prediction *prediction, ls_err *err) {
    const int32_t most = m->children < LS_PREDICTION_TOP ? m->children : LS_PREDICTION_TOP;
    *prediction = ls_prediction_of(r, -1);
    if (most > LST_ROW_TOP) {
        int32_t ids[LS_PREDICTION_TOP];
        float logits[LS_PREDICTION_TOP];
        const ls_code code = ls_trained_row_top(m->head, row, most, ids, logits, err);
        if (code) return code;
        for (int i = LST_ROW_TOP; i < most && ids[i] >= 0; i++) {
            prediction->id[i] = ids[i];
            prediction->p[i] = expf(logits[i] - r->lse);
        }
    }
    return ls_draw_prediction(m->accept, m->sampling, &m->base, row, m->head->n_vocab,
                              (uint64_t)m->n + (uint64_t)m->depth[row] + 1, prediction, err);
}

static ls_code eagle_begin(ls_draft_model *base, const int32_t *context, size_t n, int32_t root,
                           ls_prediction *prediction, ls_err *err) {
    eagle *m = (eagle *)base;
    lst_row row;
    size_t at;
    base->forwards = 0;
    base->forward_us = 0;
    m->n_rows = 0;
    m->n = n;
    if (n + 1 >= (size_t)m->head->n_context)
        return ls_fail(err, LS_E_RANGE, "the text is longer than the head's context");
    ls_hidden_follow(m->hidden, context, n);
    const size_t keep = same_pairs(m, context, n, root);
    const float *values = ls_hidden_values(m->hidden, keep, n, &at);
    if (!values) return ls_fail(err, LS_E_RANGE, "the target's hidden state of the last token is not known");
    m->first = context[0];
    m->read.n = keep; // on an error, all that follows is read again
    int32_t *tokens = ls_malloc((n - at) * sizeof *tokens);
    for (size_t i = at; i < n; i++) tokens[i - at] = pair_token(context, n, root, i);
    const uint64_t start = ls_now_ns();
    const ls_code code = ls_trained_begin(m->head, (int32_t)keep, (int32_t)at, tokens, values, (int32_t)(n - at),
                                          m->sampling, &row, err);
    if (!code) {
        eagle_timed(m, start, (int32_t)(n - at));
        for (size_t i = keep; i < at; i++) ls_ids_push(&m->read, UNSEEN);
        ls_ids_add(&m->read, tokens, n - at);
        ls_hidden_forget(m->hidden, n);
    }
    free(tokens);
    if (code) return code;
    m->n_rows = 1;
    m->depth[0] = 0;
    return eagle_predict(m, &row, 0, prediction, err);
}

static ls_code eagle_more(ls_draft_model *base, const int32_t *tokens, const int32_t *parents, int32_t n,
                          ls_prediction *prediction, ls_err *err) {
    eagle *m = (eagle *)base;
    lst_row rows[LST_MAX_ROWS];
    const int32_t first = m->n_rows;
    if (n > LST_MAX_ROWS - first) return ls_fail(err, LS_E_RANGE, "the head has no room for more rows");
    const uint64_t start = ls_now_ns();
    ls_code code = ls_trained_grow(m->head, tokens, parents, n, m->sampling, rows, err);
    if (code) return code;
    eagle_timed(m, start, n);
    m->n_rows += n;
    for (int32_t i = 0; i < n; i++) m->depth[first + i] = m->depth[parents[i]] + 1;
    for (int32_t i = 0; i < n && !code; i++) {
        code = eagle_predict(m, &rows[i], first + i, &prediction[i], err);
    }
    return code;
}

static ls_code eagle_distribution(ls_draft_model *base, int32_t row, float *q, int32_t n_vocab, ls_err *err) {
    eagle *m = (eagle *)base;
    const lst_sampling *s = m->sampling;
    float *logits = ls_malloc((size_t)n_vocab * sizeof *logits);
    ls_code code =
        n_vocab == m->head->n_vocab
            ? ls_trained_row_logits(m->head, row, logits, err)
            : ls_fail(err, LS_E_RANGE, "the head has a vocabulary of %d tokens, not %d", m->head->n_vocab, n_vocab);
    if (!code) ls_sample_shape(logits, n_vocab, s->temperature, s->top_k, s->top_p, q);
    free(logits);
    return code;
}

static int32_t eagle_unread(const ls_draft_model *base, const int32_t *context, size_t n) {
    const size_t same = same_pairs((const eagle *)base, context, n, UNSEEN);
    return n ? (int32_t)(n - 1 - same) : 0;
}

static void eagle_free(ls_draft_model *base) {
    eagle *m = (eagle *)base;
    ls_hidden_free(m->hidden);
    ls_trained_free(m->head);
    ls_ids_free(&m->read);
    free(m);
}

// Times a pair alone and a few rows under it, in an empty text.
static ls_code eagle_measure(eagle *m, ls_err *err) {
    enum { FEW = 4, REPEATS = 2 };
    const int32_t token = 0, tokens[FEW] = {0}, parents[FEW] = {0};
    float *values = ls_trained_memory(m->head, (size_t)m->head->n_values);
    if (!values) return ls_fail(err, LS_E_BACKEND, "the GPU has no room for the work of a trained head");
    double one = INFINITY, few = INFINITY;
    lst_row rows[FEW];
    ls_code code = LS_OK;
    for (int i = 0; i < REPEATS && !code; i++) {
        const uint64_t start = ls_now_ns();
        code = ls_trained_begin(m->head, 0, 0, &token, values, 1, NULL, rows, err);
        const uint64_t middle = ls_now_ns();
        if (!code) code = ls_trained_grow(m->head, tokens, parents, FEW, NULL, rows, err);
        one = fmin(one, (double)(middle - start) / 1e6);
        few = fmin(few, (double)(ls_now_ns() - middle) / 1e6);
    }
    if (!code) ls_costs_of_two(&m->base.costs, one, few, FEW);
    ls_trained_memory_free(m->head, values);
    return code;
}

ls_code ls_draft_model_eagle(ls_draft_model **out, ls_trained *head, ls_kv_cache *target, const lst_sampling *sampling,
                             const ls_accept *accept, int32_t children, ls_err *err) {
    *out = NULL;
    eagle *m = ls_calloc(1, sizeof *m);
    m->base = (ls_draft_model){.begin = eagle_begin,
                               .more = eagle_more,
                               .distribution = eagle_distribution,
                               .unread = eagle_unread,
                               .free = eagle_free};
    snprintf(m->base.name, sizeof m->base.name, "%s", head->name);
    m->head = head;
    m->sampling = sampling;
    m->accept = accept;
    m->children = children;
    m->first = UNSEEN;
    ls_code code = head->n_guesses ? ls_fail(err, LS_E_USAGE, "%s is a Medusa head: use method medusa", head->name)
                                   : eagle_measure(m, err);
    if (!code) code = ls_hidden_new(&m->hidden, target, head, err);
    if (code) eagle_free(&m->base);
    else *out = &m->base;
    return code;
}

// ---- Medusa

typedef struct {
    ls_multi_head base;
    ls_trained *heads;
    ls_hidden *hidden;
} medusa;

static ls_code heads_guess(ls_multi_head *base, const int32_t *context, size_t n, int32_t k, int32_t *ids, float *p,
                           ls_err *err) {
    medusa *m = (medusa *)base;
    size_t at;
    ls_hidden_follow(m->hidden, context, n);
    const float *values = ls_hidden_values(m->hidden, n ? n - 1 : 0, n, &at);
    if (!values) return ls_fail(err, LS_E_RANGE, "the target's hidden state of the last token is not known");
    const uint64_t start = ls_now_ns();
    const ls_code code = ls_trained_guess(m->heads, values, k, ids, p, err);
    base->us = (double)(ls_now_ns() - start) / 1e3;
    ls_hidden_forget(m->hidden, n);
    return code;
}

static void heads_free(ls_multi_head *base) {
    medusa *m = (medusa *)base;
    ls_hidden_free(m->hidden);
    ls_trained_free(m->heads);
    free(m);
}

ls_code ls_multi_head_medusa(ls_multi_head **out, ls_trained *heads, ls_kv_cache *target, ls_err *err) {
    *out = NULL;
    medusa *m = ls_calloc(1, sizeof *m);
    m->base = (ls_multi_head){.n = heads->n_guesses, .guess = heads_guess, .free = heads_free};
    snprintf(m->base.name, sizeof m->base.name, "%s", heads->name);
    snprintf(m->base.base, sizeof m->base.base, "%s", heads->base);
    m->heads = heads;
    ls_code code =
        heads->n_guesses ? LS_OK : ls_fail(err, LS_E_USAGE, "%s is an EAGLE head: use method eagle3", heads->name);
    if (!code) code = ls_hidden_new(&m->hidden, target, heads, err);
    if (code) heads_free(&m->base);
    else *out = &m->base;
    return code;
}
