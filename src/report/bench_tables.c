// A benchmark's tables.
#include "base/err.h"
#include "base/utf8.h"
#include "report/bench.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what the machine is

static void put_fact(ls_table *t, const char *words, const char *value) {
    ls_table_row(t);
    ls_put(t, "", NULL, -38, "%s", words);
    ls_put(t, "", NULL, 0, "%s", value);
}

static void put_number(ls_table *t, const char *words, double v, const char *unit) {
    const int decimals = fabs(v - round(v)) < 1e-9 || v >= 100 ? 0 : v < 10 ? 2 : 1;
    char value[64];
    snprintf(value, sizeof value, "%.*f%s%s", decimals, v, *unit ? " " : "", unit);
    put_fact(t, words, value);
}

void ls_manifest_show(const ls_manifest *m, ls_form form, ls_buf *out) {
    ls_table t = {0};
#define TEXT(field, words)                                                                                             \
    if (*m->field) put_fact(&t, words, m->field);
#define NUMBER(field, words, unit)                                                                                     \
    if (isfinite(m->field)) put_number(&t, words, m->field, unit);
#include "report/manifest.def"
    ls_table_show(&t, form, out);
}

// ---- the table of methods

static void output_words(const ls_bench *b, int i, const ls_total *t, ls_buf *out) {
    const ls_bench_method *m = &b->methods[i];
    if (!strcmp(m->guarantee, "distribution")) ls_buf_str(out, "same distribution, other samples: ");
    if (!strcmp(m->guarantee, "none"))
        ls_buf_fmt(out, "LOSSY: %llu of %llu tokens not the target's choice, ", (unsigned long long)t->lossy,
                   (unsigned long long)t->emitted);
    if (t->different)
        ls_buf_fmt(out, "DIFFERS in %llu of %llu", (unsigned long long)t->different, (unsigned long long)t->prompts);
    else if (!strcmp(m->label, b->judged)) ls_buf_str(out, "reference");
    else ls_buf_str(out, *b->judged ? "equal" : "no exact method to compare");
}

static void put_total(const ls_bench *b, int i, const char *category, ls_table *t) {
    const ls_total o = ls_bench_total(b, i, category);
    const ls_bench_speedups more = ls_bench_over_plain(b, &o, category);
    ls_buf output = {0};
    output_words(b, i, &o, &output);
    ls_table_row(t);
    ls_put(t, "method", "method", -20, "%s", b->methods[i].label);
    ls_put(t, NULL, "category", 0, "%s", category ? category : "all");
    ls_put_whole(t, NULL, "prompts", 0, o.prompts);
    ls_put_whole(t, NULL, "emitted", 0, o.emitted);
    ls_put_whole(t, NULL, "steps", 0, o.steps);
    ls_put_whole(t, NULL, "draft_verified", 0, o.drafted);
    ls_put_whole(t, NULL, "draft_accepted", 0, o.accepted);
    ls_put_number(t, "MAT", "mat", 6, 2, ls_per((double)o.emitted, o.steps));
    ls_put(t, "accepted/verified", NULL, 17, "%llu/%llu", (unsigned long long)o.accepted,
           (unsigned long long)o.drafted);
    ls_put_number(t, "tokens/s", "tokens_per_s", 9, 1, ls_tokens_per_s(o.emitted, o.decode_us));
    ls_put(t, "speedup", NULL, 8, "%s", ls_total_speedup_text(&o).s);
    ls_put_number(t, NULL, "speedup", 0, 0, ls_total_speedup(&o));
    ls_put_number(t, NULL, "speedup_low", 0, 0, o.low);
    ls_put_number(t, NULL, "speedup_high", 0, 0, o.high);
    if (isfinite(o.low)) ls_put(t, "95%", NULL, 13, "%.2f - %.2f", o.low, o.high);
    else ls_put(t, "95%", NULL, 13, "%s", "");
    ls_put_number(t, "+ prompt", "speedup_with_prompt", 9, 2, more.with_prompt);
    ls_put_number(t, NULL, "spec_bench_speedup", 0, 0, more.of_means_with_prompt);
    ls_put_number(t, NULL, "spec_bench_speedup_without_prompt", 0, 0, more.of_means);
    ls_put_number(t, "of limit", "of_limit", 9, LS_PERCENT, ls_bench_of_limit(b, &o));
    ls_put_whole(t, NULL, "different", 0, o.different);
    ls_put_number(t, "draft us", "draft_us_per_step", 9, 0, ls_per(o.draft_us, o.forwards));
    ls_put_number(t, "host us", "host_us_per_step", 8, 0, ls_per(o.host_us, o.forwards));
    ls_put(t, "output", NULL, 0, "%s", output.p);
    ls_buf_free(&output);
    ls_put_whole(t, NULL, "turns", 0, o.turns);
    ls_put_number(t, NULL, "decode_ms", 0, 0, o.decode_us / 1e3);
    ls_put_number(t, NULL, "prefill_ms", 0, 0, o.prefill_ms);
    ls_put_whole(t, NULL, "tokens_not_chosen", 0, o.lossy);
}

