// The parts of which the forms of a report are made: facts, settings, plots, and steps with their trees.
#pragma once
#include "report/chart.h"
#include "report/report.h"

// Appends a warning if the machine was busy, because that affects every time in the report.
void ls_report_busy(const ls_report *r, ls_buf *out);

// A row for each fact that any group has: its name, its value for each group as plain text ("-": not known), and what
// the number is. of: people see this last column, too.
ls_table ls_facts_table(const ls_report *r, bool of);
// The settings in which the groups differ, with a column for each group; or those that all have, with one column.
ls_table ls_settings_table(const ls_report *r, bool differing);

typedef enum {
#define PLOT(id, ...) LS_PLOT_##id,
#include "report/plots.def"
    LS_PLOTS
} ls_plot;

// Empty (n is 0) if the traces lack what the plot needs.
ls_chart ls_report_chart(const ls_report *r, ls_plot p);

// Adds how many experts of a layer so many rows of this mixture take if each takes its own at random, as an aside line.
void ls_plot_experts_at_random(ls_chart *c, const ls_run *mixture);

// Explains why a step gained or lost time, in a few sentences of plain text. Tokens are written as by ls_label_token.
void ls_report_explain(const ls_report *r, const ls_report_tree *t, ls_buf *out);
// Appends a verified tree as SVG: parents left of children, the accepted path bold.
void ls_tree_draw(const ls_report *r, const ls_report_tree *t, ls_buf *out);
