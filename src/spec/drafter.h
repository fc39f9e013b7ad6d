// Drafters propose the tree that one forward verifies. Integers and floats only: no model, no strings of text.
//
// To add a method, write a file draft_*.c with its ls_method (name, source, knobs, the drafter's functions), and add a
// line to methods.def. Then --method, compare, simulate, tune, the help, the configuration keys of its knobs and the
// tests of all methods include it (a test requires configs/methods/NAME.yaml with its knobs). draft_pld.c is a short
// example.
//
// A drafter is used by one thread. It keeps what it learned across conversations, in bounded memory, until it is freed.
#pragma once
#include "base/err.h"
#include "spec/cost_curve.h"
#include "spec/knobs.h"
#include "spec/memory.h"
#include "spec/draft_model.h"
#include "spec/successors.h"
#include "spec/tree.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct {
    const int32_t *context; // committed tokens (prompt and output), without the root
    size_t n_context;
    int32_t root;
    // the last logits' best tokens, best first (raw logits, before any sampling), and their probabilities; NULL: not
    // known
    const int32_t *top_ids;
    const float *top_p;
    int32_t n_top;
    const ls_cost_curve *costs; // not NULL: the drafter may omit rows that cannot pay by these costs
} ls_draft_state;

// A verified tree, from which drafters learn: the states are set, and each row has the target's best tokens after it (a
// simulation does not know all of them, so some lists are shorter).
typedef struct {
    const ls_draft_state *state; // as `propose` had it; if it lacks the last logits, acceptance rates are not learnt
    const ls_tree *tree;
    int32_t n_path; // accepted rows, including the root
} ls_draft_result;

// A place of a tree, and a token that was not drafted there.
typedef struct {
    const ls_draft_state *state; // the state for which the tree was proposed
    const ls_tree *tree;
    int32_t row; // row on the accepted path after which the token was chosen
    int32_t token;
    int32_t max_rows; // limit of the tree's rows
} ls_draft_question;

// What a drafter's rows go to: a tree; or the answer to a question, for which the same drafts are offered again. Then
// the tree has no limit, and the only rows are those of the path to the question's row, so it costs little.
typedef struct {
    ls_draft rows[LS_MAX_ROWS]; // the root first
    int32_t n, max_rows;
    ls_tree *tree;              // NULL: a question
    const ls_draft_question *q; // NULL: a tree
    int32_t path[LS_MAX_ROWS];  // of a question: the tokens of its rows
    ls_miss miss;               // the answer so far
} ls_growth;

enum { LS_DRAFT_DEPTH = 6, LS_DRAFT_WIDTH = 4 };

typedef enum { LS_OVERLAP_AUTO, LS_OVERLAP_ON, LS_OVERLAP_OFF } ls_overlap;

// How a draft model drafts (the options draft.*). 0 means the method's number.
typedef struct {
    const char *model;   // as for ls_model_load; NULL or "": the target's own file
    const char *weights; // format of its weights in memory; "auto": as in the file
    const char *head;    // folder of a trained head, for the methods that need one
    int32_t layers;     // first layers of the model to use; 0: all, or half if the model is otherwise the target itself
    int32_t depth;      // largest number of forwards of a step
    int32_t width;      // largest number of rows of a forward
    int32_t threads;    // of its forwards; 0: as for the target
    const char *device; // its device; NULL or "auto": the target's
    ls_overlap overlap; // whether it drafts beside the target's forward
} ls_draft_options;

// The environment of a drafter.
typedef struct {
    const ls_knob_value *knobs; // of its method, in their order; NULL: the defaults
    const char *tokenizer;      // name of the vocabulary, for messages; it outlives the drafter
    int32_t n_vocab;            // 0: not known
    uint64_t tokenizer_id;      // identifies the vocabulary; a file of remembered tokens is for one vocabulary
    const ls_eos_set *ends;     // tokens that end an answer: nothing is drafted after them; NULL: not known
    bool read_only;             // do not write to disk
    ls_draft_options draft;
    // Gives the draft model that `draft` names; NULL: not available (a simulation).
    ls_code (*draft_model)(void *of, const ls_draft_options *draft, ls_draft_model **out, ls_err *err);
    // Gives the heads that guess by position, from draft.head; NULL: not available.
    ls_code (*multi_head)(void *of, const ls_draft_options *draft, ls_multi_head **out, ls_err *err);
    void *of;
    // Receives messages for the user, also when the drafter is freed; may be NULL.
    void (*note)(void *ud, const char *text);
    void *ud;
} ls_draft_setup;