ls_table ls_bench_totals(const ls_bench *b, const char *const *categories) {
    ls_table t = {0};
    for (int i = 0; i < b->n; i++) {
        put_total(b, i, NULL, &t);
        for (int c = 0; categories && categories[c]; c++) put_total(b, i, categories[c], &t);
    }
    return t;
}

// "1.66  x1.31"; without the x if the speedup is not possible.
static void put_category(const ls_bench *b, int i, const char *category, ls_table *t) {
    const ls_total o = ls_bench_total(b, i, category);
    ls_put(t, category, NULL, 15, "%.2f  %s%s", ls_per((double)o.emitted, o.steps), ls_total_is_possible(&o) ? "x" : "",
           ls_total_speedup_text(&o).s);
}

static void heading(ls_form form, const char *text, ls_buf *out) {
    if (form == LS_FORM_TEXT) ls_buf_char(out, '\n');
    if (form == LS_FORM_MARKDOWN) ls_buf_fmt(out, "\n## %s\n\n", text);
    if (form == LS_FORM_HTML) ls_page_tag(out, "h2", text);
}

// Where the texts of methods that are exact on an exact engine begin to differ.
static void divergences(const ls_bench *b, ls_form form, ls_buf *out) {
    enum { SHOWN = 20 };
    ls_table t = {0};
    size_t n = 0;
    for (size_t p = 0; p < b->done; p++)
        for (int i = 0; i < b->n; i++) {
            const ls_result *r = ls_bench_result(b, p, i);
            if (r->first_difference < 0 || strcmp(b->methods[i].guarantee, "text") || n++ >= SHOWN) continue;
            ls_table_row(&t);
            ls_put(&t, "texts differ in", NULL, -15, "%s", b->prompts[p].name);
            ls_put(&t, "method", NULL, -20, "%s", b->methods[i].label);
            ls_put_whole(&t, "token", NULL, 7, r->first_difference);
            ls_put_number(&t, "gap", NULL, 11, 7, r->gap);
            for (int k = 0; k < 2; k++)
                ls_put(&t, k ? "text" : b->judged, NULL, k ? 0 : -16, *r->tokens[k] ? "'%s'" : "%s",
                       *r->tokens[k] ? r->tokens[k] : "(end)");
        }
    if (n) heading(form, "Where texts begin to differ", out);
    ls_table_show(&t, form, out);
    if (n > SHOWN) ls_buf_fmt(out, "%zu more are in -o FILE.json\n", n - SHOWN);
}

// What the columns mean, and what disturbed the measurement.
static void notes(const ls_bench *b, ls_buf *out) {
    ls_buf_str(out, !strcmp(b->against, "plain") ? "speedup: over `plain`, measured here in turn on the same prompts"
                                                 : "speedup: over single-row forwards timed in the same runs");
    ls_buf_str(out, "; 95%: interval by resampling prompts; draft us, host us: per step with a forward\n");
    if (!b->exact)
        ls_buf_fmt(out,
                   "NOT EXACT: this engine's logits depend on the number of rows of a forward; where two tokens are "
                   "almost equal, another one is chosen. gap: the best logit minus the second best of %s there\n",
                   *b->judged ? b->judged : "the reference");
    if (b->plain >= 0) ls_buf_str(out, "+ prompt: speedup with the prefill in both times\n");
    if (isfinite(b->manifest.kv_kb * b->manifest.weight_mb / b->manifest.read_gb_per_s))
        ls_buf_fmt(out,
                   "of limit: lower bound / time of the steps; the bound reads %.0f MB of weights per step and %.0f KB "
                   "of keys and values per token at %.1f GB/s, as measured in this run by reading as much\n",
                   b->manifest.weight_mb, b->manifest.kv_kb, b->manifest.read_gb_per_s);
    for (size_t i = 0; i < b->resumed.n; i++)
        ls_buf_fmt(out, "resumed after %d prompt%s: the drafters lost what they had learned before\n", b->resumed.p[i],
                   ls_plural((uint64_t)b->resumed.p[i]));
    for (size_t i = 0; i < b->n_left_out; i++) ls_sanitize_row(out, "left out: %s", b->left_out[i]);
    if (b->done < b->planned)
        ls_buf_fmt(out, "NOT COMPLETE: %zu of %zu prompt%s\n", b->done, b->planned, ls_plural(b->planned));
    ls_bench_tell_busy(b, out);
}

