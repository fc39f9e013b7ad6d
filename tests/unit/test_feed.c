// What watchers of a server see: the feed of its requests, what is sent of it, and the source that shows it.
#include "base/mem.h"
#include "base/system.h"
#include "recorded.h"
#include "source/sources.h"
#include "trace/trace.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    N_COMMANDS = 0
#define COMMAND(...) +1
#include "source/commands.def"
#undef COMMAND
};

static int n_woken;

static void count_wake(void *ud) {
    (void)ud;
    n_woken++;
}

static ls_feed_reader listen_to(ls_feed *f) {
    (void)f;
    return (ls_feed_reader){.wake = count_wake};
}

static void set(ls_feed *f, int32_t id, ls_request_state state) {
    ls_feed_set(f, &(ls_request_facts){.id = id, .state = state, .emitted = 10 * id});
}

static void put(ls_feed *f, int32_t id, const char *text) {
    ls_feed_put(f, id, text, strlen(text));
}

// The next news as "ID STATE LINES".
static char *next(ls_feed *f, ls_feed_reader *r, bool wants_lines, size_t most) {
    ls_request_facts facts;
    ls_buf lines = {0}, text = {0};
    ls_buf_str(&text, "");
    if (ls_feed_next(f, r, &facts, wants_lines ? &lines : NULL, most))
        ls_buf_fmt(&text, "%d %s %s", facts.id, ls_request_state_name(facts.state), lines.n ? lines.p : "");
    ls_buf_free(&lines);
    return text.p;
}

static void expect(ls_feed *f, ls_feed_reader *r, const char *want) {
    char *got = next(f, r, true, 8);
    assert_string_equal(got, want);
    free(got);
}

static void readers_get_all_at_their_own_pace(void **state) {
    (void)state;
    ls_feed *f = ls_feed_new(1000);
    ls_feed_reader early = listen_to(f), late = listen_to(f);
    ls_feed_listen(f, &early);
    set(f, 1, LS_REQUEST_QUEUED);
    set(f, 2, LS_REQUEST_QUEUED);
    assert_int_equal(n_woken, 2);
    expect(f, &early, "1 queued ");
    expect(f, &early, "2 queued ");
    expect(f, &early, "");
    set(f, 1, LS_REQUEST_DECODING);
    put(f, 1, "one\n");
    put(f, 1, "two\nthree\n");
    expect(f, &early, "1 decoding one\ntwo\n"); // whole lines of eight bytes
    expect(f, &early, "1 decoding three\n");
    put(f, 1, "a line of more than eight\n");
    expect(f, &early, "1 decoding a line of more than eight\n");
    set(f, 1, LS_REQUEST_DONE);
    set(f, 2, LS_REQUEST_DECODING);
    put(f, 2, "x\n");
    ls_feed_listen(f, &late); // states first, and the lines of what is decoded before those of what has ended
    expect(f, &late, "1 done ");
    expect(f, &late, "2 decoding x\n");
    expect(f, &late, "1 done one\ntwo\n");
    put(f, 2, "y\n");
    expect(f, &late, "2 decoding y\n");
    expect(f, &late, "1 done three\n");
    expect(f, &early, "1 done ");
    expect(f, &early, "2 decoding x\ny\n");
    expect(f, &early, "");
    put(f, 7, "of nobody\n");
    expect(f, &early, "");
    ls_feed_leave(f, &early);
    ls_feed_leave(f, &late);
    ls_feed_free(f);
}

static void memory_is_bounded_and_the_oldest_go_first(void **state) {
    (void)state;
    ls_feed *f = ls_feed_new(100);
    ls_feed_reader r = listen_to(f);
    ls_request_facts facts;
    ls_feed_listen(f, &r);
    for (int i = 1; i <= 4; i++) {
        set(f, i, LS_REQUEST_DECODING);
        put(f, i, "thirty bytes, of which one ends\n");
        set(f, i, LS_REQUEST_DONE);
    }
    assert_false(ls_feed_facts(f, 1, &facts)); // 3 times 32 bytes fit
    assert_true(ls_feed_facts(f, 2, &facts));
    expect(f, &r, "2 done "); // and of what it has never seen, a reader is told nothing
    // a recording of more than half is cut, and says so
    set(f, 5, LS_REQUEST_DECODING);
    put(f, 5, "thirty bytes, of which one ends\n");
    put(f, 5, "thirty bytes, of which one ends\n");
    put(f, 5, "short\n");              // behind a gap nothing is kept
    put(f, 5, "{\"type\":\"end\"}\n"); // but its end
    put(f, 6, "{\"type\":\"end\"}\n"); // of a request that is not known
    set(f, 5, LS_REQUEST_DECODING);
    assert_true(ls_feed_facts(f, 5, &facts));
    assert_int_equal(facts.lost_lines, 2);
    size_t at = 0;
    ls_buf lines = {0};
    assert_true(ls_feed_lines(f, 5, &at, &lines, 1000));
    assert_int_equal(lines.n, 32 + 15);
    ls_buf_free(&lines);
    expect(f, &r, "2 forgotten ");
    // many ended ones; requests that have not ended stay, up to a number of them
    for (int i = 6; i < 10000; i++) set(f, i, i % 2 ? LS_REQUEST_FAILED : LS_REQUEST_QUEUED);
    assert_true(ls_feed_facts(f, 6, &facts));
    size_t kept = 0;
    for (int i = 1; i < 10000; i++) kept += ls_feed_facts(f, i, &facts);
    assert_in_range(kept, LS_FEED_OTHERS, LS_FEED_OTHERS + LS_FEED_ENDED);
    ls_feed_leave(f, &r);
    ls_feed_free(f);
}

