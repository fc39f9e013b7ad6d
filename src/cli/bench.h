// The parts of `bench`, by its first word.
#pragma once
#include "cli/commands.h"

// forward: the cost of forwards and of prefill. limits: the hardware limits of the machine.
ls_code ls_bench_forward(const ls_command_line *c, ls_console *to, ls_err *err);
ls_code ls_bench_limits(const ls_command_line *c, ls_console *to, ls_err *err);
// show: prints a result file. diff: compares two result files.
ls_code ls_bench_show(const ls_command_line *c, ls_console *to, ls_err *err);
ls_code ls_bench_compare_files(const ls_command_line *c, ls_console *to, ls_err *err);
