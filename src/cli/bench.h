// What `bench` does, by its first word.
#pragma once
#include "cli/commands.h"

// What forwards and reading a prompt cost; what the machine reaches at most.
ls_code ls_bench_forward(const ls_command_line *c, int *status, ls_err *err);
ls_code ls_bench_limits(const ls_command_line *c, int *status, ls_err *err);
// Methods on a suite, also as `compare`; a file of it in another form; two files.
ls_code ls_bench_methods(const ls_command_line *c, int *status, ls_err *err);
ls_code ls_bench_show(const ls_command_line *c, int *status, ls_err *err);
ls_code ls_bench_compare_files(const ls_command_line *c, int *status, ls_err *err);
