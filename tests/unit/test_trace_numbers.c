// The numbers in a trace: what was counted and timed comes back as it was, and sums are sums.
#include "base/mem.h"
#include "recorded.h"
#include "report/parts.h"
#include "decode/simulate.h"
#include "trace/trace_events.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bool same(float a, float b) {
    return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

static bool near(double a, double b) { // a float
    return fabs(a - b) <= 1e-7 * fabs(b);
}

static void same_top(const ls_top_entry *a, const ls_top_entry *b, int n) {
    for (int i = 0; i < n && b[i].id >= 0; i++) {
        assert_int_equal(a[i].id, b[i].id);
        assert_true(same(a[i].logit, b[i].logit));
    }
}

// Writes the steps, which were changed, behind the header of the recording.
static void record_again(void) {
    ls_trace *t;
    ls_err err = {0};
    ls_buf lines = slurp();
    assert_int_equal(ls_trace_open(&t, path, level, NULL, NULL, &err), LS_OK);
    const ls_run_sink sink = ls_trace_sink(t);
    for (int i = 0; i < n_steps; i++) sink.step(sink.ud, steps[i]);
    assert_true(ls_trace_close(t, &err));
    ls_buf again = slurp(), whole = {0}; // the steps' lines alone: the header and the tokens before them
    ls_buf_add(&whole, lines.p, (size_t)(strchr(lines.p, '\n') + 1 - lines.p));
    ls_buf_add(&whole, again.p, again.n);
    spill(whole.p, whole.n);
    ls_buf_free(&lines), ls_buf_free(&again), ls_buf_free(&whole);
}

// A float keeps its bits, so that a replay draws what the run drew.
static void every_number_comes_back(void **state) {
    (void)state;
    record("One fish, two fish. One", options("logitspec", 12, 60), 1);
    ls_step *s = ls_step_new();
    for (int i = 0; i < n_steps; i++) { // no two times are the same
        ls_step_copy(s, steps[i]);
        s->t_draft_us = 11.25 + i, s->t_forward_us = 222.5 + i, s->t_verify_us = 3.125 + i, s->t_commit_us = 4.75 + i;
        s->t_total_us = 300.0625 + i, s->t_device_us = 199.5 + i, s->t_comm_us = 17.5 + i;
        s->plain_us = 123.4375 + i;
        s->plain_spread = 0.0625 + 0.001 * i, s->plain_timed = 3 + i, s->cpu_wait = i % 2 ? 0.25 : 0;
        s->expected_experts = i % 3 ? 17.5 + i : 0;
        ls_step_free(steps[i]);
        steps[i] = ls_step_share(s);
    }
    ls_step_free(s);
    record_again();
    ls_err err = {0};
    ls_trace_reader *r;
    ls_trace_line line = LS_TRACE_HEADER;
    int at = 0;
    assert_int_equal(ls_trace_read_open(&r, path, &err), LS_OK);
    for (; line != LS_TRACE_NONE; at += line == LS_TRACE_STEP) {
        if (ls_trace_read_next(r, &line, &err)) fail_msg("%s", err.msg);
        if (line != LS_TRACE_STEP) continue;
        const ls_step *a = ls_trace_read_step(r), *b = steps[at];
        assert_true(near(a->t_draft_us, b->t_draft_us) && near(a->t_forward_us, b->t_forward_us));
        assert_true(near(a->t_verify_us, b->t_verify_us) && near(a->t_commit_us, b->t_commit_us));
        assert_true(near(a->t_total_us, b->t_total_us) && near(a->t_device_us, b->t_device_us));
        assert_true(near(a->t_comm_us, b->t_comm_us));
        assert_true(near(a->plain_us, b->plain_us) && near(a->plain_spread, b->plain_spread) &&
                    near(a->cpu_wait, b->cpu_wait) && near(a->expected_experts, b->expected_experts));
        assert_int_equal(a->plain_timed, b->plain_timed);
        assert_int_equal(a->pool_size, b->pool_size);
        assert_true(same(a->top_lse, b->top_lse) && same(a->top_entropy, b->top_entropy));
        assert_int_equal(a->n_top, b->n_top);
        same_top(a->top, b->top, b->n_top);
        assert_int_equal(a->n_emitted, b->n_emitted);
        for (int i = 0; i < b->tree.n; i++) {
            const ls_node *x = &a->tree.nodes[i], *y = &b->tree.nodes[i];
            assert_true(same(x->p, y->p) && same(x->est_p, y->est_p) && same(x->target_p, y->target_p));
            assert_true(same(x->entropy, y->entropy) && same(x->lse, y->lse));
            assert_int_equal(x->match_n, y->match_n);
            assert_int_equal(x->match_pos, y->match_pos);
            same_top(x->top, y->top, LS_ROW_TOP);
        }
    }
    assert_int_equal(at, n_steps);
    ls_trace_read_close(r);
}

