// The server without its connections: who may ask, the queue, turns, what is kept for whom, and what an answer has.
#include "base/mem.h"
#include "scripted.h"
#include "serve/answerer.h"
#include "serve/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char first_key[] = "first-key-0123456789", second_key[] = "second-key-0123456789";

static void only_a_whole_key_is_a_key(void **state) {
    (void)state;
    const char file[] = "# keys\nfirst-key-0123456789\n\nsecond-key-0123456789\r\n";
    ls_keys keys;
    char other[64];
    assert_int_equal(ls_keys_find(&(ls_keys){0}, NULL, NULL), 0);
    assert_int_equal(ls_keys_read(&keys, (ls_str){file, sizeof file - 1}, "keys", NULL), LS_OK);
    assert_int_equal(ls_keys_find(&keys, NULL, first_key), 0);
    assert_int_equal(ls_keys_find(&keys, "bearer second-key-0123456789", NULL), 1);
    assert_int_equal(ls_keys_find(&keys, NULL, NULL), -1);
    assert_int_equal(ls_keys_find(&keys, "second-key-0123456789", NULL), -1);
    for (int i = 0; i < 200; i++) { // hashes that share characters with those of keys
        snprintf(other, sizeof other, "%s%d", i % 2 ? first_key : second_key, i);
        assert_int_equal(ls_keys_find(&keys, NULL, other), -1);
    }
    ls_keys_free(&keys);
}

static void hosts_and_origins_are_whole_names(void **state) {
    (void)state;
    static const char *const names[] = {"llm.example.com", NULL}, *const pages[] = {"https://example.com", NULL};
    static const char *const good[] = {"127.0.0.1", "127.0.0.1:80", "[::1]:8080", "LocalHost", "llm.example.com:1"},
                             *const bad[] = {"evil.com",
                                             "llm",
                                             "llm.example.com.evil.com",
                                             "localhost:80x",
                                             "localhost.evil",
                                             "127.0.0.1.evil.com",
                                             "llm.example.com/",
                                             "[localhost]",
                                             ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(ls_host_is_good(good[i], names));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(ls_host_is_good(bad[i], names));
    assert_true(ls_origin_is_good(NULL, NULL) && ls_origin_is_good("https://example.com", pages));
    assert_false(ls_origin_is_good("https://example.com.evil.com", pages) || ls_origin_is_good("null", pages) ||
                 ls_origin_is_good("https://example.com", NULL));
}

// ---- a server

typedef struct {
    ls_setup setup;
    ls_serve_options o;
    ls_queue queue;
    ls_answerer a;
    bool stops;
} server;

static bool stops(void *ud) {
    return ((server *)ud)->stops;
}

static void no_line(void *ud, const char *text) {
    (void)ud, (void)text;
}

static void nothing(void *ud) {
    (void)ud;
}

static void open_server(server *s, ls_serve_options with) {
    *s = (server){
        .setup = {.decode = {.method = "logitspec", .max_tokens = 20, .costs.given = true, .sampling.top_p = 1}},
        .queue = {.most = 2, .resume = nothing, .tick = nothing}};
    for (int i = 0; i < LS_COST_SIZES; i++) s->setup.decode.costs.base_ms[i] = 1;
    s->o = with;
    s->o.model = &model;
    s->o.setup = &s->setup;
    s->o.seeded = true;
    s->o.name = "script";
    if (!s->o.max_kept_bytes) s->o.max_kept_bytes = 1 << 30;
    s->o.stop = stops;
    s->o.line = no_line;
    s->o.ud = s;
    assert_int_equal(ls_queue_open(&s->queue, NULL), LS_OK);
    s->a = (ls_answerer){.o = &s->o, .queue = &s->queue};
    ls_answerer_init(&s->a);
}

static void close_server(server *s) {
    ls_answerer_free(&s->a);
    ls_queue_close(&s->queue);
}

// A request of a client that stays; the test owns it, too.
static ls_exchange *request(const server *s, int key, const char *body) {
    static const char *const models[] = {"script", NULL};
    const ls_request_defaults defaults = {&s->setup.decode, true, NULL, models};
    ls_exchange *x = ls_exchange_new();
    ls_err err = {0};
    if (ls_request_read(&x->request, LS_API_COMPLETIONS, (ls_str){body, strlen(body)}, &defaults, &err))
        fail_msg("%s", err.msg);
    x->facts.key = key;
    x->connection = x;
    return x;
}

static void begin(server *s, ls_exchange *x) {
    int retry_s;
    assert_int_equal(ls_queue_put(&s->queue, x, &retry_s), 0);
    assert_ptr_equal(ls_queue_take(&s->queue, false), x);
    ls_answerer_begin(&s->a, x);
}

static ls_json *answer_of(server *s, ls_exchange *x) {
    ls_json *value;
    s->a.tended_ns = 0;
    while (s->a.n) ls_answerer_work(&s->a);
    assert_true(x->ended);
    assert_int_equal(ls_json_parse(&value, x->out.p, x->out.n, "", NULL), LS_OK);
    ls_exchange_drop(&s->queue, x);
    return value;
}

static int64_t number(const ls_json *answer, const char *part, const char *name) {
    int64_t n = -1;
    assert_true(ls_json_int(ls_json_get(ls_json_get(answer, part), name), &n));
    return n;
}

static ls_json *ask(server *s, int key, const char *body) {
    ls_exchange *x = request(s, key, body);
    begin(s, x);
    return answer_of(s, x);
}

// How many tokens of a prompt were kept, and the drafts that were verified.
static int64_t kept(server *s, int key, const char *body, int64_t *drafts) {
    ls_json *a = ask(s, key, body);
    const int64_t n = number(a, "logitspec", "kept_tokens");
    *drafts = number(a, "logitspec", "draft_verified");
    ls_json_free(a);
    return n;
}

#define SEA "Tell me of the sea. Tell me of the sea. Tell me of the sea. Tell me of the sea. "
static const char sea[] = "{\"prompt\":\"" SEA "\"}";

static void the_queue_is_bounded(void **state) {
    (void)state;
    server s;
    ls_exchange *x[3];
    int retry_s = 0;
    open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = 2});
    for (int i = 0; i < 3; i++) {
        x[i] = request(&s, 0, sea);
        assert_int_equal(ls_queue_put(&s.queue, x[i], &retry_s), i < 2 ? 0 : 429);
    }
    assert_true(retry_s >= 1);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(ls_queue_take(&s.queue, false), x[i]);
        ls_exchange_end(&s.queue, x[i]);
    }
    for (int i = 0; i < 3; i++) ls_exchange_drop(&s.queue, x[i]);
    close_server(&s);
}

