// The figures of a lab as SVG. Each mark has a tooltip with its series, label and value.
#include "base/mem.h"
#include "report/draw.h"
#include "report/lab_figures.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 46, RIGHT = 16, TOP = 10, LEGEND = 18, INNER = 210, BOTTOM = 46, LABEL = 37, FONT = 12 };
enum { NAMES = 182, VALUES = 62, GAP = 9, NAME_CHARS = 28 };

static double largest(const ls_lab_data *d) {
    double max = 0;
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->series[i].n; k++) {
            const ls_lab_datum *p = &d->series[i].points[k];
            if (p->value > max) max = p->value;
            if (p->high > max) max = p->high;
        }
    return max > 0 ? max : 1;
}

static int legend_height(const ls_lab_data *d) {
    return d->n > 1 ? LEGEND * (int)((d->n + 1) / 2) + 6 : 0;
}

static void legend(const ls_lab_data *d, ls_buf *out) {
    for (size_t i = 0; d->n > 1 && i < d->n; i++) {
        const size_t line = i / 2;
        ls_draw_legend(out, i % 2 ? LS_LAB_WIDTH / 2 : LEFT - 30, TOP + LEGEND * (double)line, ls_draw_color(i),
                       d->series[i].name, NAME_CHARS);
    }
}

static void begin(const ls_lab_data *d, const ls_lab_figure_facts *a, int height, int font, ls_buf *out) {
    ls_buf title = {0};
    ls_buf_str(&title, a->title);
    for (size_t i = 0; d->n > 1 && i < d->n; i++) ls_buf_fmt(&title, "%s%s", i ? ", " : ": ", d->series[i].name);
    ls_draw_begin(out, a->name, title.p, LS_LAB_WIDTH, height, font);
    ls_buf_free(&title);
}

static void mark(const ls_lab_data *d, ls_lab_figure f, size_t i, const ls_lab_datum *p, ls_buf *out) {
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    char value[32];
    ls_lab_number(p->value, a->percent, value, sizeof value);
    ls_buf_fmt(out, " data-series=\"%zu\" data-x=\"", i);
    ls_markup_str(out, p->label);
    ls_buf_fmt(out, "\" data-value=\"%.9g\"><title>", p->value);
    ls_markup_fmt(out, "%s, %s: %s", d->series[i].name, p->label, value);
    if (p->n) ls_markup_fmt(out, " (n = %llu %s)", (unsigned long long)p->n, a->of);
    ls_buf_str(out, "</title>");
}

// ---- lines

typedef struct {
    double low, high; // of x
    bool log;
} scale;

static double place(const scale *z, double x) { // 0..1
    if (!(z->high > z->low)) return 0.5;
    return z->log ? log2(fmax(x, z->low) / z->low) / log2(z->high / z->low) : (x - z->low) / (z->high - z->low);
}

static scale scale_of(const ls_lab_data *d, bool log) {
    enum { LEAST = 1 }; // of a logarithm: a list may say anything
    scale z = {INFINITY, -INFINITY, log};
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < d->series[i].n; k++) {
            const ls_lab_datum *p = &d->series[i].points[k];
            if (isnan(p->value)) continue;
            z.low = fmin(z.low, p->x);
            z.high = fmax(z.high, p->x);
        }
    if (log) z.low = fmax(z.low, LEAST);
    return z;
}

static void label_x(const ls_lab_data *d, const scale *z, const ls_frame *f, ls_buf *out) {
    char label[32];
    if (z->log) {
        for (int i = 0; z->low * exp2(i) <= z->high; i++) {
            snprintf(label, sizeof label, "%g", z->low * exp2(i));
            ls_draw_text(out, ls_draw_x(f, place(z, z->low * exp2(i))), f->y0 + f->h + 16, "middle", label);
        }
        return;
    }
    for (size_t k = 0; k < d->series[0].n; k++) // every line has the same few places
        ls_draw_text(out, ls_draw_x(f, place(z, d->series[0].points[k].x)), f->y0 + f->h + 16, "middle",
                     d->series[0].points[k].label);
}

