// What the parts of decoding cost on this machine: reading a prompt, and forwards by rows and context. Each round
// measures everything once, so that other load on the machine affects all cells alike; the report has medians.
#include "base/clock.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "report/markup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, READ = 512 };
static const int32_t contexts[] = {64, 512, 2048}, rows[] = {1, 2, 4, 8, 16, 32, 64};
enum { CONTEXTS = sizeof contexts / sizeof *contexts, ROWS = sizeof rows / sizeof *rows, CELLS = 1 + CONTEXTS * ROWS };

typedef struct {
    int32_t context, rows; // rows 0: reading, after `context` tokens, READ tokens (or as many as fit)
    int32_t tokens;        // that one run handles
    double ms[ROUNDS];
    double median, low, high;
    double of_one; // forwards: as a multiple of one row's at that context
} cell;

typedef struct {
    ls_model model;
    ls_timeline *timeline;
    cell cells[CELLS];
    int n, rounds;
    double load_ms;
    ls_gauge gauge;
} bench;

static const lst_sampling greedy = {.top_p = 1};

static ls_code read_tokens(bench *b, int32_t n, double *ms, ls_err *err) {
    ls_timeline *t = b->timeline;
    int32_t *ids = ls_malloc(sizeof *ids * (size_t)n);
    for (int32_t i = 0; i < n; i++) ids[i] = (i * 31 + 7) % t->engine->n_vocab;
    lst_row last;
    const uint64_t start = ls_now_ns();
    const ls_code code = t->prefill(t, ids, n, &greedy, &last, NULL, NULL, err);
    *ms = (double)(ls_now_ns() - start) / 1e6;
    free(ids);
    return code;
}

// A root with branches of four, as drafts have them.
static ls_code forward(bench *b, int32_t n, double *ms, ls_err *err) {
    ls_timeline *t = b->timeline;
    int32_t ids[LST_MAX_ROWS], parents[LST_MAX_ROWS];
    lst_row *out = ls_malloc(sizeof *out * LST_MAX_ROWS);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (i * 17 + 3) % t->engine->n_vocab;
        parents[i] = i == 0 ? -1 : i % 4 == 1 ? 0 : i - 1;
    }
    const uint64_t start = ls_now_ns();
    const ls_code code = t->forward_tree(t, ids, parents, n, &greedy, out, err);
    *ms = (double)(ls_now_ns() - start) / 1e6;
    free(out);
    return code;
}

