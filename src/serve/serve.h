// A server: any client of the usual APIs drives the decoder over HTTP. One thread has the connections (http.c) and
// reads requests; the calling thread owns model and sessions and answers requests, in turn step by step (answerer.c).
#pragma once
#include "decode/runner.h"
#include "serve/access.h"
#include "serve/records.h"
#include "trace/feed.h"

typedef struct ls_answerer ls_answerer; // serve/answerer.h
// Whether work should end: the client has left, its time is over, or the server is stopped; without a request (costs
// are measured) also when one has come. For ls_engine_options.stop, too; NULL: no server runs.
bool ls_answerer_stops(ls_answerer *a);

typedef struct {
    ls_model *model;       // loaded, borrowed
    const ls_setup *setup; // borrowed: what a request without a field gets
    bool seeded;           // all requests without a seed get that of the setup
    const char *name;      // of the model, as the user wrote it: accepted beside model->name
    ls_listen listen;
    ls_keys keys, watch_keys;   // borrowed; watch_keys: of those who may watch. Without both, everyone may
    ls_feed *feed;              // what they see, borrowed; NULL: nobody can watch
    const char *const *hosts;   // further names of this host, NULL-terminated; NULL: none
    const char *const *origins; // pages that may ask; NULL: none
    int max_waiting;            // requests in the queue
    int parallel;               // requests that are decoded in turn, step by step: 1 to LS_PARALLEL
    int max_kept;               // KV caches, at least `parallel`
    uint64_t max_kept_bytes;
    bool fresh;                               // keep nothing between requests
    ls_records records;                       // of requests
    double timeout_s;                         // of a request, from its arrival to its end; 0: none
    ls_answerer **runs;                       // while the server runs, it is here; NULL: forwards do not end early
    bool (*stop)(void *ud);                   // true: the server ends
    void (*line)(void *ud, const char *text); // a line for each request, without its text
    void *ud;
} ls_serve_options;

// Serves until stop() returns true. ready: called once requests are taken; url: without a path.
ls_code ls_serve(const ls_serve_options *o, void (*ready)(void *ud, const char *url), ls_err *err);
