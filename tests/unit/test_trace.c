// Traces: what was written is read back, what is wrong is named; simulations on recorded outputs.
#include "base/buf.h"
#include "base/mem.h"
#include "drafters.h"
#include "recorded.h"
#include "decode/session.h"
#include "decode/simulate.h"
#include "source/sources.h"
#include "trace/trace.h"
#include "trace/trace_events.h"
#include "ui/render.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static bool same_float(float a, float b) {
    return (isnan(a) && isnan(b)) || fabsf(a - b) <= 1e-5f * fabsf(a) + 1e-12f;
}

static void what_a_probe_judged_is_read_back(void **state) {
    (void)state;
    ls_decode_options o = options("logitspec-paper", 12, 90);
    assert_int_equal(ls_accept_read(&o.accept, "", "reflective:1", NULL), LS_OK);
    o.sampling = (lst_sampling){.temperature = 0.8, .top_p = 1, .seed = 3};
    for (level = LS_LEVEL_STEPS; level <= LS_LEVEL_FULL; level++) {
        record("One fish, two fish", o, 1);
        ls_trace_reader *r;
        ls_trace_line line;
        int at = 0, changed = 0;
        assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
        while (!ls_trace_read_next(r, &line, NULL) && line != LS_TRACE_NONE) {
            if (line != LS_TRACE_STEP) continue;
            const ls_step *got = ls_trace_read_step(r), *want = steps[at++];
            assert_int_equal(got->probes, want->probes);
            assert_int_equal(got->rows, want->rows);
            assert_int_equal(ls_step_lossy(got, NULL), ls_step_lossy(want, NULL));
            for (int i = 0; i < got->tree.n; i++) {
                const int row = level > LS_LEVEL_STEPS ? i : want->path[i];
                assert_int_equal(got->tree.nodes[i].own, want->tree.nodes[row].own);
                changed += ls_node_own(&got->tree.nodes[i]) != got->tree.nodes[i].target;
            }
        }
        assert_int_equal(at, n_steps);
        assert_true(changed > 0);
        ls_trace_read_close(r);
    }
    level = LS_LEVEL_FULL;
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    static const char *const methods[] = {"plain", "logitspec", "logitspec-paper", "suffix", "lookahead", "pld"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        record("def fib(n):\n", options(methods[m], 0, 90), 2);
        ls_trace_reader *r;
        ls_trace_line line;
        ls_err err = {0};
        int at = 0, headers = 0, ends = 0;
        assert_int_equal(ls_trace_read_open(&r, path, &err), LS_OK);
        for (;;) {
            if (ls_trace_read_next(r, &line, &err)) fail_msg("%s", err.msg);
            if (line == LS_TRACE_NONE) break;
            if (line == LS_TRACE_HEADER) {
                const ls_trace_header *h = ls_trace_read_header(r);
                assert_string_equal(h->run.method, methods[m]);
                assert_string_equal(h->acceptance, "exact");
                assert_int_equal(h->turn, headers);
                assert_int_equal(h->run.n_vocab, model.engine->n_vocab);
                assert_true(h->run.tokenizer_id == ls_vocab_id(model.vocab));
                assert_string_equal(h->prompt_text.p, "def fib(n):\n");
                if (!headers) assert_int_equal(h->prompt.n, 12);
                else assert_true(h->prompt.n > 100);
                assert_true(h->run.costs.base_ms[0] > 0 && h->run.costs.base_ms[LS_COST_SIZES - 1] > 0);
                headers++;
            }
            ends += line == LS_TRACE_END;
            if (line != LS_TRACE_STEP) continue;
            const ls_step *got = ls_trace_read_step(r), *want = steps[at++];
            assert_int_equal(got->context_len, want->context_len);
            assert_int_equal(got->output_pos, want->output_pos);
            assert_int_equal(got->turn, want->turn);
            assert_int_equal(got->index, want->index);
            assert_int_equal(got->asked_rows, want->asked_rows);
            assert_int_equal(got->forward, want->forward);
            assert_int_equal(got->corrected, want->corrected);
            assert_int_equal(got->exact, want->exact);
            assert_int_equal(got->finish, want->finish);
            assert_int_equal(got->n_top, want->n_top);
            assert_int_equal(got->tree.n, want->tree.n);
            assert_int_equal(got->tree.n_branches, want->tree.n_branches);
            assert_int_equal(got->n_path, want->n_path);
            assert_int_equal(got->n_emitted, want->n_emitted);
            assert_memory_equal(got->path, want->path, (size_t)want->n_path * sizeof *want->path);
            assert_true(fabs(got->t_total_us - want->t_total_us) <= 1e-4 * want->t_total_us);
            for (int i = 0; i < want->n_top; i++) {
                assert_int_equal(got->top[i].id, want->top[i].id);
                assert_true(same_float(got->top[i].logit, want->top[i].logit));
            }
            for (int i = 0; i < want->tree.n_branches; i++)
                assert_memory_equal(&got->tree.branches[i], &want->tree.branches[i], sizeof(ls_branch));
            for (int i = 0; i < want->tree.n; i++) {
                const ls_node *a = &got->tree.nodes[i], *b = &want->tree.nodes[i];
                assert_int_equal(a->token, b->token);
                assert_int_equal(a->parent, b->parent);
                assert_int_equal(a->depth, b->depth);
                assert_int_equal(a->branch, b->branch);
                assert_int_equal(a->from, b->from);
                assert_int_equal(a->state, b->state);
                assert_int_equal(a->match_pos, b->match_pos);
                assert_int_equal(a->target, b->target);
                assert_true(same_float(a->p, b->p) && same_float(a->est_p, b->est_p) &&
                            same_float(a->entropy, b->entropy));
                for (int k = 0; k < LS_ROW_TOP; k++) assert_int_equal(a->top[k].id, b->top[k].id);
            }
        }
        assert_int_equal(at, n_steps);
        assert_int_equal(headers, 2);
        assert_int_equal(ends, 2);
        ls_trace_gaps gaps = {0};
        ls_trace_read_gaps(r, &gaps);
        assert_int_equal(gaps.torn, 0);
        ls_trace_read_close(r);
    }
}

