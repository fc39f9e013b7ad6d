// Answers requests: the decoder's side of the queue.
#pragma once
#include "serve/exchange.h"
#include "serve/serve.h"
#include "serve/sessions.h"

// Set the first part and zero the rest.
typedef struct {
    const ls_serve_options *o;
    ls_queue *queue;
    ls_sessions sessions;
    ls_exchange *current;           // NULL: none
    bool takes_tools, writes_calls; // of the chat template: it shows tools; calls are <tool_call>JSON</tool_call>
    uint64_t tended_ns, looked_ns;  // when waiting requests, and whether to stop, were last looked at
    bool stops;
    bool idles; // costs are measured: a request ends that
} ls_answerer;

void ls_answerer_init(ls_answerer *a);
void ls_answerer_free(ls_answerer *a);
void ls_answer_request(ls_answerer *a, ls_exchange *x); // takes x
// Answers requests that need no decoding, and tends those that wait. Called often.
void ls_answerer_tend(ls_answerer *a);
// Whether work should end: the client has left, its time is over, or the server is stopped; without a request (costs
// are measured) also when one has come.
bool ls_answerer_stops(ls_answerer *a);
