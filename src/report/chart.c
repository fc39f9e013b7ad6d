#include "report/chart.h"
#include "base/colour.h"
#include "base/mem.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 52, RIGHT = 16, TOP = 10, LEGEND = 18, INNER = 210, BOTTOM = 46, LABEL = 37, FONT = 12 };
enum { NAMES = 182, VALUES = 62, GAP = 9, THICK = 15, NAME_CHARS = 26, LEGEND_WIDTH = 210, FEW = 20, TITLE = 26 };

// ---- the data

void ls_chart_free(ls_chart *c) {
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->series[i].n; k++) free(c->series[i].points[k].label);
        free(c->series[i].points);
        free(c->series[i].name);
    }
    free(c->series);
    *c = (ls_chart){0};
}

ls_series *ls_chart_series(ls_chart *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->series[i].name, name)) return &c->series[i];
    c->series = ls_realloc(c->series, (c->n + 1) * sizeof *c->series);
    c->series[c->n] = (ls_series){.name = ls_strdup(name)};
    return &c->series[c->n++];
}

ls_point *ls_chart_add(ls_chart *c, const char *series, const char *label, double x, double value, uint64_t n) {
    ls_series *s = ls_chart_series(c, series);
    s->points = ls_realloc(s->points, (s->n + 1) * sizeof *s->points);
    ls_point *p = &s->points[s->n++];
    *p = (ls_point){
        label ? ls_strdup(label) : ls_format("%g", x), x, value, .low = NAN, .high = NAN, .count = NAN, .n = n};
    return p;
}

ls_point *ls_chart_add_share(ls_chart *c, const char *series, const char *label, double x, uint64_t n, uint64_t of) {
    ls_point *p = ls_chart_add(c, series, label, x, of ? (double)n / (double)of : NAN, of);
    p->count = (double)n;
    return p;
}

static double largest(const ls_chart *c) {
    double max = 0;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            max = fmax(max, fmax(c->series[i].points[k].value, c->series[i].points[k].high)); // fmax ignores a NAN
    return max > 0 ? max : 1;
}

// 1.234, 12.3%, "-" if it is not known.
static ls_short_text number(const ls_chart *c, double v) {
    ls_short_text t = {"-"};
    if (c->facts->percent && !isnan(v)) snprintf(t.s, sizeof t.s, "%.1f%%", 100 * v);
    else if (!isnan(v)) snprintf(t.s, sizeof t.s, "%.*f", v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3, v);
    return t;
}

// ---- elements

const char *ls_chart_color(size_t series) { // Okabe and Ito's palette for colour-blind readers
    static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                         "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};
    return colors[series % (sizeof colors / sizeof *colors)];
}

static void begin(const ls_chart *c, int height, ls_buf *out) {
    const ls_chart_facts *a = c->facts;
    const char *between = ": ";
    ls_buf_fmt(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" data-plot=\"%s\" role=\"img\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\" "
               "fill=\"currentColor\">\n<title>",
               a->name, c->width, height, c->width, height, FONT);
    ls_markup_str(out, a->title);
    for (size_t i = 0; c->n > 1 && i < c->n; i++) {
        if (c->series[i].aside) continue;
        ls_markup_fmt(out, "%s%s", between, c->series[i].name);
        between = ", ";
    }
    ls_buf_str(out, "</title>\n");
}