// Of a mixture: the experts of a step, of its rows, and the routers' choices come back; a row's are its own, or shared.
static void experts_come_back(void **state) {
    (void)state;
    const ls_model usual = model;
    ls_trace_reader *r;
    ls_trace_line line = LS_TRACE_HEADER;
    int at = 0, whole = 0, cut = 0;
    assert_int_equal(ls_model_load(&model, &(ls_model_options){.name = "script:mixture"}, NULL), LS_OK);
    record("One fish, two fish. One", options("logitspec-paper", 40, 30), 1);
    const int32_t of_row = model.engine->n_mixtures * model.engine->n_experts_used, room = 3; // rows
    ls_step *s = ls_step_new();
    for (int i = 0; i < n_steps;
         i++) { // of some there is no room for the experts of all rows, or they come from a file
        ls_step_copy(s, steps[i]);
        assert_int_equal(s->n_routes, s->forward ? s->tree.n * of_row : 0);
        if (i % 2 && s->n_routes > room * of_row) s->n_routes = room * of_row, cut++;
        s->experts_read = i % 3 ? s->experts * (i % 3 - 1) / 2 : -1;
        ls_step_free(steps[i]);
        steps[i] = ls_step_share(s);
    }
    ls_step_free(s);
    record_again();
    assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
    for (; line != LS_TRACE_NONE; at += line == LS_TRACE_STEP) {
        assert_int_equal(ls_trace_read_next(r, &line, NULL), LS_OK);
        if (line == LS_TRACE_HEADER) {
            const ls_run *run = &ls_trace_read_header(r)->run;
            assert_int_equal(run->n_mixtures, model.engine->n_mixtures);
            assert_int_equal(run->n_experts, model.engine->n_experts);
            assert_int_equal(run->n_experts_used, model.engine->n_experts_used);
            assert_int_equal(run->expert_bytes, model.engine->expert_bytes);
        }
        if (line != LS_TRACE_STEP) continue;
        const ls_step *a = ls_trace_read_step(r), *b = steps[at];
        assert_int_equal(a->experts, b->experts);
        assert_int_equal(a->experts_read, b->experts_read);
        assert_true(near(a->expected_experts, b->expected_experts));
        assert_int_equal(a->n_routes, b->n_routes);
        assert_memory_equal(a->routes, b->routes, (size_t)b->n_routes * sizeof *b->routes);
        int alone = 0;
        for (int i = 0; i < b->tree.n; i++) {
            assert_int_equal(a->tree.nodes[i].alone, b->tree.nodes[i].alone);
            alone += b->tree.nodes[i].alone;
        }
        if (!b->forward) continue;
        assert_in_range(b->experts, of_row, model.engine->n_mixtures * model.engine->n_experts);
        if (b->tree.n == 1) assert_int_equal(alone, b->experts);
        else assert_true(alone < b->experts); // some are shared
        whole++;
    }
    assert_int_equal(at, n_steps);
    assert_true(whole > 10 && cut > 3);
    ls_trace_read_close(r);
    ls_model_free(&model);
    model = usual;
}

static void totals_are_the_sums_of_the_steps(void **state) {
    (void)state;
    record("One fish, two fish. One", options("logitspec-paper", 12, 57), 1);
    int emitted = 0, verified = 0, accepted = 0, forwards = 0;
    for (int i = 0; i < n_steps; i++) {
        forwards += steps[i]->forward;
        emitted += steps[i]->n_emitted;
        verified += steps[i]->forward ? steps[i]->rows - 1 : 0;
        accepted += steps[i]->n_emitted - 1;
    }
    assert_true(forwards < n_steps && accepted > 5);
    char want[200];
    snprintf(want, sizeof want,
             "\"totals\":{\"steps\":%d,\"emitted\":%d,\"draft_verified\":%d,\"draft_accepted\":%d,\"mat\":%.5g,",
             n_steps, emitted, verified, accepted, (double)emitted / n_steps);
    ls_buf text = slurp();
    if (!strstr(text.p, want)) fail_msg("no %s in ...%s", want, strstr(text.p, "\"totals\""));
    ls_buf_free(&text);
}

static void lossy_runs_are_read_as_such(void **state) {
    (void)state;
    for (int lossy = 0; lossy < 2; lossy++) {
        ls_decode_options o = options("logitspec-paper", 12, 20);
        ls_trace_reader *r;
        ls_trace_line line = LS_TRACE_HEADER;
        int n = 0;
        if (lossy) assert_int_equal(ls_accept_read(&o.accept, "", "typical:0.5", NULL), LS_OK);
        record("One fish, two", o, 1);
        assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
        while (line != LS_TRACE_NONE) {
            assert_int_equal(ls_trace_read_next(r, &line, NULL), LS_OK);
            if (line != LS_TRACE_STEP) continue;
            assert_int_equal(ls_trace_read_step(r)->exact, !lossy);
            n++;
        }
        assert_int_equal(n, n_steps);
        ls_trace_read_close(r);
    }
}

