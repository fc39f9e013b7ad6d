// LogitSpec's rule (arXiv 2507.01449, section 3; the authors' program where the paper is silent).
#pragma once
#include "spec/drafter.h"

ls_drafter *ls_draft_logitspec_paper(void);
