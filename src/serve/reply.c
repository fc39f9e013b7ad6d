#include "serve/reply.h"
#include "base/mem.h"
#include "base/rng.h"
#include "decode/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void begin(ls_reply *r) {
    if (r->created) return;
    snprintf(r->id, sizeof r->id, "%016llx", (unsigned long long)ls_seed_draw());
    r->created = (int64_t)time(NULL);
}

void ls_reply_free(ls_reply *r) {
    free(r->logprobs);
    *r = (ls_reply){0};
}

// ---- probabilities of tokens

enum { IMPOSSIBLE = -9999 }; // the logarithm of 0, as the APIs write it

static double log_of(double p) {
    return p > 0 ? log(p) : IMPOSSIBLE;
}

void ls_reply_note(ls_reply *r, const ls_step *s) {
    for (int i = 0; i < s->n_emitted && r->request->logprobs; i++) {
        const ls_node *node = &s->tree.nodes[s->path[i]], *before = i ? &s->tree.nodes[s->path[i - 1]] : NULL;
        const ls_top_entry *top = before ? before->top : s->top;
        const int n_top = before || s->n_top > LS_ROW_TOP ? LS_ROW_TOP : s->n_top;
        const float lse = before ? before->lse : s->top_lse;
        if (ls_vocab_is_special(r->vocab, node->token)) continue;
        r->logprobs = ls_grown(r->logprobs, r->n_logprobs, sizeof *r->logprobs);
        ls_token_logprob *t = &r->logprobs[r->n_logprobs++];
        *t = (ls_token_logprob){.id = node->token, .logprob = log_of((double)node->p)};
        for (int k = 0; k < n_top && top[k].id >= 0; k++) {
            const float logprob = top[k].logit - lse;
            if (top[k].id == t->id) t->logprob = (double)logprob;
            if (t->n_top < r->request->top_logprobs) t->top[t->n_top++] = (ls_top_entry){top[k].id, logprob};
        }
    }
}

static void put_bytes(ls_jsonw *w, const char *p, size_t n) {
    ls_jw_field_open(w, "bytes", '[');
    for (size_t i = 0; i < n; i++) ls_jw_int(w, (unsigned char)p[i]);
    ls_jw_close(w, ']');
}

static void put_token(const ls_reply *r, ls_jsonw *w, int32_t id, double logprob) {
    size_t n;
    const char *p = ls_vocab_bytes(r->vocab, id, &n);
    ls_jw_key(w, "token"), ls_jw_strn(w, p, n);
    ls_jw_field_num(w, "logprob", logprob, 6);
    put_bytes(w, p, n);
}

