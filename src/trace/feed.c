#include "trace/feed.h"
#include "base/mem.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_request_facts facts;
    uint64_t version; // of the facts
    ls_buf lines;
    int32_t lost; // lines of this feed's own bound; facts may know of more
} request;

struct ls_feed_place {
    int32_t id;
    uint64_t version;
    size_t sent; // bytes of its lines
};

struct ls_feed {
    pthread_mutex_t lock; // protects the fields below
    request **requests;   // by id
    size_t n, bytes, most;
    uint64_t versions, cleared;
    ls_feed_reader *readers;
    uint64_t said; // messages
    bool is_error;
    char text[LS_FEED_TEXT]; // the last one
};

ls_feed *ls_feed_new(size_t most_bytes) {
    ls_feed *f = ls_calloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    f->most = most_bytes;
    return f;
}

static void forget(ls_feed *f, size_t i) {
    request *r = f->requests[i];
    f->bytes -= r->lines.n;
    ls_buf_free(&r->lines);
    free(r);
    memmove(f->requests + i, f->requests + i + 1, (--f->n - i) * sizeof *f->requests);
}

void ls_feed_free(ls_feed *f) {
    if (!f) return;
    while (f->n) forget(f, f->n - 1);
    free(f->requests);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static bool has_ended(const request *r) {
    return r->facts.state >= LS_REQUEST_DONE;
}

// Where the request with this id is, or would be.
static size_t place_of(const ls_feed *f, int32_t id) {
    size_t i = f->n; // new ones are at the end
    while (i > 0 && f->requests[i - 1]->facts.id >= id) i--;
    return i;
}

static request *find(const ls_feed *f, int32_t id) {
    const size_t i = place_of(f, id);
    return i < f->n && f->requests[i]->facts.id == id ? f->requests[i] : NULL;
}

// Forgets the oldest requests that have ended until the rest and n bytes keep to the bounds. Id 0 is the server itself.
static void make_room(ls_feed *f, size_t n) {
    size_t ended = 0;
    for (size_t i = 0; i < f->n; i++) ended += has_ended(f->requests[i]) && f->requests[i]->facts.id;
    for (size_t i = 0; i < f->n && (ended > LS_FEED_ENDED || f->bytes + n > f->most);) {
        if (!has_ended(f->requests[i]) || !f->requests[i]->facts.id) {
            i++;
            continue;
        }
        forget(f, i);
        ended--;
    }
}

static void wake(ls_feed *f) {
    for (ls_feed_reader *r = f->readers; r; r = r->next) r->wake(r->ud);
}

void ls_feed_wake(ls_feed *f) {
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    wake(f);
    pthread_mutex_unlock(&f->lock);
}

void ls_feed_set(ls_feed *f, const ls_request_facts *facts) {
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    const size_t i = place_of(f, facts->id);
    const bool known = i < f->n && f->requests[i]->facts.id == facts->id;
    if (facts->state == LS_REQUEST_FORGOTTEN) {
        if (known) forget(f, i);
    } else if (known || f->n < LS_FEED_ENDED + LS_FEED_OTHERS) {
        if (!known) {
            f->requests = ls_realloc(f->requests, (f->n + 1) * sizeof *f->requests);
            memmove(f->requests + i + 1, f->requests + i, (f->n++ - i) * sizeof *f->requests);
            f->requests[i] = ls_calloc(1, sizeof **f->requests);
        }
        request *r = f->requests[i];
        r->facts = *facts;
        if (r->lost > r->facts.lost_lines) r->facts.lost_lines = r->lost;
        r->version = ++f->versions;
        if (has_ended(r) && r->lines.p) r->lines.p = ls_realloc(r->lines.p, r->lines.cap = r->lines.n + 1);
        make_room(f, 0);
    }
    wake(f);
    pthread_mutex_unlock(&f->lock);
}

// Whether r has room for these lines. Its end always has: without it a reader would wait for the lost ones.
static bool has_room(const ls_feed *f, const request *r, const char *p, size_t n) {
    static const char end[] = "{\"type\":\"end\"";
    if (r->lines.n && n >= sizeof end && !memcmp(p, end, sizeof end - 1)) return true;
    return !r->lost && r->lines.n + n <= f->most / 2 && f->bytes + n <= f->most;
}

void ls_feed_put(ls_feed *f, int32_t id, const char *p, size_t n) {
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    if (f->bytes + n > f->most) make_room(f, n);
    request *r = find(f, id);
    if (r && !has_room(f, r, p, n)) {
        if (++r->lost > r->facts.lost_lines) r->facts.lost_lines = r->lost;
        r->version = ++f->versions;
    } else if (r) {
        ls_buf_add(&r->lines, p, n);
        f->bytes += n;
    }
    wake(f);
    pthread_mutex_unlock(&f->lock);
}

void ls_feed_clear(ls_feed *f) {
    pthread_mutex_lock(&f->lock);
    while (f->n) forget(f, f->n - 1);
    f->cleared++;
    wake(f);
    pthread_mutex_unlock(&f->lock);
}

void ls_feed_say(ls_feed *f, bool is_error, const char *text) {
    pthread_mutex_lock(&f->lock);
    snprintf(f->text, sizeof f->text, "%s", text);
    f->is_error = is_error;
    f->said++;
    wake(f);
    pthread_mutex_unlock(&f->lock);
}

bool ls_feed_said(ls_feed *f, uint64_t *had, bool *is_error, char text[LS_FEED_TEXT]) {
    pthread_mutex_lock(&f->lock);
    const bool more = f->said != *had;
    *had = f->said;
    *is_error = f->is_error;
    memcpy(text, f->text, sizeof f->text);
    pthread_mutex_unlock(&f->lock);
    return more;
}

// ---- reading

void ls_feed_listen(ls_feed *f, ls_feed_reader *r) {
    pthread_mutex_lock(&f->lock);
    r->next = f->readers;
    f->readers = r;
    pthread_mutex_unlock(&f->lock);
}

void ls_feed_leave(ls_feed *f, ls_feed_reader *r) {
    pthread_mutex_lock(&f->lock);
    ls_feed_reader **at = &f->readers;
    while (*at && *at != r) at = &(*at)->next;
    if (*at) *at = r->next;
    pthread_mutex_unlock(&f->lock);
    free(r->places);
    r->places = NULL;
    r->n = 0;
}

// Whole lines of p[0..n), about `most` bytes, at least one.
static size_t some_lines(const char *p, size_t n, size_t most) {
    const char *end = n > most ? memrchr(p, '\n', most) : p + n - 1;
    if (!end) end = memchr(p + most, '\n', n - most); // one long line
    return end ? (size_t)(end - p) + 1 : n;
}

static void give_lines(const request *q, size_t *at, ls_buf *lines, size_t most) {
    if (!q->lines.p || *at >= q->lines.n) return;
    const size_t n = some_lines(q->lines.p + *at, q->lines.n - *at, most);
    ls_buf_add(lines, q->lines.p + *at, n);
    *at += n;
}

// Makes the places those of the requests, one for each. False: a request was forgotten, which *gone names.
static bool match_places(const ls_feed *f, ls_feed_reader *r, int32_t *gone) {
    size_t i = 0;
    for (; i < f->n; i++) {
        const int32_t id = f->requests[i]->facts.id;
        if (i < r->n && r->places[i].id < id) break;
        if (i < r->n && r->places[i].id == id) continue;
        r->places = ls_realloc(r->places, (r->n + 1) * sizeof *r->places);
        memmove(r->places + i + 1, r->places + i, (r->n++ - i) * sizeof *r->places);
        r->places[i] = (struct ls_feed_place){.id = id};
    }
    if (i == r->n) return true;
    *gone = r->places[i].id;
    memmove(r->places + i, r->places + i + 1, (--r->n - i) * sizeof *r->places);
    return false;
}

// The request whose lines come next; SIZE_MAX: the reader has had all.
static size_t next_lines(const ls_feed *f, const ls_feed_reader *r) {
    size_t found = SIZE_MAX;
    for (size_t i = f->n; i-- > 0;) {
        const bool more = r->places[i].sent < f->requests[i]->lines.n, ended = has_ended(f->requests[i]);
        if (more && (found == SIZE_MAX || (!ended && has_ended(f->requests[found])))) found = i;
    }
    return found;
}

bool ls_feed_next(ls_feed *f, ls_feed_reader *r, ls_request_facts *facts, ls_buf *lines, size_t most) {
    int32_t gone = 0;
    size_t i = 0;
    pthread_mutex_lock(&f->lock);
    const bool matched = match_places(f, r, &gone);
    while (matched && i < f->n && r->places[i].version == f->requests[i]->version) i++;
    const bool news = matched && i < f->n;
    if (matched && !news && lines) i = next_lines(f, r);
    const bool found = !matched || i < f->n;
    if (!matched) *facts = (ls_request_facts){.id = gone, .state = LS_REQUEST_FORGOTTEN};
    else if (found) {
        const request *q = f->requests[i];
        *facts = q->facts;
        r->places[i].version = q->version;
        if (lines && (!news || !has_ended(q) || !q->facts.id)) give_lines(q, &r->places[i].sent, lines, most);
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

bool ls_feed_lines(ls_feed *f, int32_t id, size_t *at, ls_buf *out, size_t most) {
    pthread_mutex_lock(&f->lock);
    const request *q = find(f, id);
    if (q) give_lines(q, at, out, most);
    pthread_mutex_unlock(&f->lock);
    return q != NULL;
}

bool ls_feed_facts(ls_feed *f, int32_t id, ls_request_facts *facts) {
    pthread_mutex_lock(&f->lock);
    const request *q = find(f, id);
    if (q) *facts = q->facts;
    pthread_mutex_unlock(&f->lock);
    return q != NULL;
}

int32_t ls_feed_current(ls_feed *f) {
    int32_t found = 0;
    bool runs = false;
    pthread_mutex_lock(&f->lock);
    for (size_t i = f->n; i-- > 0;) {
        const request *q = f->requests[i];
        const bool answered = q->facts.state == LS_REQUEST_READING || q->facts.state == LS_REQUEST_DECODING;
        if (q->facts.id && (answered || (!runs && !found && has_ended(q)))) found = q->facts.id;
        runs |= answered;
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

uint64_t ls_feed_cleared(ls_feed *f) {
    pthread_mutex_lock(&f->lock);
    const uint64_t n = f->cleared;
    pthread_mutex_unlock(&f->lock);
    return n;
}

// ---- what a server sends

bool ls_feed_send(ls_feed *f, ls_feed_reader *r, ls_buf *out, size_t most) {
    const size_t had = out->n;
    ls_request_facts facts;
    ls_trace_writer w = {0};
    ls_buf lines = {0};
    while (out->n - had < most && ls_feed_next(f, r, &facts, &lines, most)) {
        ls_trace_write_request(&w, &facts);
        ls_buf_add(out, w.line.p, w.line.n);
        ls_buf_add(out, lines.p, lines.n);
        ls_buf_clear(&lines);
    }
    ls_trace_writer_free(&w);
    ls_buf_free(&lines);
    return out->n > had;
}

ls_code ls_feed_fill(ls_feed *f, ls_lines *lines, void (*begins)(void *ud), void *ud, ls_err *err) {
    ls_trace_reader *r = ls_trace_read_of(lines);
    const ls_request_facts *now = ls_trace_read_request(r);
    ls_trace_line kind;
    ls_line line;
    ls_buf whole = {0};
    ls_code code;
    for (bool first = true; !(code = ls_trace_read_pass(r, &kind, &line, err)) && line.p && line.whole; first = false) {
        if (first && kind != LS_TRACE_REQUEST)
            code = ls_fail(err, LS_E_PARSE, "%s is not what 'logitspec serve' tells watchers%s", ls_lines_name(lines),
                           kind == LS_TRACE_HEADER ? ": 'logitspec replay' shows a recording" : "");
        if (code) break;
        if (first) begins(ud);
        if (kind == LS_TRACE_REQUEST) ls_feed_set(f, now);
        else if (kind != LS_TRACE_OTHER) {
            ls_buf_clear(&whole);
            ls_buf_add(&whole, line.p, line.n);
            ls_buf_char(&whole, '\n');
            ls_feed_put(f, now->id, whole.p, whole.n);
        }
    }
    ls_buf_free(&whole);
    ls_trace_read_close(r);
    return code;
}