static void text(ls_buf *out, double x, double y, const char *anchor, const char *s) {
    ls_buf_fmt(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    ls_markup_str(out, s);
    ls_buf_str(out, "</text>\n");
}

// A name, cut to fit its place.
static void name(ls_buf *out, double x, double y, const char *anchor, const char *s) {
    char label[NAME_CHARS + 1];
    size_t n = strlen(s) < NAME_CHARS ? strlen(s) : NAME_CHARS;
    while (n && ((unsigned char)s[n] & 0xC0) == 0x80) n--; // do not cut within a character
    snprintf(label, sizeof label, "%.*s", (int)n, s);
    text(out, x, y, anchor, label);
}

// A line of the grid; strong: an axis.
static void grid(ls_buf *out, double x1, double y1, double x2, double y2, bool strong) {
    ls_buf_fmt(out, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"currentColor\" stroke-opacity=\"%s\"/>\n", x1, y1, x2,
               y2, strong ? ".6" : ".15");
}

// Returns its height, 0 if there is nothing to tell apart. out NULL: draws nothing.
static int legend(const ls_chart *c, ls_buf *out) {
    const int per_line = c->width / LEGEND_WIDTH;
    const double column = (double)(c->width - RIGHT) / per_line;
    int names = 0, at = 0;
    for (size_t i = 0; i < c->n; i++) names += !c->series[i].aside;
    for (size_t i = 0; names > 1 && i < c->n; i++) {
        if (c->series[i].aside) continue;
        const int line = at / per_line;
        const double x = RIGHT + column * (at % per_line), y = TOP + LEGEND * line;
        at++;
        if (!out) continue;
        ls_buf_fmt(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, y,
                   ls_chart_color(i));
        name(out, x + 14, y + 9, "start", c->series[i].name);
    }
    return at ? LEGEND * ((at + per_line - 1) / per_line) + 6 : 0;
}

// Ends the opening tag of a mark with its values, and adds its tooltip.
static void mark(const ls_chart *c, size_t i, size_t k, ls_buf *out) {
    const ls_series *s = &c->series[i];
    const ls_point *p = &s->points[k];
    const bool rows = c->groups && c->facts->shape == LS_SHAPE_STACK, ratio = c->groups && isfinite(p->count);
    const char *x = rows ? s->name : p->label;
    const ls_short_text value = number(c, p->value);
    ls_buf_fmt(out, " data-%s=\"%zu\"", c->groups ? "group" : "series", rows ? k : i);
    if (*x) {
        ls_buf_str(out, " data-x=\"");
        ls_markup_str(out, x);
        ls_buf_char(out, '"');
    }
    if (ratio) ls_buf_fmt(out, " data-n=\"%.0f\" data-of=\"%llu\"><title>", p->count, (unsigned long long)p->n);
    else ls_buf_fmt(out, " data-value=\"%.9g\"><title>", p->value);
    ls_markup_fmt(out, "%s%s%s: ", s->name, *p->label ? ", " : "", p->label);
    if (ratio) ls_markup_fmt(out, "%.0f of %llu (%s)", p->count, (unsigned long long)p->n, value.s);
    else ls_markup_str(out, value.s);
    if (!ratio && p->n) ls_markup_fmt(out, " (n = %llu %s)", (unsigned long long)p->n, c->facts->of);
    ls_buf_str(out, "</title>");
}

// ---- axes

typedef struct {
    double low, high; // values; in a logarithmic axis, low is at least 1
    double from, to;  // their places, in pixels
    bool log, percent;
} axis;

static double at(const axis *a, double v) {
    if (!(a->high > a->low)) return (a->from + a->to) / 2;
    const double part =
        a->log ? log2(fmax(v, a->low) / a->low) / log2(a->high / a->low) : (v - a->low) / (a->high - a->low);
    return a->from + (a->to - a->from) * part;
}

// 1, 2 or 5 times a power of ten that gives about five lines.
static double step_of(double max) {
    const double raw = max / 5, power = pow(10, floor(log10(raw)));
    const double m = raw / power, step = (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * power;
    return step > 0 ? step : 1; // max may be the smallest number that there is
}

// Raises the axis to a tick.
static void round_up(axis *a) {
    const double step = step_of(a->high);
    a->high = a->log ? exp2(fmax(1, ceil(log2(a->high) - 1e-9))) : ceil(a->high / step - 1e-9) * step;
}

// Round values beside an axis; if across1 is not across2, with lines of a grid between these places.
static void ticks(const axis *a, bool upright, double across1, double across2, ls_buf *out) {
    const double step = step_of(a->high);
    for (int i = 0;; i++) {
        const double v = a->log ? a->low * exp2(i) : i * step, place = at(a, v);
        char label[32];
        if (!(v <= a->high * (1 + 1e-9))) break;
        snprintf(label, sizeof label, a->percent ? "%.3g%%" : "%.5g", a->percent ? 100 * v : v);
        if (upright) grid(out, across1, place, across2, place, !i);
        else if (across1 < across2) grid(out, place, across1, place, across2, !i);
        if (upright) text(out, across1 - 5, place + 4, "end", label);
        else text(out, place, across2 + 15, "middle", label);
    }
}

// ---- lines and columns

typedef struct {
    axis x, y;
} frame;

static frame frame_of(const ls_chart *c) {
    const ls_shape shape = c->facts->shape;
    const double top = TOP + legend(c, NULL);
    frame f = {
        {INFINITY, -INFINITY, LEFT, c->width - RIGHT, shape == LS_SHAPE_LOG || shape == LS_SHAPE_LOGS,
         shape == LS_SHAPE_CURVES && c->facts->percent},
        {shape == LS_SHAPE_LOGS ? 1 : 0, largest(c), top + INNER, top, shape == LS_SHAPE_LOGS, c->facts->percent}};
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++) {
            if (isnan(c->series[i].points[k].value)) continue;
            f.x.low = fmin(f.x.low, c->series[i].points[k].x);
            f.x.high = fmax(f.x.high, c->series[i].points[k].x);
        }
    if (f.x.log) f.x.low = fmax(f.x.low, 1); // a list may say anything
    if (shape == LS_SHAPE_CURVES) f.x.low = 0;
    round_up(&f.y);
    return f;
}

static void axes(const ls_chart *c, const frame *f, ls_buf *out) {
    const double bottom = f->y.from;
    ticks(&f->y, true, f->x.from, f->x.to, out);
    text(out, (f->x.from + f->x.to) / 2, bottom + LABEL, "middle", c->facts->x_label);
    if (f->x.log || c->facts->shape == LS_SHAPE_CURVES) ticks(&f->x, false, bottom, bottom, out);
    for (size_t k = 0; c->facts->shape == LS_SHAPE_LINES && k < c->series[0].n; k++) // every line has the same places
        text(out, at(&f->x, c->series[0].points[k].x), bottom + 15, "middle", c->series[0].points[k].label);
}

static void circle(const ls_chart *c, const frame *f, size_t i, size_t k, double radius, ls_buf *out) {
    const ls_point *p = &c->series[i].points[k];
    if (isnan(p->value)) return;
    ls_buf_fmt(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"", at(&f->x, p->x), at(&f->y, p->value),
               radius, ls_chart_color(i));
    mark(c, i, k, out);
    ls_buf_str(out, "</circle>\n");
}

// A line through the points. Without circles, it is the mark of its last point.
static void line(const ls_chart *c, const frame *f, size_t i, bool circles, ls_buf *out) {
    const ls_series *s = &c->series[i];
    size_t last = s->n;
    ls_buf path = {0};
    for (size_t k = 0; k < s->n; k++) {
        const ls_point *p = &s->points[k];
        if (isnan(p->value)) continue;
        ls_buf_fmt(&path, "%c%.1f %.1f", path.n ? 'L' : 'M', at(&f->x, p->x), at(&f->y, p->value));
        last = k;
    }
    if (last < s->n) {
        ls_buf_fmt(out, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" %s", path.p,
                   s->aside ? "currentColor" : ls_chart_color(i),
                   s->aside ? "stroke-opacity=\".5\" stroke-dasharray=\"4 3\"" : "stroke-width=\"2\"");
        if (s->aside || circles) ls_buf_str(out, "/>\n");
        else mark(c, i, last, out), ls_buf_str(out, "</path>\n");
    }
    ls_buf_free(&path);
}

static double radius_of(const ls_chart *c, const ls_series *s, size_t k) {
    if (c->facts->shape != LS_SHAPE_CURVES) return s->n > 20 ? 2 : 3.5;
    double all = 0;
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < c->series[i].n; j++) all += (double)c->series[i].points[j].n;
    return 3 + 3 * sqrt((double)s->points[k].n / all);
}

