// LogitSpec's sources of drafts (retrieval for the root, next-next-token guesses from the last logits) and the target's
// own remembered choices, in one best-first tree: each candidate's chance of being right is estimated by all that its
// sources say of it (rates.h), and the likeliest paths are taken until the budget is full, or until another row
// would cost more time than it is expected to save.
#pragma once
#include "spec/drafter.h"
#include "spec/rates.h"

const ls_rates *ls_draft_logitspec_rates(const ls_drafter *d); // what it has learnt; d is of method "logitspec"
