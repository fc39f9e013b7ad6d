// One prompt, answered as streaming text or as one JSON object, without a screen.
#include "base/json.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "trace/trace.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- --alt: a table of the emitted tokens, with probability, draft source, and other choices of the target

enum { TOKEN_CELLS = 16 };

// Between quotes, on one line.
static void put_token(const ls_vocab *v, int32_t id, int cells, ls_buf *out) {
    size_t n;
    const char *bytes = ls_vocab_bytes(v, id, &n);
    ls_buf label = {0};
    ls_buf_char(&label, '"');
    ls_sanitize_line(&label, bytes, n);
    ls_buf_char(&label, '"');
    ls_buf_add(out, label.p, label.n);
    for (int used = ls_cells(label.p, label.n); used < cells; used++) ls_buf_char(out, ' ');
    ls_buf_free(&label);
}

static void put_p(double p, ls_buf *out) {
    if (isnan(p)) ls_buf_str(out, "    -");
    else ls_buf_fmt(out, "%5.3f", p);
}

// Appends a line for each emitted token, with up to n (1..LS_ROW_TOP) other choices, best first.
static void alternatives(const ls_step *s, const ls_vocab *v, int n, ls_buf *out) {
    for (int i = 0; i < s->n_emitted; i++) {
        const ls_node *node = &s->tree.nodes[s->path[i]], *before = i ? &s->tree.nodes[s->path[i - 1]] : NULL;
        const ls_top_entry *top = before ? before->top : s->top;
        const int n_top = before ? LS_ROW_TOP : s->n_top;
        const double lse = (double)(before ? before->lse : s->top_lse);
        ls_buf_fmt(out, "%6d %5u  %-13s  ", s->output_pos + i, s->index, ls_sources[node->from].label);
        put_token(v, node->token, TOKEN_CELLS, out);
        ls_buf_char(out, ' ');
        put_p((double)node->p, out);
        ls_buf_str(out, "  ");
        for (int k = 0, shown = 0; k < n_top && shown < n; k++) {
            if (top[k].id == node->token || top[k].id < 0) continue;
            ls_buf_char(out, ' ');
            put_token(v, top[k].id, 0, out);
            ls_buf_char(out, ' ');
            put_p(exp((double)top[k].logit - lse), out);
            shown++;
        }
        ls_buf_char(out, '\n');
    }
}

// ---- the answer

enum { LONG_PROMPT = 16384 }; // tokens: for a prompt this long, the progress line appears at once

typedef struct {
    const ls_command_line *line;
    ls_run_setup setup;
    ls_model model;
    ls_session *session;
    ls_runner runner;
    ls_trace *trace;
    ls_ids prompt, per_step;
    ls_ids lossy; // output positions of tokens that the target did not choose
    double prefill_ms;
    size_t printed; // bytes of the text already written to standard output
    ls_sanitize_stream shown;
    int alternatives; // --alt N: prints one line per token with N other choices; 0: prints the text
    bool streams, output_failed;
} run;

static void write_bytes(run *r, const char *p, size_t n) {
    r->output_failed |= !ls_write_out(p, n);
}

// A terminal gets the model's text with visible signs (base/utf8.h); a pipe gets the bytes unchanged.
static void write_text(run *r, const char *p, size_t n, bool last) {
    ls_buf shown = {0};
    if (!isatty(STDOUT_FILENO)) write_bytes(r, p, n);
    else {
        ls_sanitize_push(&r->shown, p, n, &shown);
        if (last) ls_sanitize_end(&r->shown, &shown);
        write_bytes(r, shown.p, shown.n);
    }
    if (last) write_bytes(r, "\n", 1);
    ls_buf_free(&shown);
}

static void stream(run *r) {
    const ls_buf *text = ls_session_text(r->session);
    size_t settled = ls_session_settled(r->session);
    if (!r->streams || settled <= r->printed) return;
    write_text(r, text->p + r->printed, settled - r->printed, false);
    r->printed = settled;
}

static void print_alternatives(run *r, const ls_step *step) {
    ls_buf out = {0};
    if (!r->alternatives) return;
    if (!step->output_pos)
        ls_buf_fmt(&out, "%6s %5s  %-13s  %-*s %5s   %s\n", "token", "step", "from", TOKEN_CELLS, "text", "p",
                   "other choices of the target");
    alternatives(step, r->model.vocab, r->alternatives, &out);
    write_bytes(r, out.p, out.n);
    ls_buf_free(&out);
}

static bool on_prefill(void *ud, const char *stage, double fraction) {
    run *r = ud;
    if (fraction <= 0 && r->runner.n_read >= LONG_PROMPT) ls_gauge_hurry();
    return ls_gauge_show(NULL, stage, fraction);
}

static void on_begin(void *ud, const ls_runner *runner, double prefill_ms) {
    run *r = ud;
    ls_gauge_clear();
    const ls_ids *context = &ls_session_conversation(runner->session)->context;
    ls_ids_add(&r->prompt, context->p, context->n);
    r->prefill_ms = prefill_ms;
}

