// The current note of a demo, or what the demo does now.
#include "ui/demo.h"
#include "ui/panels.h"

#include <string.h>

void ui_panel_note(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_note *n = ui_demo_note(s);
    const bool over = ui_finish(&s->run) != LS_GOING;
    if (!n && over && s->playing.read)
        n = &s->playing.demo->notes[s->playing.told[s->playing.read - 1].note]; // the last note stays
    if (!n) {
        ui_dim_line(v, s->run.state == LS_STATE_LOADING ? "The model is loading."
                       : ui_demo_plays(s)
                           ? "The demo plays to the next note. Space pauses it, [ shows the previous step."
                           : "Space continues, s decodes one step, ] shows the next step.");
        return;
    }
    const bool waits = ui_demo_note(s) != NULL;
    ui_draw_wrapped(v->canvas, v->area, n->say, waits ? UI_NUMBER : UI_DIM, NULL);
    const size_t told = s->playing.read + waits;
    const bool last = s->playing.tour_of && over && told == s->playing.n_told;
    const int room = v->area.cols - 12 - (int)strlen(s->playing.demo->title); // beside the title
    ui_right(v, "%zu of %zu%s", told, s->playing.demo->n_notes,
             !last                                       ? waits && !n->go_on ? ", Enter: next" : ""
             : s->playing.tour_stop < s->playing.tour_of ? ", Enter: the next stop"
                                                         : ", Enter: the end of the tour");
    static const char back[] = ", Backspace back";
    if (s->playing.read > (waits ? 0 : 1) && (int)strlen(v->right) + (int)strlen(back) <= room) ui_right(v, "%s", back);
}
