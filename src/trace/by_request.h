// What a server tells watchers has the lines of a turn between those of others, if they were decoded at the same time
// or the watcher was slow. A step belongs to the last header before it, so lines are read request by request, in the
// order in which their recordings begin: the first is read as it comes, the others are kept until its end. One thread.
#pragma once
#include "trace/trace_read.h"

typedef struct ls_by_request ls_by_request;

ls_by_request *ls_by_request_new(void);
void ls_by_request_free(ls_by_request *b); // accepts NULL

// A line about a request: the lines up to the next one belong to it.
void ls_by_request_about(ls_by_request *b, const ls_request_facts *facts);
// A line of that request; copied. What the server says of itself (request 0) begins no turn and is left out.
void ls_by_request_put(ls_by_request *b, ls_trace_line kind, const ls_line *line);
// The next line in order, valid until the next call of any of these. False: more must come, or it was the last. more:
// further lines may come.
bool ls_by_request_next(ls_by_request *b, bool more, ls_line *out);
// Lines of requests that were not read: the server had no memory for them, or they came behind the end of their turn.
uint64_t ls_by_request_lost(const ls_by_request *b);
