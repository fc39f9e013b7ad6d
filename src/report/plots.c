#include "report/plots.h"
#include "base/mem.h"
#include "report/draw.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEFT = 52, RIGHT = 12, TOP = 12, BOTTOM = 40, LEGEND = 18, INNER = 200, ROW = 34, NAMES = 160, FEW = 20 };
enum { MOST_CATEGORIES = 32, MOST_POINTS = 200 };

static const struct {
    const char *name, *title, *caption;
} plots[LS_PLOTS] = {
    {"emitted", "Tokens emitted by a step",
     "share of decode steps; the root is always emitted, and plain decoding emits 1 per step"},
    {"depth", "Acceptance by depth",
     "steps whose path reaches this depth / steps whose tree has a node there (pale: fewer than 20 steps)"},
    {"rank", "Acceptance by rank of the last logits",
     "branches of this rank with an accepted node / all branches of this rank (rank 0 is the best token of the last "
     "logits; the root's own continuation has no rank; pale: fewer than 20 branches)"},
    {"source", "Acceptance by source", "accepted drafts / verified drafts of this source"},
    {"calibration", "Estimated and real acceptance",
     "drafts whose parent was accepted, grouped by tenths of their estimate: accepted share (y) against mean estimate "
     "(x); on the dashed line both are equal"},
    {"speedup", "Speedup over plain decoding as the output grows",
     "time of plain decoding for the tokens so far (single-row forwards timed in the same run) / time of the steps so "
     "far, over all turns of at least this length"},
    {"time", "Where a step's time goes",
     "mean over the decode steps; the bar below is the time of one plain step at the same contexts"},
};

const char *ls_plot_title(ls_plot p) {
    return plots[p].title;
}
const char *ls_plot_caption(ls_plot p) {
    return plots[p].caption;
}

// ---- drawing

static int legend_height(const ls_report *r) {
    return r->n_groups > 1 ? LEGEND * (int)((r->n_groups + 2) / 3) : 0;
}

int ls_plot_height(const ls_report *r, ls_plot p) {
    if (p == LS_PLOT_TIME) return TOP + 2 * LEGEND + ROW * (int)r->n_groups + BOTTOM;
    return TOP + legend_height(r) + INNER + BOTTOM;
}

static void begin(const ls_report *r, ls_plot p, ls_buf *out) {
    ls_buf title = {0};
    ls_buf_str(&title, plots[p].title);
    for (size_t g = 0; g < r->n_groups; g++) ls_buf_fmt(&title, "%s%s", g ? ", " : ": ", r->groups[g].label);
    ls_draw_begin(out, plots[p].name, title.p, LS_PLOT_WIDTH, ls_plot_height(r, p), 11);
    ls_buf_free(&title);
}

static void legend(const ls_report *r, ls_buf *out) {
    if (r->n_groups < 2) return;
    const double column = (LS_PLOT_WIDTH - LEFT - RIGHT) / 3.0;
    for (size_t g = 0; g < r->n_groups; g++) {
        const size_t line = g / 3;
        const double x = LEFT + column * (double)(g % 3), y = TOP + LEGEND * (double)line;
        ls_draw_legend(out, x, y, ls_draw_color(g), r->groups[g].label, 32);
    }
}

static ls_frame axes(const ls_report *r, double max_x, double max_y, bool percent, const char *x_label, ls_buf *out) {
    ls_frame f = {LEFT, TOP + legend_height(r), LS_PLOT_WIDTH - LEFT - RIGHT, INNER, max_x, max_y};
    ls_draw_axes(out, &f, percent, 33, x_label);
    return f;
}

typedef struct {
    char name[24];
} category;

