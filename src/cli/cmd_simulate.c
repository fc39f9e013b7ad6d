// `simulate TRACE...`: runs drafting and acceptance of other methods on recorded outputs, without a model.
#include "base/system.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/err.h"
#include "base/utf8.h"
#include "cli/variant.h"
#include "decode/simulate.h"
#include "report/report.h"
#include "report/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    ls_report of; // all turns must have the tokenizer of the first
    ls_recording **turns;
    size_t n;
    uint64_t steps, emitted;
} recordings;

typedef struct {
    ls_simulated total;
    double seconds;
} outcome;

static bool add_step(void *ud, const ls_step *s) {
    recordings *all = ud;
    for (; all->n < all->of.n_turns; all->n++) { // a header comes before the steps
        const ls_trace_header *h = &all->of.turns[all->n].header;
        all->turns = ls_realloc(all->turns, (all->n + 1) * sizeof *all->turns);
        all->turns[all->n] = ls_recording_new(h->prompt.p, h->prompt.n, h->run.n_context);
    }
    ls_recording_add(all->turns[all->n - 1], s);
    all->steps++;
    all->emitted += (uint64_t)s->n_emitted;
    return false;
}

static ls_code load(recordings *all, const char *path, ls_err *err) {
    ls_code code = ls_report_add(&all->of, path, add_step, all, err);
    const ls_report_turn *first = all->of.turns, *end = first + all->of.n_turns;
    for (const ls_report_turn *t = first; t < end && !code; t++)
        if (ls_trace_guarantee(&t->header) != LS_SAME_TEXT)
            code = ls_fail(err, LS_E_USAGE, "%s: recorded with the acceptance %s; simulate needs exact outputs",
                           t->file, t->header.acceptance);
        else if (t->header.run.tokenizer_id != first->header.run.tokenizer_id)
            code = ls_fail(err, LS_E_USAGE, "%s and %s have different tokenizers", t->file, first->file);
    return code;
}

static ls_code run(const recordings *all, const ls_variant *c, outcome *out, ls_err *err) {
    ls_simulator *s;
    const ls_run *recorded = &all->of.turns[0].header.run;
    const ls_draft_setup place = ls_run_place(recorded);
    const ls_cost_curve *given = &c->setup.s.decode.costs;
    ls_code code = ls_simulator_new(&s, &c->setup.s.decode, &place, given->given ? given : &recorded->costs, err);
    if (code) return ls_err_prefix(err, "%s", c->label);
    const uint64_t start = ls_now_ns();
    for (size_t i = 0; i < all->n && !code; i++) {
        ls_simulate(s, all->turns[i], &out->total);
        if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
    }
    out->seconds = (double)(ls_now_ns() - start) / 1e9;
    ls_simulator_free(s);
    return code;
}

static ls_table table_of(const ls_variant *c, const outcome *o, int n) {
    ls_table to = {0};
    for (int i = 0; i < n; i++) {
        const ls_simulated *t = &o[i].total;
        const bool exact = ls_simulated_is_exact(t, c[i].method);
        ls_table_row(&to);
        ls_put(&to, "method", "method", -20, "%s", c[i].label);
        ls_put_whole(&to, NULL, "steps", 0, t->steps);
        ls_put_whole(&to, NULL, "emitted", 0, t->emitted);
        ls_put_number(&to, "MAT", "mat", 6, 2, ls_per((double)t->emitted, t->steps));
        ls_put(&to, "accepted/verified", NULL, 17, "%" PRIu64 "/%" PRIu64, t->accepted, t->drafted);
        ls_put_whole(&to, NULL, "draft_verified", 0, t->drafted);
        ls_put_whole(&to, NULL, "draft_accepted", 0, t->accepted);
        ls_put_number(&to, "rows/step", NULL, 9, 1, ls_per((double)(t->drafted + t->forwards), t->forwards));
        ls_put(&to, "draft", NULL, 8, "%.0f us", ls_per(t->draft_us, t->forwards));
        ls_put_number(&to, NULL, "draft_us_per_step", 0, 0, ls_per(t->draft_us, t->forwards));
        ls_put_number(&to, "speedup", "estimated_speedup", 8, 2, ls_simulated_speedup(t));
        if (exact) ls_put(&to, "known", NULL, 9, "all");
        else ls_put_number(&to, "known", NULL, 9, LS_PERCENT, ls_per((double)t->rows_known, t->rows));
        ls_put_flag(&to, "drafts_exact", exact);
        ls_put_whole(&to, NULL, "rows_known", 0, t->rows_known);
        ls_put_whole(&to, NULL, "rows", 0, t->rows);
        ls_put_whole(&to, NULL, "last_logits_whole", 0, t->lasts_whole);
        ls_put_whole(&to, NULL, "last_logits", 0, t->lasts);
        ls_put_number(&to, "steps/s", "steps_per_s", 10, 0, o[i].seconds > 0 ? (double)t->steps / o[i].seconds : NAN);
    }
    return to;
}