static void on_step(void *ud, const ls_step *step) {
    run *r = ud;
    int at[LS_MAX_ROWS];
    ls_ids_push(&r->per_step, step->n_emitted);
    for (int i = 0, n = ls_step_lossy(step, at); i < n; i++) ls_ids_push(&r->lossy, step->output_pos + at[i]);
    print_alternatives(r, step);
    stream(r);
}

static void on_end(void *ud, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    (void)turn, (void)reason, (void)totals;
    stream(ud); // what might have been the beginning of a stop text
}

static ls_code decode(run *r, const ls_buf *prompt, ls_err *err) {
    ls_code code = ls_session_new(&r->session, &r->model, &r->setup.s.decode, err);
    if (!code) code = ls_session_calibrate(r->session, LS_COSTS_AT_ONCE, ls_gauge_show, NULL, err);
    if (code) return code;
    r->runner =
        (ls_runner){.session = r->session, .model = &r->model, .setup = &r->setup.s, .progress = on_prefill, .ud = r};
    if (r->trace) r->runner.sinks[r->runner.n_sinks++] = ls_trace_sink(r->trace);
    r->runner.sinks[r->runner.n_sinks++] = (ls_run_sink){on_begin, on_step, on_end, r};
    code = ls_runner_begin(&r->runner, 0, (ls_str){prompt->p, prompt->n}, NULL, NULL, err);
    while (!code && ls_runner_active(&r->runner)) {
        if (ls_interrupted || r->output_failed) ls_runner_stop(&r->runner, LS_FINISH_INTERRUPTED);
        else code = ls_runner_step(&r->runner, err);
        if (code == LS_E_CANCELLED) code = LS_OK; // interrupted within a forward: the next round ends the turn
    }
    ls_runner_stop(&r->runner, LS_FINISH_ERROR);
    return code;
}

static void write_json(run *r) {
    ls_buf out = {0};
    ls_jsonw w = ls_jw_begin(&out);
    const ls_stats *st = &r->runner.stats;
    const ls_ids *output = ls_session_output(r->session);
    const ls_buf *text = ls_session_text(r->session);
    const ls_engine *b = r->model.engine;
    const ls_guarantee guarantee = ls_decode_guarantee(&r->setup.s.decode);
    ls_jw_field_str(&w, "model", r->model.name);
    ls_jw_field_str(&w, "sha256", r->model.sha256);
    ls_jw_field_str(&w, "method", r->setup.s.decode.method);
    ls_jw_field_str(&w, "device", b->device);
    ls_jw_field_int(&w, "ranks", b->ranks > 1 ? b->ranks : 1);
    ls_jw_field_str(&w, "dtype", b->dtype);
    ls_jw_field_bool(&w, "exact", b->exact && guarantee == LS_SAME_TEXT);
    ls_jw_field_str(&w, "guarantee", ls_guarantee_name(guarantee));
    ls_jw_field_u64(&w, "seed", r->setup.s.decode.sampling.seed);
    ls_jw_field_ids(&w, "prompt_tokens", r->prompt.p, r->prompt.n);
    ls_jw_field_ids(&w, "output_tokens", output->p, output->n);
    ls_jw_key(&w, "text"), ls_jw_strn(&w, text->p, text->n);
    ls_jw_field_str(&w, "finish_reason", ls_finish_name(ls_runner_finish(&r->runner)));
    ls_jw_field_ids(&w, "emitted_per_step", r->per_step.p, r->per_step.n);
    ls_stats_write(&w, st, r->prefill_ms);
    if (guarantee == LS_LOSSY) { // lossy: lists the output tokens that the target did not choose
        ls_jw_field_str(&w, "acceptance", r->line->options.acceptance);
        ls_jw_field_u64(&w, "probe_rows", st->probes);
        ls_jw_field_ids(&w, "tokens_not_chosen", r->lossy.p, r->lossy.n);
    }
    ls_jw_end(&w);
    r->output_failed |= !ls_print(&out);
}

// Writes a line of the summary and empties the buffer.
static void write_note(const run *r, ls_buf *line) {
    const char *dim = ls_wants_color(&r->line->options, STDERR_FILENO) ? "\033[2m" : "", *plain = *dim ? "\033[0m" : "";
    ls_buf shown = {0};
    ls_buf_str(&shown, "# ");
    ls_sanitize_line(&shown, line->p, line->n);
    ls_wrap(&shown, 0, ls_columns(STDERR_FILENO), 2);
    fprintf(stderr, "%s%s%s\n", dim, shown.p, plain);
    ls_buf_free(&shown);
    ls_buf_clear(line);
}

