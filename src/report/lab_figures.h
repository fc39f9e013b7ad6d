// The figures of a lab. Each is a few series of points; its SVG, its CSV file and its table are made from them.
#pragma once
#include "report/lab.h"

typedef enum {
    LS_SHAPE_LINES, // points over a number, joined
    LS_SHAPE_LOG,   // the same over its logarithm
    LS_SHAPE_LOGS,  // the same, with the values also on a logarithmic axis that begins at 1
    LS_SHAPE_BARS,  // a row for each label, a bar for each series
    LS_SHAPE_STACK, // a row for each label, the series one after another
    LS_SHAPE_TREE   // points are places in a draft tree: their labels are paths
} ls_lab_shape;

typedef enum {
#define FIGURE(name, ...) LS_FIGURE_##name,
#include "report/lab_figures.def"
    LS_FIGURES
} ls_lab_figure;

typedef struct {
    const char *name; // of its files
    ls_lab_shape shape;
    bool percent;
    const char *title, *x_label, *value; // value: name of the quantity drawn
    const char *of;                      // unit of n
    const char *caption;                 // definition of the quantity, and how to read the figure
} ls_lab_figure_facts;
extern const ls_lab_figure_facts ls_lab_figures[LS_FIGURES];

typedef struct {
    char label[LS_LAB_WORD];
    double x, value;  // value NAN: not known
    double low, high; // an interval around it; NAN: none
    double count;     // the value's numerator; NAN: it has none
    uint64_t n;       // its denominator, or the number of measurements
} ls_lab_datum;

typedef struct {
    char name[LS_LAB_WORD];
    ls_lab_datum *points;
    size_t n;
} ls_lab_series;

typedef struct {
    ls_lab_series *series;
    size_t n;
} ls_lab_data;

// n is 0 if the recordings lack the data of the figure.
ls_lab_data ls_lab_data_of(const ls_lab *lab, ls_lab_figure f);
void ls_lab_data_free(ls_lab_data *d);

enum { LS_LAB_WIDTH = 480 }; // of every figure; the text stays readable on a phone
int ls_lab_draw(const ls_lab_data *d, ls_lab_figure f, ls_buf *out); // an svg element; its height
void ls_lab_svg(const ls_lab_data *d, ls_lab_figure f, ls_buf *out); // the same as a file of its own, with its title
void ls_lab_csv(const ls_lab_data *d, ls_lab_figure f, ls_buf *out);
void ls_lab_table(const ls_lab_data *d, ls_lab_figure f, ls_buf *out); // HTML
// A number as figures and tables show it: 1.234, 12.3%, "-" if it is not known.
void ls_lab_number(double v, bool percent, char *out, size_t size);
