// libFuzzer on reports, exports and the index of lines: any bytes are a trace or one clear error, and whatever a trace
// holds, no markup comes of it.
#include "report/export.h"
#include "report/report.h"
#include "run/trace_index.h"
#include "tests/fuzz/input.h"

#include <string.h>

static bool some(void *ud, size_t step) {
    (void)ud;
    return step < 3;
}

static void expect_line(ls_code code, const ls_err *err) {
    if (code && (!*err->msg || strchr(err->msg, '\n'))) abort();
}

static void index_lines(const char *path) {
    ls_trace_index *x;
    ls_trace_events *t;
    ls_event *e;
    ls_err err = {0};
    ls_code code = ls_trace_index_open(&x, path, &err);
    expect_line(code, &err);
    if (code) return;
    for (size_t i = 0; i < ls_trace_index_turns(x) && i < 4; i++) {
        const size_t n = ls_trace_index_steps(x, i);
        if (!n) continue;
        if (ls_trace_index_events(x, i, n - 1, 2, &t, &err)) abort();
        while (!(code = ls_trace_events_next(t, &e, &err)) && e) ls_event_free(e);
        expect_line(code, &err);
        ls_trace_events_close(t);
    }
    ls_trace_index_close(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *path = fuzz_file(data, n);
    ls_report r;
    ls_err err = {0};
    ls_buf out = {0};
    ls_report_init(&r);
    ls_code code = ls_report_add(&r, path, some, NULL, &err);
    expect_line(code, &err);
    if (!code) code = ls_report_add(&r, path, NULL, NULL, &err); // the same again, side by side
    if (!code) code = ls_report_finish(&r, &err);
    expect_line(code, &err);
    if (!code) {
        ls_report_html(&r, &out);
        if (strstr(out.p, "<script") || memchr(out.p, 0, out.n) || memchr(out.p, 27, out.n)) abort();
        ls_buf_clear(&out);
        ls_report_markdown(&r, &out);
        ls_report_csv(&r, &out);
        ls_report_json(&r, &out);
        ls_report_svg(&r, &out);
        ls_export_spec_bench(&r, NULL, &out);
        ls_export_chrome(&r, &out);
    }
    ls_buf_free(&out);
    ls_report_free(&r);
    index_lines(path);
    return 0;
}
