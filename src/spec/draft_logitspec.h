// LogitSpec's rule (arXiv 2507.01449, section 3; the authors' program where the paper is silent).
#pragma once
#include "spec/drafter.h"

ls_drafter *ls_draft_logitspec_paper(void); // equal prefixes are repeated, as the authors' code does
ls_drafter *ls_draft_logitspec(void);       // equal prefixes are merged and the freed budget refilled
