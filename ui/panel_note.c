// The current note of a demo, or what the demo does now.
#include "ui/demo.h"
#include "ui/panels.h"

#include <string.h>

void ui_panel_note(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_note *n = ui_demo_note(s);
    const bool over = s->n_turns && s->turns[s->n_turns - 1].finish;
    if (!n && over && s->demo_read) n = &s->demo->notes[s->demo_notes[s->demo_read - 1]]; // the last note stays
    if (!n) {
        ui_dim_line(v, s->run_state == LS_STATE_LOADING ? "The model is loading."
                       : ui_demo_plays(s)
                           ? "The demo plays to the next note. Space pauses it, [ shows the previous step."
                           : "Space continues, s decodes one step, ] shows the next step.");
        return;
    }
    const bool waits = ui_demo_note(s) != NULL;
    ui_draw_wrapped(v->canvas, v->area, n->say, waits ? UI_NUMBER : UI_DIM);
    const size_t told = s->demo_read + waits;
    const bool last = s->tour_of && over && told == s->n_demo_notes;
    const int room = v->area.cols - 12 - (int)strlen(s->demo->title); // beside the title
    ui_right(v, "%zu of %zu%s", told, s->demo->n_notes,
             !last                       ? waits && !n->go_on ? ", Enter: next" : ""
             : s->tour_stop < s->tour_of ? ", Enter: the next stop"
                                         : ", Enter: the end of the tour");
    static const char back[] = ", Backspace back";
    if (s->demo_read > (waits ? 0 : 1) && (int)strlen(v->right) + (int)strlen(back) <= room) ui_right(v, "%s", back);
}
