// `tune --fit c2t TRACE...`: the weights of the sizing rule c2t, fitted to recordings.
#pragma once
#include "cli/commands.h"

int ls_tune_fit(const ls_command_line *c); // returns the exit code
