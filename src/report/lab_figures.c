#include "report/lab.h"
#include "report/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEN = 20 }; // least number of forwards of a size whose mean is drawn

// ---- the data of each

static void add_mat(const ls_lab *lab, ls_lab_use use, ls_chart *c) {
    for (size_t r = 0; r < lab->index.n_runs; r++) {
        const ls_lab_run *run = &lab->index.runs[r];
        for (size_t i = 0; i < run->n_places; i++) {
            const ls_lab_place *p = &run->places[i];
            if (p->use != use) continue;
            const ls_total t = ls_bench_total(&lab->b, (int)r, NULL);
            if (t.steps)
                ls_chart_add(c, p->series, p->label, p->x, (double)t.emitted / (double)t.steps, t.steps)->count =
                    (double)t.emitted;
        }
    }
}

// Points are in the order of recording; lines need the order of x. The sort is stable.
static void sort(ls_series *s) {
    for (size_t i = 1; i < s->n; i++) {
        const ls_point p = s->points[i];
        size_t at = i;
        for (; at > 0 && s->points[at - 1].x > p.x; at--) s->points[at] = s->points[at - 1];
        s->points[at] = p;
    }
}

static void add_methods(const ls_lab *lab, ls_lab_figure f, ls_chart *c) {
    static const char *const parts[] = {"draft", "forward", "verify", "commit", "rest"};
    for (size_t r = 0; r < lab->index.n_runs; r++) {
        const ls_lab_run *run = &lab->index.runs[r];
        if (!ls_lab_run_place(run, LS_LAB_MAIN)) continue;
        const ls_total t = ls_bench_total(&lab->b, (int)r, NULL);
        const double us[] = {t.draft_us, t.forward_us, t.verify_us, t.commit_us,
                             t.decode_us - t.draft_us - t.forward_us - t.verify_us - t.commit_us};
        if (!t.steps) continue;
        if (f == LS_FIGURE_SPEEDUP) {
            if ((int)r == lab->b.plain || isnan(ls_total_speedup(&t))) continue;
            ls_point *p = ls_chart_add(c, "speedup", run->word, 0, ls_total_speedup(&t), t.prompts);
            p->low = t.low;
            p->high = t.high;
        } else if (f == LS_FIGURE_SPEED) {
            const double s = t.decode_us / 1e6, prompts = t.prefill_ms / 1e3;
            if (!(s > 0)) continue;
            ls_chart_add(c, "decoding alone", run->word, 0, (double)t.emitted / s, t.emitted);
            ls_chart_add(c, "with prefill", run->word, 0, (double)t.emitted / (s + prompts), t.emitted);
        } else
            for (int i = 0; i < 5; i++)
                ls_chart_add(c, parts[i], run->word, 0, fmax(0, us[i] / 1e3 / (double)t.steps), t.steps);
    }
}

static void add_costs(const ls_lab *lab, bool ratio, ls_chart *c) {
    const ls_cost_curve *z = &lab->machine.costs;
    const ls_lab_forwards *one = &lab->forwards[1];
    const double calibrated = ratio ? z->base_ms[0] : 1,
                 here = ratio ? one->us / (double)(one->n ? one->n : 1) : 1e3; // of one row, in each unit
    for (int i = 0; i < LS_COST_SIZES && z->base_ms[0] > 0; i++)
        ls_chart_add(c, "cost, calibrated", NULL, ls_cost_rows[i], z->base_ms[i] / calibrated, 0);
    for (int n = 1; n <= LS_MAX_ROWS && (!ratio || one->n >= SEEN); n++) {
        const ls_lab_forwards *f = &lab->forwards[n];
        if (f->n < SEEN) continue;
        ls_chart_add(c, "cost, in these steps", NULL, n, f->us / (double)f->n / here, f->n);
    }
}

static void add_experts(const ls_lab *lab, ls_chart *c) {
    const ls_run *m = &lab->machine;
    for (int n = 1; n <= LS_MAX_ROWS && m->n_mixtures; n++) {
        const ls_ratio *q = &lab->forwards[n].experts;
        if (q->of < SEEN) continue;
        ls_chart_add(c, "in these steps", NULL, n, (double)q->n / (double)q->of / m->n_mixtures, q->of);
    }
    if (c->n) ls_plot_experts_at_random(c, m);
}

static void add_distances(const ls_lab_distances *q, ls_chart *c) {
    for (int k = 0; k < LS_LAB_DISTANCES; k++) {
        char series[32], label[16];
        uint64_t sum = 0;
        snprintf(series, sizeof series, "distance %d", LS_LAB_NEAREST + k);
        for (int r = 0; r <= LS_MAX_TOP && q->of[k]; r++) {
            sum += q->rank[k][r];
            snprintf(label, sizeof label, r < LS_MAX_TOP ? "%d" : "beyond %d", r < LS_MAX_TOP ? r + 1 : LS_MAX_TOP);
            ls_chart_add(c, series, label, r + 1, r < LS_MAX_TOP ? (double)sum / (double)q->of[k] : NAN, q->of[k])
                ->count = (double)q->rank[k][r];
        }
    }
}

static void add_matches(const ls_lab_matches *m, bool length, ls_chart *c) {
    for (int i = 0; i < LS_LAB_MATCHES; i++)
        for (int guess = 0; guess < 2; guess++) {
            const ls_lab_match *q = &(guess ? m->guess : m->root)[i];
            char label[32];
            snprintf(label, sizeof label, i ? "%s, %d-gram" : "%s, no match", guess ? "guess" : "root", i);
            if (q->branches)
                ls_chart_add_share(c, length ? "accepted drafts" : "branches", label, 2 * i + guess,
                                   length ? q->accepted : q->helped, q->branches);
        }
}

static void add_hits(const ls_lab_hits *h, ls_chart *c) {
    char paths[LS_LAB_HIT_NODES][2 * LS_LAB_DEPTH];
    for (int p = -1; p < LS_LAB_HIT_NODES; p++) {
        const int first = ls_lab_hit_child(p);
        for (int k = 0; k < LS_LAB_PLACES && first >= 0; k++) {
            char *path = paths[first + k];
            if (p < 0) snprintf(path, sizeof *paths, "%d", k + 1);
            else snprintf(path, sizeof *paths, "%.*s.%d", 2 * LS_LAB_DEPTH - 3, paths[p], k + 1);
            const size_t depth = strlen(path) / 2 + 1;
            const ls_lab_hit *q = &h->node[first + k];
            if (q->tested) ls_chart_add_share(c, "place", path, (double)depth, q->accepted, q->tested);
        }
    }
}

ls_chart ls_lab_chart(const ls_lab *lab, ls_lab_figure f) {
    enum { WIDTH = 480 }; // the text stays readable on a phone
    ls_chart c = {0};
    switch (f) {
#define FIGURE(id, name, shape, percent, title, x_label, value, of, data, caption)                                     \
    case LS_FIGURE_##id: {                                                                                             \
        static const ls_chart_facts facts = {name, LS_SHAPE_##shape, percent, title, x_label, value, of, caption};     \
        data;                                                                                                          \
        c.facts = &facts;                                                                                              \
        break;                                                                                                         \
    }
#include "report/lab_figures.def"
    case LS_FIGURES: break;
    }
    for (size_t i = 0; i < c.n; i++) sort(&c.series[i]);
    c.width = WIDTH;
    c.level = f == LS_FIGURE_SPEEDUP;
    return c;
}
