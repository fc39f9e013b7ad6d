// Draft models (spec/draft_model.h) that an engine runs: a model of its own, or the target's first layers; and trained
// heads of the target, which draft from its hidden states.
#pragma once
#include "engine/load.h"
#include "engine/trained.h"
#include "spec/accept.h"
#include "spec/drafter.h"

// What a forward's row says; differs: the first token that the target does not have, -1: it has all.
ls_prediction ls_prediction_of(const lst_row *r, int32_t differs);
// A forward of n rows behind `context` tokens began at start_ns: adds it to the present draft and to the costs.
void ls_draft_forward_timed(ls_draft_model *m, uint64_t start_ns, int32_t n, int32_t context);
// A KV cache of its own on what `o` names. target, sampling and accept are borrowed and outlive it; what they say may
// change meanwhile. LS_E_RANGE: the model has not as many layers; else what loading says.
ls_code ls_draft_model_open(ls_draft_model **out, ls_model *target, const ls_draft_options *o,
                            const lst_sampling *sampling, const ls_accept *accept, ls_err *err);
// A trained head: EAGLE's (EAGLE-3, or EAGLE's first format), or Medusa's. It is taken over, also on an error;
// LS_E_USAGE: it is of the other kind. target is the KV cache that the drafts are for, whose hidden states it takes
// from now on: read a prompt after this. target, sampling and accept are borrowed and outlive it; what the latter say
// may change meanwhile. children: the number of best tokens after each row, as far as ls_prediction has room.
ls_code ls_draft_model_eagle(ls_draft_model **out, ls_trained *head, ls_kv_cache *target, const lst_sampling *sampling,
                             const ls_accept *accept, int32_t children, ls_err *err);
ls_code ls_multi_head_medusa(ls_multi_head **out, ls_trained *heads, ls_kv_cache *target, ls_err *err);