static int draw_lines(const ls_chart *c, ls_buf *out) {
    const frame f = frame_of(c);
    axes(c, &f, out);
    for (size_t i = 0; i < c->n; i++) {
        const ls_series *s = &c->series[i];
        const bool circles = !s->aside && (c->facts->shape != LS_SHAPE_CURVES || (s->n && s->points[0].n));
        line(c, &f, i, circles, out);
        for (size_t k = 0; circles && k < s->n; k++) circle(c, &f, i, k, radius_of(c, s, k), out);
    }
    return (int)f.y.from + BOTTOM;
}

static int draw_columns(const ls_chart *c, ls_buf *out) {
    const size_t n = c->series[0].n;
    const frame f = frame_of(c);
    const double slot = (f.x.to - f.x.from) / (double)n, wide = fmin(28, slot * 0.8 / (double)c->n);
    axes(c, &f, out);
    for (size_t k = 0; k < n; k++) {
        const double middle = f.x.from + slot * ((double)k + 0.5);
        text(out, middle, f.y.from + 15, "middle", c->series[0].points[k].label);
        for (size_t i = 0; i < c->n; i++) {
            const ls_point *p = &c->series[i].points[k];
            if (isnan(p->value)) continue;
            ls_buf_fmt(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"%s",
                       middle + wide * ((double)i - (double)c->n / 2), at(&f.y, p->value), fmax(1, wide - 1),
                       fmax(0.5, f.y.from - at(&f.y, p->value)), ls_chart_color(i),
                       p->n < FEW ? " fill-opacity=\".35\"" : "");
            mark(c, i, k, out);
            ls_buf_str(out, "</rect>\n");
        }
    }
    return (int)f.y.from + BOTTOM;
}

