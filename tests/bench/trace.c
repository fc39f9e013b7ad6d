// What traces cost: formatting a step, reading a file. Usage: trace FILE...; one JSON object on standard output.
#include "base/mem.h"
#include "base/system.h"
#include "trace/trace.h"
#include "trace/trace_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MOST_STEPS = 20000, ROUNDS = 5, TRIES = 200 };

static double since_us(uint64_t start) {
    return (double)(ls_now_ns() - start) / 1e3;
}

static void fail(const ls_err *err) {
    fprintf(stderr, "trace: %s\n", err->msg);
    exit(1);
}

// The first pass over a file, and steps of it in no order.
static void random_access(const char *path, double *pass_us, double *worst_us) {
    ls_trace_index *x;
    ls_err err;
    const uint64_t start = ls_now_ns();
    if (ls_trace_index_open(&x, path, SIZE_MAX, SIZE_MAX, &err)) fail(&err);
    *pass_us = since_us(start);
    *worst_us = 0;
    for (size_t i = 0; i < TRIES; i++) {
        const size_t turn = i * 7919 % ls_trace_index_turns(x), n = ls_trace_index_steps(x, turn);
        ls_trace_events *t;
        ls_event *e;
        const uint64_t one = ls_now_ns();
        if (!n) continue;
        if (ls_trace_index_events(x, turn, i * 104729 % n, 0, &t, &err)) fail(&err);
        do {
            if (ls_trace_events_next(t, &e, &err)) fail(&err);
            const bool more = e != NULL;
            ls_event_free(e);
            if (!more) break;
        } while (true);
        ls_trace_events_close(t);
        if (since_us(one) > *worst_us) *worst_us = since_us(one);
    }
    ls_trace_index_close(x);
}

int main(int argc, char **argv) {
    static const ls_step *steps[MOST_STEPS];
    size_t n = 0, rows = 0, bytes = 0;
    double read_us = 0, write_us = 0, pass_us = 0, access_us = 0;
    ls_err err;
    for (int i = 1; i < argc; i++) {
        ls_trace_reader *r;
        ls_trace_line line;
        struct stat st;
        if (stat(argv[i], &st)) return perror(argv[i]), 1;
        bytes += (size_t)st.st_size;
        if (ls_trace_read_open(&r, argv[i], &err)) fail(&err);
        const uint64_t start = ls_now_ns();
        do {
            if (ls_trace_read_next(r, &line, &err)) fail(&err);
            if (line == LS_TRACE_STEP && n < MOST_STEPS) {
                const ls_step *s = ls_trace_read_step(r);
                rows += (size_t)s->tree.n;
                steps[n++] = ls_step_share(s);
            }
        } while (line);
        read_us += since_us(start);
        ls_trace_read_close(r);
        double pass, worst;
        random_access(argv[i], &pass, &worst);
        pass_us += pass;
        if (worst > access_us) access_us = worst;
    }
    ls_model model;
    ls_session *session;
    const ls_decode_options o = {.method = "plain", .max_tokens = 1, .sampling = {.top_p = 1}};
    ls_trace *t;
    if (ls_model_load(&model, &(ls_model_options){.name = "script"}, &err) ||
        ls_session_new(&session, &model, &o, &err) ||
        ls_session_begin(session, (const int32_t[]){0}, 1, NULL, NULL, NULL, &err) ||
        ls_trace_open(&t, "/dev/null", LS_LEVEL_FULL, NULL, NULL, &err))
        fail(&err);
    const ls_setup setup = {.decode = o};
    const ls_runner run = {.session = session, .model = &model, .setup = &setup};
    const ls_run_sink sink = ls_trace_sink(t);
    sink.begin(sink.ud, &run, 0);
    const uint64_t start = ls_now_ns();
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++) sink.step(sink.ud, steps[i]);
    write_us = since_us(start);
    ls_trace_close(t, &err);
    ls_session_free(session);
    ls_model_free(&model);
    printf("{\"files\":%d,\"steps\":%zu,\"rows_per_step\":%.1f,\"kb_per_step\":%.2f,\"write_us_per_step\":%.1f,"
           "\"read_mb_per_s\":%.0f,\"index_mb_per_s\":%.0f,\"access_ms_worst_of_%d\":%.2f}\n",
           argc - 1, n, (double)rows / (double)n, (double)bytes / 1e3 / (double)n, write_us / ROUNDS / (double)n,
           (double)bytes / read_us, (double)bytes / pass_us, TRIES, access_us / 1e3);
    for (size_t i = 0; i < n; i++) ls_step_free(steps[i]);
    return 0;
}
