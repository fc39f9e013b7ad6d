#include "serve/serve.h"
#include "base/system.h"
#include "serve/answerer.h"
#include "serve/http.h"
#include "trace/trace.h"

#include <poll.h>

static bool goes_on(void *of, const char *stage, double fraction) {
    (void)stage, (void)fraction;
    ls_answerer_tend(of);
    return !ls_answerer_stops(of);
}

// Costs that were measured with few forwards at the start are measured fully while nobody asks.
static void wait_for_requests(ls_answerer *a, bool *failed) {
    enum { IDLE_MS = 1000 };
    struct pollfd p = {.fd = a->queue->wake, .events = POLLIN};
    const int woken = poll(&p, 1, IDLE_MS);
    ls_answerer_tend(a);
    if (woken || *failed || a->o->setup->decode.costs.given || !ls_costs_due(a->o->model)) return;
    ls_cost_curve costs;
    ls_costs_noise noise;
    a->idles = true;
    const ls_code code = ls_costs_get(&costs, a->o->model, LS_COSTS_MEASURED, LS_BUSY, &noise, goes_on, a, NULL);
    a->idles = false;
    *failed = code && code != LS_E_CANCELLED; // it would fail again
}

// Nobody waits for an answer that will not come.
static void send_away(ls_queue *q) {
    enum { DRAIN_MS = 2000 };
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_mutex_unlock(&q->lock);
    for (ls_exchange *x; (x = ls_queue_take(q, false));) {
        ls_exchange_refuse(q, x, 503, "the server is being stopped");
        ls_exchange_end(q, x);
    }
    ls_queue_drain(q, DRAIN_MS);
}

// What watchers see before the first request: model and machine.
static void tell_server(const ls_serve_options *o) {
    const ls_decode_options *d = &o->setup->decode;
    ls_trace_header h = {.eos = ls_vocab_eos(o->model->vocab), .kept = -1, .begun = -1, .cached = -1};
    ls_trace_writer w = {.vocab = o->model->vocab};
    ls_run_describe(&h.run, o->model, NULL, d);
    ls_accept_write(&d->accept, h.acceptance, sizeof h.acceptance);
    ls_buf_str(&h.prompt_text, "");
    ls_trace_write_header(&w, &h);
    ls_feed_set(o->feed, &(ls_request_facts){.state = LS_REQUEST_DONE});
    ls_feed_put(o->feed, 0, w.line.p, w.line.n);
    ls_trace_writer_free(&w);
    ls_trace_header_free(&h);
}

ls_code ls_serve(const ls_serve_options *o, void (*ready)(void *ud, const char *url), ls_err *err) {
    ls_queue queue = {0};
    ls_http *http;
    bool failed = false;
    if (!o->listen.loopback && !o->keys.n)
        return ls_fail(err, LS_E_USAGE,
                       "a server that other machines reach needs a key: --key-file FILE or LOGITSPEC_SERVE_KEY");
    ls_code code = ls_records_check(&o->records, err);
    if (!code) code = ls_http_open(&http, o, &queue, err);
    if (code) return code;
    ls_answerer a = {.o = o, .queue = &queue};
    ls_answerer_init(&a);
    tell_server(o);
    if (o->runs) *o->runs = &a;
    ready(o->ud, ls_http_url(http));
    while (!o->stop(o->ud)) {
        for (ls_exchange *x; !ls_answerer_is_full(&a) && (x = ls_queue_take(&queue, false));) ls_answerer_begin(&a, x);
        if (a.n) ls_answerer_work(&a);
        else wait_for_requests(&a, &failed);
    }
    while (a.n) ls_answerer_work(&a); // each finds that the server ends
    send_away(&queue);
    if (o->runs) *o->runs = NULL;
    ls_http_close(http);
    ls_answerer_free(&a);
    return LS_OK;
}
