// Medusa's drafter (arXiv 2401.10774): a fixed tree of choices over a guesser's tokens.
#pragma once
#include "spec/drafter.h"
#include "spec/guesser.h"

enum { LS_MEDUSA_ROWS = 64, LS_MEDUSA_K = 10 }; // rows of the published tree, including the root; choices of a place

// Takes ownership of g. note (may be NULL): called once if guessing fails.
ls_drafter *ls_drafter_medusa(ls_guesser *g, void (*note)(void *ud, const char *text), void *ud);