static void the_current_request_is_the_first_that_is_answered(void **state) {
    (void)state;
    ls_feed *f = ls_feed_new(1000);
    set(f, 0, LS_REQUEST_DONE); // the server
    assert_int_equal(ls_feed_current(f), 0);
    set(f, 1, LS_REQUEST_DONE);
    set(f, 2, LS_REQUEST_CANCELLED);
    set(f, 3, LS_REQUEST_QUEUED);
    assert_int_equal(ls_feed_current(f), 2);
    set(f, 4, LS_REQUEST_DECODING);
    assert_int_equal(ls_feed_current(f), 4);
    set(f, 3, LS_REQUEST_READING);
    assert_int_equal(ls_feed_current(f), 3);
    ls_feed_free(f);
}

// ---- over the wire

static void mark(void *ud) {
    ++*(int *)ud;
}

static ls_code fill(ls_feed *f, const char *text, size_t n, int *begun, ls_err *err) {
    *begun = 0;
    return ls_feed_fill(f, ls_lines_in(text, n, "wire"), mark, begun, err);
}

// All that a watcher would be sent, as a server writes it.
static ls_buf send_all(ls_feed *f) {
    ls_feed_reader r = {.wake = count_wake};
    ls_buf out = {0};
    ls_feed_listen(f, &r);
    while (ls_feed_send(f, &r, &out, 4000)) continue;
    ls_feed_leave(f, &r);
    return out;
}

static const ls_request_facts whole = {.id = 3,
                                       .state = LS_REQUEST_DONE,
                                       .path = "/v1/messages",
                                       .client = "::1",
                                       .agent = "a \033[2J \"b\"",
                                       .key = 2,
                                       .prompt_tokens = 7,
                                       .kept_tokens = 5,
                                       .steps = 11,
                                       .emitted = 29,
                                       .queued_ms = 1.5,
                                       .prefill_ms = 2.25,
                                       .decode_ms = 100,
                                       .speedup = 2.5,
                                       .speedup_spread = 0.125,
                                       .why =
                                           "because of a very long text, whose last character ends behind the room, "
                                           "which it fills: 0123456789 0123456789 0123456789 0123456789 0123456789 012",
                                       .lost_lines = 4};

static void what_is_sent_is_what_arrives(void **state) {
    (void)state;
    int begun;
    ls_err err;
    record("One fish", options("logitspec-paper", 8, 30), 1);
    ls_buf trace = slurp();
    ls_feed *f = ls_feed_new(1 << 22), *g = ls_feed_new(1 << 22);
    set(f, 1, LS_REQUEST_DECODING);
    ls_feed_put(f, 1, trace.p, trace.n);
    ls_feed_set(f, &whole);
    put(f, 3, "{\"type\":\"step\"}\n"); // before other lines were lost
    set(f, 4, LS_REQUEST_QUEUED);
    ls_buf sent = send_all(f);
    assert_int_equal(fill(g, sent.p, sent.n, &begun, &err), LS_OK);
    assert_int_equal(begun, 1);
    ls_buf again = send_all(g);
    assert_int_equal(sent.n, again.n);
    assert_memory_equal(sent.p, again.p, sent.n);
    ls_request_facts facts;
    assert_true(ls_feed_facts(g, 3, &facts));
    assert_memory_equal(&facts, &whole, sizeof facts);
    size_t at = 0;
    ls_buf lines = {0};
    assert_true(ls_feed_lines(g, 1, &at, &lines, SIZE_MAX / 2));
    assert_int_equal(lines.n, trace.n);
    assert_memory_equal(lines.p, trace.p, trace.n);
    // a line that was cut short is left out; whatever arrives is read or refused in words
    assert_int_equal(fill(g, sent.p, sent.n - 5, &begun, &err), LS_OK);
    for (size_t i = 0; i < sent.n; i += 1 + sent.n / 500) {
        const char was = sent.p[i];
        sent.p[i] ^= 0x15;
        if (fill(g, sent.p, sent.n, &begun, &err)) assert_true(*err.msg && !strchr(err.msg, '\n'));
        sent.p[i] = was;
    }
    ls_buf_free(&lines);
    ls_buf_free(&trace);
    ls_buf_free(&sent);
    ls_buf_free(&again);
    ls_feed_free(f);
    ls_feed_free(g);
}

