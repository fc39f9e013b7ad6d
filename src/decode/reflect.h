// The target looks at drafts once more (spec/accept.c). Behind the rows of the tree the same forward takes a
// probe: below the last row of one path the tokens of a prompt, below these the path again, from the root to the draft
// before the last:
//
//   root - d1 - d2 - d3 - [the prompt] - root - d1 - d2
//
// So each draft's place is seen twice: after the row before it, and after the copy of that row, where the target knows
// the drafts and what the prompt asks of them. The path is the one with the most expected accepted drafts, by est_p.
// The rows of the probe belong to no tree: they are never accepted or kept, and no drafter learns from them.
#pragma once
#include "base/buf.h"
#include "engine/engine.h"
#include "spec/accept.h"

// Zero: no probe was made.
typedef struct {
    int32_t n;      // rows of the probe
    int32_t copies; // the first row of the forward that is a copy of the path's
    int32_t n_path; // rows of the path, the root and the last draft included
    int32_t path[LS_MAX_ROWS];
} ls_probe;

// Appends the probe to ids and parents, which hold the tree and have room for LS_MAX_ROWS. No probe: the tree has no
// drafts, the forward no rows for it, or the context no `room` (positions that are left, the root's included).
void ls_probe_add(ls_probe *p, const ls_tree *tree, const ls_ids *prompt, int32_t room, int32_t *ids, int32_t *parents);
// Logits of (1 - weight) * the target's own distribution + weight * the reflected one, both shaped by the temperature
// (greedy: as by 1). weight 0: its own, to the bit.
void ls_fuse(const float *own, const float *reflected, int32_t n, double weight, double temperature, float *fused);
// Where the fused choice after a row of the probed path is the draft that follows there, that becomes the row's choice:
// rows[i].chosen and its logit; elsewhere the target's own choice stays. own[i] is the target's own choice, -1 where
// nothing was judged. The forward of t has verified tree and probe behind `context` tokens.
ls_code ls_reflect(const ls_probe *p, double weight, const lst_sampling *s, ls_timeline *t, const ls_tree *tree,
                   int32_t context, lst_row *rows, int32_t *own, ls_err *err);
