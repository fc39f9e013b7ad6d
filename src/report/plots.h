// The plots of a report as SVG. Each figure is self-contained: it needs no script, no style sheet and no extra font.
// Each mark has its values as attributes (data-group, data-x, data-n, data-of or data-value) and as a tooltip.
#pragma once
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

const char *ls_plot_title(ls_plot p);   // in words
const char *ls_plot_caption(ls_plot p); // definition of the numbers
// False: the traces lack what the plot needs, and nothing was drawn.
bool ls_plot_draw(const ls_report *r, ls_plot p, ls_buf *out);
int ls_plot_height(const ls_report *r, ls_plot p); // in pixels; every figure is LS_PLOT_WIDTH wide
enum { LS_PLOT_WIDTH = 640 };

// A verified tree: parents left of children, the accepted path bold.
void ls_tree_draw(const ls_report *r, const ls_report_tree *t, ls_buf *out);