static void what_is_no_feed_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {{"{\"type\":\"header\"}\n", "'logitspec replay' shows a recording"},
                 {"{\"type\":\"alive\"}\n", "is not what 'logitspec serve' tells"},
                 {"<html>\n", "wire:1"},
                 {"{\"type\":\"request\",\"request\":-1,\"state\":\"done\"}\n", "request is not a whole number from 0"},
                 {"{\"type\":\"request\",\"request\":1,\"state\":\"new\"}\n", "state is not a known name"},
                 {"{\"type\":\"request\",\"request\":1,\"state\":\"done\",\"speedup\":-3}\n", "speedup is not a time"},
                 {"{\"type\":\"request\",\"request\":1,\"state\":\"done\"}\n[]\n", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int begun;
        ls_err err = {0};
        ls_feed *f = ls_feed_new(1000);
        const ls_code code = fill(f, cases[i].text, strlen(cases[i].text), &begun, &err);
        if (*cases[i].says) assert_int_equal(code, LS_E_PARSE);
        if (!strstr(err.msg, cases[i].says)) fail_msg("%zu: %s", i, err.msg);
        assert_int_equal(begun, !*cases[i].says);
        ls_feed_free(f);
    }
}

static void a_text_is_cut_behind_a_character(void **state) {
    (void)state;
    ls_request_facts facts;
    ls_buf line = {0};
    ls_err err;
    int begun;
    char want[sizeof facts.agent];
    memset(want, 'a', sizeof want);
    want[sizeof want - 2] = 0; // one byte is left for two
    ls_buf_fmt(&line, "{\"type\":\"request\",\"request\":1,\"state\":\"done\",\"agent\":\"%s\u00e9\"}\n", want);
    ls_feed *f = ls_feed_new(1000);
    assert_int_equal(fill(f, line.p, line.n, &begun, &err), LS_OK);
    assert_true(ls_feed_facts(f, 1, &facts));
    assert_string_equal(facts.agent, want);
    ls_feed_free(f);
    ls_buf_free(&line);
}

// ---- what is sent, read as a recording

typedef struct {
    int to; // a pipe, of which the reader has the other end
    ls_trace_reader *r;
    uint64_t until; // when a reader that waits for more gives up
    char name[32];
} stream;

static bool gives_up(void *ud) {
    return ls_now_ns() > ((const stream *)ud)->until;
}

static void open_stream(stream *s) {
    int ends[2];
    ls_err err;
    assert_int_equal(pipe(ends), 0);
    snprintf(s->name, sizeof s->name, "/dev/fd/%d", ends[0]);
    assert_int_equal(ls_trace_read_open(&s->r, s->name, &err), LS_OK);
    close(ends[0]);
    s->to = ends[1];
    assert_true(fcntl(s->to, F_SETPIPE_SZ, 1 << 20) >= 0);
    s->until = ls_now_ns() + 20000000000;
    ls_trace_read_stop(s->r, gives_up, s);
}

static void send_line(const stream *s, int32_t id, ls_request_state state, int32_t lost, ls_str line) {
    ls_trace_writer w = {0};
    ls_trace_write_request(&w, &(ls_request_facts){.id = id, .state = state, .lost_lines = lost});
    ls_buf_add(&w.line, line.p, line.n);
    assert_int_equal(write(s->to, w.line.p, w.line.n), w.line.n);
    ls_buf_free(&w.line);
}

static ls_str line_at(const ls_buf *trace, size_t at) {
    return (ls_str){trace->p + at,
                    (size_t)((const char *)memchr(trace->p + at, '\n', trace->n - at) - trace->p) + 1 - at};
}

