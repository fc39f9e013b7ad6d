// The report for other programs and for documents: Markdown, CSV, JSON, and the plots alone.
#include "base/json.h"
#include "base/err.h"
#include "report/parts.h"
#include "report/markup.h"

#include <math.h>

// ---- Markdown

static void md_plot(const ls_report *r, ls_plot p, const char *labels, ls_buf *out) {
    ls_chart c = ls_report_chart(r, p);
    ls_table t = ls_chart_groups(&c, labels);
    ls_buf_fmt(out, "\n## %s\n\n%s\n\n", c.facts->title, c.facts->caption);
    if (!c.n) ls_buf_str(out, "not in these recordings\n");
    ls_table_show(&t, LS_FORM_MARKDOWN, out);
    ls_chart_free(&c);
}

static void md_step(const ls_report *r, const ls_report_tree *t, ls_buf *out) {
    ls_buf why = {0};
    const ls_report_turn *turn = &r->turns[t->turn];
    ls_report_explain(r, t, &why);
    ls_buf_str(out, "* ");
    ls_markdown_str(out, turn->file);
    ls_buf_fmt(out, ", turn %u, step %u: ", turn->header.turn + 1, t->step->index);
    ls_markdown(out, why.p, why.n);
    ls_buf_char(out, '\n');
    ls_buf_free(&why);
}

void ls_report_markdown(const ls_report *r, ls_buf *out) {
    ls_buf_fmt(out, "# logitspec report\n\n%zu turn%s of %zu recording%s, %zu prompt%s\n", r->n_turns,
               ls_plural(r->n_turns), r->n_files, ls_plural(r->n_files), r->n_prompts, ls_plural(r->n_prompts));
    ls_buf busy = {0}, gaps = {0};
    ls_trace_gaps_text(&r->gaps, &gaps);
    if (gaps.n) ls_buf_fmt(out, "\nIncomplete: %s.\n", gaps.p);
    ls_buf_free(&gaps);
    ls_report_busy(r, &busy);
    if (busy.n) ls_buf_fmt(out, "\n%s\n", busy.p);
    ls_buf_free(&busy);
    ls_table facts = ls_facts_table(r, false);
    ls_buf_char(out, '\n');
    ls_table_markdown(&facts, false, out);
    ls_buf_char(out, '\n');
    for (const ls_cell *row = facts.cells, *end = row + facts.n_cells; row < end; row += facts.n_columns)
        if (*row[facts.n_columns - 1].text) ls_buf_fmt(out, "%s: %s. ", row[0].text, row[facts.n_columns - 1].text);
    ls_buf_char(out, '\n');
    ls_table_free(&facts);
    md_plot(r, LS_PLOT_EMITTED, "tokens", out);
    md_plot(r, LS_PLOT_DEPTH, "depth", out);
    md_plot(r, LS_PLOT_SOURCE, "source", out);
    for (size_t i = 0; i < r->n_asked; i++) {
        if (!i) ls_buf_str(out, "\n## Selected steps\n\n");
        md_step(r, &r->asked[i], out);
    }
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_report_group *o = &r->groups[g];
        if (o->n_worst) {
            ls_buf_str(out, "\n## Most lost: ");
            ls_markdown_str(out, o->label);
            ls_buf_str(out, "\n\n");
        }
        for (int i = 0; i < o->n_worst; i++) md_step(r, &o->worst[i], out);
    }
}

// ---- CSV

