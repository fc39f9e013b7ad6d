// Facts of a benchmark about program, machine and model (report/manifest.def); benchmarks of the machine.
#pragma once
#include "base/system.h"
#include "cli/commands.h"
#include "engine/load.h"
#include "report/bench.h"

// Before the measurement: enters program, machine and load. Returns a reading of the waits until now.
ls_cpu_wait ls_machine_begin(ls_manifest *m);
// Measures the hardware limits with this number of threads; 0: one per core. Reads as many bytes as the model has
// (weight_mb), else more than caches hold. LS_E_BACKEND: no compute library. A second call keeps the larger value of
// each limit.
ls_code ls_machine_limits(ls_manifest *m, int32_t threads, ls_err *err);
// Enters the model. limits: measures the hardware limits, too, if it runs on the CPU.
void ls_machine_model(ls_manifest *m, const ls_model *model, bool limits);
void ls_machine_end(ls_manifest *m, ls_cpu_wait *w); // after the measurement: load, waits, and the limits again

// The parts of `bench` that run no methods. forward: the cost of forwards and of prefill. limits: the hardware limits.
ls_code ls_bench_forward(const ls_command_line *c, ls_console *to, ls_err *err);
ls_code ls_bench_limits(const ls_command_line *c, ls_console *to, ls_err *err);
