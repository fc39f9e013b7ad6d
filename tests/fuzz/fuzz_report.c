// Reports, exports and the index of lines: any bytes are a trace or one clear error, and whatever a trace holds, what
// is written is well-formed.
#include "report/report.h"
#include "trace/trace_events.h"
#include "tests/fuzz/input.h"

static bool some(void *ud, const ls_step *step) {
    (void)ud;
    return step->index < 3;
}

static void index_lines(const char *path) {
    ls_trace_index *x;
    ls_trace_events *t;
    ls_event *e;
    ls_err err = {0};
    ls_code code = ls_trace_index_open(&x, path, SIZE_MAX, SIZE_MAX, &err);
    fuzz_said(code, &err);
    if (code) return;
    for (size_t i = 0; i < ls_trace_index_turns(x) && i < 4; i++) {
        const size_t n = ls_trace_index_steps(x, i);
        if (!n) continue;
        EXPECT(!ls_trace_index_events(x, i, n - 1, 2, &t, &err));
        while (!(code = ls_trace_events_next(t, &e, &err)) && e) ls_event_free(e);
        fuzz_said(code, &err);
        ls_trace_events_close(t);
    }
    ls_trace_index_close(x);
}

static void write(const ls_report *r, void (*writer)(const ls_report *r, ls_buf *out),
                  void (*check)(const char *p, size_t n)) {
    ls_buf out = {0};
    writer(r, &out);
    check(out.p, out.n);
    ls_buf_free(&out);
}

static void is_csv(const char *p, size_t n) {
    fuzz_csv(p, n, 20);
}

static void is_markdown(const char *p, size_t n) {
    EXPECT(strlen(p) == n && !strchr(p, 27) && !strstr(p, "<script"));
}

static void is_chrome(const char *p, size_t n) {
    fuzz_json(p, n);
    EXPECT(!strstr(p, "\"ts\":null") && !strstr(p, "\"dur\":null")); // events have places and lengths
}

static void answers(const ls_report *r, ls_buf *out) {
    static const char name[] = "42", prompt[] = "Hi";
    ls_suite suite = {0};
    ls_suite_add(&suite, name, "a \"category\"");
    ls_suite_add_turn(&suite, prompt, sizeof prompt - 1);
    ls_export_spec_bench(r, &suite, out);
    ls_suite_free(&suite);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *path = fuzz_file(data, n);
    ls_report r = {0};
    ls_err err = {0};
    ls_code code = ls_report_add(&r, path, some, NULL, &err);
    fuzz_said(code, &err);
    if (!code) code = ls_report_add(&r, path, NULL, NULL, &err); // the same again, side by side
    if (!code) code = ls_report_finish(&r, &err);
    fuzz_said(code, &err);
    if (!code) {
        write(&r, ls_report_html, fuzz_markup);
        write(&r, ls_report_svg, fuzz_markup);
        write(&r, ls_report_markdown, is_markdown);
        write(&r, ls_report_csv, is_csv);
        write(&r, ls_report_json, fuzz_json);
        write(&r, ls_export_chrome, is_chrome);
        write(&r, answers, fuzz_json_lines);
    }
    ls_report_free(&r);
    index_lines(path);
    return 0;
}