static void a_cut_file_is_read_to_its_last_whole_line(void **state) {
    (void)state;
    record("One fish, two", options("logitspec", 9, 30), 1);
    ls_buf whole = slurp();
    const size_t header = (size_t)(strchr(whole.p, '\n') - whole.p);
    for (size_t cut = header + 1; cut < whole.n; cut += 97) {
        ls_code code;
        bool torn;
        ls_err err;
        spill(whole.p, cut);
        read_all(&code, &torn, &err);
        if (code) fail_msg("cut at %zu: %s", cut, err.msg);
        // a line that is whole but for its end is read; any other is torn
        if (whole.p[cut - 1] != '\n' && whole.p[cut] != '\n') assert_true(torn);
    }
    ls_buf_free(&whole);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    record("One fish, two", options("logitspec-paper", 9, 30), 1);
    ls_buf whole = slurp();
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"version\":1", "\"version\":2", ":1: trace version 2 is not supported; this program reads version 1"},
        {"logitspec-trace", "logitspec-tract", ":1: format is not logitspec-trace"},
        {"\"type\":\"header\"", "\"type\":\"footer\"", ":1: a 'footer' line before any header: not a logitspec trace"},
        {"\"depth\":0", "\"depth\":1", "depth is not the parent's depth plus 1"},
        {"\"depth\":1", "\"depth\":7", "depth is not the parent's depth plus 1"},
        {"\"parent\":-1", "\"parent\":00", "not JSON"},
        {"\"parent\":-1", "\"parent\":99", "parent is not a whole number from -1 to -1"},
        {"\"source\":\"root\"", "\"source\":\"boot\"", "source is not a known name"},
        {"\"forward\":true", "\"forward\":null", "forward is not true or false"},
        {"\"emitted\":[", "\"emitted\":[7,", "emitted is not"},
        {"\"path\":[0", "\"path\":[1", "path is not a path from the root"},
        {"\"path\":[0", "\"path\":\"0", "not JSON"},
        {"\"us\":{\"draft\"", "\"us\":{\"shaft\"", "draft is not a number"},
        {"\"prompt_ids\":[", "\"prompt_ids\":[-5,", "prompt_ids is not a list of ids or rows in range"},
        {"\"token\":", "\"token\":99999", "token is not a whole number from 0 to"},
        {"\"rows\":[1,", "\"rows\":[0,", "rows is not a list of ids or rows in range"},
        {"\"seed\":0", "\"seed\":-1", "seed is not a whole number"},
        {"\"type\":\"header\"", "\"type\":\"\\u001b[2J\"",
         ":1: a '\x1b[2J' line before any header"}, // who shows the message shows signs
        {"{\"type\":\"header\"", "{\x1b[2J", "not JSON: string or '}' expected near '\x1b'"},
        {"\"level\":\"full\"", "\"level\":\"half\"", "level is not a known name"},
        {"\"state\":\"accepted\"", "\"state\":\"rejected\"", "state is not consistent with the path"},
        {"\"context\":", "\"context\":99999999", "context is not a whole number from 1 to 16777216"},
        {"\"branch\":0", "\"branch\":-1", "branch is not a whole number from 0 to"},
        {"\"context_len\":", "\"context_len\":9999999", "context_len is not a whole number from 0 to"},
        {"\"output_pos\":", "\"output_pos\":214748364", "output_pos is not a whole number from 0 to"},
        {"\"rows\":9", "\"rows\":8", "nodes is not a tree of `rows` rows"},
        {"\"commit\":", "\"commit\":1e308,\"x\":", "commit is not a time"},
        {"\"total\":", "\"total\":-1,\"x\":", "total is not a time"},
        {"\"ar_us\":", "\"ar_us\":1e-300,\"x\":", "ar_us is not a time"},
        {"\"prefill_ms\":", "\"prefill_ms\":1e300,\"x\":", "prefill_ms is not a time"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(whole.p, cases[i].from);
        if (!at) fail_msg("no %s in the trace", cases[i].from);
        ls_buf text = {0};
        ls_buf_add(&text, whole.p, (size_t)(at - whole.p));
        ls_buf_str(&text, cases[i].to);
        ls_buf_str(&text, at + strlen(cases[i].from));
        spill(text.p, text.n);
        ls_code code;
        bool torn;
        ls_err err;
        read_all(&code, &torn, &err);
        if (!code || !strstr(err.msg, cases[i].message)) fail_msg("%s: '%s'", cases[i].to, err.msg);
        assert_true(strstr(err.msg, path) == err.msg); // the file first
        ls_buf_free(&text);
    }
    ls_buf_free(&whole);
    ls_code code;
    bool torn;
    ls_err err;
    spill("", 0);
    read_all(&code, &torn, &err);
    assert_non_null(strstr(err.msg, "not a trace: it has no complete line"));
    spill("hello\n", 6);
    read_all(&code, &torn, &err);
    assert_int_equal(code, LS_E_PARSE);
    spill("[1]\n", 4);
    read_all(&code, &torn, &err);
    assert_int_equal(code, LS_E_PARSE);
}

