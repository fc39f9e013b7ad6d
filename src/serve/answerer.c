#include "serve/answerer.h"
#include "base/mem.h"
#include "base/system.h"
#include "serve/reply.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t TEND_NS = 20000000;

struct ls_answering {
    ls_answerer *a;
    ls_exchange *x;
    ls_reply reply;
    ls_setup setup; // of this request
    ls_request_config config;
    ls_runner run;
    ls_kept_session *kept;     // of run; NULL: not yet
    ls_trace *trace, *watched; // the recording, and the same for watchers; NULL: none
    ls_ids prompt;
    uint64_t start_ns;
};

void ls_answerer_init(ls_answerer *a) {
    static const char probe[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\","
        "\"function\":{\"name\":\"sphinx\",\"description\":\"x\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{}}}}]}";
    const ls_model *m = a->o->model;
    ls_marked text = {0};
    ls_json *request;
    a->sessions = (ls_sessions){
        .model = a->o->model, .max_kept = a->o->max_kept, .max_bytes = a->o->max_kept_bytes, .fresh = a->o->fresh};
    if (!m->chat || ls_json_parse(&request, probe, sizeof probe - 1, "", NULL)) return;
    if (!ls_chat_render_request(m->chat, request, &text, NULL) && text.text.n) {
        a->takes_tools = memmem(text.text.p, text.text.n, "sphinx", 6) != NULL;
        a->writes_calls = memmem(text.text.p, text.text.n, "<tool_call>", 11) != NULL;
    }
    ls_marked_free(&text);
    ls_json_free(request);
}

void ls_answerer_free(ls_answerer *a) {
    ls_sessions_free(&a->sessions);
}

static uint64_t deadline_ns(const ls_answerer *a) {
    return (uint64_t)(a->o->timeout_s * 1e9);
}

static bool is_late(const ls_answerer *a, const ls_exchange *x) {
    return a->o->timeout_s > 0 && ls_now_ns() - x->arrived_ns > deadline_ns(a);
}

bool ls_answerer_stops(ls_answerer *a) {
    if (!a) return false;
    const uint64_t now = ls_now_ns();
    if (now - a->looked_ns < TEND_NS) return a->stops;
    a->looked_ns = now;
    pthread_mutex_lock(&a->queue->lock);
    const bool wanted = a->idles && a->queue->n > 0;
    pthread_mutex_unlock(&a->queue->lock);
    ls_exchange *x = a->current ? a->current->x : NULL;
    a->stops = wanted || a->o->stop(a->o->ud) || (x && (is_late(a, x) || ls_exchange_has_left(a->queue, x)));
    return a->stops;
}

// ---- errors

static int status_of(ls_code code) {
    switch (code) {
    case LS_E_USAGE:
    case LS_E_PARSE:
    case LS_E_RANGE: return 400;
    case LS_E_CANCELLED: return 503;
    default: return 500;
    }
}

// ---- prompts

static ls_code encode(const ls_answerer *a, const ls_request *r, ls_ids *out, ls_err *err) {
    const ls_model *m = a->o->model;
    ls_marked text = {0};
    if (!r->chat) return ls_prompt_raw(m->vocab, (ls_str){r->text.p, r->text.n}, false, out, err);
    if (!m->chat)
        return ls_fail(err, LS_E_USAGE, "the model has no usable chat template (%.300s): use /v1/completions",
                       m->chat_problem);
    if (r->tools && !a->takes_tools)
        return ls_fail(err, LS_E_USAGE, "tools are not supported: the model's chat template does not show them");
    ls_code code = ls_chat_render_request(m->chat, r->chat, &text, err);
    if (!code) code = ls_encode_marked(m->vocab, &text, 0, out, err);
    ls_marked_free(&text);
    return code;
}

static void answer_quickly(ls_answerer *a, ls_exchange *x) {
    const ls_vocab *v = a->o->model->vocab;
    ls_ids ids = {0};
    ls_buf text = {0}, out = {0};
    ls_jsonw w = {.out = &out};
    ls_err err = {0};
    ls_code code = LS_OK;
    ls_jw_open(&w, '{');
    if (x->request.api == LS_API_TOKENIZE) {
        if (x->request.chat) code = encode(a, &x->request, &ids, &err);
        else code = ls_encode(v, x->request.text.p ? x->request.text.p : "", x->request.text.n, false, &ids, &err);
        ls_jw_key(&w, "tokens"), ls_jw_ids(&w, ids.p, ids.n);
        ls_jw_field_int(&w, "count", (int64_t)ids.n);
        ls_jw_field_int(&w, "max_model_len", a->o->model->engine->n_context);
    } else {
        for (size_t i = 0; i < x->request.tokens.n; i++) {
            size_t n;
            const char *p = ls_vocab_bytes(v, x->request.tokens.p[i], &n);
            if (x->request.tokens.p[i] >= ls_vocab_size(v) && !code)
                code = ls_fail(&err, LS_E_USAGE, "tokens[%zu] is %d, but the model has %d tokens", i,
                               x->request.tokens.p[i], ls_vocab_size(v));
            ls_buf_add(&text, p, n);
        }
        ls_jw_key(&w, "content"), ls_jw_strn(&w, text.p, text.n);
    }
    ls_jw_close(&w, '}');
    ls_queue_count(a->queue, &a->queue->metrics.ended[code ? LS_ENDED_ERROR : LS_ENDED_WHOLE]);
    if (code) ls_exchange_refuse(a->queue, x, status_of(code), err.msg);
    else ls_exchange_say(a->queue, x, 200, &out);
    ls_exchange_end(a->queue, x);
    ls_ids_free(&ids);
    ls_buf_free(&text);
    ls_buf_free(&out);
}

void ls_answerer_tend(ls_answerer *a) {
    const uint64_t now = ls_now_ns();
    if (now - a->tended_ns < TEND_NS) return;
    a->tended_ns = now;
    for (ls_exchange *x; (x = ls_queue_take(a->queue, true));) answer_quickly(a, x);
    ls_queue_tend(a->queue, deadline_ns(a));
}

// ---- what watchers see (trace/feed.h)

static void put_line(void *ud, const char *p, size_t n) {
    const ls_answering *w = ud;
    ls_feed_put(w->a->queue->feed, w->x->facts.id, p, n);
}

static void tell_facts(const ls_answering *w, ls_request_state state) {
    w->x->facts.state = state;
    w->x->facts.read = 0;
    ls_feed_set(w->a->queue->feed, &w->x->facts);
}

static void tell_step(const ls_answering *w) {
    ls_request_facts *f = &w->x->facts;
    const ls_stats *st = &w->run.stats;
    const ls_speedup told = ls_stats_speedup_told(st);
    f->steps = (int64_t)st->steps;
    f->emitted = (int64_t)st->emitted;
    f->decode_ms = st->total_us / 1e3;
    f->speedup = told.x, f->speedup_spread = told.spread;
    tell_facts(w, LS_REQUEST_DECODING);
}

// ---- answers

// Tokens of a prompt that are read in a turn. Engines read 128 at once.
static size_t part_of_prompt(const ls_answerer *a) {
    return a->o->parallel > 1 ? 128 : SIZE_MAX;
}

// The share of the prompt that has been read, after this share of a part.
static double share_read(const ls_answering *w, double fraction) {
    if (!w->run.other.begun) return 0;
    const size_t read = ls_session_conversation(w->run.session)->context.n, left = w->prompt.n - read,
                 part = part_of_prompt(w->a);
    return ((double)(read - w->run.other.kept) + fraction * (double)(left < part ? left : part)) /
           (double)(w->prompt.n - w->run.other.kept);
}

static bool on_prefill(void *ud, const char *stage, double fraction) {
    ls_answering *w = ud;
    (void)stage;
    const double read = share_read(w, fraction);
    w->x->facts.prompt_tokens = (int32_t)w->prompt.n;
    w->x->facts.read = read > 0 && read < 1 ? read : 0;
    ls_feed_set(w->a->queue->feed, &w->x->facts);
    ls_answerer_tend(w->a);
    ls_exchange_comment(w->a->queue, w->x);
    return !ls_answerer_stops(w->a);
}

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    ls_answering *w = ud;
    ls_metrics *m = &w->a->queue->metrics;
    ls_buf out = {0};
    pthread_mutex_lock(&w->a->queue->lock);
    m->prompt_tokens += w->prompt.n;
    m->kept_tokens += run->other.kept;
    m->prefill_s += prefill_ms / 1e3;
    m->sessions = w->a->sessions.n;
    pthread_mutex_unlock(&w->a->queue->lock);
    ls_kept_show(w->kept, &run->other.kept, sizeof run->other.kept);
    w->x->facts.kept_tokens = (int32_t)run->other.kept;
    w->x->facts.prefill_ms = prefill_ms;
    tell_facts(w, LS_REQUEST_DECODING);
    if (!w->x->request.stream) return;
    ls_reply_first(&w->reply, w->prompt.n, &out);
    ls_exchange_say(w->a->queue, w->x, 200, &out);
}

