// The cost of prefill and of forwards by rows and context on this machine. Each round measures every cell once, so that
// other load on the machine affects all cells alike. The report has the medians, and a lower bound for each: the time
// that memory or arithmetic needs at the hardware limits measured in the same run.
#include "base/err.h"
#include "base/system.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/machine.h"
#include "model/checkpoint.h"
#include "report/chart.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, READ = 512, MOST = 32, CELLS = 1 + MOST * MOST };
static const double WARM_MS = 25; // forwards before a measured one

typedef struct {
    int32_t n, v[MOST]; // ascending
} list;

typedef struct {
    int32_t context, rows; // rows 0: prefill of READ tokens (or as many as fit) after `context` tokens
    int32_t tokens;        // rows, or tokens of the prefill, of one run
    double ms[ROUNDS];
    double median, low, high;
    double of_one; // forwards: as a multiple of one row's at that context
    double least;  // lower bound at the machine's limits, ms; NAN: not known
} cell;

typedef struct {
    ls_model model;
    ls_kv_cache *kv_cache;
    ls_manifest manifest;
    list contexts, rows;
    cell cells[CELLS];
    int n, rounds;
    double load_ms;
} bench;

static const lst_sampling greedy = {.top_p = 1};

static ls_code read_tokens(bench *b, int32_t n, double *ms, ls_err *err) {
    ls_kv_cache *t = b->kv_cache;
    int32_t *ids = ls_malloc(sizeof *ids * (size_t)n);
    for (int32_t i = 0; i < n; i++) ids[i] = (i * 31 + 7) % t->engine->n_vocab;
    lst_row last;
    const uint64_t start = ls_now_ns();
    const ls_code code = t->prefill(t, ids, n, &greedy, &last, NULL, NULL, err);
    *ms = (double)(ls_now_ns() - start) / 1e6;
    free(ids);
    return code;
}

