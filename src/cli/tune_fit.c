// Reads every recorded tree whose rows have estimates and fits the classifier to the accepted rows. Then chooses the
// threshold with the most tokens per millisecond, computed from the recorded costs as if the trees had been cut at this
// threshold. Recordings with --sizing paper are best, because sizing by cost removes rows before they are recorded.
#include "cli/tune_fit.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "spec/sizing.h"
#include "trace/trace_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    size_t first; // index of its first row
    int32_t n;    // drafted rows: the tree without its root
    int32_t context;
    size_t turn;
} fit_step;

typedef struct {
    ls_c2t_row *rows;
    int16_t *parents; // parent of each row, as an index of its tree
    size_t n_rows, room;
    fit_step *steps;
    size_t n_steps;
    ls_cost_curve *costs; // of each turn
    size_t n_turns, accepted;
    char model[64], method[32]; // of the first turn
    bool mixed;                 // the recordings have several methods
    ls_trace_gaps gaps;
} fitting;

static ls_code add_turn(fitting *f, const ls_trace_header *h, const char *path, ls_err *err) {
    if (strcmp(h->acceptance, "exact"))
        return ls_fail(err, LS_E_USAGE, "%s: recorded with the lossy acceptance %s; --fit needs exact outputs", path,
                       h->acceptance);
    if (!f->n_turns) {
        snprintf(f->model, sizeof f->model, "%s", h->run.model);
        snprintf(f->method, sizeof f->method, "%s", h->run.method);
    } else f->mixed |= strcmp(f->method, h->run.method) != 0;
    f->costs = ls_realloc(f->costs, (f->n_turns + 1) * sizeof *f->costs);
    f->costs[f->n_turns++] = h->run.costs;
    return LS_OK;
}

static void add_step(fitting *f, const ls_step *s) {
    const ls_tree *t = &s->tree;
    double path[LS_MAX_ROWS] = {1}, x[LS_MAX_ROWS][LS_C2T_FEATURES];
    if (!s->forward || !ls_step_described(s)) return;
    for (int32_t i = 1; i < t->n; i++) {
        path[i] = path[t->nodes[i].parent] * (double)t->nodes[i].est_p;
        if (isnan(path[i])) return; // the drafter had no estimates
    }
    ls_c2t_features(t, path, x);
    f->steps = ls_grown(f->steps, f->n_steps, sizeof *f->steps);
    if (f->n_rows + LS_MAX_ROWS > f->room) {
        f->room = 2 * f->room + LS_MAX_ROWS;
        f->rows = ls_realloc(f->rows, f->room * sizeof *f->rows);
        f->parents = ls_realloc(f->parents, f->room * sizeof *f->parents);
    }
    f->steps[f->n_steps++] = (fit_step){f->n_rows, t->n - 1, s->context_len, f->n_turns - 1};
    for (int32_t i = 1; i < t->n; i++) {
        ls_c2t_row *row = &f->rows[f->n_rows];
        for (int k = 0; k < LS_C2T_FEATURES; k++) row->x[k] = (float)x[i][k];
        row->accepted = t->nodes[i].state == LS_NODE_ACCEPTED;
        f->accepted += row->accepted;
        f->parents[f->n_rows++] = t->nodes[i].parent;
    }
}

static ls_code read_trace(fitting *f, const char *path, ls_err *err) {
    ls_trace_reader *r;
    ls_trace_line line;
    ls_code code = ls_trace_read_open(&r, path, err);
    if (code) return code;
    while (!code && !(code = ls_trace_read_next(r, &line, err)) && line != LS_TRACE_NONE) {
        if (line == LS_TRACE_HEADER) code = add_turn(f, ls_trace_read_header(r), path, err);
        if (line == LS_TRACE_STEP) add_step(f, ls_trace_read_step(r));
    }
    ls_trace_read_gaps(r, &f->gaps);
    ls_trace_read_close(r);
    return code;
}

// Tokens per millisecond if the trees were cut at this threshold; 0: no costs were recorded. A row is kept if its
// parent is kept and its chance reaches the threshold; row 0, the root, always is.
static double speed(const fitting *f, const double *chances, double threshold) {
    double tokens = 0, ms = 0;
    for (size_t i = 0; i < f->n_steps; i++) {
        const fit_step *s = &f->steps[i];
        bool keep[LS_MAX_ROWS] = {true};
        int32_t rows = 1;
        tokens++;
        for (int32_t k = 1; k <= s->n; k++) {
            const size_t at = s->first + (size_t)k - 1;
            keep[k] = keep[f->parents[at]] && chances[at] >= threshold;
            rows += keep[k];
            tokens += keep[k] && f->rows[at].accepted;
        }
        ms += ls_cost_ms(&f->costs[s->turn], rows, s->context);
    }
    return ms > 0 ? tokens / ms : 0;
}

