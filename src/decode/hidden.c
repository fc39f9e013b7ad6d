#include "decode/hidden.h"
#include "base/buf.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// KEPT: tokens kept before the needed ones, because a text may be cut by some tokens and continue from there. If it is
// cut further, the values of its last token are unknown. MOST: pending batches; older ones are dropped, because methods
// that do not use these values never ask for them. Values for which a device has no room are unknown, too.
enum { KEPT = 64, MOST = 16 };

// Rows that a forward handed out; which of them became text is not known yet.
typedef struct {
    bool tree; // else consecutive tokens
    size_t at; // of the root or the first token
    int32_t n, cap;
    int32_t *token, *parent;
    float *values; // of the head's memory
} batch;

struct ls_hidden {
    ls_kv_cache *kv;
    ls_trained *head;
    size_t width;
    batch pending[MOST + 1];
    int n_pending;
    // Tokens from .. from + text.n - 1 of the committed text, and their values.
    size_t from;
    ls_ids text;
    float *values;
    size_t cap; // rows
};

static size_t end_of(const ls_hidden *s) {
    return s->from + s->text.n;
}

// Moves rows, whose first is at `from` in *values, to a place for `cap` of them. False: there is none; all stays.
static bool move_values(const ls_hidden *s, float **values, const float *from, size_t rows, size_t cap) {
    float *place = ls_trained_memory(s->head, cap * s->width);
    if (!place || !ls_trained_copy(s->head, place, from, rows * s->width)) {
        ls_trained_memory_free(s->head, place);
        return false;
    }
    ls_trained_memory_free(s->head, *values);
    *values = place;
    return true;
}

static void hidden_drop(ls_hidden *s, int i) {
    batch *b = &s->pending[i];
    free(b->token), free(b->parent), ls_trained_memory_free(s->head, b->values);
    memmove(b, b + 1, (size_t)(--s->n_pending - i) * sizeof *b);
}

static bool add_rows(ls_hidden *s, batch *b, const lst_rows_seen *r) {
    if (b->n + r->n_rows > b->cap) {
        const int32_t cap = 2 * b->cap > b->n + r->n_rows ? 2 * b->cap : b->n + r->n_rows;
        if (!move_values(s, &b->values, b->values, (size_t)b->n, (size_t)cap)) return false;
        b->cap = cap;
        b->token = ls_realloc(b->token, (size_t)b->cap * sizeof *b->token);
        b->parent = ls_realloc(b->parent, (size_t)b->cap * sizeof *b->parent);
    }
    memcpy(b->token + b->n, r->tokens, (size_t)r->n_rows * sizeof *b->token);
    for (int32_t i = 0; i < r->n_rows; i++) b->parent[b->n + i] = r->parents ? r->parents[i] : b->n + i - 1;
    if (!ls_trained_copy(s->head, b->values + (size_t)b->n * s->width, r->values, (size_t)r->n_rows * s->width))
        return false;
    b->n += r->n_rows;
    return true;
}

static void hidden_take(void *ud, const lst_rows_seen *r) {
    ls_hidden *s = ud;
    const size_t at = (size_t)r->length;
    bool grown = false;
    // Drops batches that begin here or later: none of their rows was committed. A tree that grows stays.
    while (s->n_pending) {
        const batch *b = &s->pending[s->n_pending - 1];
        grown = r->tree && r->first && b->tree && b->at == at && b->n == r->first;
        if (b->at < at || grown) break;
        hidden_drop(s, s->n_pending - 1);
    }
    if (r->first && !grown) return; // its first rows are missing
    batch *b = s->n_pending ? &s->pending[s->n_pending - 1] : NULL;
    if (!grown && !(b && !r->tree && !b->tree && b->at + (size_t)b->n == at)) {
        if (s->n_pending == MOST) hidden_drop(s, 0);
        b = &s->pending[s->n_pending++];
        *b = (batch){.tree = r->tree, .at = at};
    }
    if (!add_rows(s, b, r)) hidden_drop(s, s->n_pending - 1);
}

static void hidden_cut(ls_hidden *s, size_t n) { // forgets tokens after the first n
    if (n < s->from) s->from = n;
    if (n < end_of(s)) s->text.n = n - s->from;
}

