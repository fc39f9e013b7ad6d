#include "cli/recorded.h"
#include "run/trace_events.h"
#include "ui/widgets.h"

ls_code ls_recorded_load(ui_state *out, const char *path, bool *torn, ls_err *err) {
    ls_trace_events *t;
    ls_event *e;
    ls_code code = ls_trace_events_open(&t, path, err);
    ui_state_init(out);
    if (code) return code;
    while (!(code = ls_trace_events_next(t, &e, err)) && e) ui_on_event(out, e);
    *torn = ls_trace_read_torn(ls_trace_events_reader(t));
    ls_trace_events_close(t);
    if (!code && !out->n_steps) code = ls_fail(err, LS_E_RANGE, "%s: the trace holds no step", path);
    return code;
}

void ls_recorded_token(const ui_state *s, int32_t id, ls_buf *out) {
    const ui_canvas canvas = {.utf8 = true};
    ui_token_text(&canvas, s, id, out);
}