// What a drafter learns from a step follows from its rows and the target's choices.
static void show_step(ls_answering *w, const ls_step *step) {
    int32_t rows[3 * LS_MAX_ROWS];
    size_t n = 0;
    for (int i = 0; i < step->tree.n; i++) {
        const ls_node *node = &step->tree.nodes[i];
        rows[n++] = node->token, rows[n++] = node->parent, rows[n++] = node->target;
    }
    ls_kept_show(w->kept, rows, n * sizeof *rows);
}

static void on_step(void *ud, const ls_step *step) {
    ls_answering *w = ud;
    const ls_buf *text = ls_session_text(w->run.session);
    ls_buf out = {0};
    pthread_mutex_lock(&w->a->queue->lock);
    ls_stats_add(&w->a->queue->metrics.steps, step);
    pthread_mutex_unlock(&w->a->queue->lock);
    show_step(w, step);
    ls_reply_note(&w->reply, step);
    tell_step(w);
    if (!w->x->request.stream) return;
    ls_reply_more(&w->reply, (ls_str){text->p, text->n}, ls_session_settled(w->run.session), &out);
    if (out.n) ls_exchange_say(w->a->queue, w->x, 200, &out);
    else ls_exchange_comment(w->a->queue, w->x);
}

// Recordings that fail stop no answers.
static void tell_failure(const ls_answerer *a, const char *text) {
    a->o->line(a->o->ud, text);
    ls_feed_say(a->o->feed, true, text);
}

