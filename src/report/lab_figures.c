#include "report/lab_figures.h"
#include "base/mem.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEN = 20 }; // least number of forwards of a size whose mean is drawn

const ls_lab_figure_facts ls_lab_figures[LS_FIGURES] = {
#define FIGURE(id, name, shape, percent, title, x_label, value, of, caption)                                           \
    {name, LS_SHAPE_##shape, percent, title, x_label, value, of, caption},
#include "report/lab_figures.def"
};

void ls_lab_data_free(ls_lab_data *d) {
    for (size_t i = 0; i < d->n; i++) free(d->series[i].points);
    free(d->series);
    *d = (ls_lab_data){0};
}

static ls_lab_series *series_of(ls_lab_data *d, const char *name) {
    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->series[i].name, name)) return &d->series[i];
    d->series = ls_realloc(d->series, (d->n + 1) * sizeof *d->series);
    ls_lab_series *s = &d->series[d->n++];
    *s = (ls_lab_series){0};
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

static ls_lab_datum *add(ls_lab_data *d, const char *series, const char *label, double x, double value, uint64_t n) {
    ls_lab_series *s = series_of(d, series);
    s->points = ls_realloc(s->points, (s->n + 1) * sizeof *s->points);
    ls_lab_datum *p = &s->points[s->n++];
    *p = (ls_lab_datum){.x = x, .value = value, .low = NAN, .high = NAN, .count = NAN, .n = n};
    snprintf(p->label, sizeof p->label, "%s", label);
    return p;
}

static void add_share(ls_lab_data *d, const char *series, const char *label, double x, uint64_t n, uint64_t of) {
    if (of) add(d, series, label, x, (double)n / (double)of, of)->count = (double)n;
}

// ---- the data of each

static void add_mat(const ls_lab *lab, ls_lab_use use, ls_lab_data *d) {
    for (size_t r = 0; r < lab->index.n_runs; r++) {
        const ls_lab_run *run = &lab->index.runs[r];
        for (size_t i = 0; i < run->n_places; i++) {
            const ls_lab_place *p = &run->places[i];
            if (p->use != use) continue;
            const ls_total t = ls_lab_total(lab, r, NULL, false);
            if (t.steps)
                add(d, p->series, p->label, p->x, (double)t.emitted / (double)t.steps, t.steps)->count =
                    (double)t.emitted;
        }
    }
}

// Points are in the order of recording; lines need the order of x. The sort is stable.
static void sort(ls_lab_series *s) {
    for (size_t i = 1; i < s->n; i++) {
        const ls_lab_datum p = s->points[i];
        size_t at = i;
        for (; at > 0 && s->points[at - 1].x > p.x; at--) s->points[at] = s->points[at - 1];
        s->points[at] = p;
    }
}

static void add_methods(const ls_lab *lab, ls_lab_figure f, ls_lab_data *d) {
    static const char *const parts[] = {"draft", "forward", "verify", "commit", "rest"};
    for (size_t r = 0; r < lab->index.n_runs; r++) {
        const ls_lab_run *run = &lab->index.runs[r];
        if (!ls_lab_run_place(run, LS_LAB_MAIN)) continue;
        const ls_total t = ls_lab_total(lab, r, NULL, f == LS_FIGURE_SPEEDUP);
        const double us[] = {t.draft_us, t.forward_us, t.verify_us, t.commit_us,
                             t.decode_us - t.draft_us - t.forward_us - t.verify_us - t.commit_us};
        if (!t.steps) continue;
        if (f == LS_FIGURE_SPEEDUP) {
            if ((int)r == lab->ar || isnan(ls_total_speedup(&t))) continue;
            ls_lab_datum *p = add(d, "speedup", run->word, 0, ls_total_speedup(&t), t.prompts);
            p->low = t.low;
            p->high = t.high;
        } else if (f == LS_FIGURE_SPEED) {
            const double s = t.decode_us / 1e6, prompts = t.prefill_ms / 1e3;
            if (!(s > 0)) continue;
            add(d, "decoding alone", run->word, 0, (double)t.emitted / s, t.emitted);
            add(d, "with prefill", run->word, 0, (double)t.emitted / (s + prompts), t.emitted);
        } else
            for (int i = 0; i < 5; i++) add(d, parts[i], run->word, 0, fmax(0, us[i] / 1e3 / (double)t.steps), t.steps);
    }
}