typedef struct ls_method ls_method;
typedef struct ls_drafter ls_drafter;
struct ls_drafter {
    const ls_method *method;
    size_t size; // of its struct, which begins with an ls_drafter
    // Completes a drafter, which is zeroed but for its functions and knobs (files are named until it returns). NULL:
    // nothing is left to do.
    ls_code (*set_up)(ls_drafter *d, const ls_draft_setup *s, ls_err *err);
    // The committed text changed: it is now context[0..n). It may have grown, or been cut or replaced (reset). NULL:
    // learns nothing from the text.
    void (*observe)(ls_drafter *d, const int32_t *context, size_t n, bool reset);
    // Fills tree (including the root) with at most max_rows rows, 1..LS_MAX_ROWS; exactly max_rows if there are enough
    // candidates. NULL: by `grow`.
    void (*propose)(ls_drafter *d, const ls_draft_state *s, int32_t max_rows, ls_tree *tree);
    // Offers drafts to ls_grow and ls_grow_chain, the first ones first. For a question (g->q) it changes nothing in the
    // drafter. NULL: `miss` answers alone.
    void (*grow)(ls_drafter *d, const ls_draft_state *s, ls_growth *g);
    void (*learn)(ls_drafter *d, const ls_draft_result *r); // NULL: learns nothing from rows
    // Completes the answer of ls_drafter_miss by what the sources have at that place if they are asked for it alone.
    // miss: the answer of `grow`, less than LS_MISS_NO_ROW. NULL: not supported.
    ls_miss (*miss)(const ls_drafter *d, const ls_draft_question *q, ls_miss miss);
    // rows: the target's results after each of the n tokens of a prompt, from context[at] on. NULL: learns nothing from
    // prompts.
    void (*read)(ls_drafter *d, const int32_t *context, size_t at, size_t n, const ls_node *rows);
    // Drafts ahead below the tree proposed last, for the next steps, until *stop or until no row is worth it. Runs in
    // another thread beside the target's forward; no other function of the drafter is called meanwhile. NULL: not
    // supported.
    void (*ahead)(ls_drafter *d, const ls_draft_state *s, const atomic_bool *stop);
    // Lists what its struct owns and the arrays of its memory (spec/memory.h). NULL: it has none, except in a draft
    // model or a head.
    void (*arrays)(void *d, ls_memory_visit *v);
    ls_draft_model *draft_model; // the draft model; NULL: none
    bool beside; // set before `propose`: if the draft model has not seen the root, it only begins in `ahead`
    struct ls_stream *stream; // a part of its struct that outlives it in a file (spec/stream.h); NULL: none
    uint64_t began;           // sum of the files that its memory began with, for recordings; 0: it began with none
    bool lacks_bigrams;       // it would gain by those of the model, which were not all asked (decode/bigrams.h)
    double read_share;        // share of the answer's expected time for learning from the prompt; 0: none
    int32_t (*pool_size)(const ls_drafter *d); // remembered entries; NULL: there are none
    void (*free)(ls_drafter *d);               // also of one whose `set_up` failed. NULL: ls_drafter_free
    void (*note)(void *ud, const char *text);  // as in its setup
    void *ud;
    bool failed; // ls_drafter_failed told the user
    bool told;   // the user was told that the text does not fit a draft model's context
};

// Lists its memory: the method's struct behind the ls_drafter, and the arrays.
void ls_drafter_memory(void *d, ls_memory_visit *v);
void ls_drafter_free(ls_drafter *d); // its block, the arrays that it lists, and its stream, which is saved
// Whether the drafter has the token at the place, and if it was not drafted, why. Called between `propose` and `learn`,
// for the tree proposed last (some of its rows may have been cut). d->miss must not be NULL.
ls_miss ls_drafter_miss(ls_drafter *d, const ls_draft_question *q);