// Recordings, and what watchers see, have the request's own settings.
static void begin_recording(ls_answering *w) {
    ls_err err;
    ls_request_config_make(&w->config, &w->setup);
    w->setup.config = w->config.pairs;
    if (ls_records_open(&w->a->o->records, &w->trace, &err)) tell_failure(w->a, err.msg);
}

static void end_recording(ls_answering *w) {
    ls_err err;
    if (!ls_trace_close(w->trace, &err)) tell_failure(w->a, err.msg);
    ls_request_config_free(&w->config);
}

// What precedes the reading of the prompt.
static ls_code prepare(ls_answering *w, ls_err *err) {
    ls_answerer *a = w->a;
    const ls_request *r = &w->x->request;
    w->setup = *a->o->setup;
    w->setup.decode.max_tokens = r->max_tokens;
    w->setup.decode.sampling = r->sampling;
    if (r->stops) w->setup.decode.stops = (const char *const *)r->stops;
    w->reply = (ls_reply){
        .request = r, .vocab = a->o->model->vocab, .model = a->o->model->name, .calls = r->tools && a->writes_calls};
    w->run = (ls_runner){.model = a->o->model, .setup = &w->setup, .progress = on_prefill, .ud = w};
    ls_code code = encode(a, r, &w->prompt, err);
    if (!code) begin_recording(w);
    if (w->trace) w->run.sinks[w->run.n_sinks++] = ls_trace_sink(w->trace);
    if (w->watched) w->run.sinks[w->run.n_sinks++] = ls_trace_sink(w->watched);
    w->run.sinks[w->run.n_sinks++] = (ls_run_sink){on_begin, on_step, NULL, w};
    if (!code) code = ls_sessions_take(&a->sessions, w->x->facts.key, &w->prompt, &w->setup.decode, &w->kept, err);
    if (code) return code;
    w->run.session = w->kept->session;
    snprintf(w->run.history, sizeof w->run.history, w->kept->history ? "%016" PRIx64 : "fresh", w->kept->history);
    ls_kept_show(w->kept, w->prompt.p, w->prompt.n * sizeof *w->prompt.p);
    return LS_OK;
}

