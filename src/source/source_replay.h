// A trace as a source: the same events as the live run sent, at the recorded pace or another, without a model or the
// compute library.
#pragma once
#include "source/source.h"

typedef struct {
    const char *path;  // /dev/fd/N: what comes through a pipe
    const char *rival; // another recording of the same prompt; NULL: none
    double speed;      // 1: as recorded, 2: twice as fast; 0: as fast as it is read
    bool paused;
} ls_replay_options;

// A file that cannot be opened is an error at once; what is wrong further on arrives as a message. NULL: see err.
// Commands: run, pause, step; set "replay.speed=X"; reset plays it again.
ls_source *ls_source_replay(const ls_replay_options *opt, ls_err *err);
