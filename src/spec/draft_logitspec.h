// LogitSpec's sources of drafts (retrieval for the root, next-next-token guesses from the last logits) and the target's
// remembered choices, in one best-first tree. The acceptance probability of each candidate is estimated from all its
// sources (rates.h). The most likely paths are taken until the budget is full, or until another row would cost more
// time than it is expected to save.
#pragma once
#include "spec/drafter.h"
#include "spec/rates.h"

const ls_rates *ls_draft_logitspec_rates(const ls_drafter *d); // its learned rates; d must be of method "logitspec"
