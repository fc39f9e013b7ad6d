// Appends recordings in other programs' formats to out.
#pragma once
#include "report/bench.h"
#include "report/report.h"
#include "decode/suite.h"

// Spec-Bench's answer file (evaluation/eval.py, github.com/hemingkx/Spec-Bench): a JSON line for each conversation, in
// choices[0] a list each of turns, decoding_steps, new_tokens and wall_time (seconds, prompt included, as there), and
// accept_lengths of all steps. A numeric name is written as a number. question_id and category come from
// the suite's item with the same first prompt. If there is none, they are the conversation's number and "". suite may
// be NULL.
void ls_export_answers(const ls_bench *b, int method, ls_buf *out); // of one method of a benchmark
void ls_export_spec_bench(const ls_report *r, const ls_suite *suite, ls_buf *out);
// Chrome's trace-event format (JSON object form) for Perfetto and chrome://tracing: a process for each recording, with
// the prompt, the steps and their timed parts in sequence, and counters.
void ls_export_chrome(const ls_report *r, ls_buf *out);
