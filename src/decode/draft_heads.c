#include "decode/draft_model.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/system.h"
#include "decode/choose.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- hidden states of a KV cache's committed text, from which a trained head drafts: collected from its forwards
// (lst_hidden), and kept in the memory of the head's device. The committed text shows which rows of a tree were kept.

// KEPT: tokens kept before the needed ones, because a text may be cut by some tokens and continue from there. If it is
// cut further, the values of its last token are unknown. MOST: pending batches; older ones are dropped, because methods
// that do not use these values never ask for them. Values for which a device has no room are unknown, too.
enum { KEPT = 64, MOST = 16 };

// Tokens, and values of each in the memory of the head.
typedef struct {
    ls_ids ids;
    float *values;
    size_t cap; // rows of values
} valued;

// Rows that a forward handed out; which of them became text is not known yet.
typedef struct {
    bool tree; // else consecutive tokens
    size_t at; // of the root or the first token
    valued rows;
    ls_ids parents;
} batch;

typedef struct {
    ls_kv_cache *kv;
    ls_trained *head;
    size_t width;
    batch pending[MOST + 1];
    int n_pending;
    size_t from; // number of tokens of the committed text before these
    valued text;
} hidden;

static size_t end_of(const hidden *s) {
    return s->from + s->text.ids.n;
}

// Moves n rows, whose first is at `from` in the values, to a place for `cap` of them. False: there is none; all stays.
static bool move_values(const hidden *s, valued *r, const float *from, size_t n, size_t cap) {
    float *place = ls_trained_memory(s->head, cap * s->width);
    if (!place || !ls_trained_copy(s->head, place, from, n * s->width)) {
        ls_trained_memory_free(s->head, place);
        return false;
    }
    ls_trained_memory_free(s->head, r->values);
    r->values = place;
    r->cap = cap;
    return true;
}

static bool add_rows(const hidden *s, valued *r, const int32_t *tokens, const float *values, size_t n) {
    const size_t had = r->ids.n, need = had + n;
    if (need > r->cap && !move_values(s, r, r->values, had, 2 * r->cap > need ? 2 * r->cap : need)) return false;
    if (!ls_trained_copy(s->head, r->values + had * s->width, values, n * s->width)) return false;
    ls_ids_add(&r->ids, tokens, n);
    return true;
}

static void hidden_drop(hidden *s, int i) {
    batch *b = &s->pending[i];
    ls_ids_free(&b->rows.ids), ls_ids_free(&b->parents), ls_trained_memory_free(s->head, b->rows.values);
    memmove(b, b + 1, (size_t)(--s->n_pending - i) * sizeof *b);
}

static void hidden_take(void *ud, const lst_rows_seen *r) {
    hidden *s = ud;
    const size_t at = (size_t)r->length;
    bool grown = false;
    // Drops batches that begin here or later: none of their rows was committed. A tree that grows stays.
    while (s->n_pending) {
        const batch *b = &s->pending[s->n_pending - 1];
        grown = r->tree && r->first && b->tree && b->at == at && b->rows.ids.n == (size_t)r->first;
        if (b->at < at || grown) break;
        hidden_drop(s, s->n_pending - 1);
    }
    if (r->first && !grown) return; // its first rows are missing
    batch *b = s->n_pending ? &s->pending[s->n_pending - 1] : NULL;
    if (!grown && !(b && !r->tree && !b->tree && b->at + b->rows.ids.n == at)) {
        if (s->n_pending == MOST) hidden_drop(s, 0);
        b = &s->pending[s->n_pending++];
        *b = (batch){.tree = r->tree, .at = at};
    }
    const int32_t had = (int32_t)b->rows.ids.n;
    for (int32_t i = 0; i < r->n_rows; i++) ls_ids_push(&b->parents, r->parents ? r->parents[i] : had + i - 1);
    if (!add_rows(s, &b->rows, r->tokens, r->values, (size_t)r->n_rows)) hidden_drop(s, s->n_pending - 1);
}

static void hidden_cut(hidden *s, size_t n) { // forgets tokens after the first n
    if (n < s->from) s->from = n;
    if (n < end_of(s)) s->text.ids.n = n - s->from;
}

