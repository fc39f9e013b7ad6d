// The live source on the scripted model: order of events, every command, closing at any moment.
#include "base/mem.h"
#include "base/rng.h"
#include "run/source_live.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static ls_code set(void *ud, const char *assignment, ls_setup *setup, ls_err *err) {
    (void)ud;
    if (strcmp(assignment, "budget=5")) return ls_fail(err, LS_E_USAGE, "no such setting");
    setup->decode.budget = 5;
    return LS_OK;
}

static ls_source *open_source(const char *model, const char *trace, int max_tokens) {
    ls_live_options o = {
        .setup = {.model = {.name = model, .backend = {.device = "cpu", .dtype = "auto"}},
                  .decode = {.method = "logitspec-paper", .max_tokens = max_tokens, .sampling = {.top_p = 1}}},
        .trace = trace,
        .set = set};
    ls_source *s = ls_source_live(&o);
    assert_non_null(s);
    return s;
}

static ls_code command(ls_source *s, ls_command_kind kind, const char *text, int n) {
    return s->command(s, &(ls_command){kind, text, n}, NULL);
}

// The next event of a kind; others are checked and dropped. Owned by the caller.
typedef struct {
    ls_run_state state;
    int steps, budget;
    bool known[300];
} seen;

static ls_event *await(ls_source *s, seen *v, ls_event_kind kind) {
    for (int i = 0; i < 2000; i++) {
        struct pollfd fd = {s->wake_fd(s), POLLIN, 0};
        assert_true(poll(&fd, 1, 10000) > 0);
        for (ls_event *e; (e = s->next(s));) {
            if (e->kind == LS_EV_STATUS) v->state = e->status.state;
            if (e->kind == LS_EV_TOKENS)
                for (int k = 0; k < e->tokens.n; k++) {
                    assert_false(v->known[e->tokens.ids[k]]); // once only
                    v->known[e->tokens.ids[k]] = true;
                }
            if (e->kind == LS_EV_STEP) {
                v->steps++;
                v->budget = e->step->budget;
                for (int k = 0; k < e->step->n_nodes; k++) assert_true(v->known[e->step->nodes[k].token]);
                for (int k = 0; k < e->step->n_top; k++) assert_true(v->known[e->step->top[k].id]);
            }
            if (e->kind == kind) return e;
            ls_event_free(e);
        }
    }
    fail_msg("no event of kind %d", kind);
    return NULL;
}

static void await_state(ls_source *s, seen *v, ls_run_state state) {
    while (v->state != state) ls_event_free(await(s, v, LS_EV_STATUS));
}

static void a_conversation(void **state) {
    (void)state;
    ls_source *s = open_source("script", NULL, 40);
    seen v = {0};
    assert_int_equal(command(s, LS_CMD_PROMPT, "first", 0), LS_OK); // while loading: it waits
    ls_event *e = await(s, &v, LS_EV_HEADER);
    assert_int_equal(e->header->n_vocab, 258);
    assert_true(e->header->n_cost > 0 && e->header->cost_ms[0] > 0);
    ls_event_free(e);
    e = await(s, &v, LS_EV_PROMPT);
    assert_string_equal(e->prompt.text, "first");
    assert_int_equal(e->prompt.turn, 0);
    int32_t first_len = e->prompt.context_len;
    ls_event_free(e);
    e = await(s, &v, LS_EV_END);
    assert_int_equal(e->end.finish, LS_FINISH_LENGTH);
    ls_event_free(e);
    await_state(s, &v, LS_STATE_IDLE);
    assert_int_equal(command(s, LS_CMD_PROMPT, "second", 0), LS_OK);
    e = await(s, &v, LS_EV_PROMPT);
    assert_int_equal(e->prompt.turn, 1);
    assert_true(e->prompt.context_len >= first_len + 40 + e->prompt.n_ids);
    ls_event_free(e);
    ls_event_free(await(s, &v, LS_EV_END));
    assert_int_equal(command(s, LS_CMD_RESET, NULL, 0), LS_OK);
    ls_event_free(await(s, &v, LS_EV_HEADER));
    assert_int_equal(command(s, LS_CMD_PROMPT, "third", 0), LS_OK);
    e = await(s, &v, LS_EV_PROMPT);
    assert_int_equal(e->prompt.turn, 0);
    assert_int_equal(e->prompt.context_len, first_len);
    ls_event_free(e);
    s->close(s);
}

