#include "spec/drafter.h"
#include "base/alias.h"
#include "base/mem.h"
#include "spec/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METHOD(name, method) extern const ls_method method;
#include "spec/methods.def"
#undef METHOD

static const ls_method plain = {
    .name = "plain", .summary = "plain decoding, one token per step", .source = "the baseline", .rows = 1};

const ls_method *const ls_methods[] = {
    &plain,
#define METHOD(name, method) &method,
#include "spec/methods.def"
#undef METHOD
    NULL,
};

const char ls_method_names[] = "plain"
#define METHOD(name, method) "|" name
#include "spec/methods.def"
#undef METHOD
    ;

const ls_method *ls_method_find(const char *name) {
    name = ls_name_now("decode.method", name);
    for (const ls_method *const *m = ls_methods; *m; m++)
        if (!strcmp((*m)->name, name)) return *m;
    return NULL;
}

static void no_observe(ls_drafter *d, const int32_t *context, size_t n, bool reset) {
    (void)d, (void)context, (void)n, (void)reset;
}

void ls_drafter_memory(void *of, ls_memory_visit *v) {
    ls_drafter *d = of;
    ls_memory_whole(v, d + 1, d->size - sizeof *d);
    if (d->arrays) d->arrays(d, v);
    if (d->stream) ls_stream_arrays(d->stream, v);
}

void ls_drafter_free(ls_drafter *d) {
    if (d->stream) ls_stream_close(d->stream);
    ls_memory_drop(ls_drafter_memory, d);
    free(d);
}

static void propose_grown(ls_drafter *d, const ls_draft_state *s, int32_t max_rows, ls_tree *tree) {
    ls_growth g;
    g.rows[0] = (ls_draft){.token = s->root, .parent = -1};
    g.n = 1;
    g.max_rows = max_rows;
    g.tree = tree;
    g.q = NULL;
    ls_tree_start(tree, s->root);
    d->grow(d, s, &g);
    if (g.n > 1) ls_tree_lay_out(tree, g.rows, g.n);
}

ls_code ls_drafter_make(ls_drafter **out, const ls_method *m, const ls_draft_setup *s, ls_err *err) {
    *out = NULL;
    if (!m->drafter) return LS_OK;
    ls_drafter *d = ls_calloc(1, m->drafter->size);
    *d = *m->drafter;
    d->method = m;
    d->note = s->note;
    d->ud = s->ud;
    if (!d->observe) d->observe = no_observe;
    if (!d->propose) d->propose = propose_grown;
    if (!d->free) d->free = ls_drafter_free;
    ls_knobs_set(d, m->knobs, s->knobs);
    const ls_code code = d->set_up ? d->set_up(d, s, err) : LS_OK;
    if (!code && d->stream) d->began ^= d->stream->sum;
    if (code) d->free(d);
    else *out = d;
    return code;
}

void ls_drafter_failed(ls_drafter *d, const char *what, ls_code code, const ls_err *err) {
    char line[sizeof err->msg + 80];
    if (code == LS_E_RANGE || code == LS_E_CANCELLED || d->failed) return;
    d->failed = true;
    snprintf(line, sizeof line, "%s failed; the answer continues without its drafts: %s", what, err->msg);
    if (d->note) d->note(d->ud, line);
}

ls_miss ls_drafter_miss(ls_drafter *d, const ls_draft_question *q) {
    ls_growth g;
    g.n = ls_tree_tokens(q->tree, q->row, g.path);
    for (int32_t i = 0; i < g.n; i++) g.rows[i] = (ls_draft){.token = g.path[i], .parent = (int16_t)(i - 1)};
    g.max_rows = q->max_rows;
    g.tree = NULL;
    g.q = q;
    g.miss = LS_MISS_UNKNOWN;
    if (d->grow) d->grow(d, q->state, &g);
    return g.miss == LS_MISS_NO_ROW ? g.miss : d->miss(d, q, g.miss);
}

// ---- growing

void ls_grow_note(ls_growth *g, ls_miss miss) {
    if (g->q && miss > g->miss) g->miss = miss;
}

int32_t ls_grow_room(const ls_growth *g) {
    const int32_t taken = g->tree && g->tree->n > g->n ? g->tree->n : g->n;
    return g->q ? LS_MAX_ROWS : g->max_rows - taken;
}