static double at_y(const ls_frame *f, bool logs, double value) {
    return ls_draw_y(f, logs ? log2(fmax(1, value)) : value);
}

static void label_powers(const ls_frame *f, const char *x_label, ls_buf *out) {
    for (int i = 0; i <= f->max_y; i++) {
        char label[32];
        snprintf(label, sizeof label, "%g", exp2(i));
        ls_buf_fmt(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"currentColor\" stroke-opacity=\"%s\"/>\n", f->x0,
                   ls_draw_y(f, i), f->x0 + f->w, i ? ".15" : ".6");
        ls_draw_text(out, f->x0 - 5, ls_draw_y(f, i) + 4, "end", label);
    }
    ls_draw_text(out, f->x0 + f->w / 2, f->y0 + f->h + LABEL, "middle", x_label);
}

static int draw_lines(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    const int top = TOP + legend_height(d);
    const bool logs = a->shape == LS_SHAPE_LOGS;
    const scale z = scale_of(d, a->shape != LS_SHAPE_LINES);
    const double max = largest(d);
    ls_frame frame = {LEFT, top, LS_LAB_WIDTH - LEFT - RIGHT, INNER, 1, logs ? fmax(1, ceil(log2(max))) : max};
    begin(d, a, top + INNER + BOTTOM, FONT, out);
    legend(d, out);
    if (logs) label_powers(&frame, a->x_label, out);
    else ls_draw_axes(out, &frame, a->percent, LABEL, a->x_label);
    label_x(d, &z, &frame, out);
    for (size_t i = 0; i < d->n; i++) {
        const ls_lab_series *s = &d->series[i];
        ls_buf line = {0};
        for (size_t k = 0; k < s->n; k++)
            if (!isnan(s->points[k].value))
                ls_buf_fmt(&line, "%c%.1f %.1f", line.n ? 'L' : 'M', ls_draw_x(&frame, place(&z, s->points[k].x)),
                           at_y(&frame, logs, s->points[k].value));
        ls_buf_fmt(out, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", line.n ? line.p : "",
                   ls_draw_color(i));
        ls_buf_free(&line);
        for (size_t k = 0; k < s->n; k++) {
            const ls_lab_datum *p = &s->points[k];
            if (isnan(p->value)) continue;
            ls_buf_fmt(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"", ls_draw_x(&frame, place(&z, p->x)),
                       at_y(&frame, logs, p->value), s->n > 20 ? "2" : "3.5", ls_draw_color(i));
            mark(d, f, i, p, out);
            ls_buf_str(out, "</circle>\n");
        }
    }
    return top + INNER + BOTTOM;
}

// ---- rows

static void row_name(const char *name, double y, ls_buf *out) {
    char label[4 * NAME_CHARS];
    snprintf(label, sizeof label, "%.*s", NAME_CHARS, name);
    ls_draw_text(out, NAMES - 7, y, "end", label);
}

// Lines down the rows with their values; returns pixels of one unit.
static double rows_axis(const ls_lab_figure_facts *a, double max, double top, double bottom, ls_buf *out) {
    const double step = ls_draw_step(max), unit = (LS_LAB_WIDTH - NAMES - VALUES) / max;
    for (int i = 0; i * step <= max * (1 + 1e-9); i++) {
        char label[32];
        snprintf(label, sizeof label, a->percent ? "%.3g%%" : "%.5g", (a->percent ? 100 : 1) * i * step);
        ls_buf_fmt(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"currentColor\" stroke-opacity=\"%s\"/>\n",
                   NAMES + i * step * unit, top - 3, bottom, i ? ".15" : ".6");
        ls_draw_text(out, NAMES + i * step * unit, bottom + 15, "middle", label);
    }
    ls_draw_text(out, (LS_LAB_WIDTH + NAMES - VALUES) / 2.0, bottom + 35, "middle", a->x_label);
    return unit;
}

