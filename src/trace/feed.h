// The requests of a server and their recordings, in bounded memory: what watchers see. The server's threads write, each
// watcher reads at its own pace, and nobody waits for anybody. A watcher that is slow misses states in between, and the
// recordings of requests that were forgotten meanwhile; it never gets a part of a line. The feed of a watcher elsewhere
// is filled with what it reads from the server.
#pragma once
#include "base/buf.h"
#include "trace/trace_read.h"

typedef struct ls_feed ls_feed;

// Requests: those that have ended, of which the oldest are forgotten first, and the others, beyond which none is added.
enum { LS_FEED_ENDED = 200, LS_FEED_OTHERS = 2000 };

ls_feed *ls_feed_new(size_t most_bytes); // of recordings
void ls_feed_free(ls_feed *f);           // nobody listens any more; accepts NULL

// ---- writing, by any thread; f may be NULL: nobody can watch, and nothing happens

// Adds a request, or changes what is known of it. LS_REQUEST_FORGOTTEN removes it.
void ls_feed_set(ls_feed *f, const ls_request_facts *facts);
// Appends whole lines to the recording of a request, if it is known. Where one recording would have
// more than half of the memory, or those of running requests more than all of it, lines but the end of a recording that
// began are counted as lost.
void ls_feed_put(ls_feed *f, int32_t id, const char *p, size_t n);
void ls_feed_clear(ls_feed *f); // all are forgotten: numbers begin again
void ls_feed_wake(ls_feed *f);  // wakes all listeners
// A message to whoever watches; the last one before it was read replaces the others.
enum { LS_FEED_TEXT = 500 };
void ls_feed_say(ls_feed *f, bool is_error, const char *text);

// ---- reading, each reader by one thread

typedef struct ls_feed_reader ls_feed_reader;
struct ls_feed_reader {
    void (*wake)(void *ud); // there is news; called by any thread, with the feed locked
    void *ud;
    // zero at first
    ls_feed_reader *next;
    struct ls_feed_place *places; // what it has had of each request
    size_t n;
};
void ls_feed_listen(ls_feed *f, ls_feed_reader *r);
void ls_feed_leave(ls_feed *f, ls_feed_reader *r); // frees what r has
// The next request of which r does not know the newest: facts of any come first, then lines, those of running requests
// before those of ended ones. lines (may be NULL: not wanted): gets more of its recording, about `most` bytes. False:
// there is no news now.
bool ls_feed_next(ls_feed *f, ls_feed_reader *r, ls_request_facts *facts, ls_buf *lines, size_t most);
bool ls_feed_facts(ls_feed *f, int32_t id, ls_request_facts *facts); // false: it is not known
// The request that is being answered; else the newest one that has ended; 0: none.
int32_t ls_feed_current(ls_feed *f);
uint64_t ls_feed_cleared(ls_feed *f);                                                  // how often
bool ls_feed_said(ls_feed *f, uint64_t *had, bool *is_error, char text[LS_FEED_TEXT]); // false: nothing since *had
// Appends the recording of a request from byte *at on, about `most` bytes, and moves *at. False: it is not known.
bool ls_feed_lines(ls_feed *f, int32_t id, size_t *at, ls_buf *out, size_t most);

// ---- what a server sends to a watcher, line by line: the lines of recordings, each behind a line of its request

// Appends what r has not had, at least a line and about `most` bytes. False: there is no news now.
bool ls_feed_send(ls_feed *f, ls_feed_reader *r, ls_buf *out, size_t most);

// Fills f from there to the end (or an incomplete last line). Takes lines. begins: called once the first line is good.
// LS_E_PARSE, LS_E_IO, LS_E_CANCELLED.
ls_code ls_feed_fill(ls_feed *f, ls_lines *lines, void (*begins)(void *ud), void *ud, ls_err *err);