// Bytes changed at random: an error or a trace, never a crash.
static void damaged_files_are_survived(void **state) {
    (void)state;
    record("One fish, two", options("logitspec", 9, 12), 1);
    ls_buf whole = slurp();
    for (unsigned i = 0; i < 1500; i++) {
        ls_buf text = {0};
        ls_buf_add(&text, whole.p, whole.n);
        for (unsigned k = 0; k <= i % 3; k++) {
            static const char bytes[] = "0123456789-[]{},:\"ae.\n";
            text.p[(i * 7919u + k * 104729u) % text.n] = bytes[(i * 31u + k) % (sizeof bytes - 1)];
        }
        spill(text.p, text.n);
        ls_code code;
        bool torn;
        ls_err err;
        read_all(&code, &torn, &err);
        ls_buf_free(&text);
    }
    ls_buf_free(&whole);
}

// ---- replay

static void frame(ui_state *s, ls_buf *out) {
    ui_canvas c = {.utf8 = true};
    ui_canvas_resize(&c, 36, 120);
    ui_render(s, &c);
    ls_buf_clear(out);
    ui_canvas_text(&c, false, out);
    ui_canvas_text(&c, true, out);
    ui_canvas_free(&c);
}

// The screen shows a recorded step as it showed the step itself, to the last cell.
static void a_replay_draws_what_the_run_drew(void **state) {
    (void)state;
    static const char *const methods[] = {"logitspec", "logitspec-paper", "suffix", "lookahead", "recycle"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        record("def fib(n):\n", options(methods[m], 0, 60), 2);
        ls_trace_events *t;
        ls_event *e;
        ls_err err;
        ui_state replayed, lived;
        ls_buf a = {0}, b = {0};
        int at = 0;
        ui_state_init(&replayed);
        ui_state_init(&lived);
        assert_int_equal(ls_trace_events_open(&t, path, &err), LS_OK);
        while (!ls_trace_events_next(t, &e, &err) && e) ui_on_event(&replayed, e);
        ls_trace_events_close(t);
        // everything else comes from the trace for the other screen too, but the steps are the session's own
        assert_int_equal(ls_trace_events_open(&t, path, &err), LS_OK);
        while (!ls_trace_events_next(t, &e, &err) && e) {
            if (e->kind == LS_EV_STEP) {
                ls_event_free(e);
                e = ls_event_new(LS_EV_STEP);
                e->step = ls_step_share(steps[at++]);
            }
            ui_on_event(&lived, e);
        }
        ls_trace_events_close(t);
        assert_int_equal(at, n_steps);
        assert_int_equal(replayed.run.conversation->n_turns, 2);
        assert_int_equal(replayed.run.n_steps, (size_t)n_steps);
        replayed.view.at_newest = lived.view.at_newest = false;
        for (size_t i = 0; i < replayed.run.n_steps; i++) {
            replayed.view.step = lived.view.step = i;
            frame(&replayed, &a);
            frame(&lived, &b);
            if (strcmp(a.p, b.p)) {
                size_t at_byte = 0;
                while (a.p[at_byte] == b.p[at_byte]) at_byte++;
                fail_msg("%s, step %zu: ...%.60s | ...%.60s", methods[m], i, a.p + (at_byte > 20 ? at_byte - 20 : 0),
                         b.p + (at_byte > 20 ? at_byte - 20 : 0));
            }
        }
        ls_buf_free(&a), ls_buf_free(&b);
        ui_state_free(&replayed);
        ui_state_free(&lived);
    }
}

