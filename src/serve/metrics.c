#include "serve/exchange.h"

#include <inttypes.h>

static void head(ls_buf *out, const char *name, const char *type, const char *help) {
    ls_buf_fmt(out, "# HELP logitspec_%s %s\n# TYPE logitspec_%s %s\n", name, help, name, type);
}

static void count(ls_buf *out, const char *name, const char *help, uint64_t n) {
    head(out, name, "counter", help);
    ls_buf_fmt(out, "logitspec_%s %" PRIu64 "\n", name, n);
}

static void gauge(ls_buf *out, const char *name, const char *help, int n) {
    head(out, name, "gauge", help);
    ls_buf_fmt(out, "logitspec_%s %d\n", name, n);
}

static void seconds(ls_buf *out, const char *phase, double s) {
    ls_buf_fmt(out, "logitspec_seconds_total{phase=\"%s\"} %.6f\n", phase, s);
}

void ls_metrics_write(ls_queue *q, ls_buf *out) {
    static const char *const apis[] = {"chat", "completions", "messages", "tokenize", "detokenize"};
    static const char *const ended[] = {"whole", "client_left", "deadline", "error"};
    const ls_metrics *m = &q->metrics;
    const ls_stats *s = &m->steps;
    pthread_mutex_lock(&q->lock);
    head(out, "requests_total", "counter", "requests that were queued, by API");
    for (int i = 0; i < LS_APIS; i++)
        ls_buf_fmt(out, "logitspec_requests_total{api=\"%s\"} %" PRIu64 "\n", apis[i], m->requests[i]);
    count(out, "refused_total", "requests that were answered by an error before they were queued", m->refused);
    head(out, "answers_total", "counter", "queued requests by how they ended");
    for (int i = 0; i < LS_ENDED_KINDS; i++)
        ls_buf_fmt(out, "logitspec_answers_total{end=\"%s\"} %" PRIu64 "\n", ended[i], m->ended[i]);
    gauge(out, "requests_waiting", "requests in the queue", q->n);
    gauge(out, "requests_running", "requests being answered", m->running);
    gauge(out, "connections", "open connections", m->connections);
    gauge(out, "kv_caches", "kept KV caches", m->sessions);
    count(out, "prompt_tokens_total", "tokens of prompts", m->prompt_tokens);
    count(out, "kept_tokens_total", "tokens of prompts that were in a kept KV cache", m->kept_tokens);
    count(out, "output_tokens_total", "emitted tokens", s->emitted);
    count(out, "steps_total", "decode steps", s->steps);
    head(out, "draft_verified_total", "counter", "verified drafts by source");
    for (int i = 0; i < LS_SOURCE_COUNT; i++)
        ls_buf_fmt(out, "logitspec_draft_verified_total{source=\"%s\"} %" PRIu64 "\n",
                   ls_draft_source_name((ls_draft_source)i), s->from[i].of);
    head(out, "draft_accepted_total", "counter", "accepted drafts by source");
    for (int i = 0; i < LS_SOURCE_COUNT; i++)
        ls_buf_fmt(out, "logitspec_draft_accepted_total{source=\"%s\"} %" PRIu64 "\n",
                   ls_draft_source_name((ls_draft_source)i), s->from[i].n);
    head(out, "depth_verified_total", "counter", "steps whose tree reached a depth");
    for (int d = 1; d < LS_STATS_DEPTHS; d++)
        if (s->depth[d].of)
            ls_buf_fmt(out, "logitspec_depth_verified_total{depth=\"%d\"} %" PRIu64 "\n", d, s->depth[d].of);
    head(out, "depth_accepted_total", "counter", "steps whose accepted path reached a depth");
    for (int d = 1; d < LS_STATS_DEPTHS; d++)
        if (s->depth[d].of)
            ls_buf_fmt(out, "logitspec_depth_accepted_total{depth=\"%d\"} %" PRIu64 "\n", d, s->depth[d].n);
    head(out, "seconds_total", "counter", "seconds by phase");
    seconds(out, "queue", m->queued_s);
    seconds(out, "prefill", m->prefill_s);
    seconds(out, "draft", s->draft_us / 1e6);
    seconds(out, "forward", s->forward_us / 1e6);
    seconds(out, "verify", s->verify_us / 1e6);
    seconds(out, "commit", s->commit_us / 1e6);
    pthread_mutex_unlock(&q->lock);
}