static void whisker(const ls_lab_datum *p, double unit, double y, ls_buf *out) {
    if (!isfinite(p->low) || !isfinite(p->high)) return;
    const double x1 = NAMES + p->low * unit, x2 = NAMES + p->high * unit;
    ls_buf_fmt(out, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1fM%.1f %.1fV%.1f\" stroke=\"currentColor\"/>\n", x1, y, x2,
               x1, y - 4, y + 4, x2, y - 4, y + 4);
}

static int draw_bars(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    const int top = TOP + legend_height(d), thick = 15, row = (int)d->n * thick + GAP;
    const int bottom = top + row * (int)d->series[0].n;
    begin(d, a, bottom + BOTTOM, FONT, out);
    legend(d, out);
    const double unit = rows_axis(a, largest(d), top, bottom, out);
    for (size_t k = 0; k < d->series[0].n; k++) {
        const double y = top + row * (double)k;
        row_name(d->series[0].points[k].label, y + (row - GAP) / 2.0 + 4, out);
        for (size_t i = 0; i < d->n && k < d->series[i].n; i++) {
            const ls_lab_datum *p = &d->series[i].points[k];
            const double end = isfinite(p->high) ? fmax(p->high, p->value) : p->value;
            char value[32];
            ls_lab_number(p->value, a->percent, value, sizeof value);
            ls_buf_fmt(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"", NAMES,
                       y + thick * (double)i, fmax(0.5, p->value * unit), thick - 1, ls_draw_color(i));
            mark(d, f, i, p, out);
            ls_buf_str(out, "</rect>\n");
            whisker(p, unit, y + thick * (double)i + (thick - 1) / 2.0, out);
            ls_draw_text(out, NAMES + end * unit + 6, y + thick * (double)i + thick - 3, "start", value);
        }
    }
    if (f == LS_FIGURE_SPEEDUP)
        ls_buf_fmt(out, "<path d=\"M%.1f %dV%d\" stroke=\"currentColor\" stroke-dasharray=\"4 3\"/>\n", NAMES + unit,
                   top - 3, bottom);
    return bottom + BOTTOM;
}

static int draw_stack(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    enum { THICK = 16, ROW = THICK + GAP };
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    const size_t rows = d->series[0].n;
    const int top = TOP + legend_height(d), bottom = top + ROW * (int)rows;
    double max = 0, *sum = ls_calloc(rows, sizeof *sum);
    for (size_t i = 0; i < d->n; i++)
        for (size_t k = 0; k < rows; k++) sum[k] += d->series[i].points[k].value;
    for (size_t k = 0; k < rows; k++) max = fmax(max, sum[k]);
    begin(d, a, bottom + BOTTOM, FONT, out);
    legend(d, out);
    const double unit = rows_axis(a, max > 0 ? max : 1, top, bottom, out);
    for (size_t k = 0; k < rows; k++) {
        double x = NAMES, y = top + ROW * (double)k;
        char total[32];
        row_name(d->series[0].points[k].label, y + 12, out);
        for (size_t i = 0; i < d->n; i++) {
            const ls_lab_datum *p = &d->series[i].points[k];
            ls_buf_fmt(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"", x, y,
                       p->value * unit, THICK, ls_draw_color(i));
            mark(d, f, i, p, out);
            ls_buf_str(out, "</rect>\n");
            x += p->value * unit;
        }
        ls_lab_number(sum[k], false, total, sizeof total);
        ls_draw_text(out, x + 6, y + 12, "start", total);
    }
    free(sum);
    return bottom + BOTTOM;
}

// ---- the tree

enum { LINE = 20, COLUMN = 112, ROOT = 26, SELDOM = 10 };