// ---- rows

static int row_height(const ls_chart *c) {
    if (c->facts->shape == LS_SHAPE_BARS) return (int)c->n * THICK + GAP;
    return THICK + 1 + (c->series[c->n - 1].aside ? THICK / 2 : 0) + GAP;
}

static double row_top(const ls_chart *c, size_t row) {
    return TOP + legend(c, NULL) + row_height(c) * (double)row;
}

static void bar(const ls_chart *c, size_t i, size_t k, double x, double y, double width, int height, ls_buf *out) {
    ls_buf_fmt(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" ", x, y, fmax(0.5, width), height);
    if (c->series[i].aside) ls_buf_str(out, "fill=\"none\" stroke=\"currentColor\"");
    else ls_buf_fmt(out, "fill=\"%s\"", ls_chart_color(i));
    mark(c, i, k, out);
    ls_buf_str(out, "</rect>\n");
}

static void whisker(const ls_point *p, const axis *a, double y, ls_buf *out) {
    if (!isfinite(p->low) || !isfinite(p->high)) return;
    const double x1 = at(a, p->low), x2 = at(a, p->high);
    ls_buf_fmt(out, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1fM%.1f %.1fV%.1f\" stroke=\"currentColor\"/>\n", x1, y, x2,
               x1, y - 4, y + 4, x2, y - 4, y + 4);
}

static double sum_of(const ls_chart *c, size_t row) {
    double sum = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!c->series[i].aside && isfinite(c->series[i].points[row].value)) sum += c->series[i].points[row].value;
    return sum;
}

static void draw_bar_row(const ls_chart *c, size_t row, const axis *a, ls_buf *out) {
    for (size_t i = 0; i < c->n && row < c->series[i].n; i++) {
        const ls_point *p = &c->series[i].points[row];
        const double y = row_top(c, row) + THICK * (double)i;
        bar(c, i, row, NAMES, y, at(a, p->value) - NAMES, THICK - 1, out);
        whisker(p, a, y + (THICK - 1) / 2.0, out);
        text(out, at(a, fmax(p->high, p->value)) + 6, y + THICK - 3, "start", number(c, p->value).s);
    }
}

static void draw_stack_row(const ls_chart *c, size_t row, const axis *a, ls_buf *out) {
    double x = NAMES;
    const double y = row_top(c, row);
    for (size_t i = 0; i < c->n; i++) {
        const double width = at(a, c->series[i].points[row].value) - NAMES;
        if (isnan(width)) continue;
        if (c->series[i].aside) bar(c, i, row, NAMES, y + THICK + 3, width, THICK / 2, out);
        else bar(c, i, row, x, y, width, THICK + 1, out), x += width;
    }
    text(out, x + 6, y + THICK - 3, "start", number(c, sum_of(c, row)).s);
}

static int draw_rows(const ls_chart *c, ls_buf *out) {
    const bool stack = c->facts->shape == LS_SHAPE_STACK;
    const size_t rows = c->series[0].n;
    const double top = row_top(c, 0), bottom = row_top(c, rows);
    axis a = {0, largest(c), NAMES, c->width - VALUES, false, c->facts->percent};
    for (size_t k = 0; stack && k < rows; k++) a.high = fmax(a.high, sum_of(c, k));
    ticks(&a, false, top - 3, bottom, out);
    text(out, (a.from + a.to) / 2, bottom + 35, "middle", c->facts->x_label);
    for (size_t k = 0; k < rows; k++) {
        const double middle = stack ? THICK - 3 : (row_height(c) - GAP) / 2.0 + 4;
        name(out, NAMES - 7, row_top(c, k) + middle, "end", c->series[0].points[k].label);
        (stack ? draw_stack_row : draw_bar_row)(c, k, &a, out);
    }
    if (c->level > 0)
        ls_buf_fmt(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"currentColor\" stroke-dasharray=\"4 3\"/>\n",
                   at(&a, c->level), top - 3, bottom);
    return (int)bottom + BOTTOM;
}

// ---- the tree

enum { LINE = 20, COLUMN = 112, ROOT = 26, SELDOM = 10 };