static void add_costs(const ls_lab *lab, bool ratio, ls_lab_data *d) {
    const ls_cost_curve *z = &lab->machine.costs;
    const ls_lab_forwards *one = &lab->forwards[1];
    const double calibrated = ratio ? z->base_ms[0] : 1,
                 here = ratio ? one->us / (double)(one->n ? one->n : 1) : 1e3; // of one row, in each unit
    char label[LS_LAB_WORD];
    for (int i = 0; i < LS_COST_SIZES && z->base_ms[0] > 0; i++) {
        snprintf(label, sizeof label, "%d", ls_cost_rows[i]);
        add(d, "cost, calibrated", label, ls_cost_rows[i], z->base_ms[i] / calibrated, 0);
    }
    for (int n = 1; n <= LS_MAX_ROWS && (!ratio || one->n >= SEEN); n++) {
        const ls_lab_forwards *f = &lab->forwards[n];
        if (f->n < SEEN) continue;
        snprintf(label, sizeof label, "%d", n);
        add(d, "cost, in these steps", label, n, f->us / (double)f->n / here, f->n);
    }
}

static void add_distances(const ls_lab_distances *c, ls_lab_data *d) {
    for (int k = 0; k < LS_LAB_DISTANCES; k++) {
        char series[32], label[16];
        uint64_t sum = 0;
        snprintf(series, sizeof series, "distance %d", LS_LAB_NEAREST + k);
        for (int r = 0; r <= LS_MAX_TOP && c->of[k]; r++) {
            sum += c->rank[k][r];
            snprintf(label, sizeof label, r < LS_MAX_TOP ? "%d" : "beyond %d", r < LS_MAX_TOP ? r + 1 : LS_MAX_TOP);
            add(d, series, label, r + 1, r < LS_MAX_TOP ? (double)sum / (double)c->of[k] : NAN, c->of[k])->count =
                (double)c->rank[k][r];
        }
    }
}

static void add_matches(const ls_lab_matches *m, bool length, ls_lab_data *d) {
    for (int i = 0; i < LS_LAB_MATCHES; i++)
        for (int guess = 0; guess < 2; guess++) {
            const ls_lab_match *q = &(guess ? m->guess : m->root)[i];
            char label[32];
            snprintf(label, sizeof label, i ? "%s, %d-gram" : "%s, no match", guess ? "guess" : "root", i);
            add_share(d, length ? "accepted drafts" : "branches", label, 2 * i + guess,
                      length ? q->accepted : q->helped, q->branches);
        }
}

static void add_hits(const ls_lab_hits *h, ls_lab_data *d) {
    char paths[LS_LAB_HIT_NODES][2 * LS_LAB_DEPTH];
    for (int p = -1; p < LS_LAB_HIT_NODES; p++) {
        const int first = ls_lab_hit_child(p);
        for (int k = 0; k < LS_LAB_PLACES && first >= 0; k++) {
            char *path = paths[first + k];
            if (p < 0) snprintf(path, sizeof *paths, "%d", k + 1);
            else snprintf(path, sizeof *paths, "%.*s.%d", 2 * LS_LAB_DEPTH - 3, paths[p], k + 1);
            const size_t depth = strlen(path) / 2 + 1;
            add_share(d, "place", path, (double)depth, h->node[first + k].accepted, h->node[first + k].tested);
        }
    }
}

