// Traces of the scripted model, for tests.
#pragma once
#include "engine/load.h"
#include "trace/trace.h"
#include "trace/trace_read.h"

enum { MAX_STEPS = 400 };
extern ls_model model;
extern char path[64];                   // of the trace
extern ls_trace_level level;            // that is recorded
extern const ls_step *steps[MAX_STEPS]; // of the last recording
extern int n_steps;

int recorded_set_up(void **state), recorded_tear_down(void **state); // of a group of tests
ls_decode_options options(const char *method, int32_t max_rows, int32_t tokens);
void record(const char *prompt, ls_decode_options o, int turns); // a conversation; its steps are kept too
ls_buf slurp(void);                                              // the file
void spill(const char *text, size_t n);                          // becomes the file
int read_all(ls_code *code, bool *torn, ls_err *err);            // reads to the end; the steps that could be read
