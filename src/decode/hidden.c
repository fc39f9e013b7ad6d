#include "decode/hidden.h"
#include "base/buf.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// KEPT: tokens kept before the needed ones, because a text may be cut by some tokens and continue from there. If it is
// cut further, the values of its last token are unknown. MOST: pending batches; older ones are dropped, because methods
// that do not use these values never ask for them.
enum { KEPT = 64, MOST = 16 };

// Rows that a forward handed out; which of them became text is not known yet.
typedef struct {
    bool tree; // else consecutive tokens
    size_t at; // of the root or the first token
    int32_t n, cap;
    int32_t *token, *parent;
    float *values;
} batch;

struct ls_hidden {
    ls_kv_cache *t;
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

static void hidden_drop(ls_hidden *s, int i) {
    batch *b = &s->pending[i];
    free(b->token), free(b->parent), free(b->values);
    memmove(b, b + 1, (size_t)(--s->n_pending - i) * sizeof *b);
}

static void add_rows(ls_hidden *s, batch *b, const lst_rows_seen *r) {
    if (b->n + r->n_rows > b->cap) {
        b->cap = 2 * b->cap > b->n + r->n_rows ? 2 * b->cap : b->n + r->n_rows;
        b->token = ls_realloc(b->token, (size_t)b->cap * sizeof *b->token);
        b->parent = ls_realloc(b->parent, (size_t)b->cap * sizeof *b->parent);
        b->values = ls_realloc(b->values, (size_t)b->cap * s->width * sizeof *b->values);
    }
    memcpy(b->token + b->n, r->tokens, (size_t)r->n_rows * sizeof *b->token);
    for (int32_t i = 0; i < r->n_rows; i++) b->parent[b->n + i] = r->parents ? r->parents[i] : b->n + i - 1;
    memcpy(b->values + (size_t)b->n * s->width, r->values, (size_t)r->n_rows * s->width * sizeof *b->values);
    b->n += r->n_rows;
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
    add_rows(s, b, r);
}

static void hidden_cut(ls_hidden *s, size_t n) { // forgets tokens after the first n
    if (n < s->from) s->from = n;
    if (n < end_of(s)) s->text.n = n - s->from;
}

static void hidden_add_row(ls_hidden *s, int32_t token, const float *values) {
    if (s->text.n == s->cap) {
        s->cap = 2 * s->cap + KEPT;
        s->values = ls_realloc(s->values, s->cap * s->width * sizeof *s->values);
    }
    memcpy(s->values + s->text.n * s->width, values, s->width * sizeof *values);
    ls_ids_push(&s->text, token);
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
    for (int32_t k = 0; k < n_path; k++) hidden_add_row(s, b->token[path[k]], b->values + (size_t)path[k] * s->width);
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
    const size_t gone = n - KEPT - s->from;
    s->text.n -= gone;
    memmove(s->text.p, s->text.p + gone, s->text.n * sizeof *s->text.p);
    memmove(s->values, s->values + gone * s->width, s->text.n * s->width * sizeof *s->values);
    s->from += gone;
    if (s->cap < 4 * s->text.n + KEPT) return; // a prompt's room
    s->cap = 2 * s->text.n + KEPT;
    s->values = ls_realloc(s->values, s->cap * s->width * sizeof *s->values);
}

ls_code ls_hidden_new(ls_hidden **out, ls_kv_cache *t, const int32_t *layers, int32_t n_layers, int32_t n_values,
                      ls_err *err) {
    *out = NULL;
    if (!t->hidden) return ls_fail(err, LS_E_UNSUPPORTED, "this model does not provide hidden states");
    ls_hidden *s = ls_calloc(1, sizeof *s);
    s->t = t;
    s->width = (size_t)n_values;
    const ls_code code = t->hidden(t, layers, n_layers, false, hidden_take, s, err);
    if (code) free(s);
    else *out = s;
    return code;
}

void ls_hidden_free(ls_hidden *s) {
    if (!s) return;
    s->t->hidden(s->t, NULL, 0, false, NULL, NULL, NULL);
    while (s->n_pending) hidden_drop(s, s->n_pending - 1);
    ls_ids_free(&s->text);
    free(s->values);
    free(s);
}