ls_lab_data ls_lab_data_of(const ls_lab *lab, ls_lab_figure f) {
    ls_lab_data d = {0};
    switch (f) {
    case LS_FIGURE_SPEEDUP:
    case LS_FIGURE_SPEED:
    case LS_FIGURE_TIME: add_methods(lab, f, &d); break;
    case LS_FIGURE_CAPACITY: add_mat(lab, LS_LAB_CAPACITY, &d); break;
    case LS_FIGURE_BREAK_EVEN:
        add_mat(lab, LS_LAB_CAPACITY, &d);
        add_costs(lab, true, &d);
        break;
    case LS_FIGURE_COST: add_costs(lab, false, &d); break;
    case LS_FIGURE_MODULES: add_mat(lab, LS_LAB_MODULES, &d); break;
    case LS_FIGURE_NGRAM: add_mat(lab, LS_LAB_NGRAM, &d); break;
    case LS_FIGURE_RANKS: add_mat(lab, LS_LAB_RANKS, &d); break;
    case LS_FIGURE_DISTANCE: add_distances(&lab->distances, &d); break;
    case LS_FIGURE_RETRIEVAL: add_matches(&lab->matches, false, &d); break;
    case LS_FIGURE_RETRIEVED: add_matches(&lab->matches, true, &d); break;
    case LS_FIGURE_TEMPERATURE: add_mat(lab, LS_LAB_TEMPERATURE, &d); break;
    case LS_FIGURE_HITS: add_hits(&lab->hits, &d); break;
    case LS_FIGURES: break;
    }
    for (size_t i = 0; i < d.n; i++) sort(&d.series[i]);
    return d;
}

// ---- as text

void ls_lab_number(double v, bool percent, char *out, size_t size) {
    if (isnan(v)) snprintf(out, size, "-");
    else if (percent) snprintf(out, size, "%.1f%%", 100 * v);
    else snprintf(out, size, "%.*f", v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3, v);
}

void ls_lab_csv(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    ls_buf_fmt(out, "series,label,x,%s,low,high,count,n\r\n", ls_lab_figures[f].value);
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->series[i].n; k++) {
            const ls_lab_datum *p = &d->series[i].points[k];
            ls_csv_str(out, d->series[i].name);
            ls_buf_char(out, ',');
            ls_csv_str(out, p->label);
            const double v[] = {p->x, p->value, p->low, p->high, p->count};
            for (int j = 0; j < 5; j++) ls_csv_number(out, v[j]);
            if (p->n) ls_buf_fmt(out, ",%llu\r\n", (unsigned long long)p->n);
            else ls_buf_str(out, ",\r\n");
        }
}

void ls_lab_table(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    ls_buf_str(out, "<details><summary>the numbers</summary><div class=\"scroll\"><table>\n<tr><th></th><th></th><th>");
    ls_markup_fmt(out, "%s", a->value);
    ls_buf_str(out, "</th><th>of</th></tr>\n");
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->series[i].n; k++) {
            const ls_lab_datum *p = &d->series[i].points[k];
            char value[32], low[32], high[32];
            ls_lab_number(p->value, a->percent, value, sizeof value);
            ls_lab_number(p->low, a->percent, low, sizeof low);
            ls_lab_number(p->high, a->percent, high, sizeof high);
            ls_buf_str(out, "<tr><td>");
            ls_markup_str(out, d->series[i].name);
            ls_buf_str(out, "</td><td>");
            ls_markup_str(out, p->label);
            ls_buf_fmt(out, "</td><td>%s", value);
            if (isfinite(p->low)) ls_buf_fmt(out, " (%s - %s)", low, high);
            ls_buf_str(out, "</td><td>");
            if (isfinite(p->count)) ls_buf_fmt(out, "%.0f of ", p->count);
            if (p->n) ls_markup_fmt(out, "%llu %s", (unsigned long long)p->n, a->of);
            ls_buf_str(out, "</td></tr>\n");
        }
    ls_buf_str(out, "</table></div></details>\n");
}