static bool add_text(ls_hidden *s, const int32_t *tokens, const float *values, size_t n) {
    const size_t need = s->text.n + n;
    if (need > s->cap) {
        const size_t cap = (2 * s->cap > need ? 2 * s->cap : need) + KEPT;
        if (!move_values(s, &s->values, s->values, s->text.n, cap)) return false;
        s->cap = cap;
    }
    if (!ls_trained_copy(s->head, s->values + s->text.n * s->width, values, n * s->width)) return false;
    ls_ids_add(&s->text, tokens, n);
    return true;
}

// Adds the rows of the batch that became text: the longest path whose tokens equal the context.
static void add_path(ls_hidden *s, const batch *b, const int32_t *context, size_t n) {
    int32_t *depth = ls_malloc((size_t)b->n * sizeof *depth), last = -1; // depth -1: not on the text
    for (int32_t i = 0; i < b->n; i++) {
        const int32_t up = i ? b->parent[i] : -1, d = i ? depth[up] + 1 : 0;
        depth[i] = (i && depth[up] < 0) || b->at + (size_t)d >= n || context[b->at + (size_t)d] != b->token[i] ? -1 : d;
        if (depth[i] >= 0 && (last < 0 || depth[i] > depth[last])) last = i;
    }
    const int32_t n_path = last < 0 ? 0 : depth[last] + 1;
    int32_t *path = ls_malloc(((size_t)n_path + 1) * sizeof *path);
    for (int32_t k = n_path, row = last; k-- > 0; row = b->parent[row]) path[k] = row;
    for (int32_t k = 0, run; k < n_path; k += run) { // neighbours of the batch in one copy
        for (run = 1; k + run < n_path && path[k + run] == path[k] + run;) run++;
        if (!add_text(s, b->token + path[k], b->values + (size_t)path[k] * s->width, (size_t)run)) break;
    }
    free(depth), free(path);
}

void ls_hidden_follow(ls_hidden *s, const int32_t *context, size_t n) {
    hidden_cut(s, n);
    for (size_t i = 0; i < s->text.n; i++)
        if (s->text.p[i] != context[s->from + i]) {
            hidden_cut(s, s->from + i);
            break;
        }
    for (int i = 0; i < s->n_pending; i++) {
        const batch *b = &s->pending[i];
        if (b->at > end_of(s)) { // tokens between are missing: starts again here
            s->from = b->at;
            s->text.n = 0;
        }
        hidden_cut(s, b->at);
        add_path(s, b, context, n);
    }
    // The last tree stays: it may not have been committed yet, or grow.
    while (s->n_pending > 1 || (s->n_pending && !s->pending[0].tree)) hidden_drop(s, 0);
}

const float *ls_hidden_values(const ls_hidden *s, size_t least, size_t n, size_t *from) {
    *from = n;
    if (!n || end_of(s) < n || s->from >= n) return NULL;
    *from = least > s->from ? least : s->from;
    return *from < n ? s->values + (*from - s->from) * s->width : NULL;
}

void ls_hidden_forget(ls_hidden *s, size_t n) {
    if (n < s->from + 2 * KEPT || n > end_of(s)) return; // moves the arrays seldom
    const size_t gone = n - KEPT - s->from, left = s->text.n - gone, cap = 2 * left + KEPT;
    if (!move_values(s, &s->values, s->values + gone * s->width, left, cap)) return;
    s->cap = cap;
    s->text.n = left;
    memmove(s->text.p, s->text.p + gone, left * sizeof *s->text.p);
    s->from += gone;
}

ls_code ls_hidden_new(ls_hidden **out, ls_kv_cache *kv, ls_trained *head, ls_err *err) {
    *out = NULL;
    if (!kv->hidden) return ls_fail(err, LS_E_UNSUPPORTED, "this model does not provide hidden states");
    ls_hidden *s = ls_calloc(1, sizeof *s);
    s->kv = kv;
    s->head = head;
    s->width = (size_t)head->n_values;
    const ls_code code = kv->hidden(kv, head->takes, head->n_takes, head->on_device, hidden_take, s, err);
    if (code) free(s);
    else *out = s;
    return code;
}

void ls_hidden_free(ls_hidden *s) {
    if (!s) return;
    s->kv->hidden(s->kv, NULL, 0, false, NULL, NULL, NULL);
    while (s->n_pending) hidden_drop(s, s->n_pending - 1);
    ls_ids_free(&s->text);
    ls_trained_memory_free(s->head, s->values);
    free(s);
}
