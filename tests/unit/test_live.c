// The live source on the scripted model: order of events, every command, closing at any moment.
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "source/channel.h"
#include "source/sources.h"
#include "trace/trace_read.h"

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static ls_setup *changed(const ls_setup *now, const char *assignment, ls_err *err) {
    ls_setup *s = ls_malloc(sizeof *s);
    *s = *now;
    s->decode.max_rows = 5;
    if (!strcmp(assignment, "max_rows=5")) return s;
    free(s);
    ls_fail(err, LS_E_USAGE, "no such setting");
    return NULL;
}

static void free_setup(ls_setup *s) {
    free(s);
}

static ls_source *open_source(const char *model, const char *trace, int max_tokens) {
    ls_setup *setup = ls_malloc(sizeof *setup);
    *setup = (ls_setup){.model = {.name = model, .engine = {.device = "cpu", .dtype = "auto"}},
                        .decode = {.method = "logitspec-paper", .max_tokens = max_tokens, .sampling = {.top_p = 1}}};
    ls_source *s = ls_source_live(
        &(ls_live_options){.setup = setup, .trace = trace, .changed = changed, .free_setup = free_setup});
    assert_non_null(s);
    return s;
}

static ls_code command(ls_source *s, ls_command_kind kind, const char *text, int n) {
    return s->command(s, &(ls_command){.kind = kind, .n = n, .text = (char *)text}, NULL);
}

// The next event of a kind; others are checked and dropped. Owned by the caller.
typedef struct {
    ls_run_state state;
    int steps, max_rows;
    bool known[300];
} seen;

