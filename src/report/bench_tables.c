// A benchmark's tables: for a terminal, and as Markdown, CSV and HTML.
#include "base/utf8.h"
#include "report/bench.h"
#include "report/markup.h"
#include "report/page.h"
#include "report/spec_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- a table in one of three forms

typedef struct {
    enum { TERMINAL, MARKDOWN, HTML } form;
    ls_buf *out;
    int first; // width of the first column in a terminal
} sheet;

static void heading(const sheet *s, const char *text) {
    if (s->form == TERMINAL) ls_buf_char(s->out, '\n');
    if (s->form == MARKDOWN) ls_buf_fmt(s->out, "\n## %s\n\n", text);
    if (s->form == HTML) ls_page_tag(s->out, "h2", text);
}

// The first column is left-aligned; the others are right-aligned, except a last column of text. cells: the width in a
// terminal.
static void cell(const sheet *s, bool head, int column, const char *text, int cells) {
    if (s->form == TERMINAL) {
        if (!column) ls_sanitize_fmt(s->out, "%-*s", cells, text);
        else if (cells < 0) ls_sanitize_fmt(s->out, "  %s", text);
        else ls_sanitize_fmt(s->out, " %*.*s", cells, cells, text);
    } else if (s->form == MARKDOWN) {
        ls_buf_str(s->out, column ? " " : "| ");
        ls_markdown_str(s->out, text);
        ls_buf_str(s->out, " |");
    } else ls_page_tag(s->out, head ? "th" : "td", text);
}

static void table_begin(const sheet *s) {
    if (s->form == HTML) ls_buf_str(s->out, "<div class=\"scroll\"><table>\n");
}
static void table_end(const sheet *s) {
    if (s->form == HTML) ls_buf_str(s->out, "</table></div>\n");
}
static void row_begin(const sheet *s) {
    if (s->form == HTML) ls_buf_str(s->out, "<tr>");
}
static void row_end(const sheet *s) {
    ls_buf_str(s->out, s->form == HTML ? "</tr>\n" : "\n");
}
static void head_end(const sheet *s, int columns) {
    row_end(s);
    if (s->form != MARKDOWN) return;
    ls_buf_str(s->out, "|---|");
    for (int i = 1; i < columns; i++) ls_buf_str(s->out, "---:|");
    ls_buf_char(s->out, '\n');
}

// ---- what the machine is

static void value_of(char *out, size_t size, double v, const char *unit) {
    const int decimals = fabs(v - round(v)) < 1e-9 || v >= 100 ? 0 : v < 10 ? 2 : 1;
    snprintf(out, size, "%.*f%s%s", decimals, v, *unit ? " " : "", unit);
}

static void fact(const sheet *s, const char *words, const char *value) {
    row_begin(s);
    cell(s, false, 0, words, s->first);
    cell(s, false, 1, value, -1);
    row_end(s);
}

static void manifest(const sheet *s, const ls_manifest *m) {
    table_begin(s);
    if (s->form == MARKDOWN) ls_buf_str(s->out, "| | |\n|---|---|\n");
#define TEXT(field, words)                                                                                             \
    if (*m->field) fact(s, words, m->field);
#define NUMBER(field, words, unit)                                                                                     \
    if (isfinite(m->field)) {                                                                                          \
        char value[64];                                                                                                \
        value_of(value, sizeof value, m->field, unit);                                                                 \
        fact(s, words, value);                                                                                         \
    }
#include "report/manifest.def"
#undef TEXT
#undef NUMBER
    table_end(s);
}

void ls_manifest_text(const ls_manifest *m, ls_buf *out) {
    manifest(&(sheet){TERMINAL, out, 36}, m);
}
void ls_manifest_markdown(const ls_manifest *m, ls_buf *out) {
    manifest(&(sheet){MARKDOWN, out, 0}, m);
}

// ---- one row of the table of methods, in words

