#include "recorded.h"
#include "base/mem.h"
#include "decode/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

ls_model model;
char path[64];
ls_trace_level level = LS_LEVEL_FULL;
const ls_step *steps[MAX_STEPS];
int n_steps;

static void forget_steps(void) {
    while (n_steps) ls_step_free(steps[--n_steps]);
}

static ls_run_sink records;

static void fix_time(void *ud, const ls_runner *run, double prefill_ms) {
    (void)prefill_ms;
    records.begin(ud, run, 1.5);
}

static void keep_step(void *ud, const ls_step *step) {
    (void)ud;
    assert_true(n_steps < MAX_STEPS);
    steps[n_steps++] = ls_step_share(step);
}

void record(const char *prompt, ls_decode_options o, int turns) {
    static const char *const config[] = {"decode.method", "x", NULL};
    const ls_setup setup = {.decode = o, .format = LS_FORMAT_RAW, .config = config};
    ls_err err = {0};
    ls_session *s;
    ls_trace *t;
    forget_steps();
    assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
    assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
    assert_int_equal(ls_trace_open(&t, path, level, NULL, NULL, &err), LS_OK);
    records = ls_trace_sink(t);
    ls_runner run = {.session = s,
                     .model = &model,
                     .setup = &setup,
                     .sinks = {{fix_time, records.step, records.end, t}, {.step = keep_step}},
                     .n_sinks = 2};
    for (int turn = 0; turn < turns; turn++) {
        assert_int_equal(ls_runner_begin(&run, (size_t)turn, (ls_str){prompt, strlen(prompt)}, NULL, NULL, &err),
                         LS_OK);
        while (ls_runner_active(&run)) assert_int_equal(ls_runner_step(&run, &err), LS_OK);
    }
    assert_true(ls_trace_close(t, &err));
    ls_runner_free(&run);
    ls_session_free(s);
}

ls_decode_options options(const char *method, int32_t max_rows, int32_t tokens) {
    return (ls_decode_options){.method = method, .max_rows = max_rows, .max_tokens = tokens, .sampling = {.top_p = 1}};
}

ls_buf slurp(void) {
    ls_buf b = {0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;) ls_buf_char(&b, (char)c);
    fclose(f);
    return b;
}

void spill(const char *text, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fwrite(text, 1, n, f);
    fclose(f);
}

int read_all(ls_code *code, bool *torn, ls_err *err) {
    ls_trace_reader *r;
    ls_trace_line line;
    int n = 0;
    *err = (ls_err){0};
    assert_int_equal(ls_trace_read_open(&r, path, err), LS_OK);
    while (!(*code = ls_trace_read_next(r, &line, err)) && line != LS_TRACE_NONE) n += line == LS_TRACE_STEP;
    ls_trace_gaps gaps = {0};
    ls_trace_read_gaps(r, &gaps);
    *torn = gaps.torn > 0;
    ls_trace_read_close(r);
    return n;
}

int recorded_set_up(void **state) {
    (void)state;
    ls_err err;
    const ls_model_options o = {.name = "script", .engine = {.device = "cpu", .dtype = "auto"}};
    snprintf(path, sizeof path, "/tmp/logitspec-trace-%d.jsonl", (int)getpid());
    return ls_model_load(&model, &o, &err);
}

int recorded_tear_down(void **state) {
    (void)state;
    forget_steps();
    unlink(path);
    ls_model_free(&model);
    return 0;
}
