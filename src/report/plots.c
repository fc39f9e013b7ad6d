#include "report/parts.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_CATEGORIES = 32, MOST_POINTS = 200 };

// The aside line through the points of both ends.
static void add_aside(ls_chart *c, double y1, double x2, double y2) {
    ls_chart_add(c, "", "", 0, y1, 0);
    ls_chart_add(c, "", "", x2, y2, 0);
    c->series[c->n - 1].aside = true;
}

static void add_emitted(const ls_report *r, ls_chart *c) {
    int most = 1;
    for (size_t g = 0; g < r->n_groups; g++)
        for (int i = 1; i <= LS_STATS_HIST; i++)
            if (r->groups[g].stats.by_emitted[i] && i > most) most = i;
    const int n = most < MOST_CATEGORIES ? most : MOST_CATEGORIES;
    for (size_t g = 0; g < r->n_groups; g++)
        for (int i = 1; i <= n; i++) {
            const ls_stats *st = &r->groups[g].stats;
            char label[24];
            uint64_t steps = st->by_emitted[i];
            for (int k = n + 1; i == n && k <= LS_STATS_HIST; k++) steps += st->by_emitted[k];
            snprintf(label, sizeof label, "%d%s", i, i == n && most > n ? "+" : "");
            ls_chart_add_share(c, r->groups[g].label, label, i, steps, st->steps);
        }
}

static const ls_ratio *ratios(const ls_stats *st, ls_plot p) {
    return p == LS_PLOT_DEPTH ? st->depth : p == LS_PLOT_RANK ? st->rank : st->from;
}

// Adds all depths and ranks up to the last with data in any group, but only sources with data.
static void add_ratios(const ls_report *r, ls_plot p, int first, int end, ls_chart *c) {
    int which[MOST_CATEGORIES], n = 0, last = 0;
    for (int i = first; i < end && n < MOST_CATEGORIES; i++) {
        bool any = false;
        for (size_t g = 0; g < r->n_groups; g++) any |= ratios(&r->groups[g].stats, p)[i].of > 0;
        if (!any && p == LS_PLOT_SOURCE) continue;
        which[n++] = i;
        if (any) last = n;
    }
    for (size_t g = 0; g < r->n_groups; g++)
        for (int i = 0; i < last; i++) {
            const ls_ratio *q = &ratios(&r->groups[g].stats, p)[which[i]];
            const char *label = p == LS_PLOT_SOURCE ? ls_sources[which[i]].label : NULL;
            ls_chart_add_share(c, r->groups[g].label, label, which[i], q->n, q->of);
        }
}

static void add_calibration(const ls_report *r, ls_chart *c) {
    bool any = false;
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_report_group *o = &r->groups[g];
        ls_chart_series(c, o->label);
        for (int i = 0; i < LS_REPORT_BINS; i++) {
            const ls_ratio *q = &o->estimated[i];
            if (!q->of) continue;
            char label[24];
            const double x = o->estimate_sum[i] / (double)q->of;
            snprintf(label, sizeof label, "%.6f", x);
            ls_chart_add_share(c, o->label, label, x, q->n, q->of);
            any = true;
        }
    }
    if (any) add_aside(c, 0, 1, 1);
    else ls_chart_free(c);
}

// The ratio of plain to real time up to each of n output lengths, over the group's turns of at least that length.
static void cumulate(const ls_report *r, size_t group, double longest, int n, double *ratio) {
    double *plain = ls_calloc((size_t)n, sizeof *plain), *real = ls_calloc((size_t)n, sizeof *real);
    for (size_t i = 0; i < r->n_turns; i++) {
        const ls_report_turn *t = &r->turns[i];
        double p = 0, q = 0;
        int at = 0;
        for (size_t k = 0; t->group == group && k < t->n_steps; k++) {
            const ls_report_step *s = &t->steps[k];
            if (s->plain_us > 0) {
                p += (double)s->plain_us * s->n_plain;
                q += (double)s->total_us;
            }
            for (; at < n && s->output_pos + s->n_emitted >= longest * (at + 1) / n; at++)
                plain[at] += p, real[at] += q;
        }
    }
    for (int i = 0; i < n; i++) ratio[i] = real[i] > 0 ? plain[i] / real[i] : NAN;
    free(plain);
    free(real);
}