enum { CELL = 48 };
typedef struct {
    char mat[CELL], rate[CELL], tokens_per_s[CELL], speedup[CELL], interval[CELL], with_prompt[CELL], of_limit[CELL],
        draft[CELL], host[CELL], output[160];
} row;

// The columns, once: field, heading, cells in a terminal.
#define COLUMNS(X)                                                                                                     \
    X(mat, "MAT", 6)                                                                                                   \
    X(rate, "accepted/verified", 17)                                                                                   \
    X(tokens_per_s, "tokens/s", 9)                                                                                     \
    X(speedup, "speedup", 8)                                                                                           \
    X(interval, "95%", 13)                                                                                             \
    X(with_prompt, "+ prompt", 9)                                                                                      \
    X(of_limit, "of limit", 9)                                                                                         \
    X(draft, "draft us", 9)                                                                                            \
    X(host, "host us", 8)

static void number(char out[CELL], double v, int decimals, const char *unit) {
    *out = 0;
    if (isfinite(v)) snprintf(out, CELL, "%.*f%s", decimals, v, unit);
}

static void output_words(const ls_bench *b, int i, const ls_total *t, char *out, size_t size) {
    char promise[100] = "";
    if (!strcmp(b->methods[i].promise, "odds")) snprintf(promise, sizeof promise, "same distribution, other samples: ");
    if (!strcmp(b->methods[i].promise, "none"))
        snprintf(promise, sizeof promise, "LOSSY: %llu of %llu tokens not the target's choice, ",
                 (unsigned long long)t->loose, (unsigned long long)t->emitted);
    if (t->different)
        snprintf(out, size, "%sDIFFERS in %llu of %llu", promise, (unsigned long long)t->different,
                 (unsigned long long)t->prompts);
    else
        snprintf(out, size, "%s%s", promise,
                 !strcmp(b->methods[i].label, b->judged) ? "reference"
                 : !*b->judged                           ? "no exact method to compare"
                                                         : "equal");
}

static row row_of(const ls_bench *b, int i) {
    const ls_total t = ls_bench_total(b, i, NULL);
    row r;
    snprintf(r.mat, CELL, "%.2f", ls_per((double)t.emitted, t.steps));
    snprintf(r.rate, CELL, "%llu/%llu", (unsigned long long)t.accepted, (unsigned long long)t.drafted);
    snprintf(r.tokens_per_s, CELL, "%.1f", t.decode_us > 0 ? 1e6 * (double)t.emitted / t.decode_us : 0);
    snprintf(r.speedup, CELL, "%s", ls_total_speedup_text(&t).s);
    *r.interval = 0;
    if (isfinite(t.low)) snprintf(r.interval, CELL, "%.2f - %.2f", t.low, t.high);
    number(r.with_prompt, ls_bench_speedup_with_prompt(b, &t, NULL), 2, "");
    number(r.of_limit, 100 * ls_bench_of_limit(b, &t), 0, "%");
    number(r.draft, ls_per(t.draft_us, t.forwards), 0, "");
    number(r.host, ls_per(t.host_us, t.forwards), 0, "");
    output_words(b, i, &t, r.output, sizeof r.output);
    return r;
}

// "1.66  x1.31"; without the x if the speedup is not possible.
static void category_words(const ls_bench *b, int i, const char *category, char out[CELL]) {
    const ls_total t = ls_bench_total(b, i, category);
    snprintf(out, CELL, "%.2f  %s%s", ls_per((double)t.emitted, t.steps), ls_total_is_possible(&t) ? "x" : "",
             ls_total_speedup_text(&t).s);
}