struct ls_method {
    const char *name, *summary;
    const char *source;   // where it was published
    int32_t rows;         // rows of the tree in its paper (sizing `paper`)
    int32_t depth, width; // of a draft model's drafts; 0: LS_DRAFT_DEPTH, LS_DRAFT_WIDTH
    int32_t deepest;      // the depth where the tree is sized by cost; 0: the same
    // Its estimates are acceptance rates, so its trees are sized by cost by default (sizing `auto`). Other methods'
    // estimates are refined by hit rates (ls_scores).
    bool sized;
    bool text_only;            // its drafts depend only on the text, not on the target's logits
    bool asks_model;           // it needs a draft model
    bool asks_head;            // ... a trained head (draft.head)
    bool shares_prefixes;      // siblings may hold the same token, as published
    const ls_knob *knobs;      // NULL: none
    const ls_drafter *drafter; // size and functions of its drafters; NULL: plain decoding
};

ls_draft_options ls_draft_defaults(const ls_draft_options *o, const ls_method *m, bool by_cost); // no 0, no NULL
extern const ls_method *const ls_methods[];        // NULL-terminated; plain decoding first
extern const char ls_method_names[];               // "plain|logitspec|..."
const ls_method *ls_method_find(const char *name); // or an earlier name; NULL: unknown
// Functions that may be NULL and are called without a test are then those that do what NULL says. *out is NULL for
// plain decoding.
ls_code ls_drafter_make(ls_drafter **out, const ls_method *m, const ls_draft_setup *s, ls_err *err);

// ---- for drafters

// Tells the user once that what it drafts with failed, and that the answer continues without its drafts. Not for a lack
// of room or a cancellation.
void ls_drafter_failed(ls_drafter *d, const char *what, ls_code code, const ls_err *err);

// Offers a draft; if a child of the same parent has its token, that is its row. Returns its row; -1: there is no more
// room, or the question's path does not go there. est_p: NAN for no estimate. Its key is its row.
int32_t ls_grow(ls_growth *g, int32_t parent, int32_t token, ls_draft_source from, int32_t match_n, double est_p);
// Offers a chain below the root, of which tokens[0..most) may be drafted (ls_tree_add): the others, up to n, are beyond
// the method's limits.
void ls_grow_chain(ls_growth *g, const int32_t *tokens, int32_t n, int32_t most, ls_branch info);
void ls_grow_note(ls_growth *g, ls_miss miss); // raises the answer to a question
int32_t ls_grow_room(const ls_growth *g);      // rows that may be added
// The last `most` tokens of the text up to and including this row; returns their number. rows: of `size` bytes each,
// which begin with an ls_draft; its parents are rows.
int32_t ls_draft_tail(const ls_draft_state *s, const void *rows, size_t size, int32_t row, int32_t *tail, int32_t most);
int32_t ls_question_tail(const ls_draft_question *q, int32_t *tail, int32_t most); // the same of its row

// A tree of fixed shape. The root is row 0; parents come first.
enum { LS_SHAPE_ROWS = 81 };
typedef struct {
    int32_t n, parent[LS_SHAPE_ROWS], rank[LS_SHAPE_ROWS], depth[LS_SHAPE_ROWS]; // rank: among its siblings
} ls_tree_shape;

// text: the rows below the root, each written as the ranks on its path: "0 1 00 01 10".
void ls_tree_shape_read(ls_tree_shape *s, const char *text);

// Candidates of a best-first search that may become rows: the most likely ones, as many as there are rows left. Of
// equal paths the earlier one is taken first.
enum { LS_CANDIDATES = 2048 }; // of a search

typedef struct {
    int32_t n;
    double path[LS_MAX_ROWS]; // acceptance probability of the whole path; the least likely first
    int32_t item[LS_MAX_ROWS];
} ls_open;

// False: `room` others are more likely, so it would never get a row.
bool ls_open_add(ls_open *o, int32_t room, int32_t item, double path);
int32_t ls_open_take(ls_open *o, double *path); // the most likely one; -1: none
