// Live decoding for the screen: settings change while it runs, and rivals have names.
#pragma once
#include "cli/commands.h"
#include "cli/contender.h"
#include "source/source_live.h"

typedef struct {
    ls_options options, before; // the source's thread has its own: they change while it runs
    ls_run_setup setup;
    ls_contender *rival; // the last one requested
    int n_rivals;
    bool failed; // a file was not written whole; known once the source is closed
} ls_screen_source;

// Starts loading. keep: see ls_live_options. l must not move before ls_screen_source_free, which comes after the source
// was closed.
ls_source *ls_screen_source_open(ls_screen_source *l, const ls_options *o, const char *keep, ls_err *err);
void ls_screen_source_free(ls_screen_source *l);
