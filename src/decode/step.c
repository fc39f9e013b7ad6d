#include "decode/step.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ls_finish_name(ls_finish f) {
    static const char *const names[] = {"", "eos", "stop", "length", "context", "interrupted", "error"};
    return names[f];
}

const char *ls_request_state_name(ls_request_state s) {
    static const char *const names[] = {"queued", "reading", "decoding", "done", "cancelled", "failed", "forgotten"};
    return names[s];
}

int ls_step_lossy(const ls_step *s, int *at) {
    int n = 0;
    for (int i = 1; s->forward && i < s->n_emitted; i++)
        if (s->tree.nodes[s->path[i]].token != ls_node_own(&s->tree.nodes[s->path[i - 1]])) {
            if (at) at[n] = i;
            n++;
        }
    return n;
}

double ls_step_gap(const ls_step *s, int k) {
    const ls_top_entry *top = k ? s->tree.nodes[s->path[k - 1]].top : s->top;
    const bool known = (k ? s->forward : s->n_top > 1) && top[0].id >= 0 && top[1].id >= 0;
    return known ? (double)top[0].logit - (double)top[1].logit : (double)NAN;
}

int32_t ls_node_own(const ls_node *n) {
    return n->own >= 0 ? n->own : n->target;
}

int ls_step_forwarded(const ls_step *s) {
    return s->rows + s->probes;
}

int ls_step_judged(const ls_step *s, int *changed) {
    int n = 0;
    *changed = 0;
    for (int i = 0; s->probes && i < s->tree.n; i++) {
        n += s->tree.nodes[i].own >= 0;
        *changed += ls_node_own(&s->tree.nodes[i]) != s->tree.nodes[i].target;
    }
    return n;
}

ls_next_next ls_step_next_next(const ls_step *s) {
    ls_next_next w = {.token = s->forward && s->n_top ? s->tree.nodes[0].target : -1, .rank = -1};
    if (w.token < 0) return w;
    for (int r = 0; r < s->n_top && w.rank < 0; r++)
        if (s->top[r].id == w.token) w.rank = r;
    for (int32_t i = 1; i < s->tree.n; i++)
        w.drafted |= s->tree.nodes[i].parent == 0 && s->tree.nodes[i].token == w.token;
    return w;
}

bool ls_step_rejected(const ls_step *s) {
    bool any = false;
    if (!s->exact || !s->forward || s->finish || !ls_step_described(s)) return false;
    for (int i = 1; i < s->tree.n; i++) any |= s->tree.nodes[i].parent == s->path[s->n_path - 1];
    return any;
}

int ls_step_would(const ls_step *s, const ls_accept *a, int *row) {
    int32_t path[LS_MAX_ROWS];
    const int32_t n = ls_step_rejected(s) ? ls_accept_path(a, &s->tree, path) : 0;
    if (n <= s->n_path || path[s->n_path - 1] != s->path[s->n_path - 1]) return 0;
    *row = path[s->n_path];
    return n - s->n_path;
}

int ls_step_accepted(const ls_step *s) {
    return (s->n_path < s->n_emitted ? s->n_path : s->n_emitted) - 1;
}

ls_node_state ls_step_state(const ls_step *s, int row) {
    const int last = ls_step_accepted(s);
    int at = row;
    while (at >= 0 && s->tree.nodes[at].depth > last) at = s->tree.nodes[at].parent;
    const bool after_end = s->finish && at != row && at == s->path[last];
    return after_end ? LS_NODE_NOT_REACHED : s->tree.nodes[row].state;
}

void ls_step_round(ls_step *s) {
    double *const times[] = {&s->t_draft_us,      &s->t_forward_us, &s->t_verify_us,        &s->t_commit_us,
                             &s->t_total_us,      &s->t_device_us,  &s->t_wait_us,          &s->plain_us,
                             &s->plain_spread,    &s->cpu_wait,     &s->t_draft_forward_us, &s->t_comm_us,
                             &s->expected_experts};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) *times[i] = (double)(float)*times[i];
}

int ls_step_branch_accepted(const ls_step *s, const ls_branch *b) {
    const int emitted = ls_step_accepted(s);
    int n = 0;
    for (int i = 1; i <= emitted; i++) n += ls_branch_of(s, &s->tree.nodes[s->path[i]]) == b;
    return n;
}

bool ls_step_described(const ls_step *s) {
    return s->tree.n == s->rows && (s->rows == 1 || s->tree.n_branches > 0);
}

const ls_branch *ls_branch_of(const ls_step *s, const ls_node *n) {
    return n->branch >= 0 ? &s->tree.branches[n->branch] : NULL;
}

// A step as it is allocated; its arrays follow.
typedef struct {
    atomic_uint owners; // 0: a work area
    ls_step step;
} counted;

static counted *counted_of(const ls_step *s) {
    return (counted *)((char *)(uintptr_t)s - offsetof(counted, step));
}