static ls_event *wait_event(ls_source *s) {
    for (int i = 0; i < 100000; i++) {
        ls_event *e = s->next(s);
        if (e) return e;
        usleep(500);
    }
    fail_msg("no event came");
    return NULL;
}

static ls_event_kind skip_to(ls_source *s, ls_event_kind kind, ls_run_state run_state) {
    for (;;) {
        ls_event *e = wait_event(s);
        const ls_event_kind got = e->kind;
        const bool there = got == kind && (kind != LS_EV_STATUS || e->status.state == run_state);
        ls_event_free(e);
        if (there) return got;
    }
}

static void nothing_is_shown(ls_source *s) { // tokens of the next step may come
    usleep(20000);
    for (ls_event *e; (e = s->next(s)); ls_event_free(e)) assert_int_equal(e->kind, LS_EV_TOKENS);
}

static void a_replay_obeys(void **state) {
    (void)state;
    record("One fish, two", options("logitspec", 0, 40), 1);
    ls_err err;
    assert_null(ls_source_replay(&(ls_replay_options){.path = "/nowhere"}, &err));
    ls_source *s = ls_source_replay(&(ls_replay_options){.path = path, .paused = true}, &err);
    assert_non_null(s);
    skip_to(s, LS_EV_HEADER, 0);
    skip_to(s, LS_EV_STATUS, LS_STATE_PAUSED); // it waits before the first step
    nothing_is_shown(s);
    for (int i = 0; i < 3; i++) // faster than it can draw: none is lost
        assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_STEP, .n = 1 + (i == 2)}, &err), LS_OK);
    for (int i = 0; i < 4; i++) skip_to(s, LS_EV_STEP, 0);
    skip_to(s, LS_EV_STATUS, LS_STATE_PAUSED);
    nothing_is_shown(s);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_PROMPT, .text = "x"}, &err), LS_E_UNSUPPORTED);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_SET, .text = "decode.max_rows=3"}, &err), LS_OK);
    skip_to(s, LS_EV_MESSAGE, 0);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_RUN}, &err), LS_OK);
    skip_to(s, LS_EV_END, 0);
    skip_to(s, LS_EV_STATUS, LS_STATE_IDLE);
    assert_int_equal(s->command(s, &(ls_command){.kind = LS_CMD_RESET}, &err), LS_OK); // once more
    skip_to(s, LS_EV_HEADER, 0);
    skip_to(s, LS_EV_END, 0);
    s->close(s);
    ls_buf whole = slurp();
    spill(whole.p, whole.n - 30); // cut short: the steps before it, and a line about it
    ls_buf_free(&whole);
    s = ls_source_replay(&(ls_replay_options){.path = path}, &err);
    skip_to(s, LS_EV_STEP, 0);
    skip_to(s, LS_EV_MESSAGE, 0);
    skip_to(s, LS_EV_STATUS, LS_STATE_IDLE);
    s->close(s);
}

