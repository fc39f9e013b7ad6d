#include "trace/trace_level.h"

#include <string.h>

static const char *const names[] = {"steps", "nodes", "full"};

const char *ls_trace_level_name(ls_trace_level level) {
    return names[level];
}

ls_trace_level ls_trace_level_named(const char *name) {
    for (int i = 0; i < LS_LEVEL_FULL; i++)
        if (!strcmp(names[i], name)) return (ls_trace_level)i;
    return LS_LEVEL_FULL;
}