static void add_speedup(const ls_report *r, ls_chart *c) {
    size_t longest = 0;
    for (size_t i = 0; i < r->n_turns; i++)
        if (r->turns[i].n_text > longest) longest = r->turns[i].n_text;
    const int n = longest < MOST_POINTS ? (int)longest : MOST_POINTS;
    double *ratio = ls_calloc((size_t)n + 1, sizeof *ratio);
    bool any = false;
    for (size_t g = 0; g < r->n_groups; g++) {
        ls_chart_series(c, r->groups[g].label);
        cumulate(r, g, (double)longest, n, ratio);
        for (int i = 0; i < n; i++) {
            ls_chart_add(c, r->groups[g].label, "", (double)longest * (i + 1) / n, ratio[i], 0);
            any |= isfinite(ratio[i]);
        }
    }
    if (any) add_aside(c, 1, (double)longest, 1);
    else ls_chart_free(c);
    free(ratio);
}

void ls_plot_experts_at_random(ls_chart *c, const ls_run *mixture) {
    static const char name[] = "at random";
    for (int i = 0; i < LS_COST_SIZES; i++)
        ls_chart_add(c, name, NULL, ls_cost_rows[i],
                     ls_distinct_at_random(mixture->n_experts, mixture->n_experts_used, ls_cost_rows[i]), 0);
    ls_chart_series(c, name)->aside = true;
}

static void add_experts(const ls_report *r, ls_chart *c) {
    const ls_run *run = NULL;
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_report_group *o = &r->groups[g];
        const ls_run *of = &r->turns[o->first_turn].header.run;
        for (int n = 1; n <= LS_STATS_HIST && of->n_mixtures; n++) {
            const ls_ratio *q = &o->stats.experts[n];
            if (!q->of) continue;
            run = of;
            ls_chart_add(c, o->label, NULL, n, (double)q->n / (double)q->of / of->n_mixtures, q->of);
        }
    }
    if (run) ls_plot_experts_at_random(c, run);
}

static void add_time(const ls_report *r, ls_chart *c) {
    static const char *const names[] = {"draft", "forward", "verify", "commit", "other"};
    enum { PARTS = 5 };
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_stats *st = &r->groups[g].stats;
        const double sums[PARTS] = {st->draft_us, st->forward_us, st->verify_us, st->commit_us,
                                    st->total_us - st->draft_us - st->forward_us - st->verify_us - st->commit_us};
        for (int i = 0; i < PARTS; i++)
            ls_chart_add(c, names[i], r->groups[g].label, 0, fmax(0, ls_per(sums[i], st->steps) / 1e3), 0);
        ls_chart_add(c, "plain", r->groups[g].label, 0, ls_per(st->plain_us, st->plain_forwards) / 1e3, 0);
        ls_chart_series(c, "plain")->aside = true;
    }
}

ls_chart ls_report_chart(const ls_report *r, ls_plot p) {
    enum { WIDTH = 640 };
    ls_chart c = {0};
    switch (p) {
#define PLOT(id, name, shape, percent, title, x_label, value, of, data, caption)                                       \
    case LS_PLOT_##id: {                                                                                               \
        static const ls_chart_facts facts = {name, LS_SHAPE_##shape, percent, title, x_label, value, of, caption};     \
        data;                                                                                                          \
        c.facts = &facts;                                                                                              \
        break;                                                                                                         \
    }
#include "report/plots.def"
    case LS_PLOTS: break;
    }
    c.width = WIDTH;
    c.groups = true;
    return c;
}
