// Choices of the target that depend on the drafts: speculative sampling and recursive rejection (spec/accept.c). Random
// numbers are functions of seed and position, in streams of their own: a run with a seed can be repeated, but its text
// differs from that of plain decoding.
#pragma once
#include "base/buf.h"
#include "engine/engine.h"
#include "spec/accept.h"
#include "spec/draft_model.h"

// The streams of base/rng.h at the position of a token. A draft model's draws are the DRAWs, one after the other.
enum { LS_STREAM_PLAIN, LS_STREAM_REST, LS_STREAM_DRAW = 16, LS_STREAM_TEST = 64 };

// Draws a token from q[0..n) for the k-th time at a position; with `removes` it is taken out of q. -1: q holds nothing.
int32_t ls_draw(float *q, int32_t n, uint64_t seed, uint64_t position, int32_t k, bool removes);
// Drafts drawn after a row of the draft model's draft, in place of the likeliest tokens, as many as the rule asks for
// (ls_accept_draws; 0: nothing is changed); position: of the token after it.
ls_code ls_draw_prediction(const ls_accept *a, const lst_sampling *s, ls_draft_model *draft_model, int32_t row,
                           int32_t n_vocab, uint64_t position, ls_prediction *prediction, ls_err *err);
// What the target chooses after a row, p[0..n) being its distribution there, which is changed: the drafts are tested in
// turn, those that were drawn from q first (NULL: there are none), then `others`, which follow from the text alone.
int32_t ls_choose_token(const ls_accept *a, const ls_prediction *prediction, float *q, const int32_t *others,
                        int32_t n_others, float *p, int32_t n, uint64_t seed, uint64_t position);
// Replaces the choices along the path of a tree that a forward of kv has verified behind `context` tokens:
// rows[i].chosen and its logit. draft_model: what drew the drafts; NULL: nothing did.
ls_code ls_choose(const ls_accept *a, const lst_sampling *s, ls_kv_cache *kv, ls_draft_model *draft_model,
                  const ls_tree *tree, int32_t context, lst_row *rows, ls_err *err);
// The target's distributions along a tree that a forward of kv has verified, at this temperature, > 0, without top_k
// and top_p; shaped: of each row. The root has no p.
ls_code ls_shape_tree(double temperature, ls_kv_cache *kv, const ls_tree *tree, ls_shaped *shaped, ls_err *err);

// The target looks at drafts once more (spec/accept.c). Behind the rows of the tree the same forward takes a
// probe: below the last row of one path the tokens of a prompt, below these the path again, from the root to the draft
// before the last:
//
//   root - d1 - d2 - d3 - [the prompt] - root - d1 - d2
//
// So each draft's place is seen twice: after the row before it, and after the copy of that row, where the target knows
// the drafts and what the prompt asks of them. The path is the one with the most expected accepted drafts, by est_p.
// The rows of the probe belong to no tree: they are never accepted or kept, and no drafter learns from them.

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
// nothing was judged. The forward of kv has verified tree and probe behind `context` tokens.
ls_code ls_reflect(const ls_probe *p, double weight, const lst_sampling *s, ls_kv_cache *kv, const ls_tree *tree,
                   int32_t context, lst_row *rows, int32_t *own, ls_err *err);
