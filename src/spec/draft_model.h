// The drafters' interface to a draft model: rows of tokens go in, its best next tokens come out. decode/draft_model.h
// implements it; this file has integers and floats only.
//
//   begin or resume (text and root)  ->  more ... (the tree grows)  ->  the same for the next step
//
// Rows are numbered from 0, the root. Owned by one drafter; used by one thread at a time.
#pragma once
#include "base/err.h"
#include "spec/cost_curve.h"
#include "spec/tree.h"

#include <stddef.h>

// The rows that a draft model saw in this draft, the root first; parents count these rows.
typedef struct {
    int32_t n;
    int32_t token[LS_MAX_PREDICTIONS], parent[LS_MAX_PREDICTIONS];
    ls_prediction predictions[LS_MAX_PREDICTIONS];
} ls_draft_rows;

typedef struct ls_draft_model ls_draft_model;
struct ls_draft_model {
    char name[64]; // display name: "SmolLM2-135M-Instruct, its first 10 layers"
    // The text is context[0..n), followed by the root; reads their new tokens. *prediction: that after the root.
    // LS_E_RANGE: the model's context is full, or the text has a token that is not in its vocabulary. On an error
    // nothing is drafted in this step; the next begin tries again.
    ls_code (*begin)(ls_draft_model *m, const int32_t *context, size_t n, int32_t root, ls_prediction *prediction,
                     ls_err *err);
    // Gives the rows of this draft that it has already seen (the root and rows below it), because an earlier draft had
    // the same text and root; no forward is needed. False: it has not seen the root, or has no room to continue from
    // there (begin has); then out->n is 0 or unchanged. NULL: not supported.
    bool (*resume)(ls_draft_model *m, const int32_t *context, size_t n, int32_t root, ls_draft_rows *out);
    // Reads n more rows, whose parents are any earlier rows; prediction[i]: that after new row i. LS_E_RANGE: no
    // room.
    ls_code (*more)(ls_draft_model *m, const int32_t *tokens, const int32_t *parents, int32_t n,
                    ls_prediction *prediction, ls_err *err);
    // The distribution of the token after a row (over the target's n_vocab tokens), after the target's sampling
    // settings. Rows are those of the draft since the last begin or resume.
    ls_code (*distribution)(ls_draft_model *m, int32_t row, float *q, int32_t n_vocab, ls_err *err);
    // How many tokens of the text the next begin would have to read, without the root.
    int32_t (*unread)(const ls_draft_model *m, const int32_t *context, size_t n);
    ls_cost_curve costs; // measured times of its forwards
    int32_t threads;     // CPU threads of its forwards; 0: they run on a GPU
    // Summed up by begin and more; the drafter sets them to 0 before each draft.
    int32_t forwards;
    double forward_us;
    void (*free)(ls_draft_model *m);
};

// The drafters' interface to a model that guesses by position: the best tokens of each position after the next one,
// independent of the tokens between. decode/draft_model.h implements it.
typedef struct ls_multi_head ls_multi_head;
struct ls_multi_head {
    char base[96]; // name of the model that it was trained for; "": not known
    int32_t n;     // guessed positions; the first one is after the root
    // Gives the k best tokens of each position with their probabilities, best first, id -1: no more; ids and p are
    // [n][k]. The text is context[0..n_context); the guesses do not depend on the root, which follows it. LS_E_RANGE:
    // no hidden states of this text, so nothing is drafted in this step.
    ls_code (*guess)(ls_multi_head *g, const int32_t *context, size_t n_context, int32_t k, int32_t *ids, float *p,
                     ls_err *err);
    void (*free)(ls_multi_head *g);
};