// The fastest of a fixed list of thresholds; 0: no costs were recorded.
static double choose_threshold(const fitting *f, const double *weights) {
    static const double tried[] = {0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1,  0.12, 0.15,
                                   0.18, 0.2,  0.25, 0.3,  0.35, 0.4,  0.45, 0.5,  0.6};
    double *chances = ls_calloc(f->n_rows + 1, sizeof *chances), best = 0, most = 0;
    for (size_t i = 0; i < f->n_rows; i++) {
        double x[LS_C2T_FEATURES];
        for (int k = 0; k < LS_C2T_FEATURES; k++) x[k] = (double)f->rows[i].x[k];
        chances[i] = ls_c2t_chance(weights, x);
    }
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        const double now = speed(f, chances, tried[i]);
        if (now > most) most = now, best = tried[i];
    }
    free(chances);
    return best;
}

static ls_code conclude(const fitting *f, const ls_command_line *c, ls_buf *text, ls_err *err) {
    double path_alone[LS_C2T_FEATURES] = {0, 1}, weights[LS_C2T_FEATURES];
    memcpy(weights, path_alone, sizeof weights);
    ls_code code = ls_c2t_fit(f->rows, f->n_rows, weights, err);
    if (code) return code;
    const double before = ls_c2t_loss(f->rows, f->n_rows, path_alone), after = ls_c2t_loss(f->rows, f->n_rows, weights);
    ls_sanitize_row(text, "# Written by logitspec tune %s --fit c2t: %s, %s%s; %zu turns, %zu steps, %zu drafted rows,",
                    LS_VERSION, f->model, f->method, f->mixed ? " and other methods" : "", f->n_turns, f->n_steps,
                    f->n_rows);
    ls_buf_fmt(
        text,
        "# %zu of them accepted. Mean log loss per row: %.4f with path estimates alone, %.4f with these weights.\n",
        f->accepted, before, after);
    ls_sizing z;
    char rule[40];
    ls_sizing_read(&z, "", "c2t", NULL);
    const double threshold = choose_threshold(f, weights);
    if (threshold > 0) z.values[0] = threshold;
    ls_sizing_write(&z, rule, sizeof rule);
    ls_buf_str(text, "decode:\n");
    if (!f->mixed) ls_sanitize_row(text, "  method: %s", f->method);
    ls_buf_fmt(text, "  sizing: %s%s\nc2t:\n", rule,
               threshold > 0 ? "   # the fastest threshold by the recorded costs" : "");
    for (size_t i = 0; z.rule->knobs[i].key; i++)
        ls_buf_fmt(text, "  %s: %.6g\n", strchr(z.rule->knobs[i].key, '.') + 1, weights[i]);
    if (c->out) {
        ls_say(0, "%zu drafted rows, %zu accepted: log loss per row from %.4f to %.4f", f->n_rows, f->accepted, before,
               after);
        code = ls_write_file(c->out, text, err);
        if (!code) ls_say(LS_COMMANDS, "use it: logitspec --config %s", c->out);
        ls_buf_clear(text);
    }
    return code;
}

ls_code ls_tune_fit(const ls_command_line *c, ls_console *to, ls_err *err) {
    fitting f = {0};
    ls_code code = LS_OK;
    if (strcmp(c->fit, "c2t")) return ls_fail(err, LS_E_USAGE, "--fit is '%.40s', expected c2t", c->fit);
    if (!c->n_args) return ls_fail(err, LS_E_USAGE, "usage: logitspec tune --fit c2t TRACE... (files of --trace)");
    ls_gauge_reads(&to->gauge);
    for (int i = 0; i < c->n_args && !code; i++) code = read_trace(&f, c->args[i], err);
    if (!code && !f.n_rows)
        code =
            ls_fail(err, LS_E_RANGE,
                    "the traces have no drafts with estimates (traces of level steps and of method plain have none)");
    ls_gauge_clear(&to->gauge);
    if (!code) ls_warn_of_gaps(&f.gaps, NULL);
    if (!code) code = conclude(&f, c, &to->out, err);
    free(f.rows);
    free(f.parents);
    free(f.steps);
    free(f.costs);
    return code;
}