// Adds the rows of the batch that became text: the longest path whose tokens equal the context.
static void add_path(hidden *s, const batch *b, const int32_t *context, size_t n) {
    const int32_t n_rows = (int32_t)b->rows.ids.n, *token = b->rows.ids.p, *parent = b->parents.p;
    int32_t *depth = ls_malloc((size_t)n_rows * sizeof *depth), last = -1; // depth -1: not on the text
    for (int32_t i = 0; i < n_rows; i++) {
        const int32_t up = i ? parent[i] : -1, d = i ? depth[up] + 1 : 0;
        depth[i] = (i && depth[up] < 0) || b->at + (size_t)d >= n || context[b->at + (size_t)d] != token[i] ? -1 : d;
        if (depth[i] >= 0 && (last < 0 || depth[i] > depth[last])) last = i;
    }
    const int32_t n_path = last < 0 ? 0 : depth[last] + 1;
    int32_t *path = ls_malloc(((size_t)n_path + 1) * sizeof *path);
    for (int32_t k = n_path, row = last; k-- > 0; row = parent[row]) path[k] = row;
    for (int32_t k = 0, run; k < n_path; k += run) { // neighbours of the batch in one copy
        for (run = 1; k + run < n_path && path[k + run] == path[k] + run;) run++;
        const float *values = b->rows.values + (size_t)path[k] * s->width;
        if (!add_rows(s, &s->text, token + path[k], values, (size_t)run)) break;
    }
    free(depth), free(path);
}

// The committed text is context[0..n): finds it among the rows that were seen since the last call.
static void hidden_follow(hidden *s, const int32_t *context, size_t n) {
    hidden_cut(s, n);
    for (size_t i = 0; i < s->text.ids.n; i++)
        if (s->text.ids.p[i] != context[s->from + i]) {
            hidden_cut(s, s->from + i);
            break;
        }
    for (int i = 0; i < s->n_pending; i++) {
        const batch *b = &s->pending[i];
        if (b->at > end_of(s)) { // tokens between are missing: starts again here
            s->from = b->at;
            s->text.ids.n = 0;
        }
        hidden_cut(s, b->at);
        add_path(s, b, context, n);
    }
    // The last tree stays: it may not have been committed yet, or grow.
    while (s->n_pending > 1 || (s->n_pending && !s->pending[0].tree)) hidden_drop(s, 0);
}

// The values of tokens *from .. n - 1 of the committed text context[0..n), *from being at least `least`:
// [..][n_values], in the memory of the head's device. NULL: not those of the last token. Borrowed until the next
// forward or call.
static const float *hidden_values(hidden *s, const int32_t *context, size_t n, size_t least, size_t *from,
                                  ls_err *err) {
    hidden_follow(s, context, n);
    *from = least > s->from ? least : s->from;
    if (end_of(s) >= n && *from < n) return s->text.values + (*from - s->from) * s->width;
    ls_fail(err, LS_E_RANGE, "the target's hidden state of the last token is not known");
    return NULL;
}

// Frees the values of the first n tokens, except for a few of the last ones.
static void hidden_forget(hidden *s, size_t n) {
    if (n < s->from + 2 * KEPT || n > end_of(s)) return; // moves the arrays seldom
    const size_t gone = n - KEPT - s->from, left = s->text.ids.n - gone;
    if (!move_values(s, &s->text, s->text.values + gone * s->width, left, 2 * left + KEPT)) return;
    s->text.ids.n = left;
    memmove(s->text.ids.p, s->text.ids.p + gone, left * sizeof *s->text.ids.p);
    s->from += gone;
}

// Collects the hidden states that feed the head from the KV cache's later forwards; one for each KV cache. The head is
// borrowed. LS_E_UNSUPPORTED: the engine has no hidden states.
static ls_code hidden_open(hidden *s, ls_kv_cache *kv, ls_trained *head, ls_err *err) {
    if (!kv->hidden) return ls_fail(err, LS_E_UNSUPPORTED, "this model does not provide hidden states");
    const ls_code code = kv->hidden(kv, head->takes, head->n_takes, head->on_device, hidden_take, s, err);
    if (!code) *s = (hidden){.kv = kv, .head = head, .width = (size_t)head->n_values};
    return code;
}