// Bars side by side: v[g * n + i] is the ratio of group g and bar i.
static void bars(const ls_report *r, int n, const category *names, const ls_ratio *v, const char *x_label,
                 ls_buf *out) {
    double max = 0;
    for (size_t i = 0; i < (size_t)n * r->n_groups; i++)
        max = fmax(max, v[i].of ? (double)v[i].n / (double)v[i].of : 0);
    legend(r, out);
    const ls_frame f = axes(r, n, max > 0 ? max : 1, true, x_label, out);
    const double slot = f.w / n, bar = fmin(28, slot * 0.8 / (double)r->n_groups);
    for (int i = 0; i < n; i++) {
        const double middle = f.x0 + slot * (i + 0.5);
        ls_draw_text(out, middle, f.y0 + f.h + 15, "middle", names[i].name);
        for (size_t g = 0; g < r->n_groups; g++) {
            const ls_ratio *q = &v[g * (size_t)n + (size_t)i];
            if (!q->of) continue;
            const double share = (double)q->n / (double)q->of, x = middle + bar * ((double)g - (double)r->n_groups / 2);
            ls_buf_fmt(out,
                       "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"%s "
                       "data-group=\"%zu\" data-x=\"",
                       x, ls_draw_y(&f, share), fmax(1, bar - 1), fmax(0.5, f.h * share / f.max_y), ls_draw_color(g),
                       q->of < FEW ? " fill-opacity=\".35\"" : "", g);
            ls_markup_str(out, names[i].name);
            ls_buf_fmt(out, "\" data-n=\"%llu\" data-of=\"%llu\"><title>", (unsigned long long)q->n,
                       (unsigned long long)q->of);
            ls_markup_fmt(out, "%s, %s: %llu of %llu (%.1f%%)", r->groups[g].label, names[i].name,
                          (unsigned long long)q->n, (unsigned long long)q->of, 100 * share);
            ls_buf_str(out, "</title></rect>\n");
        }
    }
}

// ---- the plots

static bool draw_emitted(const ls_report *r, ls_buf *out) {
    int most = 1;
    for (size_t g = 0; g < r->n_groups; g++)
        for (int i = 1; i <= LS_STATS_HIST; i++)
            if (r->groups[g].stats.by_emitted[i] && i > most) most = i;
    const int n = most < MOST_CATEGORIES ? most : MOST_CATEGORIES;
    category names[MOST_CATEGORIES];
    ls_ratio *v = ls_calloc((size_t)n * r->n_groups, sizeof *v);
    for (int i = 0; i < n; i++)
        snprintf(names[i].name, sizeof names[i].name, "%d%s", i + 1, i + 1 == n && most > n ? "+" : "");
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_stats *st = &r->groups[g].stats;
        for (int i = 0; i < n; i++) v[g * (size_t)n + (size_t)i].of = st->steps;
        for (int i = 1; i <= LS_STATS_HIST; i++) v[g * (size_t)n + (size_t)(i < n ? i : n) - 1].n += st->by_emitted[i];
    }
    bars(r, n, names, v, "tokens emitted by the step", out);
    free(v);
    return true;
}

static const ls_ratio *ratios(const ls_stats *st, ls_plot p) {
    return p == LS_PLOT_DEPTH ? st->depth : p == LS_PLOT_RANK ? st->rank : st->from;
}

// Draws all depths and ranks up to the last with data in any group, but only sources with data.
static bool draw_ratios(const ls_report *r, ls_plot p, int first, int end, const char *x_label, ls_buf *out) {
    category names[MOST_CATEGORIES];
    int which[MOST_CATEGORIES], n = 0, last = 0;
    for (int i = first; i < end && n < MOST_CATEGORIES; i++) {
        bool any = false;
        for (size_t g = 0; g < r->n_groups; g++) any |= ratios(&r->groups[g].stats, p)[i].of > 0;
        if (!any && p == LS_PLOT_SOURCE) continue;
        if (p == LS_PLOT_SOURCE) snprintf(names[n].name, sizeof names[n].name, "%s", ls_from_label((ls_from)i));
        else snprintf(names[n].name, sizeof names[n].name, "%d", i);
        which[n++] = i;
        if (any) last = n;
    }
    if (!(n = last)) return false;
    ls_ratio *v = ls_calloc((size_t)n * r->n_groups, sizeof *v);
    for (size_t g = 0; g < r->n_groups; g++)
        for (int i = 0; i < n; i++) v[g * (size_t)n + (size_t)i] = ratios(&r->groups[g].stats, p)[which[i]];
    bars(r, n, names, v, x_label, out);
    free(v);
    return true;
}

