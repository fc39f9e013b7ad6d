// Conversations whose KV caches are kept, so that what a new request begins with is not read again; and the drafters
// that learnt from them. A client's conversations are used for its own requests only: drafts and times must not tell
// one client of another's text. The decoder's thread.
#pragma once
#include "decode/session.h"

typedef struct {
    ls_session *session;
    int key;          // the client's
    bool busy;        // a request has it, and ends that by false
    uint64_t used;    // when, as a count
    size_t most;      // tokens that its KV cache has had
    uint64_t history; // a hash of all that its drafter was shown; 0: nothing
} ls_kept_session;

// Set the first part and zero the rest.
typedef struct {
    ls_model *model;
    int max_kept;       // sessions, at least as many as are busy
    uint64_t max_bytes; // of their KV caches in this machine's memory and what drafting has learnt; those that are busy
                        // may have more
    bool fresh;         // keep nothing: each request gets the drafts of a first one
    ls_kept_session **kept;
    int n;
    uint64_t uses;
} ls_sessions;

// A session for a prompt of a client, set to these options. It stays where it is while it is busy.
ls_code ls_sessions_take(ls_sessions *s, int key, const ls_ids *prompt, const ls_decode_options *opt,
                         ls_kept_session **out, ls_err *err);
// The drafter of a session is shown this, too. Equal histories make equal drafters.
void ls_kept_show(ls_kept_session *k, const void *p, size_t n);
void ls_sessions_free(ls_sessions *s);