static void put_step(const ls_report *r, const ls_report_turn *of, const ls_report_step *s, ls_table *t) {
    static const char *const counts[] = {"step",    "context_len", "output_pos", "budget",  "rows", "probe_rows",
                                         "forward", "corrected",   "accepted",   "emitted", "root"};
    static const char *const times[] = {"draft_us", "forward_us", "verify_us", "commit_us", "total_us", "plain_us"};
    const int64_t count[] = {s->index,   s->context_len, s->output_pos,    s->asked_rows, s->rows, s->probes,
                             s->forward, s->corrected,   s->n_emitted - 1, s->n_emitted,  s->root};
    const float us[] = {s->draft_us,  s->forward_us, s->verify_us,
                        s->commit_us, s->total_us,   s->plain_us > 0 ? s->plain_us : (float)NAN};
    ls_table_row(t);
    ls_put(t, NULL, "file", 0, "%s", of->file);
    ls_put_whole(t, NULL, "turn", 0, of->header.turn);
    ls_put(t, NULL, "method", 0, "%s", r->groups[of->group].label);
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) ls_put_whole(t, NULL, counts[i], 0, count[i]);
    for (size_t i = 0; i < sizeof us / sizeof *us; i++) // a float has no more digits than thousandths
        ls_put_number(t, NULL, times[i], 0, 0, nearbyint(1e3 * (double)us[i]) / 1e3);
}

void ls_report_csv(const ls_report *r, ls_buf *out) {
    const size_t before = out->n;
    for (size_t i = 0; i < r->n_turns; i++) { // a table for each turn: a recording may have millions of steps
        ls_table t = {0};
        for (size_t k = 0; k < r->turns[i].n_steps; k++) put_step(r, &r->turns[i], &r->turns[i].steps[k], &t);
        if (ls_table_rows(&t)) ls_table_csv(&t, out->n == before, "\r\n", out);
        ls_table_free(&t);
    }
}

// ---- JSON

static void json_ratios(ls_jsonw *w, const char *key, const ls_ratio *v, int n) {
    ls_jw_field_open(w, key, '[');
    for (int i = 0; i < n; i++) {
        ls_jw_open(w, '[');
        ls_jw_u64(w, v[i].n);
        ls_jw_u64(w, v[i].of);
        ls_jw_close(w, ']');
    }
    ls_jw_close(w, ']');
}

static int used(const ls_ratio *v, int n) {
    while (n && !v[n - 1].of) n--;
    return n;
}

static void json_group(ls_jsonw *w, const ls_report *r, const ls_report_group *g) {
    const ls_stats *st = &g->stats;
    const ls_trace_header *h = &r->turns[g->first_turn].header;
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "label", g->label);
    ls_jw_field_str(w, "model", h->run.model);
    ls_jw_field_str(w, "method", h->run.method);
    ls_jw_field_str(w, "acceptance", h->acceptance);
    ls_jw_field_str(w, "device", h->run.device);
    ls_jw_field_str(w, "dtype", h->run.dtype);
    ls_jw_field_bool(w, "exact", h->run.exact && g->guarantee == LS_SAME_TEXT);
    ls_jw_field_u64(w, "turns", g->n_turns);
    ls_jw_field_u64(w, "steps", st->steps);
    ls_jw_field_u64(w, "emitted", st->emitted);
    ls_jw_field_num(w, "mat", ls_per((double)st->emitted, st->steps), 7);
    ls_jw_field_u64(w, "draft_verified", st->drafted);
    ls_jw_field_u64(w, "draft_accepted", st->accepted);
    ls_jw_field_u64(w, "not_chosen", st->lossy);
    ls_jw_field_num(w, "decode_ms", st->total_us / 1e3, 9);
    ls_jw_field_num(w, "tokens_per_s", st->total_us > 0 ? ls_stats_tokens_per_s(st) : NAN, 7);
    ls_jw_field_num(w, "ar_tokens_per_s", st->plain_us > 0 ? ls_stats_plain_tokens_per_s(st) : NAN, 7);
    ls_stats_write_speedup(w, st);
    ls_jw_field_num(w, "cpu_wait", ls_stats_waited(st), 3);
    const ls_ratio experts = ls_stats_experts(st);
    if (experts.of) { // of a mixture
        ls_jw_field_num(w, "experts", ls_per((double)experts.n, experts.of), 7);
        ls_jw_field_num(w, "break_even_mat", ls_stats_break_even(st), 7);
    }
    ls_jw_field_u64(w, "draft_forwards", st->draft_forwards);
    ls_jw_field_u64(w, "ahead_forwards", st->ahead_forwards);
    ls_jw_field_u64(w, "probe_rows", st->probes);
    ls_jw_field_open(w, "us", '{');
    ls_jw_field_num(w, "draft", st->draft_us, 9);
    ls_jw_field_num(w, "draft_forward", st->draft_forward_us, 9);
    ls_jw_field_num(w, "forward", st->forward_us, 9);
    ls_jw_field_num(w, "wait", st->wait_us, 9);
    ls_jw_field_num(w, "verify", st->verify_us, 9);
    ls_jw_field_num(w, "commit", st->commit_us, 9);
    ls_jw_field_num(w, "total", st->total_us, 9);
    ls_jw_close(w, '}');
    int most = LS_STATS_HIST;
    while (most && !st->by_emitted[most]) most--;
    ls_jw_field_open(w, "steps_by_emitted", '[');
    for (int i = 0; i <= most; i++) ls_jw_u64(w, st->by_emitted[i]);
    ls_jw_close(w, ']');
    json_ratios(w, "by_depth", st->depth, used(st->depth, LS_STATS_DEPTHS));
    json_ratios(w, "by_rank", st->rank, used(st->rank, LS_STATS_RANKS));
    ls_jw_field_open(w, "by_source", '{');
    for (int i = 0; i < LS_SOURCE_COUNT; i++)
        if (st->from[i].of) json_ratios(w, ls_draft_source_name((ls_draft_source)i), &st->from[i], 1);
    ls_jw_close(w, '}');
    json_ratios(w, "by_estimate", g->estimated, LS_REPORT_BINS);
    ls_jw_field_open(w, "mean_estimate", '[');
    for (int i = 0; i < LS_REPORT_BINS; i++) ls_jw_num(w, ls_per(g->estimate_sum[i], g->estimated[i].of), 7);
    ls_jw_close(w, ']');
    ls_jw_field_u64(w, "shared_with_first", g->shared);
    ls_jw_field_u64(w, "equal_to_first", g->equal);
    ls_jw_close(w, '}');
}

