// RACER (ACL Findings 2026; the authors' program hkr04/RACER, fc494a3, automaton.cpp): a trie over the 10-grams of
// prompts and answers, with the links of Aho and Corasick, and a matrix of Token Recycling. Both are kept across
// prompts.
//
// The state is the trie's node that matches the longest ending of the text that it knows. The borders are the nodes of
// the root's token below the state and below its chain of links, at least two tokens deep. The most frequent nodes of
// the borders' subtrees are drafted, as many as the tree has rows; the rows that they leave go to a tree from the
// matrix, eight children below the root, below each node half as many as below its elder sibling. Equal paths are
// merged.
//
// Kept as the program does it: links are made when a prompt is read, so that nodes of the answer link to the root until
// the next prompt; using a node resets the links of its prefix; the least recently used node is taken for a new one,
// and its subtree is lost with it. What differs: a token without successors has none, in the program token 0; in a
// conversation only the new text is inserted, in the program all of it again; of equally frequent nodes of one level
// the latest are drafted first, in the program those that its hash map lists first. At temperature > 0 the program is
// lossy (it samples once for each path); here the acceptance rule decides.
#include "base/mem.h"
#include "spec/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, WIDTH = LS_ROW_TOP, LEAST_DEPTH = 2, MAX_GRAM = 32, ROOT = 0 };

typedef struct {
    int32_t token, parent, link, depth, count;
    int32_t child, next;  // first child, latest first; its sibling; -1: none
    int32_t newer, older; // in the order of use; -1: none
} node;

typedef struct {
    int32_t at, border;
} found;

typedef struct {
    ls_recycler base;
    found borders[MAX_GRAM + 1]; // of the last draft
    int32_t n_borders;
    node *nodes;
    int32_t n_nodes, gram;  // knobs
    bool keep;              // a knob
    int32_t taken;          // nodes that were ever taken
    int32_t newest, oldest; // by use
    int32_t state;
    ls_map child_of;   // node and token -> child; -1: none any more
    size_t seen;       // tokens of the text
    int32_t committed; // tokens that the last verified tree adds to it
} drafter;

static uint64_t child_key(int32_t at, int32_t token) {
    return (uint64_t)(uint32_t)at << 32 | (uint32_t)token;
}

static int32_t child_of(const drafter *d, int32_t at, int32_t token) {
    int32_t child;
    return ls_map_get(&d->child_of, child_key(at, token), &child) ? child : -1;
}

static void touch(drafter *d, int32_t at) {
    node *n = &d->nodes[at];
    if (at == d->newest) return;
    if (n->older >= 0) d->nodes[n->older].newer = n->newer;
    else d->oldest = n->newer;
    d->nodes[n->newer].older = n->older;
    n->older = d->newest;
    n->newer = -1;
    d->nodes[d->newest].newer = at;
    d->newest = at;
}

static void touch_prefix(drafter *d, int32_t at) {
    for (; at >= 0; at = d->nodes[at].parent) {
        d->nodes[at].link = ROOT;
        touch(d, at);
    }
}

// Entries of lost children would fill the map.
static void tidy(drafter *d) {
    enum { STALE = 2 };
    if (d->child_of.n < (size_t)STALE * (size_t)d->n_nodes) return;
    ls_map_clear(&d->child_of);
    for (int32_t i = 0; i < d->n_nodes; i++)
        for (int32_t c = d->nodes[i].child; c >= 0; c = d->nodes[c].next)
            ls_map_put(&d->child_of, child_key(i, d->nodes[c].token), c);
}

static void lose_child(drafter *d, int32_t parent, int32_t child) {
    int32_t *at = &d->nodes[parent].child;
    while (*at != child) at = &d->nodes[*at].next;
    *at = d->nodes[child].next;
    ls_map_put(&d->child_of, child_key(parent, d->nodes[child].token), -1);
}

static int32_t new_node(drafter *d, int32_t parent, int32_t token) {
    const int32_t at = d->oldest;
    node *n = &d->nodes[at];
    if (n->parent >= 0 && child_of(d, n->parent, n->token) == at) lose_child(d, n->parent, at);
    for (int32_t c = n->child; c >= 0; c = d->nodes[c].next)
        ls_map_put(&d->child_of, child_key(at, d->nodes[c].token), -1);
    n->child = -1;
    n->count = 0;
    n->link = ROOT;
    n->token = token;
    n->parent = parent;
    if (d->taken < d->n_nodes) d->taken++;
    touch(d, at);
    if (parent < 0) return at;
    n->depth = d->nodes[parent].depth + 1;
    n->next = d->nodes[parent].child;
    d->nodes[parent].child = at;
    ls_map_put(&d->child_of, child_key(parent, token), at);
    return at;
}

