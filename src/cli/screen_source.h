// Live decoding for the screen: settings that change at run time, and rivals by name.
#pragma once
#include "cli/commands.h"
#include "cli/contender.h"
#include "source/source_live.h"

typedef struct {
    ls_options options, before; // owned by the source's thread, which changes them at run time
    ls_run_setup setup;
    ls_contender *rival; // the last one requested
    int n_rivals;
    bool failed; // a file is incomplete; valid after the source was closed
} ls_screen_source;

// Starts loading. keep: see ls_live_options. l must not move before ls_screen_source_free; call that after closing the
// source.
ls_source *ls_screen_source_open(ls_screen_source *l, const ls_options *o, const char *keep, ls_err *err);
void ls_screen_source_free(ls_screen_source *l);