void ls_report_json(const ls_report *r, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    ls_jw_field_str(&w, "format", "logitspec-report");
    ls_jw_field_int(&w, "version", 1);
    ls_jw_field_u64(&w, "incomplete_files", r->gaps.torn);
    ls_jw_field_u64(&w, "lost_lines", r->gaps.lost);
    ls_jw_field_open(&w, "groups", '[');
    for (size_t g = 0; g < r->n_groups; g++) json_group(&w, r, &r->groups[g]);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "turns", '[');
    for (size_t i = 0; i < r->n_turns; i++) {
        const ls_report_turn *t = &r->turns[i];
        ls_jw_open(&w, '{');
        ls_jw_field_str(&w, "file", t->file);
        ls_jw_field_int(&w, "turn", t->header.turn);
        ls_jw_field_u64(&w, "group", t->group);
        ls_jw_field_u64(&w, "prompt", t->prompt);
        ls_jw_field_u64(&w, "steps", t->stats.steps);
        ls_jw_field_u64(&w, "emitted", t->stats.emitted);
        ls_jw_field_num(&w, "mat", ls_per((double)t->stats.emitted, t->stats.steps), 7);
        ls_jw_field_num(&w, "decode_ms", t->stats.total_us / 1e3, 9);
        ls_stats_write_speedup(&w, &t->stats);
        ls_jw_field_str(&w, "reason", ls_finish_name(t->finish));
        ls_jw_close(&w, '}');
    }
    ls_jw_close(&w, ']');
    ls_jw_end(&w);
}

// ---- SVG

void ls_report_svg(const ls_report *r, ls_buf *out) {
    ls_chart charts[LS_PLOTS];
    for (ls_plot p = 0; p < LS_PLOTS; p++) charts[p] = ls_report_chart(r, p);
    ls_chart_file(charts, LS_PLOTS, "report", out);
    for (ls_plot p = 0; p < LS_PLOTS; p++) ls_chart_free(&charts[p]);
}
