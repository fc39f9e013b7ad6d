// Live decoding for the screen: settings that change at run time, and rivals by name.
#pragma once
#include "cli/commands.h"

// Starts loading, with a copy of the options. keep, unkept, failed: see ls_live_options.
ls_source *ls_screen_source_open(const ls_options *o, const char *keep, const char *unkept, bool *failed, ls_err *err);
