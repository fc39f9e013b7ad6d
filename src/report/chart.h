// A chart: a few series of points, drawn as SVG or written as a table. An SVG is self-contained: it needs no script, no
// style sheet and no extra font. Each mark has its values as attributes (data-series or data-group, data-x, data-value
// or data-n and data-of) and as a tooltip.
#pragma once
#include "decode/stats.h"
#include "report/table.h"

typedef enum {
    LS_SHAPE_LINES,   // points over a number, joined; the axis has the points' labels
    LS_SHAPE_LOG,     // the same over the number's logarithm
    LS_SHAPE_LOGS,    // the same, with the values also on a logarithmic axis that begins at 1
    LS_SHAPE_CURVES,  // lines over a number from 0, with circles where points have an n
    LS_SHAPE_COLUMNS, // for each label a column of each series; pale below 20 of n
    LS_SHAPE_BARS,    // a row for each label, a bar for each series
    LS_SHAPE_STACK,   // a row for each label, the series one after another
    LS_SHAPE_TREE     // points are places in a draft tree: their labels are paths
} ls_shape;

typedef struct {
    const char *name; // of its data-plot and its files
    ls_shape shape;
    bool percent;
    const char *title, *x_label, *value; // value: name of the quantity drawn, in data
    const char *of;                      // unit of n
    const char *caption;                 // definition of the quantity, and how to read the chart
} ls_chart_facts;

typedef struct {
    char *label;      // owned
    double x, value;  // value NAN: not known
    double low, high; // an interval around it; NAN: none
    double count;     // the value's numerator; NAN: it has none
    uint64_t n;       // its denominator, or the number of measurements
} ls_point;

typedef struct {
    char *name; // owned
    ls_point *points;
    size_t n;
    bool aside; // for comparison: a dashed line, or an outlined bar under a stack; not in the legend
} ls_series;

typedef struct {
    const ls_chart_facts *facts;
    int width;    // in pixels
    bool groups;  // marks have data-group, and data-n and data-of if they have a count; in a stack, rows are the groups
    double level; // of a dashed line through bars; 0: none
    ls_series *series;
    size_t n; // 0: there is nothing to draw
} ls_chart;

void ls_chart_free(ls_chart *c);
// The series of this name, which is added if necessary. Valid until the next series.
ls_series *ls_chart_series(ls_chart *c, const char *name);
// Adds a point to the series of this name; label NULL: x itself. Valid until the next point.
ls_point *ls_chart_add(ls_chart *c, const char *series, const char *label, double x, double value, uint64_t n);
// The value n / of; NAN if of is 0.
ls_point *ls_chart_add_share(ls_chart *c, const char *series, const char *label, double x, uint64_t n, uint64_t of);

const char *ls_chart_color(size_t series); // the same in every chart

// ---- its forms; each appends to out
int ls_chart_draw(const ls_chart *c, ls_buf *out); // an svg element; returns its height in pixels
// A file of charts on a white ground, with their titles. Its title is "logitspec COMMAND: TITLES".
void ls_chart_file(const ls_chart *charts, size_t n, const char *command, ls_buf *out);
void ls_chart_figure(const ls_chart *c, ls_buf *out); // for a page, with title and caption; the caller closes </figure>
ls_table ls_chart_table(const ls_chart *c);           // a row for each point
ls_table ls_chart_groups(const ls_chart *c, const char *labels); // a row for each label, a column for each series
