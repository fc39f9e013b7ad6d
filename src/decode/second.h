// A second model (spec/second.h) that an engine runs: a model of its own, or the target's first layers.
#pragma once
#include "engine/load.h"
#include "spec/accept.h"
#include "spec/drafter.h"

// A timeline of its own on what `o` names. target, sampling and accept are borrowed and outlive it; what they say may
// change meanwhile. LS_E_RANGE: the model has not as many layers; else what loading says.
ls_code ls_second_open(ls_second **out, ls_model *target, const ls_draft_options *o, const lst_sampling *sampling,
                       const ls_accept *accept, ls_err *err);