// One round over all cells in order of context. It leaves the timeline empty. keep: the round counts.
static ls_code run_round(bench *b, bool keep, ls_err *err) {
    ls_timeline *t = b->timeline;
    double ms;
    ls_code code = t->rewind(t, 0, err);
    for (int i = 0; i < b->n && !code; i++) {
        cell *c = &b->cells[i];
        const double done = (double)(b->rounds * b->n + i) / (ROUNDS * b->n);
        if (!ls_gauge_show(&b->gauge, keep ? "measuring" : "warming up", keep ? done : -1))
            return ls_fail(err, LS_E_CANCELLED, "interrupted");
        if (!c->rows) {
            code = read_tokens(b, c->tokens, &ms, err);
            if (!code) code = t->rewind(t, 0, err);
        } else {
            double ignored;
            const int32_t missing = c->context - t->length(t);
            if (missing > 0) {
                code = read_tokens(b, missing, &ignored, err);
                if (!code) code = forward(b, c->rows, &ignored, err); // warms caches and threads as a run of steps does
            }
            if (!code) code = forward(b, c->rows, &ms, err);
        }
        if (!code && keep) c->ms[b->rounds] = ms;
    }
    if (!code) code = t->rewind(t, 0, err);
    b->rounds += keep && !code;
    return code;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(bench *b) {
    for (int i = 0; i < b->n; i++) {
        cell *c = &b->cells[i];
        double sorted[ROUNDS], ratios[ROUNDS];
        const cell *one = c;
        while (one->rows > 1) one--; // the cells of a context follow one another, one row first
        for (int r = 0; r < b->rounds; r++) sorted[r] = c->ms[r], ratios[r] = c->ms[r] / one->ms[r];
        qsort(sorted, (size_t)b->rounds, sizeof *sorted, by_value);
        qsort(ratios, (size_t)b->rounds, sizeof *ratios, by_value);
        c->median = sorted[b->rounds / 2];
        c->low = sorted[0];
        c->high = sorted[b->rounds - 1];
        c->of_one = ratios[b->rounds / 2];
    }
}

static ls_code measure(bench *b, const ls_command_line *c, ls_err *err) {
    ls_run_setup setup;
    ls_run_setup_init(&setup, &c->options);
    ls_gauge_watch(&b->gauge, &setup.s.model.engine);
    const uint64_t start = ls_now_ns();
    ls_code code = ls_model_load(&b->model, &setup.s.model, err);
    b->load_ms = (double)(ls_now_ns() - start) / 1e6;
    ls_run_setup_free(&setup);
    if (code) return code;
    const int32_t room = b->model.engine->n_context;
    b->cells[b->n++] = (cell){.tokens = room < READ ? room : READ};
    for (int k = 0; k < CONTEXTS; k++)
        for (int r = 0; r < ROWS && contexts[k] + rows[ROWS - 1] <= room; r++)
            b->cells[b->n++] = (cell){.context = contexts[k], .rows = rows[r], .tokens = rows[r]};
    code = b->model.engine->timeline(b->model.engine, 0, &b->timeline, err);
    if (!code) code = run_round(b, false, err);
    while (!code && b->rounds < ROUNDS) code = run_round(b, true, err);
    if (b->rounds) summarise(b);
    if (b->timeline) b->timeline->free(b->timeline);
    return code;
}

// ---- results

static void markdown(const bench *b, ls_buf *out) {
    const ls_engine *e = b->model.engine;
    ls_markdown_str(out, b->model.name);
    ls_buf_fmt(out, ", %s on %s, %d threads (%s); loaded in %.0f ms; medians of %d rounds\n\n", e->dtype, e->device,
               e->threads, e->kernel, b->load_ms, b->rounds);
    ls_buf_str(out, "| what    | context | rows |   median ms |    lowest |   highest |   rows/s | of one row |\n"
                    "|---------|--------:|-----:|------------:|----------:|----------:|---------:|-----------:|\n");
    for (int i = 0; i < b->n; i++) {
        const cell *c = &b->cells[i];
        char of_one[16] = "";
        if (c->rows) snprintf(of_one, sizeof of_one, "%.2f", c->of_one);
        ls_buf_fmt(out, "| %-7s | %7d | %4d | %11.3f | %9.3f | %9.3f | %8.0f | %10s |\n", c->rows ? "forward" : "read",
                   c->context, c->tokens, c->median, c->low, c->high, 1e3 * c->tokens / c->median, of_one);
    }
}

static void csv(const bench *b, ls_buf *out) {
    ls_buf_str(out, "model,device,dtype,threads,what,context,rows,median_ms,low_ms,high_ms,rows_per_s,of_one_row\n");
    for (int i = 0; i < b->n; i++) {
        const cell *c = &b->cells[i];
        const ls_engine *e = b->model.engine;
        ls_csv_str(out, b->model.name);
        ls_buf_fmt(out, ",%s,%s,%d,%s,%d,%d,%.6g,%.6g,%.6g,%.6g,", e->device, e->dtype, e->threads,
                   c->rows ? "forward" : "read", c->context, c->tokens, c->median, c->low, c->high,
                   1e3 * c->tokens / c->median);
        if (c->rows) ls_buf_fmt(out, "%.6g", c->of_one);
        ls_buf_char(out, '\n');
    }
}

static void json(const bench *b, ls_buf *out) {
    ls_jsonw w = {.out = out};
    const ls_engine *e = b->model.engine;
    ls_jw_open(&w, '{');
    ls_jw_field_str(&w, "model", b->model.name);
    ls_jw_field_str(&w, "sha256", b->model.sha256);
    ls_jw_field_str(&w, "device", e->device);
    ls_jw_field_str(&w, "dtype", e->dtype);
    ls_jw_field_str(&w, "kernel", e->kernel);
    ls_jw_field_int(&w, "threads", e->threads);
    ls_jw_field_num(&w, "load_ms", b->load_ms, 6);
    ls_jw_field_int(&w, "rounds", b->rounds);
    ls_jw_field_open(&w, "results", '[');
    for (int i = 0; i < b->n; i++) {
        const cell *c = &b->cells[i];
        ls_jw_open(&w, '{');
        ls_jw_field_str(&w, "what", c->rows ? "forward" : "read");
        ls_jw_field_int(&w, "context", c->context);
        ls_jw_field_int(&w, "rows", c->tokens);
        ls_jw_field_num(&w, "median_ms", c->median, 6);
        ls_jw_field_num(&w, "low_ms", c->low, 6);
        ls_jw_field_num(&w, "high_ms", c->high, 6);
        if (c->rows) ls_jw_field_num(&w, "of_one_row", c->of_one, 6);
        ls_jw_close(&w, '}');
    }
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
    ls_buf_char(out, '\n');
}

int ls_cmd_bench(const ls_command_line *c) {
    static const struct {
        const char *ending;
        void (*write)(const bench *b, ls_buf *out);
    } forms[] = {{".md", markdown}, {".csv", csv}, {".json", json}};
    enum { FORMS = sizeof forms / sizeof *forms };
    ls_err err = {0};
    ls_buf out = {0};
    bench b = {.gauge = ls_gauge_start(c->quiet || c->json)};
    const char *ending = c->out ? strrchr(c->out, '.') : c->json ? ".json" : ".md";
    int form = 0;
    while (ending && form < FORMS && strcmp(ending, forms[form].ending)) form++;
    ls_code code = LS_OK;
    if (!ending || form == FORMS)
        code = ls_fail(&err, LS_E_USAGE, "-o %.80s: the name ends in .md, .csv or .json", c->out);
    ls_catch_signals();
    if (!code) code = measure(&b, c, &err);
    ls_gauge_clear(&b.gauge);
    int status = LS_EXIT_OK;
    if (b.rounds) forms[form].write(&b, &out); // of the rounds that were completed
    if (b.rounds && c->out) {
        const ls_code written = ls_write_file(c->out, &out, code ? NULL : &err);
        if (!code) code = written;
    } else if (b.rounds) status = ls_print(&out) ? LS_EXIT_OK : LS_EXIT_FAILED;
    if (code) status = ls_complain(&err);
    ls_buf_free(&out);
    ls_model_free(&b.model);
    return status;
}
