// libFuzzer on the trace reader and what reads from it: any bytes are a trace or one clear error, on the screen too.
#include "run/simulate.h"
#include "run/trace_events.h"
#include "tests/fuzz/input.h"
#include "ui/render.h"

#include <string.h>

static void draw(ui_state *s) {
    static const int sizes[][2] = {{24, 80}, {36, 120}, {9, 31}};
    for (int i = 0; i < 3; i++) {
        ui_canvas c = {.utf8 = true};
        int row, col;
        ui_canvas_resize(&c, sizes[i][0], sizes[i][1]);
        ui_render(s, &c, &row, &col);
        ui_canvas_free(&c);
    }
}

static void simulate(const ls_recording *r, const ls_trace_header *h) {
    static const char *const methods[] = {"logitspec", "suffix", "lookahead"};
    for (int i = 0; i < 3; i++) {
        ls_simulator *s;
        ls_simulated total = {0};
        const ls_decode_options o = {.method = methods[i], .budget = 7};
        const ls_draft_setup place = {.tokenizer = "", .n_vocab = h->n_vocab};
        if (ls_simulator_new(&s, &o, &place, &h->costs, NULL)) abort();
        ls_simulate(s, r, &total);
        if (total.emitted != ls_recording_output(r)) abort();
        ls_simulator_free(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    ls_trace_events *t;
    ls_event *e;
    ls_err err = {0};
    ui_state s;
    ls_recording *r = NULL;
    if (ls_trace_events_open(&t, fuzz_file(data, n), &err)) abort();
    ui_state_init(&s);
    ls_code code;
    while (!(code = ls_trace_events_next(t, &e, &err)) && e) {
        const ls_trace_header *h = ls_trace_read_header(ls_trace_events_reader(t));
        if (e->kind == LS_EV_HEADER && !r) r = ls_recording_new(h->prompt.p, h->prompt.n, h->n_context);
        if (e->kind == LS_EV_STEP && r) ls_recording_add(r, e->step);
        ui_on_event(&s, e);
    }
    if (code && (!*err.msg || strchr(err.msg, '\n'))) abort(); // one line, and not nothing
    draw(&s);
    s.tree_full = true;
    s.live = false;
    draw(&s);
    if (r && ls_recording_output(r)) simulate(r, ls_trace_read_header(ls_trace_events_reader(t)));
    ls_recording_free(r);
    ui_state_free(&s);
    ls_trace_events_close(t);
    return 0;
}
