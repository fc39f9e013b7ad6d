// Trained Medusa heads as a guesser (spec/guesser.h).
#pragma once
#include "engine/trained.h"
#include "spec/guesser.h"

// heads are taken over, also on an error; they must be Medusa's (LS_E_USAGE: EAGLE). target is the timeline that the
// drafts are for, whose hidden states it takes from now on: read a prompt after this. It outlives the guesser.
ls_code ls_guesser_medusa(ls_guesser **out, ls_trained *heads, ls_timeline *target, ls_err *err);