// A root with branches of four rows, a typical shape of drafted trees.
static ls_code forward(bench *b, int32_t n, double *ms, ls_err *err) {
    ls_kv_cache *t = b->kv_cache;
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

// One round over all cells in order of context. Leaves the KV cache empty. keep false: a warm-up, not recorded.
static ls_code run_round(bench *b, bool keep, ls_err *err) {
    ls_kv_cache *t = b->kv_cache;
    double ms;
    ls_code code = t->rewind(t, 0, err);
    for (int i = 0; i < b->n && !code; i++) {
        cell *c = &b->cells[i];
        const double done = (double)(b->rounds * b->n + i) / (ROUNDS * b->n);
        if (!ls_gauge_show(NULL, keep ? "measuring" : "warming up", keep ? done : -1))
            return ls_fail(err, LS_E_CANCELLED, "interrupted");
        if (!c->rows) {
            code = read_tokens(b, c->tokens, &ms, err);
            if (!code) code = t->rewind(t, 0, err);
        } else {
            const int32_t missing = c->context - t->length(t);
            if (missing > 0) code = read_tokens(b, missing, &ms, err);
            // warms caches and threads as a run of such steps does; a large cache takes several forwards
            double spent = 0;
            while (spent < WARM_MS && !code) {
                code = forward(b, c->rows, &ms, err);
                spent += ms;
            }
            if (!code) code = forward(b, c->rows, &ms, err);
        }
        if (!code && keep) c->ms[b->rounds] = ms;
    }
    if (!code) code = t->rewind(t, 0, err);
    b->rounds += keep && !code;
    return code;
}

static void summarise(bench *b) {
    for (int i = 0; i < b->n; i++) {
        cell *c = &b->cells[i];
        double sorted[ROUNDS], ratios[ROUNDS];
        const cell *one = c;
        while (one->rows > 1) one--; // the cells of a context are adjacent, by rising rows, and begin with one row
        // the ratio is taken within a round, where both cells had the same load
        for (int r = 0; r < b->rounds; r++) sorted[r] = c->ms[r], ratios[r] = c->ms[r] / one->ms[r];
        ls_sort(sorted, (size_t)b->rounds);
        ls_sort(ratios, (size_t)b->rounds);
        c->median = sorted[b->rounds / 2];
        c->low = sorted[0];
        c->high = sorted[b->rounds - 1];
        c->of_one = ratios[b->rounds / 2];
    }
}

// The limit of an arithmetic in 10^9 multiply-adds per second. The arithmetic is the last word of an engine's dtype
// before " kv ...", the type of the KV cache.
static double macs_of(const ls_manifest *m, const char *dtype) {
    const char *end = strstr(dtype, " kv "), *word = end ? end : dtype + strlen(dtype);
    while (word > dtype && word[-1] != ' ') word--;
    return *word == 'i' ? m->int8_gmac_per_s : *word == 'b' ? m->bf16_gmac_per_s : m->f32_gmac_per_s;
}

// Positions before a row that a layer reads, on average over layers and rows: a local layer reads its window at most.
static double seen_by(const ls_hparams *h, const cell *c) {
    double all = 0;
    int n_local = 0;
    for (int i = 0; i < h->n_layers; i++) n_local += h->window && h->local[i];
    for (int32_t row = 0; row < c->tokens; row++) { // of a tree, all see the context alone
        const double seen = c->rows ? c->context : c->context + row;
        all += (h->n_layers - n_local) * seen + n_local * fmin(seen, h->window);
    }
    return all / h->n_layers / c->tokens;
}

// Lower bound of a cell in ms: the larger of memory time (weights and KV cache, each read once) and arithmetic time.
// Products with weights count at the limit of the engine's arithmetic, products with keys and values at that of the KV
// type.
static double least_ms(const bench *b, const cell *c) {
    const ls_manifest *m = &b->manifest;
    const ls_engine *e = b->model.engine;
    const double macs = macs_of(m, e->dtype), kv_macs = e->kv_value_bytes == 2 ? m->bf16_gmac_per_s : m->f32_gmac_per_s;
    const ls_checkpoint *of = b->model.checkpoint; // several query heads share a key or value
    if (!of) return NAN;
    const double seen = seen_by(&of->hparams, c);
    const double bytes = m->weight_mb * 1e6 + (double)e->kv_bytes * seen;
    const double sharing = (double)of->hparams.n_heads / of->hparams.n_kv_heads;
    const double values = (double)e->kv_bytes / e->kv_value_bytes * sharing;
    const double memory = bytes / (m->read_gb_per_s * 1e6);
    const double head = (double)e->head_macs, layers = (double)e->row_macs - head;
    const double weights = (c->tokens * layers + (c->rows ? c->tokens : 1) * head) / (macs * 1e6);
    const double attention = c->tokens * seen * values / (kv_macs * 1e6);
    return fmax(memory, weights + attention);
}

static int by_number(const void *a, const void *b) {
    return *(const int32_t *)a - *(const int32_t *)b;
}

// "1,8,64", each from 1 to most; NULL: the defaults.
static ls_code read_list(list *out, const char *flag, const char *text, const list *usual, int32_t most, ls_err *err) {
    *out = *usual;
    if (text) out->n = 0;
    for (const char *at = text; at && *at;) {
        char *end;
        const long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || v < 1 || v > most || out->n == MOST)
            return ls_fail(err, LS_E_USAGE, "%s %.60s: expected up to %d numbers from 1 to %d, separated by commas",
                           flag, text, MOST, most);
        out->v[out->n++] = (int32_t)v;
        at = end + (*end == ',');
    }
    if (!out->n) return ls_fail(err, LS_E_USAGE, "%s: the list is empty", flag);
    qsort(out->v, (size_t)out->n, sizeof *out->v, by_number);
    return LS_OK;
}

