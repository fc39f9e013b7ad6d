// A second model, as drafters see it: rows of tokens go in, its best next tokens come out. What runs it lives above
// this folder (decode/second.h); here are integers and floats only.
//
//   begin or resume (text and root)  ->  more ... (the tree grows)  ->  the same for the next step
//
// Rows are numbered from 0, the root. One drafter's; used by one thread at a time.
#pragma once
#include "base/err.h"
#include "spec/cost_curve.h"
#include "spec/tree.h"

#include <stddef.h>

// The rows that a second model saw in this draft, the root first; parents count these rows.
typedef struct {
    int32_t n;
    int32_t token[LS_MAX_SAID], parent[LS_MAX_SAID];
    ls_said said[LS_MAX_SAID];
} ls_spoken;

typedef struct ls_second ls_second;
struct ls_second {
    char name[64]; // to show: "SmolLM2-135M-Instruct, its first 10 layers"
    // The text is context[0..n), the root follows it: what is new of them is read. *said: what comes after the root.
    // LS_E_RANGE: the model's context is full, or the text holds a token that it does not know. On an error nothing is
    // drafted in this step; the next begin tries anew.
    ls_code (*begin)(ls_second *m, const int32_t *context, size_t n, int32_t root, ls_said *said, ls_err *err);
    // What it has seen of such a draft already, because an earlier one held that text and root: the root and rows below
    // it, no forward needed. False: it has not seen the root, or has no room to go on from there (begin has); out->n is 0
    // then, or as it was. NULL: it never has.
    bool (*resume)(ls_second *m, const int32_t *context, size_t n, int32_t root, ls_spoken *out);
    // n more rows, whose parents are any rows before them; said[i] is of new row i. LS_E_RANGE: there is no room.
    ls_code (*more)(ls_second *m, const int32_t *tokens, const int32_t *parents, int32_t n, ls_said *said, ls_err *err);
    // The distribution of the token after a row (of n_vocab tokens, the target's), as the target's sampling shapes it.
    // Rows are those of the draft since the last begin or resume.
    ls_code (*distribution)(ls_second *m, int32_t row, float *q, int32_t n_vocab, ls_err *err);
    // How many tokens of the text the next begin would have to read, the root not among them.
    int32_t (*unread)(const ls_second *m, const int32_t *context, size_t n);
    // What a forward of so many rows takes behind a text of n tokens, ms, as measured; 0: not measured.
    double (*cost_ms)(const ls_second *m, int32_t rows, size_t n);
    int32_t threads; // that its forwards take of this machine's processors; 0: none, they run on a GPU
    // Of the draft since the last begin or resume, that one included.
    int32_t forwards;
    double forward_us;
    size_t (*bytes)(const ls_second *m); // memory of what it remembers
    void (*free)(ls_second *m);
};