// What the columns mean, and what disturbed the measurement.
static void notes(const ls_bench *b, ls_buf *out) {
    ls_buf_str(out, !strcmp(b->against, "ar") ? "speedup: over `ar`, measured here in turn on the same prompts"
                                              : "speedup: over single-row forwards timed in the same runs");
    ls_buf_str(out, "; 95%: interval by resampling prompts; draft us, host us: per step with a forward\n");
    if (b->ar >= 0) ls_buf_str(out, "+ prompt: speedup with the prefill in both times\n");
    if (isfinite(b->manifest.kv_kb * b->manifest.weight_mb / b->manifest.read_gb_per_s))
        ls_buf_fmt(out,
                   "of limit: lower bound / time of the steps; the bound reads %.0f MB of weights per step and %.0f KB "
                   "of keys and values per token at %.1f GB/s, as measured in this run\n",
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

static int label_width(const ls_bench *b) {
    size_t width = 20;
    for (int i = 0; i < b->n; i++)
        if (strlen(b->methods[i].label) > width) width = strlen(b->methods[i].label);
    return (int)width;
}

static void methods(const sheet *s, const ls_bench *b) {
    int column = 0;
    table_begin(s);
    row_begin(s);
    cell(s, true, column++, "method", s->first);
#define X(field, heading, cells) cell(s, true, column++, heading, cells);
    COLUMNS(X)
#undef X
    cell(s, true, column++, "output", -1);
    head_end(s, column);
    for (int i = 0; i < b->n; i++) {
        const row r = row_of(b, i);
        row_begin(s);
        cell(s, false, 0, b->methods[i].label, s->first);
#define X(field, heading, cells) cell(s, false, 1, r.field, cells);
        COLUMNS(X)
#undef X
        cell(s, false, 1, r.output, -1);
        row_end(s);
    }
    table_end(s);
}

// tasks: a table of the tasks, if there are several; otherwise of mt_bench's categories.
static void categories(const sheet *s, const ls_bench *b, bool tasks) {
    const char **names = ls_bench_categories(b);
    size_t n = 0;
    for (size_t c = 0; names[c]; c++)
        if (ls_bench_is_task(b, names[c]) == tasks) names[n++] = names[c];
    names[n] = NULL;
    if (n > tasks) {
        int columns = 1;
        heading(s, tasks ? "By category" : "By category of mt_bench");
        table_begin(s);
        row_begin(s);
        cell(s, true, 0, tasks ? "MAT, speedup" : "... of mt_bench", s->first);
        for (int c = 0; names[c]; c++) cell(s, true, columns++, names[c], 15);
        head_end(s, columns);
        for (int i = 0; i < b->n; i++) {
            row_begin(s);
            cell(s, false, 0, b->methods[i].label, s->first);
            for (int c = 0; names[c]; c++) {
                char words[CELL];
                category_words(b, i, names[c], words);
                cell(s, false, 1, words, 15);
            }
            row_end(s);
        }
        table_end(s);
    }
    free(names);
}

static void spec_bench(const sheet *s, const ls_bench *b) {
    if (b->ar < 0) return;
    heading(s, "Speedup as Spec-Bench has it");
    table_begin(s);
    row_begin(s);
    cell(s, true, 0, "mean of tokens/s", s->first);
    cell(s, true, 1, "with prompt", 15);
    cell(s, true, 2, "without", 15);
    head_end(s, 3);
    for (int i = 0; i < b->n; i++) {
        const ls_total t = ls_bench_total(b, i, NULL);
        char with[CELL], without[CELL];
        number(with, ls_bench_speedup_of_means(b, &t, NULL, true), 2, "");
        number(without, ls_bench_speedup_of_means(b, &t, NULL, false), 2, "");
        row_begin(s);
        cell(s, false, 0, b->methods[i].label, s->first);
        cell(s, false, 1, with, 15);
        cell(s, false, 2, without, 15);
        row_end(s);
    }
    table_end(s);
}

static void tables(const sheet *s, const ls_bench *b) {
    ls_buf text = {0};
    methods(s, b);
    notes(b, &text);
    if (s->form == TERMINAL) ls_buf_fmt(s->out, "\n%s", text.p);
    else if (s->form == HTML) ls_page_tag(s->out, "pre", text.p);
    else ls_buf_fmt(s->out, "\n```\n%s```\n", text.p);
    ls_buf_free(&text);
    categories(s, b, true);
    categories(s, b, false);
    if (s->form != TERMINAL) {
        spec_bench(s, b);
        heading(s, "Measured where");
        manifest(s, &b->manifest);
    }
}

void ls_bench_text(const ls_bench *b, ls_buf *out) {
    ls_buf head = {0};
    title(b, &head);
    ls_sanitize_row(out, "%s", head.p);
    ls_buf_free(&head);
    tables(&(sheet){TERMINAL, out, label_width(b)}, b);
}

void ls_bench_markdown(const ls_bench *b, ls_buf *out) {
    ls_buf head = {0};
    title(b, &head);
    ls_buf_str(out, "# ");
    ls_markdown(out, head.p, head.n);
    ls_buf_str(out, "\n\n");
    ls_buf_free(&head);
    tables(&(sheet){MARKDOWN, out, 0}, b);
}

void ls_bench_html(const ls_bench *b, ls_buf *out) {
    ls_buf head = {0};
    title(b, &head);
    ls_page_begin(out, "logitspec: a benchmark of methods",
                  "td:not(:first-child),th:not(:first-child){text-align:right}");
    ls_page_tag(out, "p", head.p);
    ls_buf_free(&head);
    tables(&(sheet){HTML, out, 0}, b);
    ls_page_end(out);
}

// ---- CSV

static void csv_line(const ls_bench *b, int i, const char *category, ls_buf *out) {
    const ls_total t = ls_bench_total(b, i, category);
    ls_csv_str(out, b->methods[i].label);
    ls_buf_char(out, ',');
    ls_csv_str(out, category ? category : "all");
    ls_buf_fmt(out, ",%llu,%llu,%llu,%llu,%llu", (unsigned long long)t.prompts, (unsigned long long)t.emitted,
               (unsigned long long)t.steps, (unsigned long long)t.drafted, (unsigned long long)t.accepted);
    ls_csv_number(out, ls_per((double)t.emitted, t.steps));
    ls_csv_number(out, t.decode_us > 0 ? 1e6 * (double)t.emitted / t.decode_us : NAN);
    ls_csv_number(out, ls_total_speedup(&t));
    ls_csv_number(out, t.low);
    ls_csv_number(out, t.high);
    ls_csv_number(out, ls_bench_speedup_with_prompt(b, &t, category));
    ls_csv_number(out, ls_bench_speedup_of_means(b, &t, category, true));
    ls_csv_number(out, ls_bench_speedup_of_means(b, &t, category, false));
    ls_csv_number(out, ls_bench_of_limit(b, &t));
    ls_buf_fmt(out, ",%llu\n", (unsigned long long)t.different);
}

void ls_bench_csv(const ls_bench *b, ls_buf *out) {
    const char **names = ls_bench_categories(b);
    ls_buf_str(out, "method,category,prompts,emitted,steps,draft_verified,draft_accepted,mat,tokens_per_s,speedup,"
                    "speedup_low,speedup_high,speedup_with_prompt,spec_bench_speedup,"
                    "spec_bench_speedup_without_prompt,of_limit,different\n");
    for (int i = 0; i < b->n; i++) {
        csv_line(b, i, NULL, out);
        for (int c = 0; names[c]; c++) csv_line(b, i, names[c], out);
    }
    free(names);
}

// ---- Spec-Bench

void ls_bench_answers(const ls_bench *b, int method, ls_buf *out) {
    char id[300];
    snprintf(id, sizeof id, "%s-%s", b->manifest.model, b->methods[method].label);
    for (size_t p = 0; p < b->done; p++) {
        char answer[120];
        snprintf(answer, sizeof answer, "%.60s-%.40s", b->prompts[p].name, b->methods[method].label);
        ls_spec_bench_line(ls_bench_result(b, p, method), b->prompts[p].name, b->prompts[p].category, answer, id, out);
    }
}
