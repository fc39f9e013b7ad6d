// Answers requests: the decoder's side of the queue.
#pragma once
#include "serve/exchange.h"
#include "serve/serve.h"
#include "serve/sessions.h"

typedef struct ls_answering ls_answering; // a request that is being answered

enum { LS_PARALLEL = 8 };

// Set the first part and zero the rest.
struct ls_answerer {
    const ls_serve_options *o;
    ls_queue *queue;
    ls_sessions sessions;
    ls_answering *begun[LS_PARALLEL]; // in turn each reads a part of its prompt or makes a step
    int n;
    const ls_answering *current;    // of these, the one whose turn it is; NULL: none
    bool takes_tools, writes_calls; // of the chat template: it shows tools; calls are <tool_call>JSON</tool_call>
    uint64_t tended_ns, looked_ns;  // when waiting requests, and whether to stop, were last looked at
    bool stops;
    bool idles; // costs are measured: a request ends that
};

void ls_answerer_init(ls_answerer *a);
void ls_answerer_free(ls_answerer *a);
bool ls_answerer_is_full(const ls_answerer *a);
// Takes x: answers it at once if it needs no decoding, else begins to answer it. Not if a is full.
void ls_answerer_begin(ls_answerer *a, ls_exchange *x);
void ls_answerer_work(ls_answerer *a); // one turn of each; requests that have been answered are gone
// Answers requests that need no decoding, and tends those that wait. Called often.
void ls_answerer_tend(ls_answerer *a);