// The next lines are those of the trace, from `at` to `end`.
static void expect_lines(stream *s, const ls_buf *trace, size_t at, size_t end) {
    for (ls_str want; at < end; at += want.n) {
        ls_trace_line kind;
        ls_err err;
        size_t n;
        want = line_at(trace, at);
        assert_int_equal(ls_trace_read_next(s->r, &kind, &err), LS_OK);
        const char *got = ls_trace_read_text(s->r, &n);
        assert_non_null(got);
        assert_int_equal(n + 1, want.n);
        assert_memory_equal(got, want.p, n);
    }
}

static void expect_end(stream *s, uint64_t lost) {
    ls_trace_line kind;
    ls_trace_gaps gaps = {0};
    ls_err err;
    close(s->to);
    assert_int_equal(ls_trace_read_next(s->r, &kind, &err), LS_OK);
    assert_int_equal(kind, LS_TRACE_NONE);
    ls_trace_read_gaps(s->r, &gaps);
    assert_int_equal(gaps.lost, lost);
    ls_trace_read_close(s->r);
}

static void requests_are_read_as_they_come(void **state) {
    (void)state;
    stream s;
    record("One fish", options("logitspec-paper", 4, 12), 1);
    ls_buf trace = slurp();
    const size_t last = (size_t)((const char *)memrchr(trace.p, '\n', trace.n - 1) + 1 - trace.p); // its end
    open_stream(&s);
    send_line(&s, 0, LS_REQUEST_DONE, 0, line_at(&trace, 0));     // the server itself
    send_line(&s, 7, LS_REQUEST_QUEUED, 0, (ls_str){"", 0});      // its recording begins later
    for (size_t at = 0; at < last; at += line_at(&trace, at).n) { // two at the same time
        send_line(&s, 9, LS_REQUEST_DECODING, 0, line_at(&trace, at));
        send_line(&s, 7, LS_REQUEST_DECODING, 0, line_at(&trace, at));
        expect_lines(&s, &trace, at, at + 1);
    }
    send_line(&s, 7, LS_REQUEST_DONE, 0, line_at(&trace, last));
    send_line(&s, 9, LS_REQUEST_DONE, 0, line_at(&trace, last));
    expect_lines(&s, &trace, last, trace.n);
    expect_lines(&s, &trace, 0, trace.n); // 7 has ended, too
    send_line(&s, 9, LS_REQUEST_FORGOTTEN, 0, (ls_str){"", 0});
    for (size_t at = 0; at < trace.n; at += line_at(&trace, at).n) // another server's first nine
        send_line(&s, 9, LS_REQUEST_DECODING, 0, line_at(&trace, at));
    expect_lines(&s, &trace, 0, trace.n);
    static const char alive[] = "{\"type\":\"alive\"}\n"; // of a server without news: no lost line
    assert_int_equal(write(s.to, alive, sizeof alive - 1), sizeof alive - 1);
    expect_end(&s, 0);
    ls_buf_free(&trace);
}

// A recording that lost lines is read to its end, before those that began later; one that was forgotten has none.
static void requests_with_lost_lines_end(void **state) {
    (void)state;
    stream s;
    record("One fish", options("logitspec-paper", 4, 12), 1);
    ls_buf trace = slurp();
    const size_t half = line_at(&trace, 0).n + line_at(&trace, line_at(&trace, 0).n).n;
    const size_t last = (size_t)((const char *)memrchr(trace.p, '\n', trace.n - 1) + 1 - trace.p);
    open_stream(&s);
    for (size_t at = 0; at < half; at += line_at(&trace, at).n) {
        send_line(&s, 1, LS_REQUEST_DECODING, 0, line_at(&trace, at)); // loses lines before its end
        send_line(&s, 2, LS_REQUEST_DECODING, 0, line_at(&trace, at)); // will be forgotten
    }
    send_line(&s, 1, LS_REQUEST_DONE, 3, (ls_str){"", 0});
    send_line(&s, 2, LS_REQUEST_FORGOTTEN, 0, (ls_str){"", 0});
    for (size_t at = 0; at < trace.n; at += line_at(&trace, at).n)
        send_line(&s, 3, LS_REQUEST_DECODING, 0, line_at(&trace, at)); // whole before the end of the first is there
    send_line(&s, 1, LS_REQUEST_DONE, 4, line_at(&trace, last));
    expect_lines(&s, &trace, 0, half);
    expect_lines(&s, &trace, last, trace.n);
    expect_lines(&s, &trace, 0, half);
    expect_lines(&s, &trace, 0, trace.n);
    send_line(&s, 1, LS_REQUEST_DONE, 4, line_at(&trace, half)); // too late: its turn is over
    expect_end(&s, 5);
    ls_buf_free(&trace);
}

// ---- the source