static void pause_step_set_stop(void **state) {
    (void)state;
    ls_source *s = open_source("script:2", NULL, 100000);
    seen v = {0};
    assert_int_equal(command(s, LS_CMD_PAUSE, NULL, 0), LS_OK); // before the turn: it starts paused
    assert_int_equal(command(s, LS_CMD_PROMPT, "x", 0), LS_OK);
    await_state(s, &v, LS_STATE_PAUSED);
    assert_int_equal(v.steps, 0);
    assert_int_equal(command(s, LS_CMD_PROMPT, "no", 0), LS_E_UNSUPPORTED);
    for (int i = 1; i <= 3; i++) {
        v.state = LS_STATE_RUNNING;
        assert_int_equal(command(s, LS_CMD_STEP, NULL, i), LS_OK);
        await_state(s, &v, LS_STATE_PAUSED);
        assert_int_equal(v.steps, i * (i + 1) / 2);
    }
    assert_int_equal(v.budget, 64);
    assert_int_equal(command(s, LS_CMD_SET, "budget=5", 0), LS_OK);
    ls_event *e = await(s, &v, LS_EV_MESSAGE);
    assert_false(e->message.is_error);
    ls_event_free(e);
    assert_int_equal(command(s, LS_CMD_SET, "nonsense", 0), LS_OK);
    e = await(s, &v, LS_EV_MESSAGE);
    assert_true(e->message.is_error);
    ls_event_free(e);
    assert_int_equal(command(s, LS_CMD_RUN, NULL, 0), LS_OK);
    await_state(s, &v, LS_STATE_RUNNING);
    ls_event_free(await(s, &v, LS_EV_STEP));
    assert_int_equal(v.budget, 5);
    assert_int_equal(command(s, LS_CMD_STOP, NULL, 0), LS_OK);
    e = await(s, &v, LS_EV_END);
    assert_int_equal(e->end.finish, LS_FINISH_INTERRUPTED);
    ls_event_free(e);
    await_state(s, &v, LS_STATE_IDLE);
    assert_int_equal(command(s, LS_CMD_STOP, NULL, 0), LS_E_UNSUPPORTED);
    assert_int_equal(command(s, LS_CMD_PROMPT, "on", 0), LS_OK); // the conversation goes on after a stop
    ls_event_free(await(s, &v, LS_EV_STEP));
    s->close(s);
}

static void failures_arrive_as_events(void **state) {
    (void)state;
    ls_source *s = open_source("/nonexistent.gguf", NULL, 5);
    seen v = {0};
    ls_event *e = await(s, &v, LS_EV_MESSAGE);
    assert_true(e->message.is_error);
    assert_non_null(strstr(e->message.text, "/nonexistent.gguf"));
    ls_event_free(e);
    await_state(s, &v, LS_STATE_FAILED);
    assert_int_equal(command(s, LS_CMD_PROMPT, "x", 0), LS_E_UNSUPPORTED);
    s->close(s);
    s = open_source("script", NULL, 5);
    ls_buf prompt = {0};
    for (int i = 0; i < 10000; i++) ls_buf_char(&prompt, 'x');
    assert_int_equal(command(s, LS_CMD_PROMPT, prompt.p, 0), LS_OK);
    e = await(s, &v, LS_EV_MESSAGE);
    assert_non_null(strstr(e->message.text, "shorten it"));
    ls_event_free(e);
    await_state(s, &v, LS_STATE_IDLE);
    ls_buf_free(&prompt);
    s->close(s);
}

static void closing_at_any_moment(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        char trace[] = "/tmp/logitspec-live-XXXXXX";
        int fd = mkstemp(trace);
        ls_source *s = open_source(i % 2 ? "script" : "script:1", trace, 100000);
        if (i % 3) command(s, LS_CMD_PROMPT, "abc", 0);
        usleep((useconds_t)(ls_uniform_at(9, i) * 30000));
        if (i % 5 == 0) command(s, LS_CMD_STOP, NULL, 0);
        if (i % 7 == 0) command(s, LS_CMD_RESET, NULL, 0);
        s->close(s); // nothing was read: a full queue must not keep it from ending
        char last = '\n';
        off_t end = lseek(fd, 0, SEEK_END);
        if (end > 0) assert_int_equal(pread(fd, &last, 1, end - 1), 1);
        assert_int_equal(last, '\n'); // the trace ends with a whole line
        close(fd);
        unlink(trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_conversation), cmocka_unit_test(pause_step_set_stop),
                                       cmocka_unit_test(failures_arrive_as_events),
                                       cmocka_unit_test(closing_at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