// ---- simulation

static ls_recording *recording_of_steps(void) { // of a single turn
    ls_ids prompt = {0};
    ls_trace_reader *r;
    ls_trace_line line;
    assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
    assert_int_equal(ls_trace_read_next(r, &line, NULL), LS_OK);
    ls_ids_add(&prompt, ls_trace_read_header(r)->prompt.p, ls_trace_read_header(r)->prompt.n);
    ls_trace_read_close(r);
    ls_recording *out = ls_recording_new(prompt.p, prompt.n, model.engine->n_context);
    for (int i = 0; i < n_steps; i++) ls_recording_add(out, steps[i]);
    ls_ids_free(&prompt);
    return out;
}

static ls_simulated simulate(const ls_recording *r, ls_decode_options o) {
    ls_simulator *s;
    ls_err err = {0};
    ls_cost_curve costs = {0};
    ls_simulated total = {0};
    for (int i = 0; i < LS_COST_SIZES; i++) costs.base_ms[i] = 2 + 0.1 * ls_cost_rows[i];
    const ls_eos_set ends = ls_vocab_ends(model.vocab);
    const ls_draft_setup place = {.tokenizer = "script",
                                  .n_vocab = model.engine->n_vocab,
                                  .tokenizer_id = ls_vocab_id(model.vocab),
                                  .ends = &ends};
    if (!strcmp(o.method, "rest") || !strcmp(o.method, "racer"))
        o.knobs = test_knobs(place.n_vocab, place.tokenizer_id);
    if (ls_simulator_new(&s, &o, &place, &costs, &err)) fail_msg("%s", err.msg);
    ls_simulate(s, r, &total);
    ls_simulator_free(s);
    return total;
}

// The text repeats an answer with its end and what came behind it: a draft may copy the end, but nothing behind it.
static void nothing_is_drafted_behind_an_end(void **state) {
    (void)state;
    int ends = 0;
    for (const ls_method *const *m = ls_methods; *m; m++)
        for (int32_t max_rows = 9; max_rows <= 40 && !(*m)->asks_model; max_rows += 31) {
            ls_decode_options o = options((*m)->name, max_rows, 40);
            if (!strcmp(o.method, "rest") || !strcmp(o.method, "racer"))
                o.knobs = test_knobs(model.engine->n_vocab, ls_vocab_id(model.vocab));
            record("The end of the story.<|im_end|>\n<|im_start|>user\nMore<|im_end|>\nThe end of the sto", o, 1);
            for (int i = 0; i < n_steps; i++)
                for (int k = 1; k < steps[i]->tree.n; k++) {
                    const ls_node *n = &steps[i]->tree.nodes[k];
                    ends += ls_vocab_is_end(model.vocab, n->token);
                    assert_false(ls_vocab_is_end(model.vocab, steps[i]->tree.nodes[n->parent].token));
                }
        }
    assert_true(ends > 10);
}

