// The facts of a report, and its configuration.
#pragma once
#include "report/report.h"
#include "report/table.h"

typedef struct {
    const char *name;
    const char *of;                                                           // explanation of the number
    void (*write)(const ls_report *r, const ls_report_group *g, ls_buf *out); // plain text; "-": not known
    bool (*has)(const ls_report *r, const ls_report_group *g);
} ls_fact;

extern const ls_fact ls_facts[];                            // ends with a NULL name
bool ls_fact_applies(const ls_fact *f, const ls_report *r); // any group has it

// Appends a warning if the machine was busy, because that affects every time in the report.
void ls_report_busy(const ls_report *r, ls_buf *out);

// A row for each fact, a column for each group. of: a last column has the explanations.
ls_table ls_facts_table(const ls_report *r, bool of);
// The settings in which the groups differ, with a column for each group; or those that all have, with one column.
ls_table ls_settings_table(const ls_report *r, bool differing);