// An allocation with room for what the counts of `size` say.
static ls_step *place(const ls_step *size, unsigned owners) {
    const size_t top = (size_t)size->n_top * sizeof *size->top, path = (size_t)size->n_path * sizeof *size->path,
                 routes = (size_t)size->n_routes * sizeof *size->routes;
    counted *c = ls_malloc(sizeof *c + top + routes + path + ls_tree_bytes(&size->tree));
    atomic_init(&c->owners, owners);
    c->step = *size;
    c->step.top = (ls_top_entry *)(c + 1);
    c->step.routes = (ls_route *)(c->step.top + size->n_top);
    c->step.path = (int32_t *)(c->step.routes + size->n_routes);
    ls_tree_place(&c->step.tree, c->step.path + size->n_path);
    return &c->step;
}

ls_step *ls_step_new(void) {
    const ls_step most = {.n_top = LS_MAX_TOP,
                          .n_path = LS_MAX_ROWS,
                          .n_routes = LS_MAX_ROUTES,
                          .tree = {.n = LS_MAX_ROWS, .n_branches = LS_MAX_ROWS, .n_predictions = LS_MAX_PREDICTIONS}};
    ls_step *s = place(&most, 0);
    memset(s->top, 0, (size_t)((char *)(s->tree.predictions + LS_MAX_PREDICTIONS) - (char *)s->top)); // the arrays
    ls_step_start(s, (ls_step){0});
    return s;
}

void ls_step_start(ls_step *s, ls_step facts) {
    facts.top = s->top;
    facts.path = s->path;
    facts.routes = s->routes;
    facts.tree = (ls_tree){.branches = s->tree.branches, .predictions = s->tree.predictions, .nodes = s->tree.nodes};
    *s = facts;
}

void ls_step_copy(ls_step *to, const ls_step *from) {
    ls_step_start(to, *from);
    memcpy(to->top, from->top, (size_t)from->n_top * sizeof *to->top);
    memcpy(to->path, from->path, (size_t)from->n_path * sizeof *to->path);
    memcpy(to->routes, from->routes, (size_t)from->n_routes * sizeof *to->routes);
    ls_tree_copy(&to->tree, &from->tree);
}

const ls_step *ls_step_share(const ls_step *s) {
    counted *c = counted_of(s);
    if (!atomic_load_explicit(&c->owners, memory_order_relaxed)) {
        ls_step *kept = place(s, 1);
        ls_step_copy(kept, s);
        return kept;
    }
    atomic_fetch_add_explicit(&c->owners, 1, memory_order_relaxed);
    return s;
}

void ls_step_free(const ls_step *s) {
    counted *c = s ? counted_of(s) : NULL;
    if (c && atomic_fetch_sub_explicit(&c->owners, 1, memory_order_acq_rel) <= 1) free(c); // 0: a work area
}

ls_event *ls_event_new(ls_event_kind kind) {
    ls_event *e = ls_calloc(1, sizeof *e);
    e->kind = kind;
    return e;
}

void ls_event_free(ls_event *e) {
    if (!e) return;
    switch (e->kind) {
    case LS_EV_HEADER: free(e->header); break;
    case LS_EV_TOKENS:
        free(e->tokens.ids);
        free(e->tokens.ends);
        free(e->tokens.bytes);
        free(e->tokens.special);
        break;
    case LS_EV_PROMPT:
        free(e->prompt.ids);
        free(e->prompt.text);
        break;
    case LS_EV_STEP: ls_step_free(e->step); break;
    case LS_EV_REQUEST: free(e->request.facts); break;
    case LS_EV_RIVAL:
        ls_step_free(e->rival.step);
        free(e->rival.ids);
        break;
    case LS_EV_STATUS:
    case LS_EV_END:
    case LS_EV_SETTING:
    case LS_EV_MESSAGE: break;
    }
    free(e);
}

void ls_tokens_learn(ls_tokens *t, const ls_event *e) {
    enum { MOST_ID = 1 << 24, SPARE = 1024 };
    for (int32_t i = 0; i < e->tokens.n; i++) {
        const int32_t id = e->tokens.ids[i], from = i ? e->tokens.ends[i - 1] : 0;
        if (id < 0 || id > MOST_ID) continue;
        if (id >= t->n) {
            const int32_t n = 2 * t->n > id + SPARE && t->n <= MOST_ID / 2 ? 2 * t->n : id + SPARE;
            t->p = ls_realloc(t->p, (size_t)n * sizeof *t->p);
            memset(t->p + t->n, 0, (size_t)(n - t->n) * sizeof *t->p);
            t->n = n;
        }
        free(t->p[id].bytes);
        t->p[id] = (ls_token){ls_strndup(e->tokens.bytes + from, (size_t)(e->tokens.ends[i] - from)),
                              e->tokens.ends[i] - from, e->tokens.special[i]};
    }
}

void ls_tokens_free(ls_tokens *t) {
    for (int32_t i = 0; i < t->n; i++) free(t->p[i].bytes);
    free(t->p);
    *t = (ls_tokens){0};
}

const ls_token *ls_token_of(const ls_tokens *t, int32_t id) {
    static const ls_token unknown = {.bytes = "?", .n = 1};
    return id >= 0 && id < t->n && t->p[id].bytes ? &t->p[id] : &unknown;
}
