// A trained EAGLE head (EAGLE-3, or EAGLE's first format) as the second model that drafts (spec/second.h).
#pragma once
#include "engine/trained.h"
#include "spec/accept.h"
#include "spec/second.h"

// head is taken over, also on an error; it must be EAGLE's (LS_E_USAGE: Medusa). target is the timeline that the drafts
// are for, whose hidden states it takes from now on: read a prompt after this. target, sampling and accept are borrowed
// and outlive it; what the latter say may change meanwhile. It must be freed before the timeline.
ls_code ls_second_eagle(ls_second **out, ls_trained *head, ls_timeline *target, const lst_sampling *sampling,
                        const ls_accept *accept, ls_err *err);