static void put_chat_logprobs(const ls_reply *r, ls_jsonw *w) {
    ls_jw_field_open(w, "content", '[');
    for (size_t i = 0; i < r->n_logprobs; i++) {
        const ls_token_logprob *t = &r->logprobs[i];
        ls_jw_open(w, '{');
        put_token(r, w, t->id, t->logprob);
        ls_jw_field_open(w, "top_logprobs", '[');
        for (int k = 0; k < t->n_top; k++) {
            ls_jw_open(w, '{');
            put_token(r, w, t->top[k].id, (double)t->top[k].logit);
            ls_jw_close(w, '}');
        }
        ls_jw_close(w, ']');
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}

static void put_text_logprobs(const ls_reply *r, ls_jsonw *w) {
    size_t n;
    ls_jw_field_open(w, "tokens", '[');
    for (size_t i = 0; i < r->n_logprobs; i++) {
        const char *p = ls_vocab_bytes(r->vocab, r->logprobs[i].id, &n);
        ls_jw_strn(w, p, n);
    }
    ls_jw_close(w, ']');
    ls_jw_field_open(w, "token_logprobs", '[');
    for (size_t i = 0; i < r->n_logprobs; i++) ls_jw_num(w, r->logprobs[i].logprob, 6);
    ls_jw_close(w, ']');
    ls_jw_field_open(w, "top_logprobs", '[');
    for (size_t i = 0; i < r->n_logprobs; i++) {
        ls_jw_open(w, '{');
        for (int k = 0; k < r->logprobs[i].n_top; k++) {
            const char *p = ls_vocab_bytes(r->vocab, r->logprobs[i].top[k].id, &n);
            ls_jw_any_key(w, p, n);
            ls_jw_num(w, (double)r->logprobs[i].top[k].logit, 6);
        }
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}

// Those of the tokens since the last call.
static void put_logprobs(ls_reply *r, ls_jsonw *w) {
    if (!r->request->logprobs) {
        ls_jw_key(w, "logprobs"), ls_jw_null(w);
        return;
    }
    ls_jw_field_open(w, "logprobs", '{');
    (r->request->api == LS_API_CHAT ? put_chat_logprobs : put_text_logprobs)(r, w);
    ls_jw_close(w, '}');
    r->n_logprobs = 0;
}

// ---- calls of tools within an answer: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, with nothing behind
// them

typedef struct {
    size_t text; // bytes of the answer before them, without blanks at the end
    ls_json **call;
    size_t n; // 0: there are none, or not all are well-formed
} call_list;

static const char call_begin[] = "<tool_call>", call_end[] = "</tool_call>";
enum { BEGIN = sizeof call_begin - 1, END = sizeof call_end - 1 };

// Bytes that cannot belong to calls: the rest may.
static size_t calls_before(ls_str text) {
    const char *at = text.n ? memmem(text.p, text.n, call_begin, BEGIN) : NULL;
    size_t n = at ? (size_t)(at - text.p) : text.n;
    for (size_t part = text.n < BEGIN ? text.n : BEGIN - 1; !at && part; part--) // the end may be a beginning
        if (!memcmp(text.p + text.n - part, call_begin, part)) {
            n = text.n - part;
            break;
        }
    while (n && n < text.n && strchr(" \n", text.p[n - 1])) n--; // blanks before calls are no text
    return n;
}

static bool add_call(call_list *c, const char *p, size_t n) {
    ls_json *call;
    if (ls_json_parse(&call, p, n, "", NULL)) return false;
    const bool is_call = ls_json_str(ls_json_get(call, "name"), NULL) &&
                         (!ls_json_get(call, "arguments") || ls_json_is_object(ls_json_get(call, "arguments")));
    if (!is_call) {
        ls_json_free(call);
        return false;
    }
    c->call = ls_grown(c->call, c->n, sizeof *c->call);
    c->call[c->n++] = call;
    return true;
}

static void free_calls(call_list *c) {
    for (size_t i = 0; i < c->n; i++) ls_json_free(c->call[i]);
    free(c->call);
    *c = (call_list){0};
}

static call_list find_calls(const ls_reply *r, ls_str text) {
    const char *at = r->calls && text.n ? memmem(text.p, text.n, call_begin, BEGIN) : NULL, *stop = text.p + text.n;
    call_list c = {.text = at ? calls_before(text) : text.n};
    bool good = at != NULL;
    while (good && at < stop) {
        const char *close = memmem(at, (size_t)(stop - at), call_end, END);
        good = (size_t)(stop - at) >= BEGIN && !memcmp(at, call_begin, BEGIN) && close &&
               add_call(&c, at + BEGIN, (size_t)(close - at) - BEGIN);
        if (!good) break;
        for (at = close + END; at < stop && strchr(" \n", *at);) at++;
    }
    if (good) return c;
    free_calls(&c);
    return (call_list){.text = text.n};
}

// ---- parts of answers

static const char *finish_name(const ls_reply *r, const ls_outcome *a, bool calls) {
    const bool messages = r->request->api == LS_API_MESSAGES,
               cut = a->finish == LS_FINISH_LENGTH || a->finish == LS_FINISH_CONTEXT;
    if (calls) return messages ? "tool_use" : "tool_calls";
    if (cut) return messages ? "max_tokens" : "length";
    return !messages ? "stop" : a->finish == LS_FINISH_STOP ? "stop_sequence" : "end_turn";
}

static void put_usage(const ls_reply *r, ls_jsonw *w, const ls_outcome *a) {
    const int64_t read = (int64_t)a->prompt->n, written = (int64_t)a->output->n;
    ls_jw_field_open(w, "usage", '{');
    if (r->request->api == LS_API_MESSAGES) {
        ls_jw_field_int(w, "input_tokens", read - (int64_t)a->kept);
        ls_jw_field_int(w, "cache_read_input_tokens", (int64_t)a->kept);
        ls_jw_field_int(w, "output_tokens", written);
    } else {
        ls_jw_field_int(w, "prompt_tokens", read);
        ls_jw_field_int(w, "completion_tokens", written);
        ls_jw_field_int(w, "total_tokens", read + written);
        ls_jw_field_open(w, "prompt_tokens_details", '{');
        ls_jw_field_int(w, "cached_tokens", (int64_t)a->kept);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, '}');
}

// What the answer cost and gained; names as in `generate --json`.
static void put_facts(const ls_reply *r, ls_jsonw *w, const ls_outcome *a) {
    ls_jw_field_open(w, "logitspec", '{');
    ls_jw_field_str(w, "method", a->method);
    ls_jw_field_bool(w, "exact", a->exact);
    ls_jw_field_str(w, "guarantee", a->guarantee);
    ls_jw_field_u64(w, "seed", r->request->sampling.seed);
    ls_jw_field_str(w, "finish_reason", ls_finish_name(a->finish));
    ls_stats_write(w, a->stats, a->prefill_ms);
    ls_jw_field_int(w, "kept_tokens", (int64_t)a->kept);
    ls_jw_field_num(w, "queued_ms", a->queued_ms, 6);
    ls_jw_field_open(w, "by_source", '{');
    for (int i = 0; i < LS_SOURCE_COUNT; i++) {
        if (!a->stats->from[i].of) continue;
        ls_jw_field_open(w, ls_draft_source_name((ls_draft_source)i), '{');
        ls_jw_field_int(w, "draft_verified", (int64_t)a->stats->from[i].of);
        ls_jw_field_int(w, "draft_accepted", (int64_t)a->stats->from[i].n);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, '}');
    if (r->request->token_ids) {
        ls_jw_key(w, "prompt_tokens"), ls_jw_ids(w, a->prompt->p, a->prompt->n);
        ls_jw_key(w, "output_tokens"), ls_jw_ids(w, a->output->p, a->output->n);
    }
    ls_jw_close(w, '}');
}

static void put_call_id(ls_jsonw *w, const char *prefix) {
    char id[32];
    snprintf(id, sizeof id, "%s%016llx", prefix, (unsigned long long)ls_seed_draw());
    ls_jw_field_str(w, "id", id);
}

static void put_arguments(ls_jsonw *w, const ls_json *call) {
    const ls_json *arguments = ls_json_get(call, "arguments");
    if (arguments) ls_jw_value(w, arguments);
    else ls_jw_open(w, '{'), ls_jw_close(w, '}');
}

// OpenAI's form; in events calls have a number.
static void put_calls(ls_jsonw *w, const call_list *c, bool numbered) {
    ls_jw_field_open(w, "tool_calls", '[');
    for (size_t i = 0; i < c->n; i++) {
        ls_buf arguments = {0};
        put_arguments(&(ls_jsonw){.out = &arguments}, c->call[i]);
        ls_jw_open(w, '{');
        if (numbered) ls_jw_field_int(w, "index", (int64_t)i);
        put_call_id(w, "call_");
        ls_jw_field_str(w, "type", "function");
        ls_jw_field_open(w, "function", '{');
        ls_jw_key(w, "name"), ls_jw_value(w, ls_json_get(c->call[i], "name"));
        ls_jw_key(w, "arguments"), ls_jw_strn(w, arguments.p, arguments.n);
        ls_jw_close(w, '}');
        ls_jw_close(w, '}');
        ls_buf_free(&arguments);
    }
    ls_jw_close(w, ']');
}

// The text behind a stop text is not in the answer: which one ended it is found in the tokens, of which those that are
// no text of the answer are left out; a special one at the end may belong to the stop text.
static void put_stop(const ls_reply *r, ls_jsonw *w, const ls_outcome *a) {
    const char *found = NULL;
    ls_buf all = {0};
    ls_channels channels = {0};
    for (size_t i = 0; i < a->output->n; i++) {
        size_t n;
        const char *p = ls_vocab_bytes(r->vocab, a->output->p[i], &n);
        if (ls_channels_take(&channels, r->vocab, a->output->p[i]) || i + 1 == a->output->n) ls_buf_add(&all, p, n);
    }
    for (char **s = r->request->stops; s && *s && a->finish == LS_FINISH_STOP && !found; s++) {
        const size_t n = strlen(*s);
        if (a->text.n + n <= all.n && !memcmp(all.p + a->text.n, *s, n)) found = *s;
    }
    ls_jw_field_str(w, "stop_sequence", found);
    ls_buf_free(&all);
}

// ---- events

static ls_jsonw open_event(const char *name, ls_buf *out) {
    ls_jsonw w = {.out = out};
    if (name) ls_buf_fmt(out, "event: %s\n", name);
    ls_buf_str(out, "data: ");
    ls_jw_open(&w, '{');
    return w;
}

static void put_event(ls_buf *out, ls_jsonw *w) {
    ls_jw_close(w, '}');
    ls_buf_str(out, "\n\n");
}

// Begins one of Anthropic's events. block: its number; -1: it is of no block.
static ls_jsonw open_typed(const char *type, int block, ls_buf *out) {
    ls_jsonw w = open_event(type, out);
    ls_jw_field_str(&w, "type", type);
    if (block >= 0) ls_jw_field_int(&w, "index", block);
    return w;
}

// The head of OpenAI's objects; ls_jw_open was called.
static void put_head(const ls_reply *r, ls_jsonw *w, bool chunk) {
    const bool chat = r->request->api == LS_API_CHAT;
    char id[40];
    snprintf(id, sizeof id, "%s%s", chat ? "chatcmpl-" : "cmpl-", r->id);
    ls_jw_field_str(w, "id", id);
    ls_jw_field_str(w, "object", !chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion");
    ls_jw_field_int(w, "created", r->created);
    ls_jw_field_str(w, "model", r->model);
}

// One of OpenAI's events. text: NULL: none. first: it says who answers. a: it is the last one.
static void put_chunk(ls_reply *r, const ls_str *text, bool first, const ls_outcome *a, const call_list *calls,
                      ls_buf *out) {
    const bool chat = r->request->api == LS_API_CHAT;
    ls_jsonw w = open_event(NULL, out);
    put_head(r, &w, true);
    ls_jw_field_open(&w, "choices", '[');
    ls_jw_open(&w, '{');
    ls_jw_field_int(&w, "index", 0);
    if (chat) ls_jw_field_open(&w, "delta", '{');
    if (chat && first) ls_jw_field_str(&w, "role", "assistant");
    if (text) ls_jw_key(&w, chat ? "content" : "text"), ls_jw_strn(&w, text->p, text->n);
    else if (!chat) ls_jw_field_str(&w, "text", "");
    if (calls && calls->n) put_calls(&w, calls, true);
    if (chat) ls_jw_close(&w, '}');
    put_logprobs(r, &w);
    ls_jw_field_str(&w, "finish_reason", a ? finish_name(r, a, calls && calls->n) : NULL);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, ']');
    if (a) put_facts(r, &w, a);
    put_event(out, &w);
}

// type and key: "text_delta" and "text", or "input_json_delta" and "partial_json".
static void put_delta(int block, const char *type, const char *key, ls_str text, ls_buf *out) {
    ls_jsonw w = open_typed("content_block_delta", block, out);
    ls_jw_field_open(&w, "delta", '{');
    ls_jw_field_str(&w, "type", type);
    ls_jw_key(&w, key), ls_jw_strn(&w, text.p, text.n);
    ls_jw_close(&w, '}');
    put_event(out, &w);
}

static void put_block_end(int block, ls_buf *out) {
    ls_jsonw w = open_typed("content_block_stop", block, out);
    put_event(out, &w);
}

// The head of a call in Anthropic's form; its input follows.
static void open_tool_use(ls_jsonw *w, const ls_json *call) {
    ls_jw_field_str(w, "type", "tool_use");
    put_call_id(w, "toolu_");
    ls_jw_key(w, "name"), ls_jw_value(w, ls_json_get(call, "name"));
    ls_jw_key(w, "input");
}

// The call as a block: its beginning, its arguments as text, its end.
static void put_call_block(int block, const ls_json *call, ls_buf *out) {
    ls_buf arguments = {0};
    ls_jsonw w = open_typed("content_block_start", block, out);
    put_arguments(&(ls_jsonw){.out = &arguments}, call);
    ls_jw_field_open(&w, "content_block", '{');
    open_tool_use(&w, call);
    ls_jw_open(&w, '{'), ls_jw_close(&w, '}');
    ls_jw_close(&w, '}');
    put_event(out, &w);
    put_delta(block, "input_json_delta", "partial_json", (ls_str){arguments.p, arguments.n}, out);
    put_block_end(block, out);
    ls_buf_free(&arguments);
}

static void put_message_head(const ls_reply *r, ls_jsonw *w) {
    char id[40];
    snprintf(id, sizeof id, "msg_%s", r->id);
    ls_jw_field_str(w, "id", id);
    ls_jw_field_str(w, "type", "message");
    ls_jw_field_str(w, "role", "assistant");
    ls_jw_field_str(w, "model", r->model);
}

static void put_message_start(ls_reply *r, size_t prompt_tokens, ls_buf *out) {
    ls_jsonw w = open_typed("message_start", -1, out);
    ls_jw_field_open(&w, "message", '{');
    put_message_head(r, &w);
    ls_jw_field_open(&w, "content", '['), ls_jw_close(&w, ']');
    ls_jw_field_str(&w, "stop_reason", NULL);
    ls_jw_field_str(&w, "stop_sequence", NULL);
    ls_jw_field_open(&w, "usage", '{');
    ls_jw_field_int(&w, "input_tokens", (int64_t)prompt_tokens);
    ls_jw_field_int(&w, "output_tokens", 0);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, '}');
    put_event(out, &w);
    w = open_typed("content_block_start", 0, out);
    ls_jw_field_open(&w, "content_block", '{');
    ls_jw_field_str(&w, "type", "text");
    ls_jw_field_str(&w, "text", "");
    ls_jw_close(&w, '}');
    put_event(out, &w);
}

static void put_message_end(ls_reply *r, const ls_outcome *a, const call_list *calls, ls_buf *out) {
    put_block_end(0, out);
    for (size_t i = 0; i < calls->n; i++) put_call_block((int)i + 1, calls->call[i], out);
    ls_jsonw w = open_typed("message_delta", -1, out);
    ls_jw_field_open(&w, "delta", '{');
    ls_jw_field_str(&w, "stop_reason", finish_name(r, a, calls->n));
    put_stop(r, &w, a);
    ls_jw_close(&w, '}');
    put_usage(r, &w, a);
    put_facts(r, &w, a);
    put_event(out, &w);
    w = open_typed("message_stop", -1, out);
    put_event(out, &w);
}

void ls_reply_first(ls_reply *r, size_t prompt_tokens, ls_buf *out) {
    begin(r);
    if (r->request->api == LS_API_MESSAGES) put_message_start(r, prompt_tokens, out);
    else if (r->request->api == LS_API_CHAT) put_chunk(r, &(ls_str){"", 0}, true, NULL, NULL, out);
}

// The text up to byte `end`, as far as no event has it.
static void put_text(ls_reply *r, const char *text, size_t end, ls_buf *out) {
    if (end <= r->sent) return;
    const ls_str part = {text + r->sent, end - r->sent};
    r->sent = end;
    if (r->request->api == LS_API_MESSAGES) put_delta(0, "text_delta", "text", part, out);
    else put_chunk(r, &part, false, NULL, NULL, out);
}

void ls_reply_more(ls_reply *r, ls_str text, size_t settled, ls_buf *out) {
    if (r->calls) settled = calls_before((ls_str){text.p, settled}); // at most as many
    put_text(r, text.p, settled, out);
}

void ls_reply_last(ls_reply *r, const ls_outcome *a, ls_buf *out) {
    call_list calls = find_calls(r, a->text);
    put_text(r, a->text.p, calls.text, out);
    if (r->request->api == LS_API_MESSAGES) put_message_end(r, a, &calls, out);
    else {
        put_chunk(r, NULL, false, a, &calls, out);
        if (r->request->usage) {
            ls_jsonw w = open_event(NULL, out);
            put_head(r, &w, true);
            ls_jw_field_open(&w, "choices", '['), ls_jw_close(&w, ']');
            put_usage(r, &w, a);
            put_event(out, &w);
        }
        ls_buf_str(out, "data: [DONE]\n\n");
    }
    free_calls(&calls);
}

// ---- whole bodies

static void put_message(const ls_outcome *a, ls_jsonw *w, const call_list *calls) {
    ls_jw_field_open(w, "content", '[');
    if (calls->text || !calls->n) {
        ls_jw_open(w, '{');
        ls_jw_field_str(w, "type", "text");
        ls_jw_key(w, "text"), ls_jw_strn(w, a->text.p, calls->text);
        ls_jw_close(w, '}');
    }
    for (size_t i = 0; i < calls->n; i++) {
        ls_jw_open(w, '{');
        open_tool_use(w, calls->call[i]);
        put_arguments(w, calls->call[i]);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}

static void put_choice(ls_reply *r, const ls_outcome *a, ls_jsonw *w, const call_list *calls) {
    ls_jw_field_open(w, "choices", '[');
    ls_jw_open(w, '{');
    ls_jw_field_int(w, "index", 0);
    if (r->request->api == LS_API_CHAT) {
        ls_jw_field_open(w, "message", '{');
        ls_jw_field_str(w, "role", "assistant");
        ls_jw_key(w, "content");
        if (calls->n && !calls->text) ls_jw_null(w);
        else ls_jw_strn(w, a->text.p, calls->text);
        if (calls->n) put_calls(w, calls, false);
        ls_jw_close(w, '}');
    } else ls_jw_key(w, "text"), ls_jw_strn(w, a->text.p, a->text.n);
    put_logprobs(r, w);
    ls_jw_field_str(w, "finish_reason", finish_name(r, a, calls->n));
    ls_jw_close(w, '}');
    ls_jw_close(w, ']');
}

void ls_reply_whole(ls_reply *r, const ls_outcome *a, ls_buf *out) {
    ls_jsonw w = {.out = out};
    call_list calls = find_calls(r, a->text);
    begin(r);
    ls_jw_open(&w, '{');
    if (r->request->api == LS_API_MESSAGES) {
        put_message_head(r, &w);
        put_message(a, &w, &calls);
        ls_jw_field_str(&w, "stop_reason", finish_name(r, a, calls.n));
        put_stop(r, &w, a);
    } else {
        put_head(r, &w, false);
        put_choice(r, a, &w, &calls);
    }
    put_usage(r, &w, a);
    put_facts(r, &w, a);
    ls_jw_close(&w, '}');
    free_calls(&calls);
}

// ---- errors

static const char *error_type(int status) {
    return status == 401   ? "authentication_error"
           : status == 403 ? "permission_error"
           : status == 404 ? "not_found_error"
           : status == 413 ? "request_too_large"
           : status == 429 ? "rate_limit_error"
           : status < 500  ? "invalid_request_error"
                           : "api_error";
}

static void put_error(ls_jsonw *w, ls_api api, int status, const char *message) {
    if (api == LS_API_MESSAGES) ls_jw_field_str(w, "type", "error");
    ls_jw_field_open(w, "error", '{');
    ls_jw_field_str(w, "type", error_type(status));
    ls_jw_field_str(w, "message", message);
    if (api != LS_API_MESSAGES) {
        ls_jw_field_str(w, "param", NULL);
        ls_jw_field_str(w, "code", NULL);
    }
    ls_jw_close(w, '}');
}

void ls_reply_error(ls_api api, int status, const char *message, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
    put_error(&w, api, status, message);
    ls_jw_close(&w, '}');
}

void ls_reply_error_event(ls_api api, int status, const char *message, ls_buf *out) {
    ls_jsonw w = open_event(api == LS_API_MESSAGES ? "error" : NULL, out);
    put_error(&w, api, status, message);
    put_event(out, &w);
}
