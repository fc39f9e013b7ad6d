// The plots of a report, and the trees of its steps.
#pragma once
#include "report/chart.h"
#include "report/report.h"

typedef enum {
#define PLOT(id, ...) LS_PLOT_##id,
#include "report/plots.def"
    LS_PLOTS
} ls_plot;

// Empty (n is 0) if the traces lack what the plot needs.
ls_chart ls_report_chart(const ls_report *r, ls_plot p);

// Adds how many experts of a layer so many rows of this mixture take if each takes its own at random, as an aside line.
void ls_plot_experts_at_random(ls_chart *c, const ls_run *mixture);

// Appends a verified tree as SVG: parents left of children, the accepted path bold.
void ls_tree_draw(const ls_report *r, const ls_report_tree *t, ls_buf *out);