// A part of the work, which others wait for: a block of the prompt, or a step. *ended: the answer is whole.
static ls_code work(ls_answering *w, bool *ended, ls_err *err) {
    ls_answerer *a = w->a;
    const ls_buf *text = &w->x->request.text;
    ls_code code = w->run.session ? LS_OK : prepare(w, err);
    if (!code && ls_answerer_stops(a)) code = LS_E_CANCELLED;
    if (!code && !ls_runner_active(&w->run))
        code = ls_runner_begin_other(&w->run, (ls_str){text->p, text->n}, &w->prompt, part_of_prompt(a), err);
    else if (!code) {
        code = ls_runner_step(&w->run, err);
        *ended = !code && !ls_runner_active(&w->run);
    }
    return code;
}

static void say_answer(ls_answering *w) {
    const ls_decode_options *o = &w->setup.decode;
    const ls_guarantee guarantee = ls_decode_guarantee(o);
    const ls_buf *text = ls_session_text(w->run.session);
    const ls_outcome done = {.prompt = &w->prompt,
                             .output = ls_session_output(w->run.session),
                             .text = {text->p, text->n},
                             .kept = w->run.other.kept,
                             .finish = ls_runner_finish(&w->run),
                             .stats = &w->run.stats,
                             .prefill_ms = w->run.other.prefill_ms,
                             .queued_ms = w->x->facts.queued_ms,
                             .method = o->method,
                             .guarantee = ls_guarantee_name(guarantee),
                             .exact = w->a->o->model->engine->exact && guarantee == LS_SAME_TEXT};
    ls_buf out = {0};
    (w->x->request.stream ? ls_reply_last : ls_reply_whole)(&w->reply, &done, &out);
    ls_exchange_say(w->a->queue, w->x, 200, &out);
}

static void tell_line(const ls_answering *w, ls_code code, const ls_err *err) {
    const ls_stats *st = &w->run.stats;
    ls_buf line = {0};
    ls_buf_fmt(&line, "%s %s: ", w->x->facts.client, w->x->facts.path);
    if (code && code != LS_E_CANCELLED) ls_buf_fmt(&line, "refused: %s", err->msg);
    else {
        ls_buf_fmt(&line, "%zu + %llu tokens", w->prompt.n, (unsigned long long)st->emitted);
        if (w->run.other.kept) ls_buf_fmt(&line, " (%zu kept)", w->run.other.kept);
        if (st->steps) ls_buf_fmt(&line, ", MAT %.2f, %.1f tokens/s", ls_stats_mat(st), ls_stats_tokens_per_s(st));
        if (st->plain_forwards) ls_buf_fmt(&line, ", speedup x%s", ls_stats_speedup_text(st, true).s);
        const double queued_ms = w->x->facts.queued_ms;
        if (queued_ms >= 1) ls_buf_fmt(&line, ", waited %.0f ms", queued_ms);
        ls_buf_fmt(&line, "%s", code ? ", stopped" : "");
    }
    w->a->o->line(w->a->o->ud, line.p);
    ls_buf_free(&line);
}

