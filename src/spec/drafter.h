// Drafters propose the tree that one forward verifies. Integers and floats only: no model, no strings of text.
//
// A new method is one file draft_*.c, which holds its ls_method (name, source, knobs, make), and one line in
// methods.def; then --method, compare, simulate, tune, the help, the configuration keys of its knobs and the tests of
// every method know it (a test asks for configs/methods/NAME.yaml with its knobs). draft_pld.c is a short one to start
// from.
//
// A drafter is used by one thread; what it learnt lives as long as it does, across conversations, in bounded memory.
#pragma once
#include "base/ends.h"
#include "base/err.h"
#include "spec/cost_curve.h"
#include "spec/guesser.h"
#include "spec/knobs.h"
#include "spec/memory.h"
#include "spec/second.h"
#include "spec/successors.h"
#include "spec/tree.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct {
    const int32_t *context; // committed tokens (prompt and output), root not included
    size_t n_context;
    int32_t root;
    const int32_t *top_ids; // the last logits' best tokens, best first (raw logits, before any sampling)
    const float *top_p;     // their probabilities
    int32_t n_top;
    const ls_cost_curve *costs; // not NULL: rows that cannot pay by these costs need not be looked for
} ls_draft_state;

// A verified tree teaches: its states are marked, its rows hold what the target said after them (a simulation does not
// know every row: there the best tokens end early).
typedef struct {
    const int32_t *context; // before the tree
    size_t n_context;
    const ls_tree *tree;
    int32_t n_path; // accepted rows, the root included
} ls_draft_result;

// What a drafter's sources have for one token at one place of its tree.
typedef enum {
    LS_KNOWS_NOTHING, // no source has anything there
    LS_KNOWS_OTHERS,  // they have other tokens there
    LS_KNOWS_BEYOND,  // beyond what the method drafts: a later rank, a longer branch; the last logits have every token
    LS_KNOWS_HIDDEN,  // a source has it, but another look-up goes before it
    LS_KNOWS_IT,      // with rows enough it is drafted
} ls_knowledge;

// A place of a tree, and a token that was not drafted there.
typedef struct {
    const ls_draft_state *state; // that the tree was proposed for
    const ls_tree *tree;
    int32_t row; // the token would have come after it; it is on the accepted path
    int32_t token;
    int32_t budget; // rows that the tree was to have at most
} ls_draft_question;

typedef struct ls_drafter ls_drafter;
struct ls_drafter {
    // The committed text changed: it is now context[0..n). It may have grown, or been cut or replaced (reset).
    void (*observe)(ls_drafter *d, const int32_t *context, size_t n, bool reset);
    // Fills tree (root included) with at most budget rows, 1..LS_MAX_ROWS; exactly budget where candidates suffice.
    void (*propose)(ls_drafter *d, const ls_draft_state *s, int32_t budget, ls_tree *tree);
    void (*learn)(ls_drafter *d, const ls_draft_result *r); // NULL: learns nothing from rows
    // Asked between `propose` and `learn`, about the tree that was proposed last (rows of it may have been cut since).
    // NULL: the method does not say.
    ls_knowledge (*knows)(const ls_drafter *d, const ls_draft_question *q);
    // rows: what the target said after each of the n tokens from context[at] on, a prompt's. NULL: learns nothing from
    // prompts.
    void (*read)(ls_drafter *d, const int32_t *context, size_t at, size_t n, const ls_node *rows);
    // Goes on drafting below the tree that was proposed last, for the steps to come, until *stop or nothing is worth
    // it: in another thread beside the target's forward, while nothing else is asked of the drafter. NULL: it cannot.
    void (*ahead)(ls_drafter *d, const ls_draft_state *s, const atomic_bool *stop);
    // Lists what it knows (spec/memory.h). NULL: nothing but what a second model or a head has read.
    void (*memory)(void *d, ls_memory_visit *v);
    ls_second *second; // the model that drafts; NULL: none does
    bool beside;       // set before `propose`: if it has not seen the root, it begins in `ahead`, not before
    double read_share; // of the answer's expected time that reading may take; 0: none
    int32_t (*pool_size)(const ls_drafter *d); // entries remembered
    size_t (*bytes)(const ls_drafter *d);      // memory of what is remembered
    void (*free)(ls_drafter *d);
};

enum { LS_DRAFT_DEPTH = 6, LS_DRAFT_WIDTH = 4 };

typedef enum { LS_OVERLAP_AUTO, LS_OVERLAP_ON, LS_OVERLAP_OFF } ls_overlap;

// How a second model drafts (the options draft.*). Numbers that are 0 are the usual ones.
typedef struct {
    const char *model;   // what ls_model_load takes; NULL or "": the target's own
    const char *weights; // how its weights are kept; "auto": as the file has them
    const char *head;    // folder of a trained head, for the methods that ask one
    int32_t layers;      // of the model, from the first on; 0: all, or half of the target's where nothing else differs
    int32_t depth;       // forwards of a step at most
    int32_t width;       // rows of a forward at most
    int32_t threads;     // of its forwards; 0: as many as the target's
    const char *device;  // where it runs; NULL or "auto": where the target does
    ls_overlap overlap;  // whether it drafts beside the target's forward
} ls_draft_options;

// What a drafter may know about where it works.
typedef struct {
    const ls_knob_value *knobs; // of its method, in their order
    const char *tokenizer;      // name of the vocabulary, for messages
    int32_t n_vocab;            // 0: not known
    uint64_t tokenizer_id;      // tells vocabularies apart: what was remembered on disk is for one of them
    const ls_ends *ends;        // tokens that end an answer: nothing is drafted behind them; NULL: not known
    bool read_only;             // nothing is to be remembered on disk
    ls_draft_options draft;
    // Gives the second model that `draft` names; NULL: there is none to be had (a simulation).
    ls_code (*second)(void *of, const ls_draft_options *draft, ls_second **out, ls_err *err);
    // Likewise the heads that guess by position, from draft.head.
    ls_code (*guesser)(void *of, const ls_draft_options *draft, ls_guesser **out, ls_err *err);
    void *of;
    void (*note)(void *ud, const char *text); // one line for the user, now or when it is freed; NULL: nobody listens
    void *ud;
} ls_draft_setup;

struct ls_method {
    const char *name, *summary;
    const char *source;   // where it was published
    int32_t rows;         // of the tree in its paper (sizing `paper`)
    bool sized;           // sized by cost unless asked otherwise (sizing `auto`)
    bool scored;          // its estimates are acceptance rates; others are refined by hit rates (spec/scores.h)
    bool text_only;       // its drafts follow from the text alone, not from what the target thinks of other tokens
    bool asks_model;      // a second model drafts: it needs one that runs
    bool asks_head;       // ... a trained head (draft.head)
    bool shares_prefixes; // siblings may hold the same token, as published
    const ls_knob *knobs; // NULL: none
    ls_code (*make)(ls_drafter **out, const ls_draft_setup *s, ls_err *err); // NULL: plain decoding
};
typedef struct ls_method ls_method;

extern const ls_method *const ls_methods[];        // NULL-terminated; plain decoding first
extern const char ls_method_names[];               // "ar|logitspec|..."
const ls_method *ls_method_find(const char *name); // NULL: unknown
// A drafter with default knobs, knowing nothing about its tokenizer.
ls_code ls_method_make(ls_drafter **out, const ls_method *m, ls_err *err);

// For drafters: the last `most` tokens of the text up to this row, it included; returns how many there are.
int32_t ls_draft_tail(const ls_draft_state *s, const ls_tree *t, int32_t row, int32_t *tail, int32_t most);