static void nothing_is_kept_for_another_key(void **state) {
    (void)state;
    for (int places = 1; places <= 3; places += 2) { // with one place, the other's is taken away
        server s;
        int64_t first, second, other;
        open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = places});
        assert_int_equal(kept(&s, 0, sea, &first), 0);
        assert_true(kept(&s, 0, sea, &second) > 60);
        assert_int_equal(kept(&s, 1, sea, &other), 0);
        assert_int_equal(other, first); // nor did its drafter learn
        assert_int_not_equal(second, first);
        close_server(&s);
    }
}

static void a_fresh_server_keeps_nothing(void **state) {
    (void)state;
    server s;
    int64_t first, second;
    open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = 3, .fresh = true});
    assert_int_equal(kept(&s, 0, sea, &first), 0);
    assert_int_equal(kept(&s, 0, sea, &second), 0);
    assert_int_equal(first, second);
    assert_int_equal(s.a.sessions.n, 1);
    close_server(&s);
}

static void kept_memory_is_bounded(void **state) {
    (void)state;
    server s;
    int64_t drafts;
    open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = 5, .max_kept_bytes = 1});
    kept(&s, 0, sea, &drafts);
    kept(&s, 0, "{\"prompt\":\"Something else, which shares no beginning.\"}", &drafts);
    assert_int_equal(s.a.sessions.n, 1);
    close_server(&s);
    // plain decoding has no drafter, but of a mixture it remembers which experts rows take: 1.5 MiB
    for (int mixture = 0; mixture < 2; mixture++) {
        const ls_model usual = model;
        if (mixture)
            assert_int_equal(ls_model_load(&model, &(ls_model_options){.name = "script:mixture"}, NULL), LS_OK);
        open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = 5, .max_kept_bytes = 1 << 20});
        s.setup.decode.method = "plain";
        kept(&s, 0, sea, &drafts);
        kept(&s, 0, "{\"prompt\":\"Something else, which shares no beginning.\"}", &drafts);
        assert_int_equal(s.a.sessions.n, mixture ? 1 : 2);
        close_server(&s);
        if (mixture) ls_model_free(&model);
        model = usual;
    }
}

