// Spec-Bench's answer file (evaluation/eval.py, github.com/hemingkx/Spec-Bench): a JSON line for each conversation, in
// choices[0] a list each of turns, decoding_steps, new_tokens and wall_time (seconds, prompt included, as there), and
// accept_lengths of all steps.
#pragma once
#include "decode/totals.h"

// Appends the line of r: its turns and lengths. name: the question's; if it is numeric, it is written as a number.
void ls_spec_bench_line(const ls_result *r, const char *name, const char *category, const char *answer_id,
                        const char *model_id, ls_buf *out);