static void title(const ls_bench *b, ls_buf *out) {
    const ls_manifest *m = &b->manifest;
    size_t turns = 0;
    for (size_t p = 0; p < b->done; p++) turns += ls_bench_result(b, p, 0)->turns;
    ls_buf_fmt(out, "%s, %s on %s, %.0f thread%s (%s); %zu prompt%s", m->model, m->dtype, m->device, m->threads,
               ls_plural((uint64_t)m->threads), m->kernel, b->done, ls_plural(b->done));
    if (turns > b->done) ls_buf_fmt(out, ", %zu turns", turns);
    ls_buf_fmt(out, ", at most %d new tokens", b->max_tokens);
    if (b->repeat > 1) ls_buf_fmt(out, ", the median of %d runs each", b->repeat);
}

// ---- all of it

// Whether it is a task; else it is a part of one.
static bool is_task(const ls_bench *b, const char *category) {
    for (size_t p = 0; p < b->done; p++)
        if (!strcmp(b->prompts[p].task, category)) return true;
    return false;
}

// tasks: a table of the tasks, if there are several; otherwise of mt_bench's categories.
static void categories(const ls_bench *b, bool tasks, ls_form form, ls_buf *out) {
    const char **names = ls_bench_categories(b);
    ls_table t = {0};
    size_t n = 0;
    for (size_t c = 0; names[c]; c++)
        if (is_task(b, names[c]) == tasks) names[n++] = names[c];
    for (int i = 0; n > tasks && i < b->n; i++) {
        ls_table_row(&t);
        ls_put(&t, tasks ? "MAT, speedup" : "... of mt_bench", NULL, -20, "%s", b->methods[i].label);
        for (size_t c = 0; c < n; c++) put_category(b, i, names[c], &t);
    }
    if (n > tasks) heading(form, tasks ? "By category" : "By category of mt_bench", out);
    if (n > tasks) ls_table_show(&t, form, out);
    free(names);
}

static void spec_bench(const ls_bench *b, ls_form form, ls_buf *out) {
    ls_table t = {0};
    for (int i = 0; i < b->n; i++) {
        const ls_total o = ls_bench_total(b, i, NULL);
        const ls_bench_speedups s = ls_bench_over_plain(b, &o, NULL);
        ls_table_row(&t);
        ls_put(&t, "mean of tokens/s", NULL, 0, "%s", b->methods[i].label);
        ls_put_number(&t, "with prompt", NULL, 15, 2, s.of_means_with_prompt);
        ls_put_number(&t, "without", NULL, 15, 2, s.of_means);
    }
    heading(form, "Speedup as Spec-Bench has it", out);
    ls_table_show(&t, form, out);
}

void ls_bench_tables(const ls_bench *b, ls_form form, ls_buf *out) {
    ls_buf text = {0};
    ls_table t = ls_bench_totals(b, NULL);
    ls_table_show(&t, form, out);
    notes(b, &text);
    if (form == LS_FORM_TEXT) ls_buf_fmt(out, "\n%s", text.p);
    else if (form == LS_FORM_HTML) ls_page_tag(out, "pre", text.p);
    else ls_buf_fmt(out, "\n```\n%s```\n", text.p);
    ls_buf_free(&text);
    divergences(b, form, out);
    categories(b, true, form, out);
    categories(b, false, form, out);
}

static void appendix(const ls_bench *b, ls_form form, ls_buf *out) {
    if (b->plain >= 0) spec_bench(b, form, out);
    heading(form, "Measured where", out);
    ls_manifest_show(&b->manifest, form, out);
}

static void csv(const ls_bench *b, ls_buf *out) {
    const char **names = ls_bench_categories(b);
    ls_table t = ls_bench_totals(b, names);
    ls_table_csv(&t, true, "\n", out);
    ls_table_free(&t);
    free(names);
}

static void begin(const ls_bench *b, ls_form form, ls_buf *out) {
    ls_buf head = {0};
    title(b, &head);
    if (form == LS_FORM_TEXT) ls_sanitize_row(out, "%s", head.p);
    else if (form == LS_FORM_MARKDOWN) {
        ls_buf_str(out, "# ");
        ls_markdown(out, head.p, head.n);
        ls_buf_str(out, "\n\n");
    } else {
        ls_page_begin(out, "logitspec: a benchmark of methods", "td,th:not(:first-child){text-align:right}");
        ls_page_tag(out, "p", head.p);
    }
    ls_buf_free(&head);
}

void ls_bench_write(const ls_bench *b, ls_form form, ls_buf *out) {
    if (form == LS_FORM_JSON) ls_bench_json(b, out);
    else if (form == LS_FORM_JSONL) ls_export_answers(b, out);
    else if (form == LS_FORM_CSV) csv(b, out);
    else {
        begin(b, form, out);
        ls_bench_tables(b, form, out);
        if (form != LS_FORM_TEXT) appendix(b, form, out);
    }
    if (form == LS_FORM_HTML) ls_page_end(out);
}
