// A server's requests as a source: facts of all of them, and the events of the one that is shown.
#pragma once
#include "source/source.h"
#include "trace/feed.h"

// The feed must stay until the source is closed. Follows the request that is being answered until LS_CMD_OPEN, the only
// command, names another. NULL: the system has no resources for a thread.
ls_source *ls_source_feed(ls_feed *feed);