static void end(ls_answering *w, ls_code code, const ls_err *err) {
    ls_answerer *a = w->a;
    ls_queue *q = a->queue;
    const bool late = is_late(a, w->x), left = code == LS_E_CANCELLED && ls_exchange_has_left(q, w->x);
    if (code) ls_runner_stop(&w->run, code == LS_E_CANCELLED ? LS_FINISH_INTERRUPTED : LS_FINISH_ERROR);
    const ls_ended how = !code ? LS_ENDED_WHOLE : left ? LS_ENDED_LEFT : late ? LS_ENDED_LATE : LS_ENDED_ERROR;
    ls_queue_count(q, &q->metrics.ended[how]);
    const char *why = code != LS_E_CANCELLED ? err->msg
                      : late                 ? "the request took longer than the server's limit"
                                             : "the server is being stopped";
    if (!code) say_answer(w);
    else if (!left) ls_exchange_refuse(q, w->x, status_of(code), why);
    const bool cancelled = code == LS_E_CANCELLED && !late;
    if (code && !cancelled) snprintf(w->x->facts.why, sizeof w->x->facts.why, "%.159s", why);
    ls_trace_close(w->watched, NULL);
    tell_facts(w, !code ? LS_REQUEST_DONE : cancelled ? LS_REQUEST_CANCELLED : LS_REQUEST_FAILED);
    tell_line(w, code, err);
    pthread_mutex_lock(&q->lock);
    q->metrics.running = a->n - 1;
    q->typical_s = 0.8 * q->typical_s + 0.2 * (double)(ls_now_ns() - w->start_ns) / 1e9 / a->o->parallel;
    pthread_mutex_unlock(&q->lock);
    ls_exchange_end(q, w->x);
    end_recording(w);
    if (w->kept && code) { // how much of the work the drafter was shown is not known, so no history is like this one
        const uint64_t now = ls_now_ns();
        ls_kept_show(w->kept, &now, sizeof now);
    }
    if (w->kept) w->kept->busy = false;
    ls_reply_free(&w->reply);
    ls_runner_free(&w->run);
    ls_ids_free(&w->prompt);
    free(w);
}

bool ls_answerer_is_full(const ls_answerer *a) {
    return a->n >= a->o->parallel;
}

void ls_answerer_begin(ls_answerer *a, ls_exchange *x) {
    if (x->request.api > LS_API_MESSAGES) {
        answer_quickly(a, x);
        return;
    }
    ls_queue *q = a->queue;
    ls_answering *w = ls_calloc(1, sizeof *w);
    *w = (ls_answering){.a = a, .x = x, .start_ns = ls_now_ns()};
    x->facts.queued_ms = (double)(w->start_ns - x->arrived_ns) / 1e6;
    if (q->feed) w->watched = ls_trace_to(put_line, w, a->o->records.level);
    tell_facts(w, LS_REQUEST_READING);
    a->begun[a->n++] = w;
    pthread_mutex_lock(&q->lock);
    q->metrics.running = a->n;
    q->metrics.queued_s += x->facts.queued_ms / 1e3;
    pthread_mutex_unlock(&q->lock);
}

// Whose turn it is; what was found out about another one does not count.
static void turn_to(ls_answerer *a, const ls_answering *w) {
    if (w != a->current) a->looked_ns = 0, a->stops = false;
    a->current = w;
}

void ls_answerer_work(ls_answerer *a) {
    for (int i = 0; i < a->n;) {
        ls_answering *w = a->begun[i];
        ls_err err = {0};
        bool ended = false;
        turn_to(a, w);
        ls_answerer_tend(a);
        const ls_code code = work(w, &ended, &err);
        if (!code && !ended) {
            i++;
            continue;
        }
        end(w, code, &err);
        a->n--;
        memmove(a->begun + i, a->begun + i + 1, (size_t)(a->n - i) * sizeof *a->begun);
        turn_to(a, NULL);
    }
    if (a->n != 1) turn_to(a, NULL);
}