typedef struct {
    size_t *shown; // points, sorted by path: descendants follow their place
    double *y;     // a place is level with its first child
    size_t n;
    double below; // of the last line
} tree;

static tree tree_of(const ls_series *s) {
    tree t = {ls_calloc(s->n, sizeof *t.shown), ls_calloc(s->n, sizeof *t.y), 0, TOP + LINE / 2.0};
    double most = SELDOM * 50.0;
    for (size_t k = 0; k < s->n; k++) most = fmax(most, (double)s->points[k].n);
    for (size_t k = 0; k < s->n; k++) {
        if ((double)s->points[k].n < most / 50) continue;
        size_t at = t.n++;
        for (; at > 0 && strcmp(s->points[t.shown[at - 1]].label, s->points[k].label) > 0; at--)
            t.shown[at] = t.shown[at - 1];
        t.shown[at] = k;
    }
    for (size_t i = 0; i < t.n; i++) {
        const char *path = s->points[t.shown[i]].label, *before = i ? s->points[t.shown[i - 1]].label : "";
        if (i && strncmp(path, before, strlen(before)))
            t.below += LINE; // no child of the one before: a line of its own
        t.y[i] = t.below;
    }
    return t;
}

// The line on which the parent of place i is: the last place before it that is less deep.
static double parent_y(const ls_series *s, const tree *t, size_t i) {
    size_t k = i;
    while (k > 0 && s->points[t->shown[k - 1]].x >= s->points[t->shown[i]].x) k--;
    return k > 0 ? t->y[k - 1] : TOP + LINE / 2.0;
}

static void draw_place(const ls_chart *c, const tree *t, size_t i, ls_buf *out) {
    const ls_series *s = &c->series[0];
    const ls_point *p = &s->points[t->shown[i]];
    const double x = ROOT + COLUMN * (p->x - 1) + 14, y = t->y[i], px = p->x > 1 ? x - 18 : ROOT / 2.0 + 6,
                 py = parent_y(s, t, i);
    char label[64];
    ls_buf_fmt(out,
               "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
               "stroke-width=\"%.1f\"/>\n<g",
               px, py, px + 9, py, x - 9, y, x, y, ls_chart_color(2), 0.6 + 5 * p->value);
    mark(c, 0, t->shown[i], out);
    ls_buf_fmt(out,
               "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"16\" rx=\"3\" fill=\"%s\" "
               "fill-opacity=\"%.2f\" stroke=\"%s\"/>",
               x, y - 8, COLUMN - 18, ls_chart_color(2), 0.06 + 0.5 * p->value, ls_chart_color(2));
    snprintf(label, sizeof label, "%c: %.0f%% of %llu", p->label[strlen(p->label) - 1], 100 * p->value,
             (unsigned long long)p->n);
    text(out, x + 4, y + 4, "start", label);
    ls_buf_str(out, "</g>\n");
}

static int draw_tree(const ls_chart *c, ls_buf *out) {
    tree t = tree_of(&c->series[0]);
    ls_buf_fmt(out, "<circle cx=\"%d\" cy=\"%.1f\" r=\"6\"><title>the root</title></circle>\n", ROOT / 2,
               TOP + LINE / 2.0);
    for (size_t i = 0; i < t.n; i++) draw_place(c, &t, i, out);
    free(t.shown);
    free(t.y);
    return (int)t.below + LINE;
}

// ---- its forms

int ls_chart_draw(const ls_chart *c, ls_buf *out) {
    ls_buf body = {0};
    int height = 0;
    if (c->facts->shape != LS_SHAPE_TREE) legend(c, &body);
    switch (c->facts->shape) {
    case LS_SHAPE_COLUMNS: height = draw_columns(c, &body); break;
    case LS_SHAPE_BARS:
    case LS_SHAPE_STACK: height = draw_rows(c, &body); break;
    case LS_SHAPE_TREE: height = draw_tree(c, &body); break;
    default: height = draw_lines(c, &body);
    }
    begin(c, height, out);
    ls_buf_fmt(out, "%s</svg>\n", body.p);
    ls_buf_free(&body);
    return height;
}

