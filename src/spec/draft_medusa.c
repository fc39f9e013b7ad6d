// Medusa (arXiv 2401.10774; the authors' program FasterDecoding/Medusa, e2a5d20): a fixed tree of choices over the
// tokens of its heads, one of the nine published ones (medusa_trees.def). As in the program, the name of the model that
// the heads were trained for chooses one, unless medusa.tree does. With fewer heads than four the deeper choices are
// left out; a smaller max_rows takes the first choices.
#include "base/mem.h"
#include "spec/drafter.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 4, K = 10, ROWS = 64 }; // K: choices of a place; ROWS: of a published tree, including the root

typedef struct {
    const char *word[2], *choices;
} tree;

static const tree trees[] = {
#define TREE(name, word, other, choices) {{word, other}, choices},
#include "spec/medusa_trees.def"
#undef TREE
};

enum { TREES = sizeof trees / sizeof *trees };

typedef struct {
    ls_drafter base;
    ls_multi_head *g;
    ls_tree_shape shape; // its tree of choices
    int32_t *ids;        // [place][K]: the last step's guesses, and
    float *p;            // ... their probabilities
    int32_t tree;        // a knob
} drafter;

static const tree *tree_for(const char *base) {
    for (int i = 0; i < TREES; i++)
        if (trees[i].word[0] && strstr(base, trees[i].word[0]) && strstr(base, trees[i].word[1])) return &trees[i];
    return trees;
}

static void medusa_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    drafter *d = (drafter *)base;
    int32_t row_of[LS_SHAPE_ROWS] = {0};
    if (g->q || ls_grow_room(g) < 1) return; // the heads are not asked twice
    ls_err err = {0};
    const ls_code code = d->g->guess(d->g, s->context, s->n_context, K, d->ids, d->p, &err);
    if (code) {
        memset(d->ids, -1, (size_t)d->g->n * K * sizeof *d->ids);
        ls_drafter_failed(base, "the trained head", code, &err);
        return;
    }
    for (int32_t i = 1; i < d->shape.n; i++) {
        const int32_t place = d->shape.depth[i] - 1, at = place * K + d->shape.rank[i], up = row_of[d->shape.parent[i]];
        const bool known = up >= 0 && place < d->g->n && d->ids[at] >= 0;
        row_of[i] = known ? ls_grow(g, up, d->ids[at], LS_SOURCE_DRAFT_MODEL, 0, (double)d->p[at]) : -1;
    }
}

static ls_miss medusa_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    const int32_t place = q->tree->nodes[q->row].depth;
    for (int i = 0; place < PLACES && place < d->g->n && i < K; i++) {
        const int32_t id = d->ids[place * K + i];
        if (id == q->token) return LS_MISS_BEYOND; // the head guessed it, but the tree has no such choice
        if (id >= 0) miss = LS_MISS_OTHERWISE;
    }
    return miss;
}

static void medusa_arrays(void *of, ls_memory_visit *v) {
    drafter *d = of;
    ls_memory_own(v, &d->g, sizeof d->g);
    const size_t n = d->g ? (size_t)d->g->n * K : 0;
    ls_memory_array(v, (void **)&d->ids, n * sizeof *d->ids);
    ls_memory_array(v, (void **)&d->p, n * sizeof *d->p);
}

static void medusa_free(ls_drafter *base) {
    ls_multi_head *g = ((drafter *)base)->g; // says how large the arrays are
    ls_drafter_free(base);
    if (g) g->free(g);
}

static const ls_knob knobs[] = {
    {"medusa.tree", LS_KNOB_INT, 0, 0, TREES, "tree of choices; 0: by the name of the heads' base model; from 1:"
#define TREE(name, word, other, choices) " " #name
#include "spec/medusa_trees.def"
#undef TREE
     ,
     offsetof(drafter, tree)},
    {0},
};

static ls_code medusa_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    if (!setup->draft.head || !*setup->draft.head)
        return ls_fail(
            err, LS_E_USAGE,
            "method medusa needs trained heads for this model: set --draft-head FOLDER, with config.json and "
            "*.safetensors");
    if (!setup->multi_head)
        return ls_fail(err, LS_E_USAGE, "method medusa cannot be simulated, because a simulation has no trained heads");
    const ls_code code = setup->multi_head(setup->of, &setup->draft, &d->g, err);
    if (code) return ls_err_prefix(err, "method medusa");
    const size_t n = (size_t)d->g->n * K;
    ls_tree_shape_read(&d->shape, (d->tree ? &trees[d->tree - 1] : tree_for(d->g->base))->choices);
    d->ids = ls_malloc(n * sizeof *d->ids);
    d->p = ls_calloc(n, sizeof *d->p);
    memset(d->ids, -1, n * sizeof *d->ids);
    return LS_OK;
}

const ls_method ls_method_medusa = {
    .name = "medusa",
    .summary = "trained Medusa heads guess the tokens of the next positions, in a fixed tree",
    .source = "arXiv 2401.10774, its nine trees",
    .rows = ROWS,
    .asks_model = true,
    .asks_head = true,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = medusa_set_up,
                                   .grow = medusa_grow,
                                   .miss = medusa_miss,
                                   .arrays = medusa_arrays,
                                   .free = medusa_free},
};
