// `export TRACE... -o FILE`: recordings in other programs' formats.
#include "base/file.h"
#include "cli/commands.h"
#include "report/report.h"
#include "report/table.h"
#include "trace/trace.h"
#include "ui/canvas.h"
#include "ui/render.h"

#include <math.h>
#include <stdio.h>

// answers: Spec-Bench's; else Chrome's events.
static ls_code steps(const ls_command_line *c, bool answers, ls_buf *out, ls_err *err) {
    ls_report r = {0};
    ls_suite suite = {0};
    ls_code code = answers && c->suite ? ls_suite_read(&suite, c->suite, true, err) : LS_OK;
    for (int i = 0; i < c->n_args && !code; i++) code = ls_report_add(&r, c->args[i], NULL, NULL, err);
    if (!code) ls_warn_of_gaps(&r.gaps, NULL);
    if (!code) code = ls_report_finish(&r, err);
    if (!code && answers) ls_export_spec_bench(&r, c->suite ? &suite : NULL, out);
    else if (!code) ls_export_chrome(&r, out);
    ls_suite_free(&suite);
    ls_report_free(&r);
    return code;
}

// ---- asciicast and animated SVG

enum { FRAMES_PER_S = 30, HOLD_S = 2 };

typedef struct {
    ui_state state;
    ui_canvas canvas;
    ui_film written;
    double now, shown; // seconds; shown: time of the last frame
} film;

static void frame(film *f) {
    ui_canvas_resize(&f->canvas, f->canvas.rows, f->canvas.cols);
    ui_render(&f->state, &f->canvas);
    ui_film_frame(&f->written, &f->canvas, f->now);
    f->shown = f->now;
}

// Timing as in a replay: the prompt appears before its prefill time, a step after its own time.
static void play(film *f, ls_event *e, double speed) {
    const ls_event_kind kind = e->kind;
    double ms = 0;
    if (kind == LS_EV_PROMPT) ms = e->prompt.prefill_ms;
    ui_on_event(&f->state, e);
    if (kind == LS_EV_STEP && f->state.run.n_steps) ms = f->state.run.steps[f->state.run.n_steps - 1]->t_total_us / 1e3;
    f->state.run.state = kind == LS_EV_END ? LS_STATE_IDLE : kind == LS_EV_PROMPT ? LS_STATE_PREFILL : LS_STATE_RUNNING;
    if (kind == LS_EV_PROMPT) frame(f);
    if (ms > 0 && isfinite(ms)) f->now += ms / 1e3 / speed;
    if (kind == LS_EV_END || f->now - f->shown >= 1.0 / FRAMES_PER_S) frame(f);
}

static ls_code film_of(const ls_command_line *c, bool moving, ls_buf *out, ls_err *err) {
    film f = {.canvas = {.utf8 = !c->options.ascii, .ascii = c->options.ascii}};
    const ui_theme *theme;
    double speed = 1;
    ls_trace_events *t = NULL;
    ls_event *e;
    int cols, rows;
    ls_code code = ls_size_read(c->size, &cols, &rows, err);
    if (!code) ui_canvas_resize(&f.canvas, rows, cols);
    if (!code) code = ls_theme(&c->options, false, &theme, err);
    if (!code) code = ls_speed_read(c->speed, false, &speed, err);
    if (!code && c->n_args != 1)
        code = ls_fail(err, LS_E_USAGE, "this format takes one recording (%d given)", c->n_args);
    if (!code) code = ls_trace_events_open(&t, c->args[0], err);
    ui_state_init(&f.state);
    f.state.given.recording = true;
    f.state.shown.focus = UI_OUTPUT;
    f.state.view.ascii = c->options.ascii;
    if (!code) {
        ui_film_begin(&f.written, moving, theme, f.canvas.rows, f.canvas.cols, c->args[0], out);
        while (!(code = ls_trace_events_next(t, &e, err)) && e) play(&f, e, speed);
        if (!code && !f.state.run.n_steps) code = ls_fail(err, LS_E_RANGE, "%s: the trace has no steps", c->args[0]);
        ls_trace_gaps gaps = {0};
        ls_trace_read_gaps(ls_trace_events_reader(t), &gaps);
        if (!code) ls_warn_of_gaps(&gaps, NULL);
        f.state.run.state = LS_STATE_IDLE;
        if (!code) frame(&f);
        ui_film_end(&f.written, f.now + HOLD_S);
    }
    ls_trace_events_close(t);
    ui_state_free(&f.state);
    ui_canvas_free(&f.canvas);
    return code;
}

ls_code ls_cmd_export(const ls_command_line *c, ls_console *to, ls_err *err) {
    static const struct {
        ls_code (*write)(const ls_command_line *c, bool which, ls_buf *out, ls_err *err);
        bool which;
    } writers[LS_FORMS] = {[LS_FORM_JSONL] = {steps, true},
                           [LS_FORM_JSON] = {steps, false},
                           [LS_FORM_CAST] = {film_of, false},
                           [LS_FORM_SVG] = {film_of, true}};
    const ls_form form = c->out ? ls_form_of(c->out) : LS_FORM_TEXT;
    if (c->schema && !c->n_args && !c->out) return ls_trace_schema(&to->out), LS_OK;
    if (c->schema || !c->n_args || !c->out)
        return ls_fail(err, LS_E_USAGE, "usage: logitspec export TRACE... -o FILE or logitspec export --schema");
    if (!writers[form].write)
        return ls_fail(err, LS_E_USAGE,
                       "'%.200s' must end in .jsonl (Spec-Bench answers), .cast (asciicast), .svg (animated SVG) or "
                       ".json (Chrome trace events)",
                       c->out);
    ls_buf out = {0};
    ls_gauge_reads();
    ls_code code = writers[form].write(c, writers[form].which, &out, err);
    if (!code) code = ls_write_file(c->out, &out, err);
    ls_buf_free(&out);
    return code;
}
