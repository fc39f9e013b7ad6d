// Connections, by libmicrohttpd (its only user), in one thread: reads requests, checks who asks, queues them, and sends
// what the decoder says.
#pragma once
#include "serve/exchange.h"
#include "serve/serve.h"

typedef struct ls_http ls_http;

// Listens; opens the queue. o and queue must stay. LS_E_IO, LS_E_USAGE.
ls_code ls_http_open(ls_http **out, const ls_serve_options *o, ls_queue *queue, ls_err *err);
const char *ls_http_url(const ls_http *h); // "http://127.0.0.1:8080"
void ls_http_close(ls_http *h);            // when the decoder has let go of all exchanges; closes the queue
const char *ls_http_version(void);         // of the library
