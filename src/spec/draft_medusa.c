// Medusa (arXiv 2401.10774; the authors' program FasterDecoding/Medusa, e2a5d20): a fixed tree of choices over a
// guesser's tokens, one of the nine published ones (medusa_trees.def). As in the program, the name of the model that
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
    char choice[ROWS - 1][PLACES + 1]; // of its tree
    int32_t ids[PLACES][K];            // of the last step's guesses
    int32_t tree;                      // a knob
} drafter;

static ls_code medusa_guess(drafter *d, const ls_draft_state *s, float p[PLACES][K]) {
    const int32_t n = d->g->n;
    int32_t *ids = ls_malloc((size_t)n * K * sizeof *ids);
    float *all = ls_malloc((size_t)n * K * sizeof *all);
    ls_err err = {0};
    const ls_code code = d->g->guess(d->g, s->context, s->n_context, K, ids, all, &err);
    for (int32_t i = 0; i < PLACES; i++)
        for (int32_t k = 0; k < K; k++) {
            const bool known = !code && i < n;
            d->ids[i][k] = known ? ids[i * K + k] : -1;
            p[i][k] = known ? all[i * K + k] : 0;
        }
    free(ids), free(all);
    if (code) ls_drafter_failed(&d->base, "the trained head", code, &err);
    return code;
}

static const tree *tree_for(const char *base) {
    for (int i = 0; i < TREES; i++)
        if (trees[i].word[0] && strstr(base, trees[i].word[0]) && strstr(base, trees[i].word[1])) return &trees[i];
    return trees;
}

static void set_tree(drafter *d, const tree *t) {
    const char *p = t->choices;
    for (int i = 0; i < ROWS - 1; i++) {
        const size_t n = strcspn(p, " ");
        memcpy(d->choice[i], p, n);
        p += n + (p[n] != 0);
    }
}

// The row of a choice's parent; 0: the root; -1: the parent is not in the tree.
static int32_t row_above(const drafter *d, const char *choice, const int32_t *row_of) {
    const size_t n = strlen(choice) - 1;
    if (!n) return 0;
    for (int32_t i = 0; i < ROWS - 1; i++)
        if (strlen(d->choice[i]) == n && !memcmp(d->choice[i], choice, n)) return row_of[i];
    return -1;
}

static void medusa_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    drafter *d = (drafter *)base;
    int32_t row_of[ROWS - 1];
    float p[PLACES][K];
    if (g->q || ls_grow_room(g) < 1 || medusa_guess(d, s, p)) return; // the heads are not asked twice
    for (int32_t i = 0; i < ROWS - 1; i++) {
        const char *choice = d->choice[i];
        const size_t place = strlen(choice) - 1;
        const int32_t rank = choice[place] - '0', up = row_above(d, choice, row_of), token = d->ids[place][rank];
        const bool known = up >= 0 && token >= 0;
        row_of[i] = known ? ls_grow(g, up, token, LS_SOURCE_DRAFT_MODEL, 0, (double)p[place][rank]) : -1;
    }
}

static ls_miss medusa_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    const int32_t place = q->tree->nodes[q->row].depth;
    for (int i = 0; place < PLACES && i < K; i++) {
        if (d->ids[place][i] == q->token) return LS_MISS_BEYOND; // the head guessed it, but the tree has no such choice
        if (d->ids[place][i] >= 0) miss = LS_MISS_OTHERWISE;
    }
    return miss;
}

static void medusa_free(ls_drafter *base) {
    drafter *d = (drafter *)base;
    if (d->g) d->g->free(d->g);
    ls_drafter_free(base);
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
    set_tree(d, d->tree ? &trees[d->tree - 1] : tree_for(d->g->base));
    memset(d->ids, -1, sizeof d->ids);
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
    .size = sizeof(drafter),
    .drafter = &(const ls_drafter){.grow = medusa_grow, .miss = medusa_miss, .free = medusa_free},
    .set_up = medusa_set_up,
};
