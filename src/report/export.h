// Appends recordings in other programs' formats to out.
#pragma once
#include "report/report.h"
#include "decode/suite.h"

// Spec-Bench's answer file (report/spec_bench.h): a JSON line for each conversation. question_id and category come from
// the suite's item with the same first prompt. If there is none, they are the conversation's number and "". suite may
// be NULL.
void ls_export_spec_bench(const ls_report *r, const ls_suite *suite, ls_buf *out);
// Chrome's trace-event format (JSON object form) for Perfetto and chrome://tracing: a process for each recording, with
// the prompt, the steps and their timed parts in sequence, and counters.
void ls_export_chrome(const ls_report *r, ls_buf *out);
