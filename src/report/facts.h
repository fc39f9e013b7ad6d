// The table of a report: a row for each fact, a column for each way to decode. HTML and Markdown share it.
#pragma once
#include "report/report.h"

typedef struct {
    const char *name;
    const char *of;                                                           // explanation of the number
    void (*write)(const ls_report *r, const ls_report_group *g, ls_buf *out); // plain text; "-": not known
    bool (*applies)(const ls_report *r);                                      // NULL: always
} ls_fact;

extern const ls_fact ls_facts[]; // ends with a NULL name

// Appends a warning if the machine was busy, because that affects every time in the report.
void ls_report_busy(const ls_report *r, ls_buf *out);

// The configuration: calls row for every key of any turn; keys in which the groups differ come first. values[g] is the
// group's value.
void ls_settings(const ls_report *r, void (*row)(void *ud, const char *key, const char *const *values, bool differ),
                 void *ud);
