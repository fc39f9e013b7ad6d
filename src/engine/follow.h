// The main loop of a rank other than 0: opens its part of every model that rank 0 offers, and repeats rank 0's calls.
#pragma once
#include "base/err.h"

// Returns when rank 0 has ended (LS_OK) or an exchange failed.
ls_code ls_follow(ls_err *err);
