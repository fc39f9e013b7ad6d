// Drafters propose the tree that one forward verifies. Integers and floats only: no model, no strings.
// A new method is one file draft_*.c and one line in methods.def.
#pragma once
#include "base/err.h"
#include "spec/sizing.h"
#include "spec/successors.h"
#include "spec/tree.h"

#include <stddef.h>

typedef struct {
    const int32_t *context; // committed tokens (prompt and output), root not included
    size_t n_context;
    int32_t root;
    const int32_t *top_ids; // the last logits' best tokens, best first (raw logits, before any sampling)
    const float *top_p;     // their probabilities
    int32_t n_top;
    const ls_sizing *sizing; // not NULL: as many rows as pay by these costs, at most the budget
} ls_draft_state;

// What a verified tree taught. path: the accepted rows, root first. Per row: the target's best tokens after it.
typedef struct {
    const int32_t *context; // before the tree
    size_t n_context;
    const ls_tree *tree;
    const int32_t *path;
    int32_t n_path;
    const int32_t (*top_id)[LS_SUCCESSORS];
    const float (*top_p)[LS_SUCCESSORS];
} ls_draft_result;

typedef struct ls_drafter ls_drafter;
struct ls_drafter {
    // The committed text changed: it is now context[0..n). It may have grown, or been cut or replaced (reset).
    void (*observe)(ls_drafter *d, const int32_t *context, size_t n, bool reset);
    // Fills tree (root included) with at most budget rows, exactly budget where candidates suffice.
    void (*propose)(ls_drafter *d, const ls_draft_state *s, int32_t budget, ls_tree *tree);
    void (*learn)(ls_drafter *d, const ls_draft_result *r); // NULL: learns nothing
    int32_t (*pool_size)(const ls_drafter *d);              // entries remembered
    void (*free)(ls_drafter *d);
};

typedef struct {
    const char *name, *summary;
    int32_t default_budget; // 0: sized from measured costs
    bool drafts;            // false: plain decoding
    ls_drafter *(*make)(void);
} ls_method;

// NULL-name terminated table of every method.
extern const ls_method ls_methods[];
extern const char ls_method_names[]; // "ar|logitspec|..."
#define METHOD(name, make, budget, summary) ls_drafter *make(void);
#include "spec/methods.def"
#undef METHOD
const ls_method *ls_method_find(const char *name); // NULL: unknown