static void text(const recordings *all, const outcome *o, const ls_table *table, ls_buf *out) {
    const ls_run *run = &all->of.turns[0].header.run;
    ls_sanitize_row(out, "%s: %zu turn%s, %llu token%s, recorded with %s: MAT %.2f", run->model, all->of.n_turns,
                    ls_plural(all->of.n_turns), (unsigned long long)all->emitted, ls_plural(all->emitted), run->method,
                    ls_per((double)all->emitted, all->steps));
    ls_buf_char(out, '\n');
    ls_table_text(table, out);
    const ls_simulated *t = &o[0].total;
    ls_buf_fmt(out, "\nspeedup: over plain decoding, %s\n",
               run->costs.base_ms[0] > 0
                   ? "estimated from the recorded costs of forwards and the drafting time measured here"
                   : "not known: the trace has no costs, so sizing by cost uses the maximum number of rows");
    if (run->n_mixtures)
        ls_buf_str(
            out, "experts: a simulation does not know which experts a row takes, so trees are sized by rows alone, as "
                 "by --sizing rows, and their times are those of rows\n");
    ls_buf_fmt(
        out,
        "known: verified rows whose best tokens are in the trace; drafters learn nothing from other rows. 'all': the "
        "trace has all data that the method reads, and the size of its trees does not depend on time. Such a method "
        "drafts as in a real run, except that it learns nothing from the rows of the prompt (no trace has them). The "
        "trace has the last logits to rank 64 in %llu of %llu steps (in other steps to rank 8, or not at all). A trace "
        "of method plain has them in every step; a trace of the method itself has all rows. Traces of the levels steps "
        "and nodes have less (--trace-level).\n",
        (unsigned long long)t->lasts_whole, (unsigned long long)t->lasts);
    ls_wrap(out, 0, ls_columns(STDOUT_FILENO), 2);
}

static void json(const recordings *all, const ls_table *table, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    ls_jw_field_str(&w, "model", all->of.turns[0].header.run.model);
    ls_jw_field_str(&w, "recorded_with", all->of.turns[0].header.run.method);
    ls_jw_field_u64(&w, "turns", all->of.n_turns);
    ls_jw_field_u64(&w, "recorded_steps", all->steps);
    ls_jw_field_u64(&w, "recorded_tokens", all->emitted);
    ls_jw_field_u64(&w, "incomplete_files", all->of.gaps.torn);
    ls_jw_field_u64(&w, "lost_lines", all->of.gaps.lost);
    ls_jw_key(&w, "methods");
    ls_table_json(table, &w);
    ls_jw_end(&w);
}

ls_code ls_cmd_simulate(const ls_command_line *c, ls_console *to, ls_err *err) {
    recordings all = {0};
    ls_variant *variants = NULL;
    outcome *out = NULL;
    int n;
    if (!c->n_args) return ls_fail(err, LS_E_USAGE, "usage: logitspec simulate TRACE... (files of --trace)");
    ls_gauge_reads();
    ls_code code = ls_variants_read(&variants, &n, "--methods", c->methods ? c->methods : "all", &c->options, err);
    for (int i = 0; i < c->n_args && !code; i++) code = load(&all, c->args[i], err);
    if (!code && !all.emitted) code = ls_fail(err, LS_E_RANGE, "the traces have no output");
    if (!code) out = ls_calloc((size_t)n, sizeof *out);
    for (int i = 0; i < n && !code; i++) {
        ls_gauge_show(NULL, "simulating", (double)i / n);
        code = run(&all, &variants[i], &out[i], err);
    }
    if (!code) {
        ls_table t = table_of(variants, out, n);
        ls_warn_of_gaps(&all.of.gaps, NULL);
        if (c->json) json(&all, &t, &to->out);
        else text(&all, out, &t, &to->out);
        ls_table_free(&t);
    }
    free(out);
    ls_variants_free(variants, n);
    for (size_t i = 0; i < all.n; i++) ls_recording_free(all.turns[i]);
    free(all.turns);
    ls_report_free(&all.of);
    return code;
}