static void write_summary(const run *r) {
    const ls_stats *st = &r->runner.stats;
    const ls_engine *b = r->model.engine;
    const ls_guarantee guarantee = ls_decode_guarantee(&r->setup.s.decode);
    const bool lossy = guarantee == LS_LOSSY;
    ls_buf line = {0};
    ls_buf_fmt(&line, "%llu token%s in %llu step%s: MAT %.2f tokens/step", (unsigned long long)st->emitted,
               ls_plural(st->emitted), (unsigned long long)st->steps, ls_plural(st->steps), ls_stats_mat(st));
    if (st->drafted)
        ls_buf_fmt(&line, ", %llu of %llu drafts accepted (%.1f%%)", (unsigned long long)st->accepted,
                   (unsigned long long)st->drafted, 100.0 * (double)st->accepted / (double)st->drafted);
    write_note(r, &line);
    ls_buf_fmt(&line, "%.1f tokens/s", ls_stats_tokens_per_s(st));
    if (st->plain_forwards && strcmp(r->setup.s.decode.method, "plain"))
        ls_buf_fmt(&line, "; plain decoding %.1f (%d single-row forwards timed in this run): speedup x%s",
                   ls_stats_plain_tokens_per_s(st), st->plain_timed, ls_stats_speedup_text(st, true).s);
    if (ls_stats_waited(st) > LS_BUSY)
        ls_buf_fmt(&line, "; the machine was busy (threads waited for a CPU %.0f%% of the time)",
                   100 * ls_stats_waited(st));
    write_note(r, &line);
    ls_buf_fmt(&line, "%s %s on %s, %d thread%s, method %s, %s; ended by %s", r->model.name, b->dtype, b->device,
               b->threads, ls_plural(b->threads), r->setup.s.decode.method,
               lossy                               ? "LOSSY (the text may differ from plain decoding)"
               : guarantee == LS_SAME_DISTRIBUTION ? "same distribution as plain decoding, but another sample"
               : b->exact                          ? "exact (the text of plain decoding)"
                                                   : "NOT EXACT (logits depend on the number of rows)",
               ls_finish_name(ls_runner_finish(&r->runner)));
    if (lossy) {
        write_note(r, &line);
        ls_buf_fmt(&line, "acceptance %s: %zu of %llu tokens are not the target's own choice",
                   r->line->options.acceptance, r->lossy.n, (unsigned long long)st->emitted);
        for (size_t i = 0; i < r->lossy.n && i < 16; i++)
            ls_buf_fmt(&line, "%s %d", i ? "," : "; at output tokens", r->lossy.p[i]);
        if (r->lossy.n > 16) ls_buf_str(&line, ", ...");
    }
    if (r->setup.s.decode.sampling.temperature > 0)
        ls_buf_fmt(&line, ", seed %llu", (unsigned long long)r->setup.s.decode.sampling.seed);
    write_note(r, &line);
    ls_buf_free(&line);
}

ls_code ls_cmd_generate(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_buf prompt = {0};
    const char *trace = c->options.trace;
    const bool trace_on_stdout = trace && !strcmp(trace, "-");
    int32_t alternatives;
    if (trace_on_stdout && c->json)
        return ls_fail(err, LS_E_USAGE, "--json and --trace - would both write to standard output");
    ls_code code = ls_count_read("--alt", c->alt, 1, LS_ROW_TOP, &alternatives, err);
    if (!code && c->alt && (c->json || trace_on_stdout))
        code = ls_fail(err, LS_E_USAGE,
                       "--alt does not work with --json or --trace -; --trace FILE records the same data");
    if (code || (code = ls_read_prompt(c, true, &prompt, err))) {
        ls_buf_free(&prompt);
        return code;
    }
    ls_catch_signals();
    run r = {.line = c, .streams = !c->json && !trace_on_stdout && !alternatives, .alternatives = alternatives};
    ls_run_setup_init(&r.setup, &c->options);
    ls_gauge_watch(&r.setup.s.model.engine);
    if (trace)
        code = ls_trace_open(&r.trace, trace, ls_trace_level_named(c->options.trace_level), ls_gauge_show, NULL, err);
    if (!code) code = ls_model_load(&r.model, &r.setup.s.model, err);
    ls_gauge_clear();
    if (!code && !c->quiet && !c->json && r.setup.s.format == LS_FORMAT_AUTO && *r.model.chat_problem &&
        !r.model.chat_refused)
        ls_warn("the prompt is used without a chat template: %s", r.model.chat_problem);
    if (!code) code = decode(&r, &prompt, err);
    ls_gauge_clear();
    bool began =
        r.runner.session && ls_runner_finish(&r.runner) != LS_GOING; // there is output to print, even after an error
    if (began && c->json) write_json(&r);
    else if (began && r.streams && r.printed && !r.output_failed) write_text(&r, NULL, 0, true);
    if (began && !c->json && !c->quiet) write_summary(&r);
    ls_err lost;
    const bool recorded = ls_trace_close(r.trace, &lost);
    ls_gauge_clear();
    if (!recorded) ls_warn("%s", lost.msg);
    if (code == LS_E_CANCELLED) ls_fail(err, code, "interrupted");
    if (ls_interrupted) to->status = LS_EXIT_INTERRUPTED;
    else if (!recorded) to->status = LS_EXIT_FAILED;
    if (ls_interrupted != SIGINT) to->signal = ls_interrupted;
    ls_runner_free(&r.runner);
    ls_session_free(r.session);
    ls_model_free(&r.model);
    ls_run_setup_free(&r.setup);
    ls_ids_free(&r.prompt);
    ls_ids_free(&r.per_step);
    ls_ids_free(&r.lossy);
    ls_buf_free(&prompt);
    return code;
}