static void empty(drafter *d) {
    for (int32_t i = 0; i < d->n_nodes; i++)
        d->nodes[i] = (node){.parent = -1, .child = -1, .next = -1, .older = i - 1, .newer = i + 1};
    d->nodes[d->n_nodes - 1].newer = -1;
    d->newest = d->n_nodes - 1;
    d->oldest = d->taken = 0;
    ls_map_clear(&d->child_of);
    d->state = new_node(d, -1, -1);
}

static void insert(drafter *d, const int32_t *gram) {
    int32_t at = ROOT;
    tidy(d);
    d->nodes[at].count++;
    for (int32_t i = 0; i < d->gram; i++) {
        touch(d, at);
        const int32_t child = child_of(d, at, gram[i]);
        at = child >= 0 ? child : new_node(d, at, gram[i]);
        d->nodes[at].count++;
    }
    touch(d, at);
}

// Makes the links: a node's is the node of its longest proper ending.
static void link_nodes(drafter *d) {
    int32_t *queue = ls_malloc((size_t)d->n_nodes * sizeof *queue), n = 0;
    for (int32_t c = d->nodes[ROOT].child; c >= 0; c = d->nodes[c].next) d->nodes[c].link = ROOT, queue[n++] = c;
    for (int32_t i = 0; i < n; i++)
        for (int32_t c = d->nodes[queue[i]].child; c >= 0; c = d->nodes[c].next) {
            const int32_t token = d->nodes[c].token;
            int32_t at = d->nodes[queue[i]].link;
            while (at != ROOT && child_of(d, at, token) < 0) at = d->nodes[at].link;
            const int32_t same = child_of(d, at, token);
            d->nodes[c].link = same >= 0 ? same : ROOT;
            queue[n++] = c;
        }
    free(queue);
}

static void follow(drafter *d, const int32_t *tokens, size_t n) {
    int32_t at = d->state;
    for (size_t i = 0; i < n; i++) {
        touch(d, at);
        if (child_of(d, at, tokens[i]) < 0) {
            while (at != ROOT && child_of(d, at, tokens[i]) < 0) at = d->nodes[at].link;
            touch_prefix(d, at);
        }
        const int32_t child = child_of(d, at, tokens[i]);
        if (child >= 0) at = child;
    }
    touch(d, at);
    d->state = at;
}

static void racer_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    const size_t gram = (size_t)d->gram, more = reset || n < d->seen ? n : n - d->seen;
    if (reset && !d->keep) {
        empty(d);
        free(d->base.m.next);
        d->base.m = (ls_matrix){0};
    }
    if (!reset && more && more <= (size_t)d->committed) { // the end of a step, the latest n-gram first
        for (size_t end = n; end > n - more && end >= gram; end--) insert(d, context + end - gram);
        follow(d, context + n - more + 1, more - 1);
    } else if (more) { // a prompt
        const size_t first = n - more;
        for (size_t end = first + 1 > gram ? first + 1 : gram; end <= n; end++) insert(d, context + end - gram);
        link_nodes(d);
    }
    d->committed = 0;
    d->seen = n;
}

// ---- the draft

// The next to go, if there are too many: the least frequent; of those the deepest, then the node taken first.
static bool goes_first(const drafter *d, found a, found b) {
    const node *x = &d->nodes[a.at], *y = &d->nodes[b.at];
    if (x->count != y->count) return x->count < y->count;
    if (x->depth != y->depth) return x->depth > y->depth;
    return a.at != b.at ? a.at < b.at : a.border < b.border;
}

static int32_t first_to_go(const drafter *d, const found *best, int32_t n) {
    int32_t at = 0;
    for (int32_t i = 1; i < n; i++)
        if (goes_first(d, best[i], best[at])) at = i;
    return at;
}

// The nodes of the root's token that the state and its links lead to. Moves the state to the first of them.
static void find_borders(drafter *d, int32_t token) {
    int32_t n = 0, moved = -1;
    for (int32_t at = d->state, i = 0;; at = d->nodes[at].link) {
        const int32_t v = child_of(d, at, token);
        if (v >= 0 && d->nodes[v].depth >= LEAST_DEPTH && n <= MAX_GRAM) d->borders[n++] = (found){v, v};
        if (v >= 0 && moved < 0) moved = v;
        if (at == ROOT || ++i > MAX_GRAM) break; // a link leads to a shallower node
    }
    if (moved >= 0) d->state = moved;
    for (int32_t i = 0; i < n; i++) touch_prefix(d, d->borders[i].at);
    d->n_borders = n;
}