// A trace that measured other sizes of forwards than this program does: a straight line between them.
static void costs_between_sizes_are_on_a_line(void **state) {
    (void)state;
    record("One fish, two", options("plain", 0, 3), 1);
    ls_buf whole = slurp(), text = {0};
    char *from = strstr(whole.p, "\"calibration\":{"), *to = strchr(from, '}') + 1;
    ls_buf_add(&text, whole.p, (size_t)(from - whole.p));
    ls_buf_str(&text, "\"calibration\":{\"context_len\":7,\"rows\":[1,5,40,64],\"ms\":[10,18,88,136],\"slope_ms\":0.5,"
                      "\"window\":300,\"local\":0.75}");
    ls_buf_str(&text, to);
    spill(text.p, text.n);
    ls_trace_reader *r;
    ls_trace_line line;
    assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
    assert_int_equal(ls_trace_read_next(r, &line, NULL), LS_OK);
    const ls_cost_curve *z = &ls_trace_read_header(r)->run.costs;
    assert_int_equal(z->cost_context, 7);
    assert_true(near(z->slope_ms, 0.5) && z->window == 300 && near(z->local, 0.75));
    for (int i = 0; i < LS_COST_SIZES; i++) assert_true(near(z->base_ms[i], 8 + 2 * ls_cost_rows[i]));
    ls_trace_read_close(r);
    ls_buf_free(&whole), ls_buf_free(&text);
}

// A recording as it was before headers told how many tokens a prompt keeps.
static void forget_kept_tokens(void) {
    static const char field[] = "\"kept_tokens\":";
    ls_buf b = slurp();
    ls_buf_char(&b, 0);
    for (char *at; (at = strstr(b.p, field));) {
        const char *after = strchr(at, ',') + 1;
        memmove(at, after, strlen(after) + 1);
    }
    spill(b.p, strlen(b.p));
    ls_buf_free(&b);
}

// Drafts behind the end of a turn are not part of the conversation: the next turn continues it.
static void a_replayed_conversation_goes_on_after_a_cut_draft(void **state) {
    (void)state;
    int cut = 0;
    for (int32_t most = 12; most < 50; most++) {
        record("One fish, two fish. One", options("logitspec-paper", 12, most), 2);
        if (most % 2) forget_kept_tokens();
        for (int i = 0; i < n_steps; i++) cut += steps[i]->n_emitted < steps[i]->n_path;
        ls_trace_events *t;
        ls_event *e;
        int headers = 0, prompts = 0;
        int32_t known = 0; // tokens of the conversation so far
        assert_int_equal(ls_trace_events_open(&t, path, NULL), LS_OK);
        while (!ls_trace_events_next(t, &e, NULL) && e) {
            headers += e->kind == LS_EV_HEADER;
            if (e->kind == LS_EV_PROMPT) {
                assert_int_equal(e->prompt.context_len - e->prompt.n_ids, known);
                known = e->prompt.context_len;
                prompts++;
            }
            if (e->kind == LS_EV_STEP) known += ls_trace_read_step(ls_trace_events_reader(t))->n_emitted;
            ls_event_free(e);
        }
        assert_int_equal(headers, 1);
        assert_int_equal(prompts, 2);
        ls_trace_events_close(t);
    }
    assert_true(cut > 3);
}

// A drafter that learns from rows, on its own trace: the same steps, and roots are no drafts.
static void a_simulation_counts_as_the_run_did(void **state) {
    (void)state;
    const ls_decode_options o = options("logitspec", 12, 120);
    record("One fish, two fish. One", o, 1);
    ls_trace_reader *r;
    ls_trace_line line;
    assert_int_equal(ls_trace_read_open(&r, path, NULL), LS_OK);
    assert_int_equal(ls_trace_read_next(r, &line, NULL), LS_OK);
    const ls_ids *prompt = &ls_trace_read_header(r)->prompt;
    ls_recording *recording = ls_recording_new(prompt->p, prompt->n, model.engine->n_context);
    ls_trace_read_close(r);
    uint64_t drafted = 0;
    for (int i = 0; i < n_steps; i++) {
        ls_recording_add(recording, steps[i]);
        drafted += steps[i]->forward ? (uint64_t)steps[i]->rows - 1 : 0;
    }
    const ls_draft_setup place = {
        .tokenizer = "script", .n_vocab = model.engine->n_vocab, .tokenizer_id = ls_vocab_id(model.vocab)};
    ls_simulator *s;
    ls_simulated got = {0};
    ls_cost_curve costs = {0};
    assert_int_equal(ls_simulator_new(&s, &o, &place, &costs, NULL), LS_OK);
    ls_simulate(s, recording, &got);
    assert_int_equal(got.steps, n_steps);
    assert_int_equal(got.drafted, drafted);
    assert_int_equal(got.emitted, 120);
    assert_int_equal(got.steps + got.accepted, got.emitted);
    assert_int_equal(got.rows_known, got.rows);
    ls_simulator_free(s);
    ls_recording_free(recording);
}