static void hidden_close(hidden *s) { // accepts zeros
    if (!s->kv) return;
    s->kv->hidden(s->kv, NULL, 0, false, NULL, NULL, NULL);
    while (s->n_pending) hidden_drop(s, s->n_pending - 1);
    ls_ids_free(&s->text.ids);
    ls_trained_memory_free(s->head, s->text.values);
}

// ---- EAGLE: input at position i is a pair: token[i + 1] and the target's hidden state of token[i]. The head reads the
// pairs of the text as they become known; the token of the last pair is the root. Pairs that the head drafted are
// forgotten, because they used its own outputs instead of the target's hidden states.
_Static_assert((int)LS_PREDICTION_TOP <= (int)LST_DRAFT_TOP, "a head says enough of a row");
enum { UNSEEN = -1 }; // token of a pair that was skipped, because its hidden state was unknown

typedef struct {
    ls_draft_model base;
    ls_trained *head;
    hidden hidden;
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
    m->n_rows = 0;
    m->n = n;
    if (n + 1 >= (size_t)m->head->n_context)
        return ls_fail(err, LS_E_RANGE, "the text is longer than the head's context");
    const size_t keep = same_pairs(m, context, n, root);
    const float *values = hidden_values(&m->hidden, context, n, keep, &at, err);
    if (!values) return LS_E_RANGE;
    m->first = context[0];
    m->read.n = keep; // on an error, all that follows is read again
    int32_t *tokens = ls_malloc((n - at) * sizeof *tokens);
    for (size_t i = at; i < n; i++) tokens[i - at] = pair_token(context, n, root, i);
    const uint64_t start = ls_now_ns();
    const ls_code code = ls_trained_begin(m->head, (int32_t)keep, (int32_t)at, tokens, values, (int32_t)(n - at),
                                          m->sampling, &row, err);
    if (!code) {
        ls_draft_forward_timed(base, start, (int32_t)(n - at), (int32_t)n);
        for (size_t i = keep; i < at; i++) ls_ids_push(&m->read, UNSEEN);
        ls_ids_add(&m->read, tokens, n - at);
        hidden_forget(&m->hidden, n);
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
    ls_draft_forward_timed(base, start, n, (int32_t)m->n);
    m->n_rows += n;
    for (int32_t i = 0; i < n; i++) m->depth[first + i] = m->depth[parents[i]] + 1;
    for (int32_t i = 0; i < n && !code; i++) code = eagle_predict(m, &rows[i], first + i, &prediction[i], err);
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
    hidden_close(&m->hidden);
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
    if (!code) code = hidden_open(&m->hidden, target, head, err);
    if (code) eagle_free(&m->base);
    else *out = &m->base;
    return code;
}

// ---- Medusa

typedef struct {
    ls_multi_head base;
    ls_trained *heads;
    hidden hidden;
} medusa;

static ls_code heads_guess(ls_multi_head *base, const int32_t *context, size_t n, int32_t k, int32_t *ids, float *p,
                           ls_err *err) {
    medusa *m = (medusa *)base;
    size_t at;
    const float *values = hidden_values(&m->hidden, context, n, n ? n - 1 : 0, &at, err);
    if (!values) return LS_E_RANGE;
    const ls_code code = ls_trained_guess(m->heads, values, k, ids, p, err);
    hidden_forget(&m->hidden, n);
    return code;
}

static void heads_free(ls_multi_head *base) {
    medusa *m = (medusa *)base;
    hidden_close(&m->hidden);
    ls_trained_free(m->heads);
    free(m);
}

ls_code ls_multi_head_medusa(ls_multi_head **out, ls_trained *heads, ls_kv_cache *target, ls_err *err) {
    *out = NULL;
    medusa *m = ls_calloc(1, sizeof *m);
    m->base = (ls_multi_head){.n = heads->n_guesses, .guess = heads_guess, .free = heads_free};
    snprintf(m->base.base, sizeof m->base.base, "%s", heads->base);
    m->heads = heads;
    ls_code code =
        heads->n_guesses ? LS_OK : ls_fail(err, LS_E_USAGE, "%s is an EAGLE head: use method eagle3", heads->name);
    if (!code) code = hidden_open(&m->hidden, target, heads, err);
    if (code) heads_free(&m->base);
    else *out = &m->base;
    return code;
}