static bool draw_calibration(const ls_report *r, ls_buf *out) {
    uint64_t all = 0;
    for (size_t g = 0; g < r->n_groups; g++)
        for (int i = 0; i < LS_REPORT_BINS; i++) all += r->groups[g].estimated[i].of;
    if (!all) return false;
    legend(r, out);
    const ls_frame f = axes(r, 1, 1, true, "estimated probability of acceptance if the parent is accepted", out);
    for (int i = 0; i <= 5; i++) {
        char label[16];
        snprintf(label, sizeof label, "%d%%", 20 * i);
        ls_draw_text(out, ls_draw_x(&f, 0.2 * i), f.y0 + f.h + 15, "middle", label);
    }
    ls_draw_dashes(out, &f, 0, 0, 1, 1);
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_report_group *o = &r->groups[g];
        ls_buf line = {0};
        for (int i = 0; i < LS_REPORT_BINS; i++) {
            const ls_ratio *q = &o->estimated[i];
            if (!q->of) continue;
            const double x = o->estimate_sum[i] / (double)q->of, y = (double)q->n / (double)q->of;
            ls_buf_fmt(&line, "%c%.1f %.1f", line.n ? 'L' : 'M', ls_draw_x(&f, x), ls_draw_y(&f, y));
            ls_buf_fmt(out,
                       "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" data-group=\"%zu\" data-x=\"%.6f\" "
                       "data-n=\"%llu\" "
                       "data-of=\"%llu\"><title>",
                       ls_draw_x(&f, x), ls_draw_y(&f, y), 3 + 3 * sqrt((double)q->of / (double)all), ls_draw_color(g),
                       g, x, (unsigned long long)q->n, (unsigned long long)q->of);
            ls_markup_fmt(out, "%s: %llu of %llu accepted (%.1f%%), estimated %.1f%%", o->label,
                          (unsigned long long)q->n, (unsigned long long)q->of, 100 * y, 100 * x);
            ls_buf_str(out, "</title></circle>\n");
        }
        if (line.n)
            ls_buf_fmt(out, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-opacity=\".6\"/>\n", line.p,
                       ls_draw_color(g));
        ls_buf_free(&line);
    }
    return true;
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
            if (s->ar_us > 0) {
                p += (double)s->ar_us * s->n_plain;
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

static bool draw_speedup(const ls_report *r, ls_buf *out) {
    size_t longest = 0;
    for (size_t i = 0; i < r->n_turns; i++)
        if (r->turns[i].n_text > longest) longest = r->turns[i].n_text;
    const int n = longest < MOST_POINTS ? (int)longest : MOST_POINTS;
    double *ratio = ls_calloc((size_t)n * r->n_groups + 1, sizeof *ratio), max = 1;
    bool any = false;
    for (size_t g = 0; g < r->n_groups; g++) {
        cumulate(r, g, (double)longest, n, ratio + g * (size_t)n);
        for (int i = 0; i < n; i++) {
            const double v = ratio[g * (size_t)n + (size_t)i];
            if (isnan(v)) continue;
            any = true;
            max = fmax(max, v);
        }
    }
    if (any) {
        legend(r, out);
        const ls_frame f = axes(r, (double)longest, max, false, "output tokens", out);
        for (int i = 0; i <= 4; i++) {
            char label[24];
            snprintf(label, sizeof label, "%.0f", (double)longest * i / 4);
            ls_draw_text(out, ls_draw_x(&f, (double)longest * i / 4), f.y0 + f.h + 15, "middle", label);
        }
        ls_draw_dashes(out, &f, 0, 1, (double)longest, 1);
        for (size_t g = 0; g < r->n_groups; g++) {
            const double *v = ratio + g * (size_t)n;
            double last = NAN;
            ls_buf line = {0};
            for (int i = 0; i < n; i++) {
                if (isnan(v[i])) continue;
                last = v[i];
                ls_buf_fmt(&line, "%c%.1f %.1f", line.n ? 'L' : 'M', ls_draw_x(&f, (double)longest * (i + 1) / n),
                           ls_draw_y(&f, v[i]));
            }
            if (!line.n) continue;
            ls_buf_fmt(out,
                       "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" data-group=\"%zu\" "
                       "data-value=\"%.6f\"><title>",
                       line.p, ls_draw_color(g), g, last);
            ls_markup_fmt(out, "%s: %.2f at the end", r->groups[g].label, last);
            ls_buf_str(out, "</title></path>\n");
            ls_buf_free(&line);
        }
    }
    free(ratio);
    return any;
}

static bool draw_time(const ls_report *r, ls_buf *out) {
    static const char *const names[] = {"draft", "forward", "verify", "commit", "other"};
    static const char *const colors[] = {"#e69f00", "#0072b2", "#009e73", "#cc79a7", "#999999"};
    enum { PARTS = 5 };
    double max = 0;
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_stats *st = &r->groups[g].stats;
        max = fmax(max, fmax(ls_per(st->total_us, st->steps), ls_per(st->ar_us, st->ar_forwards)) / 1e3);
    }
    if (!(max > 0)) return false;
    for (int i = 0; i <= PARTS; i++) {
        const double x = LEFT + 95 * i;
        ls_buf_fmt(out, "<rect x=\"%.1f\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"%s/>\n", x, TOP,
                   i < PARTS ? colors[i] : "none", i < PARTS ? "" : " stroke=\"currentColor\"");
        ls_draw_text(out, x + 14, TOP + 9, "start", i < PARTS ? names[i] : "one plain step");
    }
    const double y0 = TOP + 2 * LEGEND, w = LS_PLOT_WIDTH - NAMES - 2 * RIGHT, x0 = NAMES, step = ls_draw_step(max);
    const double scale = w / (ceil(max / step - 1e-9) * step), bottom = y0 + ROW * (double)r->n_groups;
    for (int i = 0; i * step * scale <= w * (1 + 1e-9); i++) {
        char label[32];
        snprintf(label, sizeof label, "%.3g", i * step);
        ls_buf_fmt(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"currentColor\" stroke-opacity=\".15\"/>\n",
                   x0 + i * step * scale, y0 - 4, bottom);
        ls_draw_text(out, x0 + i * step * scale, bottom + 14, "middle", label);
    }
    ls_draw_text(out, x0 + w / 2, bottom + 32, "middle", "milliseconds per step");
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_stats *st = &r->groups[g].stats;
        const double sums[PARTS] = {st->draft_us, st->forward_us, st->verify_us, st->commit_us,
                                    st->total_us - st->draft_us - st->forward_us - st->verify_us - st->commit_us};
        double x = x0;
        const double y = y0 + ROW * (double)g;
        char label[32];
        snprintf(label, sizeof label, "%.26s", r->groups[g].label);
        ls_draw_text(out, x0 - 6, y + 15, "end", label);
        for (int i = 0; i < PARTS; i++) {
            const double ms = fmax(0, ls_per(sums[i], st->steps) / 1e3);
            if (isnan(ms)) continue;
            ls_buf_fmt(
                out,
                "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"16\" fill=\"%s\" data-group=\"%zu\" data-x=\"%s\" "
                "data-value=\"%.6f\"><title>",
                x, y + 2, ms * scale, colors[i], g, names[i], ms);
            ls_markup_fmt(out, "%s, %s: %.3f ms of %.3f ms per step", r->groups[g].label, names[i], ms,
                          ls_per(st->total_us, st->steps) / 1e3);
            ls_buf_str(out, "</title></rect>\n");
            x += ms * scale;
        }
        const double plain = ls_per(st->ar_us, st->ar_forwards) / 1e3;
        if (isnan(plain)) continue;
        ls_buf_fmt(out,
                   "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"7\" fill=\"none\" stroke=\"currentColor\" "
                   "data-group=\"%zu\" "
                   "data-x=\"plain\" data-value=\"%.6f\"><title>",
                   x0, y + 20, plain * scale, g, plain);
        ls_markup_fmt(out, "%s: a plain step takes %.3f ms at these contexts", r->groups[g].label, plain);
        ls_buf_str(out, "</title></rect>\n");
    }
    return true;
}

bool ls_plot_draw(const ls_report *r, ls_plot p, ls_buf *out) {
    const size_t before = out->n;
    bool drawn = false;
    begin(r, p, out);
    switch (p) {
    case LS_PLOT_EMITTED: drawn = draw_emitted(r, out); break;
    case LS_PLOT_DEPTH: drawn = draw_ratios(r, p, 1, LS_STATS_DEPTHS, "depth of the draft", out); break;
    case LS_PLOT_RANK:
        drawn = draw_ratios(r, p, 0, LS_STATS_RANKS, "rank of the branch's first token in the last logits", out);
        break;
    case LS_PLOT_SOURCE: drawn = draw_ratios(r, p, 0, LS_FROM_COUNT, "source of the draft", out); break;
    case LS_PLOT_CALIBRATION: drawn = draw_calibration(r, out); break;
    case LS_PLOT_SPEEDUP: drawn = draw_speedup(r, out); break;
    case LS_PLOT_TIME: drawn = draw_time(r, out); break;
    case LS_PLOTS: break;
    }
    if (drawn) ls_buf_str(out, "</svg>\n");
    else out->p[out->n = before] = 0;
    return drawn;
}
