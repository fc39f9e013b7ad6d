// The amount of detail of a step in a trace.
#pragma once

typedef enum {
    LS_LEVEL_STEPS, // emitted tokens, number of verified rows, times
    LS_LEVEL_NODES, // the whole tree, with the target's choice at every row; eight of the last logits
    LS_LEVEL_FULL,  // also the best eight tokens at every row and 64 of the last logits
} ls_trace_level;

const char *ls_trace_level_name(ls_trace_level level); // "steps", "nodes", "full"
ls_trace_level ls_trace_level_named(const char *name); // LS_LEVEL_FULL for an unknown name