int32_t ls_grow(ls_growth *g, int32_t parent, int32_t token, ls_draft_source from, int32_t match_n, double est_p) {
    if (g->q && parent == g->n - 1) ls_grow_note(g, token == g->q->token ? LS_MISS_NO_ROW : LS_MISS_OTHERWISE);
    if (g->q) return parent + 1 < g->n && g->path[parent + 1] == token ? parent + 1 : -1;
    for (int32_t i = parent + 1; i < g->n; i++)
        if (g->rows[i].parent == parent && g->rows[i].token == token) return i;
    if (g->n >= g->max_rows) return -1;
    g->rows[g->n] = (ls_draft){.token = token,
                               .parent = (int16_t)parent,
                               .rank = -1,
                               .match_n = (int16_t)match_n,
                               .match_pos = -1,
                               .from = (uint8_t)from,
                               .key = g->n,
                               .est_p = (float)est_p};
    return g->n++;
}

void ls_grow_chain(ls_growth *g, const int32_t *tokens, int32_t n, int32_t most, ls_branch info) {
    const int32_t depth = g->n - 1;
    if (!g->q) ls_tree_add(g->tree, tokens, n < most ? n : most, g->max_rows, info);
    else if (n > depth && !memcmp(tokens, g->path + 1, (size_t)depth * sizeof *tokens))
        ls_grow_note(g, tokens[depth] != g->q->token ? LS_MISS_OTHERWISE
                        : depth < most               ? LS_MISS_NO_ROW
                                                     : LS_MISS_BEYOND);
}

int32_t ls_draft_tail(const ls_draft_state *s, const void *rows, size_t size, int32_t row, int32_t *tail,
                      int32_t most) {
    int32_t n = 0;
    while (row >= 0 && n < most) {
        const ls_draft *d = (const ls_draft *)((const char *)rows + (size_t)row * size);
        tail[most - ++n] = d->token;
        row = d->parent;
    }
    for (size_t i = s->n_context; i > 0 && n < most; i--) tail[most - ++n] = s->context[i - 1];
    memmove(tail, tail + most - n, (size_t)n * sizeof *tail);
    return n;
}

int32_t ls_question_tail(const ls_draft_question *q, int32_t *tail, int32_t most) {
    return ls_draft_tail(q->state, q->tree->nodes, sizeof *q->tree->nodes, q->row, tail, most);
}

ls_draft_options ls_draft_defaults(const ls_draft_options *o, const ls_method *m, bool by_cost) {
    ls_draft_options c = *o;
    if (!c.model) c.model = "";
    if (!c.weights) c.weights = "auto";
    if (!c.head) c.head = "";
    if (!c.device) c.device = "auto";
    if (!c.depth) c.depth = by_cost && m->deepest ? m->deepest : m->depth ? m->depth : LS_DRAFT_DEPTH;
    if (!c.width) c.width = m->width ? m->width : LS_DRAFT_WIDTH;
    return c;
}

void ls_tree_shape_read(ls_tree_shape *s, const char *text) {
    const char *path[LS_SHAPE_ROWS];
    *s = (ls_tree_shape){.n = 1, .parent = {-1}, .rank = {-1}};
    for (const char *p = text; *p && s->n < LS_SHAPE_ROWS; p += strspn(p, " ")) {
        const int32_t at = s->n++, depth = (int32_t)strcspn(p, " ");
        for (int32_t i = 1; i < at; i++)
            if (s->depth[i] == depth - 1 && !memcmp(path[i], p, (size_t)depth - 1)) s->parent[at] = i;
        s->rank[at] = p[depth - 1] - '0';
        s->depth[at] = depth;
        path[at] = p;
        p += depth;
    }
}

bool ls_open_add(ls_open *o, int32_t room, int32_t item, double path) {
    const bool full = o->n >= room;
    int32_t i = 0;
    if (full && (!o->n || path <= o->path[0])) return false;
    if (full) // drop the least likely
        for (; i + 1 < o->n && o->path[i + 1] < path; i++) o->path[i] = o->path[i + 1], o->item[i] = o->item[i + 1];
    else
        for (i = o->n++; i > 0 && o->path[i - 1] >= path; i--) o->path[i] = o->path[i - 1], o->item[i] = o->item[i - 1];
    o->path[i] = path;
    o->item[i] = item;
    return true;
}

int32_t ls_open_take(ls_open *o, double *path) {
    if (!o->n) return -1;
    *path = o->path[--o->n];
    return o->item[o->n];
}