static ls_event *await(ls_source *s, seen *v, ls_event_kind kind) {
    for (int i = 0; i < 2000; i++) {
        struct pollfd fd = {s->wake_fd, POLLIN, 0};
        assert_true(poll(&fd, 1, 120000) > 0);
        for (ls_event *e; (e = s->next(s));) {
            if (e->kind == LS_EV_STATUS) v->state = e->status.state;
            if (e->kind == LS_EV_TOKENS)
                for (int k = 0; k < e->tokens.n; k++) {
                    assert_false(v->known[e->tokens.ids[k]]); // once only
                    v->known[e->tokens.ids[k]] = true;
                }
            if (e->kind == LS_EV_STEP) {
                const ls_step *step = e->step;
                v->steps++;
                v->max_rows = step->asked_rows;
                for (int k = 0; k < step->tree.n; k++) assert_true(v->known[step->tree.nodes[k].token]);
                for (int k = 0; k < step->n_top; k++) assert_true(v->known[step->top[k].id]);
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
    assert_true(e->header->costs.base_ms[0] > 0);
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
    assert_int_equal(v.max_rows, 64);
    assert_int_equal(command(s, LS_CMD_SET, "max_rows=5\nnonsense=1", 2), LS_OK); // all or none
    for (int i = 0; i < 2; i++) {
        ls_event *e = await(s, &v, LS_EV_SETTING);
        assert_false(e->setting.in_force);
        assert_string_equal(e->setting.key, i ? "nonsense" : "max_rows");
        assert_string_equal(e->setting.value, i ? "1" : "5");
        ls_event_free(e);
    }
    v.state = LS_STATE_RUNNING;
    assert_int_equal(command(s, LS_CMD_STEP, NULL, 1), LS_OK);
    await_state(s, &v, LS_STATE_PAUSED);
    assert_int_equal(v.max_rows, 64);
    assert_int_equal(command(s, LS_CMD_SET, "max_rows=5", 0), LS_OK);
    ls_event *e = await(s, &v, LS_EV_SETTING);
    assert_true(e->setting.in_force);
    assert_string_equal(e->setting.key, "max_rows");
    assert_string_equal(e->setting.value, "5");
    ls_event_free(e);
    e = await(s, &v, LS_EV_MESSAGE);
    assert_false(e->message.is_error);
    ls_event_free(e);
    assert_int_equal(command(s, LS_CMD_SET, "nonsense", 0), LS_OK);
    e = await(s, &v, LS_EV_SETTING);
    assert_false(e->setting.in_force);
    assert_string_equal(e->setting.key, "nonsense");
    ls_event_free(e);
    e = await(s, &v, LS_EV_MESSAGE);
    assert_true(e->message.is_error);
    ls_event_free(e);
    assert_int_equal(command(s, LS_CMD_RUN, NULL, 0), LS_OK);
    await_state(s, &v, LS_STATE_RUNNING);
    ls_event_free(await(s, &v, LS_EV_STEP));
    assert_int_equal(v.max_rows, 5);
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

// A decoder that fails while a prompt already waits.
static void *fails(void *channel) {
    ls_channel *c = channel;
    const ls_command *q;
    while (!ls_channel_wants(c, LS_WANTS_ANY)) sched_yield();
    ls_channel_status(c, LS_STATE_FAILED, "failed", -1);
    ls_channel_take(c, &q, -1);
    ls_channel_take(c, &q, 0);
    ls_channel_message(c, true, "the end");
    return NULL;
}

static void a_failure_stays_when_a_prompt_waited(void **state) {
    (void)state;
    ls_channel *c = ls_calloc(1, sizeof *c);
    seen v = {0};
    assert_non_null(ls_channel_open(c, fails));
    assert_int_equal(command(&c->base, LS_CMD_PROMPT, "x", 0), LS_OK);
    ls_event_free(await(&c->base, &v, LS_EV_MESSAGE));
    assert_int_equal(v.state, LS_STATE_FAILED);
    c->base.close(&c->base);
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

// ---- saving and loading

static void say(ls_source *s, seen *v, const char *prompt, int edited) {
    assert_int_equal(command(s, edited < 0 ? LS_CMD_PROMPT : LS_CMD_EDIT, prompt, edited), LS_OK);
    ls_event_free(await(s, v, LS_EV_END));
    await_state(s, v, LS_STATE_IDLE);
}

// Sends the command and waits until it has been carried out; the error, or "".
static void does(ls_source *s, ls_command_kind kind, const char *path, char error[200]) {
    seen v = {0};
    *error = 0;
    assert_int_equal(command(s, kind, path, 0), LS_OK);
    for (bool over = false; !over;) {
        memset(v.known, 0, sizeof v.known); // a conversation that is loaded tells its tokens again
        ls_event *e = await(s, &v, LS_EV_MESSAGE);
        over = e->message.is_error || strstr(e->message.text, "saved ") || strstr(e->message.text, "loaded ");
        if (e->message.is_error) snprintf(error, 200, "%.199s", e->message.text);
        ls_event_free(e);
    }
    if (kind == LS_CMD_LOAD) await_state(s, &v, LS_STATE_IDLE);
}

static void must(ls_source *s, ls_command_kind kind, const char *path) {
    char error[200];
    does(s, kind, path, error);
    assert_string_equal(error, "");
}

// What a trace holds: of each turn its number, prompt, every token before the answer and the answer's.
static char *turns_in(const char *path) {
    ls_trace_reader *r;
    ls_trace_line line;
    ls_err err = {0};
    ls_buf out = {0};
    if (ls_trace_read_open(&r, path, &err)) fail_msg("%s", err.msg);
    while (!ls_trace_read_next(r, &line, &err) && line != LS_TRACE_NONE) {
        const ls_trace_header *h = ls_trace_read_header(r);
        const ls_step *t = ls_trace_read_step(r);
        if (line == LS_TRACE_HEADER) {
            ls_buf_fmt(&out, "\nturn %u '%s' after", h->turn, h->prompt_text.p);
            for (size_t i = 0; i < h->prompt.n; i++) ls_buf_fmt(&out, " %d", h->prompt.p[i]);
            ls_buf_str(&out, ":");
        }
        for (int i = 0; line == LS_TRACE_STEP && i < t->n_emitted; i++)
            ls_buf_fmt(&out, " %d", t->tree.nodes[t->path[i]].token);
        if (line == LS_TRACE_END) ls_buf_fmt(&out, " %s", ls_finish_name(ls_trace_read_finish(r)));
    }
    if (err.code) fail_msg("%s", err.msg);
    ls_trace_read_close(r);
    return out.p;
}

static void same_turns(const char *a, const char *b) {
    char *x = turns_in(a), *y = turns_in(b);
    assert_string_equal(x, y);
    free(x), free(y);
}

static ls_buf bytes_of(const char *path) {
    ls_buf b = {0};
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(ls_read_all(&b, f, path, 1 << 30, NULL), LS_OK);
    fclose(f);
    return b;
}

static void same_bytes(const char *a, const char *b) {
    ls_buf x = bytes_of(a), y = bytes_of(b);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    ls_buf_free(&x), ls_buf_free(&y);
}

// A copy of a trace that lacks the step before the last one.
static void without_a_step(const char *from, const char *to) {
    ls_buf all = bytes_of(from);
    char *step[2] = {NULL, NULL};
    for (char *p = all.p; (p = strstr(p, "{\"type\":\"step\"")); p++) step[0] = step[1], step[1] = p;
    assert_non_null(step[0]);
    FILE *f = fopen(to, "we");
    assert_non_null(f);
    fwrite(all.p, 1, (size_t)(step[0] - all.p), f);
    fputs(step[1], f);
    fclose(f);
    ls_buf_free(&all);
}

static const char *const said[] = {"Retrieval one", "two fish", "def three", "four more"};

// A conversation that was loaded is the conversation: what is said next and what is saved later hold all of it.
static void loaded_conversations_are_kept(void **state) {
    (void)state;
    char dir[] = "/tmp/logitspec-saved-XXXXXX", path[4][80], fifo[80], error[200];
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%d.jsonl%s", dir, i, i == 1 ? ".zst" : "");
    ls_source *s = open_source("script", NULL, 30);
    seen v = {0};
    does(s, LS_CMD_SAVE, path[0], error); // nothing was said yet
    assert_non_null(strstr(error, "no conversation to save"));
    for (int i = 0; i < 3; i++) say(s, &v, said[i], -1);
    must(s, LS_CMD_SAVE, path[0]);
    must(s, LS_CMD_SAVE, path[1]);
    same_turns(path[0], path[1]);
    say(s, &v, said[3], -1);
    must(s, LS_CMD_SAVE, path[2]); // all four, never interrupted
    s->close(s);
    for (int before = 0; before < 2; before++) // loaded into an empty session, and in place of another conversation
        for (int packed = 0; packed < 2; packed++) {
            s = open_source("script", NULL, 30);
            memset(&v, 0, sizeof v);
            if (before) say(s, &v, "something else", -1), say(s, &v, "and more of it", -1);
            must(s, LS_CMD_LOAD, path[packed]);
            must(s, LS_CMD_SAVE, path[3]); // as it was
            same_bytes(path[0], path[3]);
            memset(&v, 0, sizeof v);
            say(s, &v, said[3], -1);
            must(s, LS_CMD_SAVE, path[3]);
            same_turns(path[2], path[3]);
            does(s, LS_CMD_LOAD, dir, error); // what cannot be loaded takes nothing away
            assert_true(*error);
            without_a_step(path[0], path[3]);
            does(s, LS_CMD_LOAD, path[3], error);
            assert_non_null(strstr(error, "the last answer lacks steps"));
            does(s, LS_CMD_SAVE, fifo, error); // nobody reads it: that is no reason to wait
            assert_non_null(strstr(error, "no program reads this pipe"));
            assert_int_equal(command(s, LS_CMD_LOAD, fifo, 0), LS_OK);
            await_state(s, &v, LS_STATE_PREFILL);
            assert_int_equal(command(s, LS_CMD_STOP, NULL, 0), LS_OK); // nobody writes to it
            await_state(s, &v, LS_STATE_IDLE);
            say(s, &v, "no", 1); // an answer is given anew, and what came after it is gone
            must(s, LS_CMD_SAVE, path[3]);
            char *turns = turns_in(path[3]);
            assert_non_null(strstr(turns, "turn 0 'Retrieval one'"));
            assert_non_null(strstr(turns, "turn 1 'no'"));
            assert_null(strstr(turns, "turn 2"));
            assert_null(strstr(turns, "two fish"));
            free(turns);
            assert_int_equal(command(s, LS_CMD_RESET, NULL, 0), LS_OK);
            does(s, LS_CMD_SAVE, path[3], error);
            assert_non_null(strstr(error, "no conversation to save"));
            assert_int_equal(command(s, LS_CMD_LOAD, fifo, 0), LS_OK);
            s->close(s); // does not wait for it
        }
    unlink(fifo);
    for (int i = 0; i < 4; i++) unlink(path[i]);
    rmdir(dir);
}

// Answers that are given anew do not pile up in what is saved; in a recording they do, and its last state is loaded.
// An answer that was cut and went on is the one that was not cut: on the screen's side, in what is recorded, in what is
// saved before, between and after, and for the turns that follow.
static void a_cut_answer_goes_on(void **state) {
    (void)state;
    char dir[] = "/tmp/logitspec-goes-on-XXXXXX", path[6][80];
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 6; i++) snprintf(path[i], sizeof path[i], "%s/%d.jsonl", dir, i);
    for (int parts = 1; parts <= 3; parts += 2) {
        ls_source *s = open_source("script", path[parts == 1 ? 0 : 1], 60 / parts);
        seen v = {0};
        assert_int_equal(command(s, LS_CMD_GO_ON, NULL, 0), LS_OK);
        ls_event *e = await(s, &v, LS_EV_MESSAGE);
        assert_true(e->message.is_error && strstr(e->message.text, "no answer was cut"));
        ls_event_free(e);
        for (int turn = 0; turn < 2; turn++) {
            say(s, &v, said[turn], -1);
            for (int part = 1; part < parts; part++) {
                if (part == 1) must(s, LS_CMD_SAVE, path[4]);
                assert_int_equal(command(s, LS_CMD_GO_ON, NULL, 0), LS_OK);
                e = await(s, &v, LS_EV_END);
                assert_int_equal(e->end.turn, turn);
                ls_event_free(e);
                await_state(s, &v, LS_STATE_IDLE);
            }
        }
        must(s, LS_CMD_SAVE, path[parts == 1 ? 2 : 3]);
        s->close(s);
    }
    same_turns(path[0], path[1]);
    same_turns(path[0], path[2]);
    same_turns(path[0], path[3]);
    ls_source *s = open_source("script", NULL, 60); // what was saved in between is whole, too
    must(s, LS_CMD_LOAD, path[4]);
    must(s, LS_CMD_SAVE, path[5]);
    same_turns(path[4], path[5]);
    must(s, LS_CMD_LOAD, path[3]);
    must(s, LS_CMD_SAVE, path[5]);
    same_turns(path[0], path[5]);
    s->close(s);
    s = open_source("script", path[1], 20); // it goes on in another run as well, whose trace has what it began
    must(s, LS_CMD_LOAD, path[4]);
    seen v = {0};
    for (int part = 1; part < 3; part++) {
        assert_int_equal(command(s, LS_CMD_GO_ON, NULL, 0), LS_OK);
        ls_event_free(await(s, &v, LS_EV_END));
        await_state(s, &v, LS_STATE_IDLE);
    }
    must(s, LS_CMD_SAVE, path[5]);
    same_turns(path[0], path[5]);
    say(s, &v, said[2], -1);
    must(s, LS_CMD_SAVE, path[5]);
    s->close(s);
    char *all = turns_in(path[5]), *recorded = turns_in(path[1]);
    assert_string_equal(strstr(all, "\nturn 2"), recorded);
    free(all), free(recorded);
    s = open_source("script", NULL, 20);
    v = (seen){0};
    // it goes on, and is stopped before a step: it has ended once
    say(s, &v, said[0], -1);
    assert_int_equal(command(s, LS_CMD_PAUSE, NULL, 0), LS_OK);
    assert_int_equal(command(s, LS_CMD_GO_ON, NULL, 0), LS_OK);
    await_state(s, &v, LS_STATE_PAUSED);
    assert_int_equal(command(s, LS_CMD_STOP, NULL, 0), LS_OK);
    await_state(s, &v, LS_STATE_IDLE);
    must(s, LS_CMD_SAVE, path[5]);
    ls_trace_reader *r;
    ls_trace_line line;
    int turns = 0, ends = 0;
    assert_int_equal(ls_trace_read_open(&r, path[5], NULL), LS_OK);
    while (!ls_trace_read_next(r, &line, NULL) && line != LS_TRACE_NONE)
        turns += line == LS_TRACE_HEADER, ends += line == LS_TRACE_END;
    assert_int_equal(ends, turns);
    ls_trace_read_close(r);
    s->close(s);
    for (int i = 0; i < 6; i++) unlink(path[i]);
    rmdir(dir);
}

static void edited_turns_are_replaced(void **state) {
    (void)state;
    char dir[] = "/tmp/logitspec-edited-XXXXXX", trace[80], saved[80], again[80];
    assert_non_null(mkdtemp(dir));
    snprintf(trace, sizeof trace, "%s/trace.jsonl", dir);
    snprintf(saved, sizeof saved, "%s/saved.jsonl", dir);
    snprintf(again, sizeof again, "%s/again.jsonl", dir);
    ls_source *s = open_source("script", trace, 20);
    seen v = {0};
    for (int i = 0; i < 3; i++) say(s, &v, said[i], -1);
    must(s, LS_CMD_SAVE, saved);
    ls_buf once = bytes_of(saved);
    for (int i = 0; i < 20; i++) say(s, &v, said[2], 2); // as r does
    for (int i = 0; i < 3; i++) say(s, &v, said[1], 1), say(s, &v, said[2], -1);
    must(s, LS_CMD_SAVE, saved);
    ls_buf many = bytes_of(saved);
    assert_true(many.n < once.n * 11 / 10 + 2000);
    say(s, &v, said[3], -1);
    must(s, LS_CMD_SAVE, saved);
    s->close(s);
    s = open_source("script", trace, 20); // the recording is only emptied when there is something to record
    must(s, LS_CMD_LOAD, trace);
    must(s, LS_CMD_SAVE, again);
    same_turns(saved, again);
    s->close(s);
    ls_buf_free(&once), ls_buf_free(&many);
    unlink(trace), unlink(saved), unlink(again);
    rmdir(dir);
}

// A recording that began later than its conversation: what came before is part of its first prompt.
static void a_recording_may_begin_late(void **state) {
    (void)state;
    char dir[] = "/tmp/logitspec-late-XXXXXX", saved[80], trace[80], whole[80], last[80];
    assert_non_null(mkdtemp(dir));
    snprintf(saved, sizeof saved, "%s/saved.jsonl", dir);
    snprintf(trace, sizeof trace, "%s/trace.jsonl", dir);
    snprintf(whole, sizeof whole, "%s/whole.jsonl", dir);
    snprintf(last, sizeof last, "%s/last.jsonl", dir);
    seen v = {0};
    ls_source *s = open_source("script", NULL, 20);
    for (int i = 0; i < 2; i++) say(s, &v, said[i], -1);
    must(s, LS_CMD_SAVE, saved);
    for (int i = 2; i < 4; i++) say(s, &v, said[i], -1);
    must(s, LS_CMD_SAVE, whole);
    s->close(s);
    s = open_source("script", trace, 20);
    must(s, LS_CMD_LOAD, saved);
    memset(&v, 0, sizeof v);
    say(s, &v, said[2], -1);
    s->close(s);
    s = open_source("script", NULL, 20);
    must(s, LS_CMD_LOAD, trace); // one turn, number 2
    memset(&v, 0, sizeof v);
    say(s, &v, said[3], -1);
    must(s, LS_CMD_SAVE, last);
    s->close(s);
    char *all = turns_in(whole), *end = turns_in(last);
    assert_string_equal(strstr(all, "\nturn 2"), end);
    free(all), free(end);
    unlink(saved), unlink(trace), unlink(whole), unlink(last);
    rmdir(dir);
}

// ---- what if

// The tokens of a rival, from its beginning to its end.
static ls_ids rival_text(ls_source *s, seen *v, int32_t at, int32_t n_ids) {
    ls_ids text = {0};
    for (bool over = false; !over;) {
        ls_event *e = await(s, v, LS_EV_RIVAL);
        if (e->rival.what == LS_RIVAL_BEGINS) {
            assert_int_equal(e->rival.at, at);
            assert_int_equal(e->rival.n_ids, n_ids);
        } else if (e->rival.what == LS_RIVAL_STEP) {
            const ls_step *step = e->rival.step;
            for (int i = 0; i < step->n_emitted; i++) ls_ids_push(&text, step->tree.nodes[step->path[i]].token);
        } else over = true;
        ls_event_free(e);
    }
    return text;
}

static ls_ids answer_of(const char *trace, uint32_t turn, int32_t *begun) {
    ls_trace_reader *r;
    ls_trace_line line;
    ls_ids text = {0};
    assert_int_equal(ls_trace_read_open(&r, trace, NULL), LS_OK);
    while (!ls_trace_read_next(r, &line, NULL) && line != LS_TRACE_NONE) {
        const ls_trace_header *h = ls_trace_read_header(r);
        const ls_step *t = ls_trace_read_step(r);
        if (h->turn != turn) continue;
        if (line == LS_TRACE_HEADER) {
            text.n = 0;
            *begun = h->begun;
            if (h->begun > 0) ls_ids_add(&text, h->prompt.p + h->prompt.n - h->begun, (size_t)h->begun);
        }
        for (int i = 0; line == LS_TRACE_STEP && i < t->n_emitted; i++)
            ls_ids_push(&text, t->tree.nodes[t->path[i]].token);
    }
    ls_trace_read_close(r);
    return text;
}

// A fork leaves the conversation as it is; kept, it writes the same text once more, as the answer. What follows goes on
// from there, also after a save and a load.
static void another_way_on_can_be_kept(void **state) {
    (void)state;
    char path[64], error[200];
    snprintf(path, sizeof path, "/tmp/logitspec-whatif-%d.jsonl", (int)getpid());
    ls_source *s = open_source("script", NULL, 30);
    seen v = {0};
    int32_t begun;
    does(s, LS_CMD_FORK, "1 2", error); // nothing has been answered
    assert_non_null(strstr(error, "no answer to branch from yet"));
    say(s, &v, "One fish, two fish", -1);
    must(s, LS_CMD_SAVE, path);
    const ls_ids before = answer_of(path, 0, &begun);
    assert_int_equal(before.n, 30);
    assert_int_equal(begun, -1);
    static const char *const bad[] = {"", "258", "-1", "1 x", "nonsense"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        does(s, LS_CMD_FORK, bad[i], error);
        assert_non_null(strstr(error, "the position does not exist"));
    }
    assert_int_equal(command(s, LS_CMD_FORK, "65 \nBC", 7), LS_OK); // tokens of this model are bytes
    command(s, LS_CMD_FORK, "70", 1);                               // at once: it is refused now or when it is its turn
    ls_ids fork = rival_text(s, &v, 7, 3);
    assert_int_equal(fork.n, 30);
    await_state(s, &v, LS_STATE_IDLE);
    must(s, LS_CMD_SAVE, path); // the conversation is as it was
    ls_ids still = answer_of(path, 0, &begun);
    assert_true(still.n == before.n && !memcmp(still.p, before.p, before.n * sizeof *before.p));
    does(s, LS_CMD_KEEP, "nonsense", error);
    assert_non_null(strstr(error, "the position does not exist"));
    assert_int_equal(command(s, LS_CMD_KEEP, "65 66 67", 7), LS_OK);
    ls_event *e = await(s, &v, LS_EV_PROMPT);
    assert_int_equal(e->prompt.n_begun, 7 + 3);
    ls_event_free(e);
    ls_event_free(await(s, &v, LS_EV_END));
    await_state(s, &v, LS_STATE_IDLE);
    must(s, LS_CMD_SAVE, path);
    ls_ids kept = answer_of(path, 0, &begun);
    assert_int_equal(begun, 7 + 3);
    assert_int_equal(kept.n, 7 + 3 + 30);
    assert_memory_equal(kept.p, before.p, 7 * sizeof *before.p);
    assert_true(kept.p[7] == 65 && kept.p[8] == 'B' && kept.p[9] == 'C');
    assert_memory_equal(kept.p + 10, fork.p, 30 * sizeof *fork.p);
    // a fork of the kept answer begins as that does
    assert_int_equal(command(s, LS_CMD_FORK, "90", 4), LS_OK);
    ls_ids again = rival_text(s, &v, 4, 1);
    assert_int_equal(again.n, 30);
    await_state(s, &v, LS_STATE_IDLE);
    // the next turn, here and in another run that loads the conversation
    say(s, &v, "Red fish", -1);
    char second[80];
    snprintf(second, sizeof second, "%s.second", path);
    must(s, LS_CMD_SAVE, second);
    s->close(s);
    s = open_source("script", NULL, 30);
    must(s, LS_CMD_LOAD, path);
    v = (seen){0};
    say(s, &v, "Red fish", -1);
    must(s, LS_CMD_SAVE, path);
    same_turns(path, second);
    s->close(s);
    unlink(path);
    unlink(second);
    ls_ids *all[] = {&fork, &still, &kept, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ls_ids_free(all[i]);
    free(before.p);
}

// What ends a what-if and then fails ends as well: the screen must not wait for it.
static void a_refusal_during_a_what_if_ends(void **state) {
    (void)state;
    static const struct {
        ls_command_kind kind;
        const char *text;
        int n;
        const char *error;
    } cases[] = {{LS_CMD_LOAD, "/nowhere/x.jsonl", 0, "/nowhere/x.jsonl"},
                 {LS_CMD_EDIT, "x", 7, "there is no such turn"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_source *s = open_source("script", NULL, 2000);
        seen v = {0};
        say(s, &v, "One fish, two fish", -1);
        assert_int_equal(command(s, LS_CMD_FORK, "65", 0), LS_OK);
        ls_event_free(await(s, &v, LS_EV_RIVAL));
        assert_int_equal(command(s, cases[i].kind, cases[i].text, cases[i].n), LS_OK);
        ls_event *e = await(s, &v, LS_EV_MESSAGE);
        assert_true(e->message.is_error && strstr(e->message.text, cases[i].error));
        ls_event_free(e);
        await_state(s, &v, LS_STATE_IDLE);
        s->close(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_conversation),
                                       cmocka_unit_test(pause_step_set_stop),
                                       cmocka_unit_test(failures_arrive_as_events),
                                       cmocka_unit_test(a_failure_stays_when_a_prompt_waited),
                                       cmocka_unit_test(closing_at_any_moment),
                                       cmocka_unit_test(loaded_conversations_are_kept),
                                       cmocka_unit_test(a_cut_answer_goes_on),
                                       cmocka_unit_test(edited_turns_are_replaced),
                                       cmocka_unit_test(a_recording_may_begin_late),
                                       cmocka_unit_test(a_refusal_during_a_what_if_ends),
                                       cmocka_unit_test(another_way_on_can_be_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
