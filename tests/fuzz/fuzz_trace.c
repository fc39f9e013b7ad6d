// The trace reader and what reads from it: any bytes are a trace or one clear error, on the screen, in a film and in a
// simulation too.
#include "decode/simulate.h"
#include "trace/trace_events.h"
#include "tests/fuzz/input.h"

static void simulate(const ls_recording *r, const ls_trace_header *h) {
    static const char *const methods[] = {"logitspec", "suffix", "lookahead"};
    for (int i = 0; i < 3; i++) {
        ls_simulator *s;
        ls_simulated total = {0};
        const ls_decode_options o = {.method = methods[i], .max_rows = 7};
        const ls_draft_setup place = {.tokenizer = "", .n_vocab = h->run.n_vocab};
        EXPECT(!ls_simulator_new(&s, &o, &place, &h->run.costs, NULL));
        ls_simulate(s, r, &total);
        EXPECT(total.emitted == ls_recording_output(r));
        ls_simulator_free(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    ls_trace_events *t;
    ls_event *e;
    ls_err err = {0};
    ui_state s;
    ui_film film;
    ls_buf cast = {0};
    ls_recording *r = NULL;
    EXPECT(!ls_trace_events_open(&t, fuzz_file(data, n), &err));
    ui_state_init(&s);
    ls_code code;
    while (!(code = ls_trace_events_next(t, &e, &err)) && e) {
        const ls_trace_header *h = ls_trace_read_header(ls_trace_events_reader(t));
        if (e->kind == LS_EV_HEADER && !r) r = ls_recording_new(h->prompt.p, h->prompt.n, h->run.n_context);
        if (e->kind == LS_EV_STEP && r) ls_recording_add(r, ls_trace_read_step(ls_trace_events_reader(t)));
        ui_on_event(&s, e);
    }
    fuzz_said(code, &err);
    ui_film_begin(&film, false, ui_theme_find("default"), 24, 80, "a film", &cast);
    fuzz_screen(&s, 24, 80, &film, 0);
    if (s.run.n_steps) {
        fuzz_screen(&s, 9, 31, NULL, 0);
        s.view.tree_full = true;
        s.view.at_newest = false;
        fuzz_screen(&s, 24, 80, &film, 1.5);
        fuzz_screen(&s, 36, 120, NULL, 0);
    }
    ui_film_end(&film, 3);
    fuzz_json_lines(cast.p, cast.n);
    if (r && ls_recording_output(r)) simulate(r, ls_trace_read_header(ls_trace_events_reader(t)));
    ls_recording_free(r);
    ls_buf_free(&cast);
    ui_state_free(&s);
    ls_trace_events_close(t);
    return 0;
}