typedef struct {
    int32_t shown;
    bool follows;
    int steps, headers, ends, errors;
    ls_run_state state;
} seen;

// Takes events until what() is so.
static void take(ls_source *s, seen *v, bool (*what)(const seen *v)) {
    for (const uint64_t end = ls_now_ns() + 20000000000; !what(v);) {
        struct pollfd fd = {s->wake_fd, POLLIN, 0};
        assert_true(poll(&fd, 1, 20000) > 0 && ls_now_ns() < end);
        for (ls_event *e; (e = s->next(s)); ls_event_free(e)) {
            if (e->kind == LS_EV_REQUEST && e->request.shown) v->shown = e->request.facts->id, v->steps = v->ends = 0;
            if (e->kind == LS_EV_REQUEST) v->follows = e->request.follows;
            if (e->kind == LS_EV_STATUS) v->state = e->status.state;
            v->headers += e->kind == LS_EV_HEADER;
            v->steps += e->kind == LS_EV_STEP;
            v->ends += e->kind == LS_EV_END;
            v->errors += e->kind == LS_EV_MESSAGE && e->message.is_error;
        }
    }
}

static int wanted_steps;

static bool waits(const seen *v) {
    return v->shown == 1 && v->state == LS_STATE_PREFILL;
}

static bool has_decoded(const seen *v) {
    return v->shown == 1 && v->steps == wanted_steps && v->state == LS_STATE_RUNNING;
}

static bool follows_second(const seen *v) {
    return v->shown == 2 && v->steps == wanted_steps && v->ends == 1 && v->state == LS_STATE_IDLE;
}

static bool went_back(const seen *v) {
    return v->shown == 1 && v->steps == wanted_steps && !v->follows;
}

static bool has_failed(const seen *v) {
    return v->errors > 0;
}

static void the_source_shows_one_request(void **state) {
    (void)state;
    record("One fish", options("logitspec-paper", 8, 40), 1);
    ls_buf trace = slurp();
    ls_feed *f = ls_feed_new(1 << 22);
    ls_source *s = ls_source_feed(f);
    ls_err err;
    seen v = {0};
    wanted_steps = n_steps;
    set(f, 1, LS_REQUEST_READING);
    take(s, &v, waits);
    set(f, 1, LS_REQUEST_DECODING);
    const char *end = memrchr(trace.p, '\n', trace.n - 1) + 1; // of all lines but that of the end
    for (const char *p = trace.p, *q; p < end; p = q) {
        q = memchr(p, '\n', (size_t)(end - p)) + 1;
        ls_feed_put(f, 1, p, (size_t)(q - p));
    }
    take(s, &v, has_decoded);
    set(f, 2, LS_REQUEST_QUEUED);
    ls_feed_put(f, 1, end, trace.n - (size_t)(end - trace.p));
    set(f, 1, LS_REQUEST_DONE);
    set(f, 2, LS_REQUEST_DECODING);
    ls_feed_put(f, 2, trace.p, trace.n);
    set(f, 2, LS_REQUEST_DONE);
    take(s, &v, follows_second);
    for (int kind = LS_CMD_PROMPT; kind < N_COMMANDS; kind++)
        if (kind != LS_CMD_OPEN)
            assert_int_equal(s->command(s, &(ls_command){.kind = (ls_command_kind)kind, .n = 1, .text = "x"}, &err),
                             LS_E_UNSUPPORTED);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_OPEN, .n = 1}, &err), LS_OK);
    take(s, &v, went_back);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_OPEN, .n = 99}, &err), LS_OK); // nothing happens
    set(f, 3, LS_REQUEST_DECODING);
    put(f, 3, "{\"type\":\"step\"}\n");
    assert_int_equal(v.errors, 0);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_OPEN}, &err), LS_OK);
    take(s, &v, has_failed); // a step before any header
    assert_int_equal(v.shown, 3);
    s->close(s);
    ls_feed_free(f);
    ls_buf_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_get_all_at_their_own_pace),
        cmocka_unit_test(memory_is_bounded_and_the_oldest_go_first),
        cmocka_unit_test(the_current_request_is_the_first_that_is_answered),
        cmocka_unit_test(what_is_sent_is_what_arrives),
        cmocka_unit_test(what_is_no_feed_is_refused),
        cmocka_unit_test(a_text_is_cut_behind_a_character),
        cmocka_unit_test(requests_are_read_as_they_come),
        cmocka_unit_test(requests_with_lost_lines_end),
        cmocka_unit_test(the_source_shows_one_request),
    };
    return cmocka_run_group_tests(tests, recorded_set_up, recorded_tear_down);
}