static void answers_end_where_they_are_told_to(void **state) {
    (void)state;
    server s;
    char body[200];
    open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = 2, .fresh = true});
    ls_json *whole = ask(&s, 0, sea);
    const char *text = ls_json_str(ls_json_get(ls_json_at(ls_json_get(whole, "choices"), 0), "text"), NULL);
    assert_int_equal(number(whole, "usage", "completion_tokens"), 20);
    ls_json *cut = ask(&s, 0, "{\"prompt\":\"" SEA "\",\"max_tokens\":7}");
    assert_int_equal(number(cut, "usage", "completion_tokens"), 7);
    // events never have what may be the beginning of a stop text
    snprintf(body, sizeof body, "{\"prompt\":\"" SEA "\",\"stream\":true,\"stop\":\"%.3s\"}", text + 8);
    ls_exchange *x = request(&s, 0, body);
    begin(&s, x);
    while (s.a.n) ls_answerer_work(&s.a);
    char stop[4];
    snprintf(stop, sizeof stop, "%s", text + 8);
    char *sent = ls_calloc(1, x->out.n + 1), *expected = ls_strndup(text, (size_t)(strstr(text, stop) - text));
    for (const char *at = x->out.p; (at = strstr(at, "\"text\":\"")); at++)
        strncat(sent, at + 8, strcspn(at + 8, "\""));
    assert_string_equal(sent, expected);
    free(sent);
    free(expected);
    ls_exchange_drop(&s.queue, x);
    ls_json_free(whole);
    ls_json_free(cut);
    close_server(&s);
}

// Two requests, of which the second has a prompt of several blocks: in each round both get on.
static void each_has_its_turn(void **state) {
    (void)state;
    server s;
    char body[2000] = "{\"max_tokens\":9,\"prompt\":\"";
    while (strlen(body) < 1200) strcat(body, SEA);
    strcat(body, "\"}");
    open_server(&s, (ls_serve_options){.parallel = 2, .max_kept = 2});
    ls_json *alone[2] = {ask(&s, 0, sea), ask(&s, 1, body)};
    s.o.fresh = s.a.sessions.fresh = true;
    ls_exchange *x[2] = {request(&s, 0, sea), request(&s, 0, body)};
    for (int i = 0; i < 2; i++) begin(&s, x[i]);
    assert_true(ls_answerer_is_full(&s.a));
    ls_answerer_work(&s.a); // the first one's prompt is a block
    for (uint64_t before = s.queue.metrics.steps.steps, i = 0; i < 5; i++) {
        ls_answerer_work(&s.a);
        assert_int_equal(s.queue.metrics.steps.steps, before + i + 1); // of the first; the second reads
        assert_int_equal(s.a.n, 2);
    }
    for (int i = 0; i < 2; i++) {
        ls_json *a = answer_of(&s, x[i]);
        for (int k = 0; k < 2; k++) {
            const char *const name = k ? "choices" : "usage";
            ls_buf got = {0}, want = {0};
            ls_jsonw g = {.out = &got}, w = {.out = &want};
            ls_jw_value(&g, ls_json_get(a, name)), ls_jw_value(&w, ls_json_get(alone[i], name));
            assert_string_equal(got.p, want.p);
            ls_buf_free(&got), ls_buf_free(&want);
        }
        ls_json_free(a);
        ls_json_free(alone[i]);
    }
    close_server(&s);
}

static void only_the_request_whose_client_left_ends(void **state) {
    (void)state;
    server s;
    open_server(&s, (ls_serve_options){.parallel = 2, .max_kept = 2});
    ls_exchange *stays = request(&s, 0, "{\"prompt\":\"Count\",\"max_tokens\":50}"),
                *leaves = request(&s, 0, "{\"prompt\":\"Count\",\"max_tokens\":2000}");
    begin(&s, leaves);
    begin(&s, stays);
    ls_answerer_work(&s.a);
    ls_exchange_left(&s.queue, leaves);
    ls_answerer_work(&s.a);
    assert_int_equal(s.a.n, 1);
    assert_int_equal(s.queue.metrics.ended[LS_ENDED_LEFT], 1);
    ls_json *a = answer_of(&s, stays);
    assert_int_equal(number(a, "usage", "completion_tokens"), 50);
    ls_json_free(a);
    ls_exchange_drop(&s.queue, leaves);
    close_server(&s);
}