void ls_chart_file(const ls_chart *charts, size_t n, const char *command, ls_buf *out) {
    enum { SPACE = 14, COLUMNS = 2 };
    int height[COLUMNS] = {0}, width = 0;
    ls_buf body = {0}, titles = {0};
    for (size_t i = 0; i < n; i++) {
        const ls_chart *c = &charts[i];
        const int column = height[1] < height[0]; // the shorter one
        if (!c->n) continue;
        ls_buf_fmt(&titles, "%s%s", titles.n ? "; " : "", c->facts->title);
        ls_buf_fmt(&body,
                   "<g transform=\"translate(%d %d)\">\n<text x=\"8\" y=\"18\" font-size=\"14\" font-weight=\"bold\">",
                   column * c->width, height[column]);
        ls_markup_str(&body, c->facts->title);
        ls_buf_fmt(&body, "</text>\n<g transform=\"translate(0 %d)\">\n", TITLE);
        height[column] += TITLE + ls_chart_draw(c, &body) + SPACE;
        ls_buf_str(&body, "</g></g>\n");
        width = (column + 1) * c->width > width ? (column + 1) * c->width : width;
    }
    const int h = height[0] > height[1] ? height[0] : height[1];
    ls_buf_fmt(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" color=\"#%06x\" fill=\"currentColor\">\n<title>",
        width, h, width, h, ls_rgb256(LS_INK_LIGHT));
    ls_markup_fmt(out, "logitspec %s: %s", command, titles.n ? titles.p : "");
    ls_buf_fmt(out, "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#%06x\"/>\n", ls_rgb256(LS_GROUND_LIGHT));
    if (body.n) ls_buf_add(out, body.p, body.n);
    ls_buf_str(out, "</svg>\n");
    ls_buf_free(&body);
    ls_buf_free(&titles);
}

void ls_chart_figure(const ls_chart *c, ls_buf *out) {
    ls_buf_str(out, "<figure>");
    ls_page_tag(out, "h3", c->facts->title);
    ls_buf_str(out, "<div class=\"scroll\">");
    if (c->n) ls_chart_draw(c, out);
    else ls_buf_str(out, "<p class=\"note\">not in these recordings</p>\n");
    ls_buf_str(out, "</div>\n");
    ls_page_tag(out, "figcaption", c->facts->caption);
}

// "1.23 (1.10 - 1.31)"
static void put_value(ls_table *t, const ls_chart *c, const ls_point *p) {
    const ls_short_text value = number(c, p->value), low = number(c, p->low), high = number(c, p->high);
    if (isfinite(p->low)) ls_put(t, c->facts->value, NULL, 0, "%s (%s - %s)", value.s, low.s, high.s);
    else ls_put(t, c->facts->value, NULL, 0, "%s", value.s);
}

static void put_of(ls_table *t, const ls_chart *c, const ls_point *p) {
    char *of = p->n ? ls_format("%llu %s", (unsigned long long)p->n, c->facts->of) : ls_strdup("");
    if (isfinite(p->count)) ls_put(t, "of", NULL, 0, "%.0f of %s", p->count, of);
    else ls_put(t, "of", NULL, 0, "%s", of);
    free(of);
}

ls_table ls_chart_table(const ls_chart *c) {
    ls_table t = {0};
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++) {
            const ls_point *p = &c->series[i].points[k];
            ls_table_row(&t);
            ls_put(&t, "", "series", 0, "%s", c->series[i].name);
            ls_put(&t, "", "label", 0, "%s", p->label);
            put_value(&t, c, p);
            put_of(&t, c, p);
            ls_put_number(&t, NULL, "x", 0, 0, p->x);
            ls_put_number(&t, NULL, c->facts->value, 0, 0, p->value);
            ls_put_number(&t, NULL, "low", 0, 0, p->low);
            ls_put_number(&t, NULL, "high", 0, 0, p->high);
            ls_put_number(&t, NULL, "count", 0, 0, p->count);
            ls_put_number(&t, NULL, "n", 0, 0, p->n ? (double)p->n : NAN);
        }
    return t;
}

ls_table ls_chart_groups(const ls_chart *c, const char *labels) {
    ls_table t = {0};
    for (size_t k = 0; c->n && k < c->series[0].n; k++) {
        bool any = false;
        for (size_t i = 0; i < c->n; i++) any |= c->series[i].points[k].n > 0;
        if (!any) continue;
        ls_table_row(&t);
        ls_put(&t, labels, NULL, 0, "%s", c->series[0].points[k].label);
        for (size_t i = 0; i < c->n; i++) {
            const ls_point *p = &c->series[i].points[k];
            if (!p->n) ls_put(&t, c->series[i].name, NULL, 0, "-");
            else
                ls_put(&t, c->series[i].name, NULL, 0, "%.0f of %llu (%.0f%%)", p->count, (unsigned long long)p->n,
                       100 * p->value);
        }
    }
    return t;
}