static ls_code measure(bench *b, const ls_command_line *c, ls_err *err) {
    static const list contexts = {3, {64, 512, 2048}}, rows = {7, {1, 2, 4, 8, 16, 32, 64}};
    ls_run_setup setup;
    ls_code code = read_list(&b->contexts, "--contexts", c->contexts, &contexts, 1 << 20, err);
    if (!code) code = read_list(&b->rows, "--rows", c->rows, &rows, LST_MAX_ROWS, err);
    if (!code && b->rows.v[0] != 1) code = ls_fail(err, LS_E_USAGE, "--rows must include 1, the baseline");
    if (code) return code;
    ls_run_setup_init(&setup, &c->options);
    ls_cpu_wait waits = ls_machine_begin(&b->manifest);
    ls_gauge_watch(&setup.s.model.engine);
    const uint64_t start = ls_now_ns();
    code = ls_model_load(&b->model, &setup.s.model, err);
    b->load_ms = (double)(ls_now_ns() - start) / 1e6;
    ls_run_setup_free(&setup);
    if (code) return code;
    ls_machine_model(&b->manifest, &b->model, true);
    const int32_t room = b->model.engine->n_context, most = b->rows.v[b->rows.n - 1];
    b->cells[b->n++] = (cell){.tokens = room < READ ? room : READ};
    for (int k = 0; k < b->contexts.n; k++) {
        const int32_t context = b->contexts.v[k];
        if (context + most > room && c->contexts)
            return ls_fail(err, LS_E_RANGE, "--contexts %d: with %d rows more it exceeds the context of %d tokens",
                           context, most, room);
        for (int r = 0; r < b->rows.n && context + most <= room; r++)
            b->cells[b->n++] = (cell){.context = context, .rows = b->rows.v[r], .tokens = b->rows.v[r]};
    }
    code = b->model.engine->kv_cache(b->model.engine, 0, &b->kv_cache, err);
    if (!code) code = run_round(b, false, err);
    while (!code && b->rounds < ROUNDS) code = run_round(b, true, err);
    if (b->rounds) summarise(b);
    if (b->kv_cache) b->kv_cache->free(b->kv_cache);
    ls_machine_end(&b->manifest, &waits);
    for (int i = 0; i < b->n; i++) b->cells[i].least = least_ms(b, &b->cells[i]);
    return code;
}

// ---- results

static ls_table table(const bench *b) {
    const ls_engine *e = b->model.engine;
    ls_table t = {0};
    for (int i = 0; i < b->n; i++) {
        const cell *c = &b->cells[i];
        ls_table_row(&t);
        ls_put(&t, NULL, "model", 0, "%s", b->model.name);
        ls_put(&t, NULL, "device", 0, "%s", e->device);
        ls_put(&t, NULL, "dtype", 0, "%s", e->dtype);
        ls_put_whole(&t, NULL, "threads", 0, e->threads);
        ls_put(&t, "what", "what", -7, "%s", c->rows ? "forward" : "read");
        ls_put_whole(&t, "context", "context", 7, c->context);
        ls_put_whole(&t, "rows", "rows", 4, c->tokens);
        ls_put_number(&t, "median ms", "median_ms", 11, 3, c->median);
        ls_put_number(&t, "lowest", "low_ms", 9, 3, c->low);
        ls_put_number(&t, "highest", "high_ms", 9, 3, c->high);
        ls_put_number(&t, "rows/s", "rows_per_s", 8, 0, 1e3 * c->tokens / c->median);
        ls_put_number(&t, "of one row", "of_one_row", 10, 2, c->rows ? c->of_one : NAN);
        ls_put_number(&t, "least ms", "least_ms", 8, 3, c->least);
        ls_put_number(&t, "of limit", NULL, 8, LS_PERCENT, c->least / c->median);
    }
    return t;
}

static void markdown(const bench *b, ls_buf *out) {
    const ls_engine *e = b->model.engine;
    ls_table t = table(b);
    ls_markdown_str(out, b->model.name);
    ls_buf_fmt(out, ", %s on %s, %d thread%s (%s); loaded in %.0f ms; medians of %d round%s\n\n", e->dtype, e->device,
               e->threads, ls_plural(e->threads), e->kernel, b->load_ms, b->rounds, ls_plural(b->rounds));
    ls_table_markdown(&t, true, out);
    ls_table_free(&t);
    ls_buf_str(out,
               "\nleast ms: the least time that the hardware limits of this run allow, to read the weights and the "
               "context once or to compute all rows, whichever takes longer; of limit: least ms / median ms\n\n");
    if (b->manifest.waited > LS_BUSY)
        ls_buf_fmt(out, "warning: the machine is busy (threads waited for a CPU %.0f%% of the time)\n\n",
                   100 * b->manifest.waited);
    ls_manifest_show(&b->manifest, LS_FORM_MARKDOWN, out);
}

