// The plots of a report, and the trees of its steps.
#pragma once
#include "report/chart.h"
#include "report/report.h"

typedef enum {
    LS_PLOT_EMITTED,     // steps by tokens emitted
    LS_PLOT_DEPTH,       // acceptance by depth
    LS_PLOT_RANK,        // by rank in the last logits
    LS_PLOT_SOURCE,      // by where the draft came from
    LS_PLOT_CALIBRATION, // estimated against real acceptance
    LS_PLOT_SPEEDUP,     // over plain decoding, as the output grows
    LS_PLOT_TIME,        // where a step's time goes
    LS_PLOTS
} ls_plot;

// Empty (n is 0) if the traces lack what the plot needs.
ls_chart ls_report_chart(const ls_report *r, ls_plot p);

// Appends a verified tree as SVG: parents left of children, the accepted path bold.
void ls_tree_draw(const ls_report *r, const ls_report_tree *t, ls_buf *out);