static int draw_tree(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    const ls_lab_series *s = &d->series[0];
    double most = SELDOM * 50.0, *y = ls_calloc(s->n, sizeof *y), below = TOP + LINE / 2.0;
    size_t *shown = ls_calloc(s->n, sizeof *shown), n = 0;
    for (size_t k = 0; k < s->n; k++) most = fmax(most, (double)s->points[k].n);
    // sorted by path, so that descendants follow their place; a place is level with its first child
    for (size_t k = 0; k < s->n; k++) {
        if ((double)s->points[k].n < most / 50) continue;
        size_t at = n++;
        for (; at > 0 && strcmp(s->points[shown[at - 1]].label, s->points[k].label) > 0; at--)
            shown[at] = shown[at - 1];
        shown[at] = k;
    }
    for (size_t i = 0; i < n; i++) {
        const char *path = s->points[shown[i]].label, *before = i ? s->points[shown[i - 1]].label : "";
        if (i && strncmp(path, before, strlen(before))) below += LINE; // no child of the one before: a line of its own
        y[i] = below;
    }
    begin(d, a, (int)below + LINE, 11, out);
    ls_buf_fmt(out, "<circle cx=\"%d\" cy=\"%.1f\" r=\"6\"><title>the root</title></circle>\n", ROOT / 2,
               TOP + LINE / 2.0);
    for (size_t i = 0; i < n; i++) {
        const ls_lab_datum *p = &s->points[shown[i]];
        const size_t length = strlen(p->label);
        const double x = ROOT + COLUMN * (p->x - 1) + 14;
        double px = ROOT / 2.0 + 6, py = TOP + LINE / 2.0;
        char text[64];
        for (size_t k = 0; k < i; k++) // its parent
            if (length > 1 && !strncmp(s->points[shown[k]].label, p->label, length - 2) &&
                strlen(s->points[shown[k]].label) == length - 2)
                px = ROOT + COLUMN * (p->x - 1) - 4, py = y[k];
        ls_buf_fmt(out,
                   "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
                   "stroke-width=\"%.1f\"/>\n<g",
                   px, py, px + 9, py, x - 9, y[i], x, y[i], ls_draw_color(2), 0.6 + 5 * p->value);
        mark(d, f, 0, p, out);
        ls_buf_fmt(out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"16\" rx=\"3\" fill=\"%s\" "
                   "fill-opacity=\"%.2f\" stroke=\"%s\"/>",
                   x, y[i] - 8, COLUMN - 18, ls_draw_color(2), 0.06 + 0.5 * p->value, ls_draw_color(2));
        snprintf(text, sizeof text, "%c: %.0f%% of %llu", p->label[length - 1], 100 * p->value,
                 (unsigned long long)p->n);
        ls_draw_text(out, x + 4, y[i] + 4, "start", text);
        ls_buf_str(out, "</g>\n");
    }
    free(shown);
    free(y);
    return (int)below + LINE;
}

int ls_lab_draw(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    int height = 0;
    switch (ls_lab_figures[f].shape) {
    case LS_SHAPE_LINES:
    case LS_SHAPE_LOG:
    case LS_SHAPE_LOGS: height = draw_lines(d, f, out); break;
    case LS_SHAPE_BARS: height = draw_bars(d, f, out); break;
    case LS_SHAPE_STACK: height = draw_stack(d, f, out); break;
    case LS_SHAPE_TREE: height = draw_tree(d, f, out); break;
    }
    ls_buf_str(out, "</svg>\n");
    return height;
}

void ls_lab_svg(const ls_lab_data *d, ls_lab_figure f, ls_buf *out) {
    enum { TITLE = 26 };
    ls_buf figure = {0};
    const int height = TITLE + ls_lab_draw(d, f, &figure);
    ls_draw_file(out, LS_LAB_WIDTH, height, "lab", ls_lab_figures[f].title);
    ls_buf_str(out, "<text x=\"8\" y=\"18\" font-size=\"14\" font-weight=\"bold\">");
    ls_markup_str(out, ls_lab_figures[f].title);
    ls_buf_fmt(out, "</text>\n<g transform=\"translate(0 %d)\">\n", TITLE);
    ls_buf_add(out, figure.p, figure.n);
    ls_buf_str(out, "</g></svg>\n");
    ls_buf_free(&figure);
}