static void csv(const bench *b, ls_buf *out) {
    ls_table t = table(b);
    ls_table_csv(&t, true, "\n", out);
    ls_table_free(&t);
}

static void json(const bench *b, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    ls_table t = table(b);
    ls_jw_key(&w, "manifest");
    ls_manifest_json(&b->manifest, &w);
    ls_jw_field_num(&w, "load_ms", b->load_ms, 6);
    ls_jw_field_int(&w, "rounds", b->rounds);
    ls_jw_key(&w, "results");
    ls_table_json(&t, &w);
    ls_jw_end(&w);
    ls_table_free(&t);
}

// Milliseconds by rows, a line for each context; dashed: the lower bound.
static void plot(const bench *b, ls_buf *out) {
    static const ls_chart_facts facts = {.name = "forwards",
                                         .shape = LS_SHAPE_LOG,
                                         .title = "Milliseconds of a forward by its rows",
                                         .x_label = "rows (dashed: lower bound of memory and arithmetic)",
                                         .value = "ms"};
    ls_chart chart = {.facts = &facts, .width = 640};
    for (int bound = 0; bound < 2; bound++)
        for (int i = 1; i < b->n; i++) {
            const cell *c = &b->cells[i];
            char series[40], rows[16];
            snprintf(series, sizeof series, "%d tokens%s", c->context, bound ? ", lower bound" : "");
            snprintf(rows, sizeof rows, "%d", c->rows);
            ls_chart_add(&chart, series, rows, c->rows, bound ? c->least : c->median, 0);
            ls_chart_series(&chart, series)->aside = bound;
        }
    ls_chart_file(&chart, 1, "bench", out);
    ls_chart_free(&chart);
}

ls_code ls_bench_forward(const ls_command_line *c, ls_console *to, ls_err *err) {
    (void)to;
    static void (*const writers[LS_FORMS])(const bench *b, ls_buf *out) = {
        [LS_FORM_MARKDOWN] = markdown, [LS_FORM_CSV] = csv, [LS_FORM_JSON] = json, [LS_FORM_SVG] = plot};
    const ls_form form = c->out ? ls_form_of(c->out) : LS_FORM_MARKDOWN;
    ls_buf out = {0};
    bench *b = ls_calloc(1, sizeof *b);
    ls_code code = LS_OK;
    if (!writers[form])
        code = ls_fail(err, LS_E_USAGE, "-o %.80s: the name must end in .md, .csv, .json or .svg (a plot)", c->out);
    ls_catch_signals();
    if (!code) code = measure(b, c, err);
    if (b->rounds && c->out) { // results of the completed rounds, even after an error
        writers[form](b, &out);
        const ls_code written = ls_write_file(c->out, &out, code ? NULL : err);
        if (!code) code = written;
        ls_buf_clear(&out);
    }
    if (b->rounds && (!c->out || c->json)) {
        (c->json ? json : markdown)(b, &out);
        ls_print(&out);
    }
    ls_buf_free(&out);
    ls_model_free(&b->model);
    free(b);
    return code;
}

ls_code ls_bench_limits(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_manifest m;
    ls_machine_begin(&m);
    const ls_code code = ls_machine_limits(&m, c->options.threads, err);
    if (code) return code;
    if (c->json) {
        ls_jsonw w = {.out = &to->out};
        ls_manifest_json(&m, &w);
        ls_buf_char(&to->out, '\n');
    } else {
        ls_manifest_show(&m, LS_FORM_TEXT, &to->out);
        ls_wrap(&to->out, 0, ls_columns(STDOUT_FILENO), 40);
    }
    return LS_OK;
}
