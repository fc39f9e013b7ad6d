#include "serve/exchange.h"
#include "base/mem.h"
#include "base/system.h"
#include "serve/reply.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { UNREAD = 8 << 20 }; // bytes that a client may leave unread
static const uint64_t SILENCE_NS = 5000000000;

ls_code ls_queue_open(ls_queue *q, ls_err *err) {
    q->typical_s = 1;
    q->end = &q->first;
    ls_cond_init(&q->sent);
    pthread_mutex_init(&q->lock, NULL);
    q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return q->wake < 0 ? ls_fail(err, LS_E_IO, "cannot make an eventfd: %s", strerror(errno)) : LS_OK;
}

void ls_queue_close(ls_queue *q) {
    if (q->wake >= 0) close(q->wake);
    pthread_cond_destroy(&q->sent);
    pthread_mutex_destroy(&q->lock);
}

void ls_queue_count(ls_queue *q, uint64_t *metric) {
    pthread_mutex_lock(&q->lock);
    ++*metric;
    pthread_mutex_unlock(&q->lock);
}

ls_exchange *ls_exchange_new(void) {
    ls_exchange *x = ls_calloc(1, sizeof *x);
    x->owners = 1;
    x->fd = -1;
    return x;
}

void ls_exchange_drop(ls_queue *q, ls_exchange *x) {
    pthread_mutex_lock(&q->lock);
    const bool last = --x->owners == 0;
    pthread_mutex_unlock(&q->lock);
    if (!last) return;
    ls_request_free(&x->request);
    ls_buf_free(&x->out);
    free(x);
}

static bool is_quick(const ls_exchange *x) {
    return x->request.api == LS_API_TOKENIZE || x->request.api == LS_API_DETOKENIZE;
}

int ls_queue_put(ls_queue *q, ls_exchange *x, int *retry_s) {
    const uint64_t one = 1;
    pthread_mutex_lock(&q->lock);
    const int status = q->closing ? 503 : q->n >= q->most + (q->places - q->metrics.running) ? 429 : 0;
    *retry_s = (int)ceil(fmin(q->typical_s * (q->n + q->metrics.running), 3600));
    if (!status) {
        x->owners++;
        x->arrived_ns = x->spoke_ns = ls_now_ns();
        *q->end = x;
        q->end = &x->next;
        q->n++;
        q->sending++;
        q->metrics.requests[x->request.api]++;
        if (!is_quick(x)) {
            x->facts.id = ++q->arrivals;
            ls_feed_set(q->feed, &x->facts);
        }
    }
    pthread_mutex_unlock(&q->lock);
    if (!status && write(q->wake, &one, sizeof one) < 0) return 0; // the counter is full: the decoder wakes anyway
    return status;
}

void ls_exchange_left(ls_queue *q, ls_exchange *x) {
    pthread_mutex_lock(&q->lock);
    x->connection = NULL;
    x->waits = false;
    q->sending--;
    pthread_cond_signal(&q->sent);
    pthread_mutex_unlock(&q->lock);
}

void ls_queue_drain(ls_queue *q, int ms) {
    const struct timespec end = ls_time_after((uint64_t)ms * 1000000u);
    pthread_mutex_lock(&q->lock);
    while (q->sending && !pthread_cond_timedwait(&q->sent, &q->lock, &end)) continue;
    pthread_mutex_unlock(&q->lock);
}

// Takes *at out of the queue; the lock is held.
static ls_exchange *take_out(ls_queue *q, ls_exchange **at) {
    ls_exchange *x = *at;
    *at = x->next;
    if (!x->next) q->end = at;
    x->next = NULL;
    q->n--;
    return x;
}

ls_exchange *ls_queue_take(ls_queue *q, bool quick) {
    uint64_t count;
    ls_exchange *x = NULL;
    if (read(q->wake, &count, sizeof count) < 0) count = 0; // nothing was queued since
    pthread_mutex_lock(&q->lock);
    for (ls_exchange **at = &q->first; *at && !x; at = x ? at : &(*at)->next)
        if (!quick || is_quick(*at)) x = take_out(q, at);
    pthread_mutex_unlock(&q->lock);
    return x;
}

bool ls_exchange_has_left(ls_queue *q, ls_exchange *x) {
    pthread_mutex_lock(&q->lock);
    bool left = !x->connection || x->out.n - x->sent > UNREAD;
    // a suspended connection is not watched by the server; the lock keeps its descriptor open
    struct pollfd p = {.fd = x->fd, .events = POLLRDHUP};
    if (!left && poll(&p, 1, 0) > 0) left = (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
    pthread_mutex_unlock(&q->lock);
    return left;
}

static void change(ls_queue *q, ls_exchange *x, int status, const ls_buf *text, bool ends) {
    pthread_mutex_lock(&q->lock);
    if (!x->status) x->status = status;
    if (x->sent && x->sent == x->out.n) x->sent = 0, ls_buf_clear(&x->out);
    if (text && x->connection) ls_buf_add(&x->out, text->p, text->n);
    x->ended |= ends;
    void *waiting = x->waits ? x->connection : NULL;
    x->waits = false;
    pthread_mutex_unlock(&q->lock);
    if (waiting) q->resume(waiting); // it stays until then, because it is suspended
}

void ls_exchange_say(ls_queue *q, ls_exchange *x, int status, ls_buf *text) {
    x->spoke_ns = ls_now_ns();
    change(q, x, status, text, false);
    ls_buf_free(text);
}

void ls_exchange_refuse(ls_queue *q, ls_exchange *x, int status, const char *message) {
    ls_buf text = {0};
    (x->status ? ls_reply_error_event : ls_reply_error)(x->request.api, status, message, &text);
    ls_exchange_say(q, x, status, &text);
}

void ls_exchange_end(ls_queue *q, ls_exchange *x) {
    if (x->facts.id && x->facts.state < LS_REQUEST_DONE) { // it was not answered
        x->facts.state = *x->facts.why ? LS_REQUEST_FAILED : LS_REQUEST_CANCELLED;
        ls_feed_set(q->feed, &x->facts);
    }
    change(q, x, 500, NULL, true);
    ls_exchange_drop(q, x);
}

void ls_exchange_comment(ls_queue *q, ls_exchange *x) {
    ls_buf text = {0};
    if (!x->request.stream || ls_now_ns() - x->spoke_ns < SILENCE_NS) return;
    ls_buf_str(&text, ": waiting\n\n");
    ls_exchange_say(q, x, 200, &text);
}

void ls_queue_tend(ls_queue *q, uint64_t deadline_ns) {
    const uint64_t now = ls_now_ns();
    q->tick(q->ud);
    // only the decoder takes exchanges out, so each stays while the lock is not held
    pthread_mutex_lock(&q->lock);
    for (ls_exchange **at = &q->first; *at;) {
        ls_exchange *x = *at;
        pthread_mutex_unlock(&q->lock);
        const bool late = deadline_ns && now - x->arrived_ns > deadline_ns, left = ls_exchange_has_left(q, x);
        if (!late && !left) ls_exchange_comment(q, x);
        pthread_mutex_lock(&q->lock);
        if (!late && !left) {
            at = &x->next;
            continue;
        }
        take_out(q, at);
        q->metrics.ended[left ? LS_ENDED_LEFT : LS_ENDED_LATE]++;
        pthread_mutex_unlock(&q->lock);
        if (late) {
            static const char why[] = "the request waited too long";
            strcpy(x->facts.why, why);
            ls_exchange_refuse(q, x, 503, why);
        }
        ls_exchange_end(q, x);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
}