// ---- reports

static ls_buf fact(const ls_report *r, const char *name) {
    ls_buf out = {0};
    ls_table t = ls_facts_table(r, false);
    for (size_t i = 0; i < t.n_cells; i += t.n_columns)
        if (!strcmp(t.cells[i].text, name)) ls_buf_str(&out, t.cells[i + 1].text);
    ls_table_free(&t);
    assert_true(out.n > 0);
    return out;
}

static void fact_is(const ls_report *r, const char *name, const char *format, ...) {
    char want[100];
    va_list more;
    va_start(more, format);
    vsnprintf(want, sizeof want, format, more);
    va_end(more);
    ls_buf got = fact(r, name);
    if (strcmp(got.p, want)) fail_msg("%s is '%s', not '%s'", name, got.p, want);
    ls_buf_free(&got);
}

static void a_report_counts_as_the_run_did(void **state) {
    (void)state;
    record("One fish, two fish. One", options("logitspec", 12, 61), 2);
    int tokens = 0, drafts = 0, accepted = 0, rows = 0, forwards = 0, drafted = 0, helped = 0;
    uint64_t tested[LS_REPORT_BINS] = {0}, right[LS_REPORT_BINS] = {0};
    for (int i = 0; i < n_steps; i++) {
        const ls_step *s = steps[i];
        tokens += s->n_emitted;
        accepted += s->n_emitted - 1;
        forwards += s->forward;
        rows += s->forward ? s->rows : 0;
        drafts += s->forward ? s->rows - 1 : 0;
        drafted += s->forward && s->rows > 1;
        helped += s->n_emitted > 1;
        for (int k = 1; k < s->tree.n; k++) { // an estimate is put to the test where the parent was right
            const int bin = (int)(s->tree.nodes[k].est_p * LS_REPORT_BINS);
            if (s->tree.nodes[s->tree.nodes[k].parent].state != LS_NODE_ACCEPTED) continue;
            tested[bin < LS_REPORT_BINS ? bin : LS_REPORT_BINS - 1]++;
            right[bin < LS_REPORT_BINS ? bin : LS_REPORT_BINS - 1] += s->tree.nodes[k].state == LS_NODE_ACCEPTED;
        }
    }
    ls_report r = {0};
    ls_err err = {0};
    if (ls_report_add(&r, path, NULL, NULL, &err) || ls_report_finish(&r, &err)) fail_msg("%s", err.msg);
    assert_int_equal(r.n_groups, 1);
    fact_is(&r, "turns", "2");
    fact_is(&r, "tokens", "%d", tokens);
    fact_is(&r, "steps", "%d", n_steps);
    fact_is(&r, "MAT", "%.3f", (double)tokens / n_steps);
    fact_is(&r, "rows", "%.1f", (double)rows / forwards);
    fact_is(&r, "drafts accepted", "%d of %d (%.1f%%)", accepted, drafts, 100.0 * accepted / drafts);
    fact_is(&r, "steps helped", "%d of %d (%.1f%%)", helped, drafted, 100.0 * helped / drafted);
    fact_is(&r, "prompt, ms", "1.5"); // what `record` says
    for (int bin = 0; bin < LS_REPORT_BINS; bin++) {
        assert_int_equal(r.groups[0].estimated[bin].of, tested[bin]);
        assert_int_equal(r.groups[0].estimated[bin].n, right[bin]);
    }
    assert_int_equal(r.turns[0].n_text + r.turns[1].n_text, tokens);
    ls_report_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_comes_back),
        cmocka_unit_test(experts_come_back),
        cmocka_unit_test(totals_are_the_sums_of_the_steps),
        cmocka_unit_test(lossy_runs_are_read_as_such),
        cmocka_unit_test(costs_between_sizes_are_on_a_line),
        cmocka_unit_test(a_replayed_conversation_goes_on_after_a_cut_draft),
        cmocka_unit_test(a_simulation_counts_as_the_run_did),
        cmocka_unit_test(a_report_counts_as_the_run_did),
    };
    return cmocka_run_group_tests_name("trace numbers", tests, recorded_set_up, recorded_tear_down);
}
