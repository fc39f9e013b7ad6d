// A request on its way: the thread of the connections reads it and queues it, the decoder answers it, and both own it
// until the last of them lets go. The decoder knows of a connection only whether the client has left.
#pragma once
#include "decode/stats.h"
#include "serve/request.h"
#include "trace/feed.h"

#include <pthread.h>

typedef struct ls_exchange ls_exchange;
struct ls_exchange {
    ls_exchange *next; // in the queue
    ls_request request;
    int fd;                        // of its connection
    ls_request_facts facts;        // what watchers know; of the decoder once it is queued
    uint64_t arrived_ns, spoke_ns; // spoke: when the last event was written
    // the next are protected by the queue's lock
    void *connection; // NULL: the client has left
    bool waits;       // the connection is suspended until something is said
    int status;       // of HTTP; 0: the decoder has not said it yet
    ls_buf out;       // what the client has not been sent, from byte `sent` on
    size_t sent;
    bool ended; // nothing follows
    int owners;
};

// ---- counters, in the text format of Prometheus

typedef enum { LS_ENDED_WHOLE, LS_ENDED_LEFT, LS_ENDED_LATE, LS_ENDED_ERROR, LS_ENDED_KINDS } ls_ended;

// Protected by the lock of the queue.
typedef struct {
    uint64_t requests[LS_APIS], refused, ended[LS_ENDED_KINDS];
    uint64_t prompt_tokens, kept_tokens;
    double prefill_s, queued_s;
    int running, connections, sessions;
    ls_stats steps; // of all answers
} ls_metrics;

// The requests that wait, and what both threads share.
typedef struct {
    pthread_mutex_t lock;
    int wake; // an eventfd: a request was queued
    ls_exchange *first, **end;
    int n, most, places; // places: requests decoded at once; those that will be do not wait
    bool closing;        // no more requests are taken
    int sending;         // requests whose clients have not been sent all of the answer
    pthread_cond_t sent;
    double typical_s; // from the end of a request to that of the next, for Retry-After
    ls_metrics metrics;
    ls_feed *feed;    // what watchers see; NULL: nobody can watch
    int32_t arrivals; // numbers of requests
    void (*resume)(void *connection);
    void (*tick)(void *ud); // called now and then by ls_queue_tend
    void *ud;
} ls_queue;

// Set most, places, feed, resume, tick and ud, and zero the rest.
ls_code ls_queue_open(ls_queue *q, ls_err *err);
void ls_queue_close(ls_queue *q);                   // no exchange is left
void ls_queue_count(ls_queue *q, uint64_t *metric); // one more; any thread
void ls_metrics_write(ls_queue *q, ls_buf *out);    // any thread

// ---- by the thread of the connections

ls_exchange *ls_exchange_new(void); // one owner
void ls_exchange_drop(ls_queue *q, ls_exchange *x);
// Takes the exchange for the decoder, too. 0, or the status that says why not; *retry_s: after which time.
int ls_queue_put(ls_queue *q, ls_exchange *x, int *retry_s);
void ls_exchange_left(ls_queue *q, ls_exchange *x); // the connection is gone

// ---- by the decoder

// The first request whose client waits; NULL: there is none. quick: one that needs no decoding, of any place.
ls_exchange *ls_queue_take(ls_queue *q, bool quick);
// Whether the client has left: its connection was closed or reset, or it does not read.
bool ls_exchange_has_left(ls_queue *q, ls_exchange *x);
void ls_queue_drain(ls_queue *q, int ms); // waits until all answers were sent, but not longer
// Says the status at first, and text. Takes the text.
void ls_exchange_say(ls_queue *q, ls_exchange *x, int status, ls_buf *text);
void ls_exchange_refuse(ls_queue *q, ls_exchange *x, int status, const char *message); // in the form of its API
void ls_exchange_end(ls_queue *q, ls_exchange *x);                                     // nothing follows; lets go of it
// Tends those that wait: drops the requests of clients that left, ends those whose time is over (deadline_ns after
// they came; 0: none), and writes a comment to streams, so that no proxy closes them.
void ls_queue_tend(ls_queue *q, uint64_t deadline_ns);
void ls_exchange_comment(ls_queue *q, ls_exchange *x); // the same for one that is being answered