// Every method, simulated on its own trace, does what it did: the same steps, the same trees.
static void simulating_a_method_on_its_own_trace_repeats_it(void **state) {
    (void)state;
    for (const ls_method *const *m = ls_methods; *m; m++)
        for (int32_t max_rows = 9; max_rows <= 40 && !(*m)->asks_model; max_rows += 31) {
            ls_decode_options o = options((*m)->name, max_rows, 150);
            if (!strcmp(o.method, "rest") || !strcmp(o.method, "racer"))
                o.knobs = test_knobs(model.engine->n_vocab, ls_vocab_id(model.vocab));
            record("for i in range(10):\n", o, 1);
            ls_recording *r = recording_of_steps();
            const ls_simulated t = simulate(r, o);
            uint64_t emitted = 0, drafted = 0, forwards = 0, by_emitted[LS_MAX_ROWS + 1] = {0};
            for (int i = 0; i < n_steps; i++) {
                emitted += (uint64_t)steps[i]->n_emitted;
                forwards += steps[i]->forward;
                drafted += steps[i]->forward ? (uint64_t)(steps[i]->tree.n - 1) : 0;
                by_emitted[steps[i]->n_emitted]++;
            }
            if (t.steps != (uint64_t)n_steps || t.drafted != drafted)
                fail_msg("%s:%d: %d steps, %llu drafted; simulated %llu, %llu", o.method, max_rows, n_steps,
                         (unsigned long long)drafted, (unsigned long long)t.steps, (unsigned long long)t.drafted);
            assert_int_equal(t.emitted, emitted);
            assert_int_equal(t.forwards, forwards);
            assert_int_equal(t.rows_known, t.rows);
            assert_memory_equal(t.by_emitted, by_emitted, sizeof by_emitted);
            ls_recording_free(r);
        }
}

// On a plain trace: retrieval is exact, and what is not known is counted.
static void retrieval_is_simulated_on_any_trace(void **state) {
    (void)state;
    const char *prompt = "def fib(n):\n    if n < 2: return n\n";
    static const char *const methods[] = {"pld",       "suffix", "cacheback", "retrieval-only", "logitspec-paper",
                                          "logit-only"};
    record(prompt, options("plain", 0, 200), 1);
    ls_recording *plain = recording_of_steps();
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        const ls_simulated t = simulate(plain, options(methods[m], 24, 200));
        record(prompt, options(methods[m], 24, 200), 1);
        assert_int_equal(t.steps, n_steps);
        assert_int_equal(t.emitted, 200);
        assert_int_equal(t.lasts_whole, t.lasts); // a plain trace knows every last logits
        assert_true(t.rows_known < t.rows);       // but nothing of rows off the text
        assert_true(t.cost_ms > 0 && t.plain_ms > t.cost_ms / 10);
    }
    // a wide trace on top of it knows more
    record(prompt, options("logitspec", 32, 200), 1);
    const ls_simulated before = simulate(plain, options("logitspec", 8, 200));
    for (int i = 0; i < n_steps; i++) ls_recording_more(plain, (size_t)steps[i]->output_pos, steps[i]);
    const ls_simulated after = simulate(plain, options("logitspec", 8, 200));
    assert_true((double)after.rows_known / (double)after.rows > (double)before.rows_known / (double)before.rows);
    ls_recording_free(plain);
    ls_simulator *s;
    ls_err err;
    ls_decode_options lossy = options("pld", 0, 10);
    assert_int_equal(ls_accept_read(&lossy.accept, "", "typical", NULL), LS_OK);
    assert_int_equal(ls_simulator_new(&s, &lossy, &(ls_draft_setup){.tokenizer = ""}, &(ls_cost_curve){0}, &err),
                     LS_E_USAGE);
    assert_non_null(strstr(err.msg, "changes the text"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(what_a_probe_judged_is_read_back),
        cmocka_unit_test(a_cut_file_is_read_to_its_last_whole_line),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(damaged_files_are_survived),
        cmocka_unit_test(a_replay_draws_what_the_run_drew),
        cmocka_unit_test(a_replay_obeys),
        cmocka_unit_test(simulating_a_method_on_its_own_trace_repeats_it),
        cmocka_unit_test(nothing_is_drafted_behind_an_end),
        cmocka_unit_test(retrieval_is_simulated_on_any_trace),
    };
    return cmocka_run_group_tests_name("trace", tests, recorded_set_up, recorded_tear_down);
}
