// The figures of a lab. The SVG, the CSV file and the table of each are made from its chart.
#pragma once
#include "report/chart.h"
#include "report/lab.h"

typedef enum {
#define FIGURE(name, ...) LS_FIGURE_##name,
#include "report/lab_figures.def"
    LS_FIGURES
} ls_lab_figure;

// Empty (n is 0) if the recordings lack the data of the figure.
ls_chart ls_lab_chart(const ls_lab *lab, ls_lab_figure f);
