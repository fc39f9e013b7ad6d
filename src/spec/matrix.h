// What the target said last after each token: the matrix of Token Recycling (draft_recycle.c), which RACER has, too
// (draft_racer.c). Integers only.
#pragma once
#include "spec/drafter.h"

// Zero-initialise; ls_recycler_arrays lists its array.
typedef struct {
    int32_t (*next)[LS_ROW_TOP]; // by token id, best first; -1: not known
    int32_t n;                   // allocated token ids
    int32_t known;               // token ids with successors
} ls_matrix;

void ls_matrix_learn(ls_matrix *m, int32_t token, const ls_node *row); // row: what the target said after the token
const int32_t *ls_matrix_at(const ls_matrix *m, int32_t token);        // LS_ROW_TOP ids; NULL: not known

// A drafter with a matrix begins with this, and has these functions.
typedef struct {
    ls_drafter base;
    ls_matrix m;
} ls_recycler;

void ls_recycler_learn(ls_drafter *d, const ls_draft_result *r);
ls_miss ls_recycler_miss(const ls_drafter *d, const ls_draft_question *q, ls_miss miss);
void ls_recycler_arrays(void *d, ls_memory_visit *v);
