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

void record(const char *prompt, ls_decode_options o, int turns) {
    ls_err err = {0};
    ls_session *s;
    ls_trace *t;
    static const char *const config[] = {"decode.method", "x", NULL};
    ls_step *step = ls_step_new();
    forget_steps();
    assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
    assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
    assert_int_equal(ls_trace_open(&t, path, level, NULL, NULL, &err), LS_OK);
    for (int turn = 0; turn < turns; turn++) {
        ls_ids ids = {0};
        ls_stats stats = {0};
        assert_int_equal(ls_encode(model.vocab, prompt, strlen(prompt), true, &ids, &err), LS_OK);
        assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
        ls_trace_header h;
        ls_trace_describe(&h, &model, s, &o, config, (uint32_t)turn, ls_session_context(s)->n - ids.n, prompt, 1.5);
        ls_trace_begin(t, &model, &h);
        ls_trace_header_free(&h);
        do {
            assert_int_equal(ls_session_step(s, step, &err), LS_OK);
            ls_stats_add(&stats, step);
            ls_trace_step(t, step);
            assert_true(n_steps < MAX_STEPS);
            steps[n_steps++] = ls_step_keep(step);
        } while (!step->finish);
        ls_trace_end(t, (uint32_t)turn, step->finish, &stats);
        ls_ids_free(&ids);
    }
    assert_true(ls_trace_close(t, &err));
    ls_session_free(s);
    ls_step_free(step);
}

ls_decode_options options(const char *method, int32_t budget, int32_t tokens) {
    return (ls_decode_options){.method = method, .budget = budget, .max_tokens = tokens, .sampling = {.top_p = 1}};
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
    *torn = ls_trace_read_torn(r);
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
