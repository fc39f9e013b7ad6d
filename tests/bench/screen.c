// What the screen costs: a frame at three sizes on a long recording, a key, memory. Usage: screen TRACE.
#include "base/system.h"
#include "base/mem.h"
#include "trace/trace_events.h"
#include "ui/render.h"

#include <malloc.h>
#include <stdio.h>

enum { FRAMES = 60 };

int main(int argc, char **argv) {
    static const int sizes[][2] = {{24, 80}, {36, 120}, {50, 200}};
    ls_trace_events *t;
    ls_event *e;
    ls_err err;
    ui_state s;
    if (argc != 2 || ls_trace_events_open(&t, argv[1], &err)) return fprintf(stderr, "usage: screen TRACE\n"), 1;
    ui_state_init(&s);
    s.given.recording = true;
    s.shown.focus = UI_OUTPUT;
    const size_t before = mallinfo2().uordblks;
    while (!ls_trace_events_next(t, &e, &err) && e) ui_on_event(&s, e);
    printf("{\"steps\":%zu,\"tokens\":%zu,\"state_mb\":%.1f", s.run.n_steps, s.run.conversation->context.n,
           (double)(mallinfo2().uordblks - before) / 1e6);
    for (int i = 0; i < 3; i++) {
        ui_canvas c = {.utf8 = true};
        double worst = 0, all = 0;
        for (int k = 0; k < FRAMES; k++) {
            ui_on_key(&s, (ui_key){.code = k % 10 == 0 ? 'g' : k % 10 == 5 ? 'G' : '['});
            const uint64_t start = ls_now_ns();
            ui_canvas_resize(&c, sizes[i][0], sizes[i][1]);
            ui_render(&s, &c);
            const double ms = (double)(ls_now_ns() - start) / 1e6;
            all += ms;
            worst = ms > worst ? ms : worst;
        }
        printf(",\"frame_%dx%d_ms\":%.3f,\"worst_%dx%d_ms\":%.3f", sizes[i][1], sizes[i][0], all / FRAMES, sizes[i][1],
               sizes[i][0], worst);
        ui_canvas_free(&c);
    }
    printf("}\n");
    ui_state_free(&s);
    ls_trace_events_close(t);
    return 0;
}