// The most frequent nodes below the borders, these included; returns how many.
static int32_t most_frequent(const drafter *d, found *best, int32_t most) {
    const size_t room = (size_t)d->n_nodes * (MAX_GRAM + 1);
    size_t n = (size_t)d->n_borders, level = 0, end = n, allocated = n + 1;
    found *queue = ls_malloc(allocated * sizeof *queue);
    int32_t n_best = 0, worst = 0;
    memcpy(queue, d->borders, n * sizeof *queue);
    while (level < end) { // a level of all subtrees; below a level that adds nothing, nothing is more frequent
        bool added = false;
        for (size_t i = level; i < end; i++) {
            const bool full = n_best == most;
            if (full && d->nodes[queue[i].at].count <= d->nodes[best[worst].at].count) continue;
            added = true;
            if (!full) best[n_best++] = queue[i];
            else if (goes_first(d, best[worst], queue[i])) best[worst] = queue[i];
            worst = first_to_go(d, best, n_best);
        }
        if (!added) break;
        for (; level < end; level++)
            for (int32_t c = d->nodes[queue[level].at].child; c >= 0 && n < room; c = d->nodes[c].next) {
                if (n == allocated) queue = ls_realloc(queue, (allocated *= 2) * sizeof *queue);
                queue[n++] = (found){c, queue[level].border};
            }
        end = n;
    }
    free(queue);
    return n_best;
}

static void add_path(const drafter *d, found f, ls_growth *g) {
    int32_t path[MAX_GRAM], n = 0, row = 0;
    for (int32_t at = f.at; at != f.border; at = d->nodes[at].parent) path[n++] = d->nodes[at].token;
    while (n > 0 && row >= 0) row = ls_grow(g, row, path[--n], LS_SOURCE_HISTORY, d->nodes[f.border].depth, NAN);
}

// The matrix's tree of `rows` rows, the root's included.
static void add_matrix(const drafter *d, int32_t rows, ls_growth *g) {
    struct {
        int32_t row, token, width, depth;
    } queue[LS_MAX_ROWS] = {{0, g->rows[0].token, WIDTH, 0}};
    int32_t n = 1;
    for (int32_t at = 0; at < n && n < rows; at++) {
        const int32_t *next = ls_matrix_at(&d->base.m, queue[at].token);
        int32_t width = queue[at].depth == 1 ? queue[at].width : queue[at].width / 2;
        for (int32_t i = 0; next && i < queue[at].width && n < rows && next[i] >= 0; i++, width /= 2) {
            queue[n].row = queue[at].row < 0 ? -1 : ls_grow(g, queue[at].row, next[i], LS_SOURCE_REMEMBERED, 0, NAN);
            queue[n].token = next[i];
            queue[n].width = width > 1 ? width : 1;
            queue[n++].depth = queue[at].depth + 1;
        }
    }
}

static void racer_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    drafter *d = (drafter *)base;
    found best[LS_MAX_ROWS];
    if (!g->q) find_borders(d, s->root);
    const int32_t room = ls_grow_room(g) + 1, rows = g->q || room > LS_MAX_ROWS ? LS_MAX_ROWS : room,
                  n = most_frequent(d, best, rows);
    for (int32_t i = 0; i < n; i++) add_path(d, best[i], g);
    add_matrix(d, rows - n, g);
}

static void racer_learn(ls_drafter *base, const ls_draft_result *r) {
    ls_recycler_learn(base, r);
    ((drafter *)base)->committed = r->n_path;
}

static void racer_read(ls_drafter *base, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    for (size_t i = 0; i < n; i++) ls_matrix_learn(&((ls_recycler *)base)->m, context[at + i], &rows[i]);
}

static void racer_arrays(void *of, ls_memory_visit *v) {
    drafter *d = of;
    ls_memory_array(v, (void **)&d->nodes, (size_t)d->n_nodes * sizeof *d->nodes);
    ls_memory_map(v, &d->child_of);
    ls_recycler_arrays(d, v);
}

static int32_t racer_pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->taken - 1 + ((const ls_recycler *)base)->m.known;
}

static const ls_knob knobs[] = {
    {"racer.nodes", LS_KNOB_INT, 10000, 64, 1000000, "nodes of the trie; the least recently used are replaced",
     offsetof(drafter, n_nodes)},
    {"racer.ngram", LS_KNOB_INT, 10, 2, MAX_GRAM, "tokens of an n-gram of the trie", offsetof(drafter, gram)},
    {"racer.keep", LS_KNOB_SWITCH, 1, 0, 1, "keep what was learnt for the next conversation", offsetof(drafter, keep)},
    {"racer.read_prompt", LS_KNOB_NUMBER, 1000, 0, 1000,
     "also learn from the prompt's rows, if this takes at most this share of the answer's time",
     offsetof(drafter, base.base.read_share)},
    {0},
};

static ls_code racer_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    (void)setup, (void)err;
    d->nodes = ls_malloc((size_t)d->n_nodes * sizeof *d->nodes);
    empty(d);
    return LS_OK;
}

const ls_method ls_method_racer = {
    .name = "racer",
    .summary = "RACER: the most frequent continuations in a trie of ten-token n-grams, then Token Recycling's matrix",
    .source = "ACL Findings 2026, hkr04/RACER",
    .rows = ROWS,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = racer_set_up,
                                   .observe = racer_observe,
                                   .grow = racer_grow,
                                   .learn = racer_learn,
                                   .read = racer_read,
                                   .miss = ls_recycler_miss,
                                   .arrays = racer_arrays,
                                   .pool_size = racer_pool_size},
};
