// Choices of the target that depend on the drafts: speculative sampling and recursive rejection
// (spec/accept.c). Random numbers are functions of seed and position, in streams of their own: a run with a
// seed can be repeated, but its text differs from that of plain decoding.
#pragma once
#include "engine/engine.h"
#include "spec/accept.h"
#include "spec/second.h"

// The streams of base/rng.h at the position of a token. A second model's draws are the DRAWs, one after the other.
enum { LS_STREAM_PLAIN, LS_STREAM_REST, LS_STREAM_DRAW = 16, LS_STREAM_TEST = 64 };

// Draws a token from q[0..n) for the k-th time at a position; with `removes` it is taken out of q. -1: q holds nothing.
int32_t ls_draw(float *q, int32_t n, uint64_t seed, uint64_t position, int32_t k, bool removes);
// Drafts drawn after a row of the second model's draft, in place of the likeliest tokens, as many as the rule asks for
// (ls_accept_draws); position: of the token after it.
ls_code ls_draw_said(const ls_accept *a, const lst_sampling *s, ls_second *second, int32_t row, int32_t n_vocab,
                     uint64_t position, ls_said *said, ls_err *err);
// What the target chooses after a row, p[0..n) being its distribution there, which is changed: the drafts are tested in
// turn, those that were drawn from q first (NULL: there are none), then `others`, which follow from the text alone.
int32_t ls_choose_token(const ls_accept *a, const ls_said *said, float *q, const int32_t *others, int32_t n_others,
                        float *p, int32_t n, uint64_t seed, uint64_t position);
// Replaces the choices along the path of a tree that a forward of t has verified behind `context` tokens:
// rows[i].chosen and its logit. second: what drew the drafts; NULL: nothing did.
ls_code ls_choose(const ls_accept *a, const lst_sampling *s, ls_timeline *t, ls_second *second, const ls_tree *tree,
                  int32_t context, lst_row *rows, ls_err *err);