static void late_requests_and_those_of_a_stopped_server_end(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        server s;
        open_server(&s, (ls_serve_options){.parallel = 1, .max_kept = 1, .timeout_s = late ? 3600 : 0});
        ls_exchange *x = request(&s, 0, "{\"prompt\":\"Count\",\"max_tokens\":2000}");
        begin(&s, x);
        ls_answerer_work(&s.a);
        assert_int_equal(s.a.n, 1);
        if (late) x->arrived_ns -= (uint64_t)3601 * 1000000000;
        else s.stops = true;
        s.a.looked_ns = 0;
        ls_answerer_work(&s.a);
        assert_int_equal(s.a.n, 0);
        assert_int_equal(x->status, 503);
        assert_non_null(strstr(x->out.p, late ? "limit" : "stopped"));
        ls_exchange_drop(&s.queue, x);
        close_server(&s);
    }
}

// Special tokens are no text of the answer, so they do not move the place of the stop text.
static void the_stop_text_is_named(void **state) {
    (void)state;
    int32_t tokens[] = {256, 'a', 'b', 'x', 256, 'x', 'y', 257};
    char *stops[] = {"x<", "xy", "y<|im_end|>", NULL};
    const ls_request r = {.api = LS_API_MESSAGES, .stops = stops};
    for (size_t n = 7; n <= 8; n++) {
        const ls_ids prompt = {0}, output = {.p = tokens, .n = n};
        const ls_outcome a = {.prompt = &prompt,
                              .output = &output,
                              .text = {"abxxy", n == 7 ? 3 : 4},
                              .finish = LS_FINISH_STOP,
                              .stats = &(ls_stats){0},
                              .method = "plain",
                              .guarantee = "text"};
        ls_reply reply = {.request = &r, .vocab = model.vocab, .model = "script"};
        ls_buf out = {0};
        ls_json *body;
        ls_reply_whole(&reply, &a, &out);
        assert_int_equal(ls_json_parse(&body, out.p, out.n, "", NULL), LS_OK);
        assert_true(ls_json_is(ls_json_get(body, "stop_sequence"), stops[n - 6]));
        ls_json_free(body);
        ls_buf_free(&out);
        ls_reply_free(&reply);
    }
}

static void bodies_are_bounded(void **state) {
    (void)state;
    static const char *const models[] = {"script", NULL};
    const ls_decode_options decode = {.max_tokens = 9, .sampling.top_p = 1};
    const ls_request_defaults defaults = {&decode, true, NULL, models};
    char *deep = ls_calloc(1, 400), *wide = ls_calloc(1, 3 * LS_BODY_VALUES + 100);
    strcpy(deep, "{\"metadata\":");
    memset(deep + 12, '[', 64), memset(deep + 76, ']', 64);
    strcat(deep, ",\"prompt\":\"x\"}");
    strcpy(wide, "{\"metadata\":[");
    for (int i = 0; i < LS_BODY_VALUES; i++) memcpy(wide + 13 + 2 * i, "1,", 2);
    strcat(wide, "1],\"prompt\":\"x\"}");
    char *const bodies[] = {deep, wide};
    for (int i = 0; i < 2; i++) {
        ls_request r;
        ls_err err;
        assert_int_equal(
            ls_request_read(&r, LS_API_COMPLETIONS, (ls_str){bodies[i], strlen(bodies[i])}, &defaults, &err),
            LS_E_USAGE);
        assert_non_null(strstr(err.msg, i ? "values" : "nested"));
        free(bodies[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_whole_key_is_a_key),
        cmocka_unit_test(hosts_and_origins_are_whole_names),
        cmocka_unit_test(the_queue_is_bounded),
        cmocka_unit_test(nothing_is_kept_for_another_key),
        cmocka_unit_test(a_fresh_server_keeps_nothing),
        cmocka_unit_test(kept_memory_is_bounded),
        cmocka_unit_test(answers_end_where_they_are_told_to),
        cmocka_unit_test(each_has_its_turn),
        cmocka_unit_test(only_the_request_whose_client_left_ends),
        cmocka_unit_test(late_requests_and_those_of_a_stopped_server_end),
        cmocka_unit_test(the_stop_text_is_named),
        cmocka_unit_test(bodies_are_bounded),
    };
    return cmocka_run_group_tests_name("serve", tests, load, unload);
}
