// A guided run: notes that appear when something first happens, with a pause to look. Written as YAML
// (demos/README.md), played live or from a recording; here is what the screen needs of it.
#pragma once
#include "ui/state.h"

#include <stdint.h>

typedef enum {
    UI_WHEN_START,    // the prompt was read, no step was made yet
    UI_WHEN_STEP,     // step n
    UI_WHEN_ACCEPTED, // n drafts or more accepted by one step
    UI_WHEN_REJECTED, // all of n drafts or more rejected
    UI_WHEN_SOURCE,   // a draft from that source accepted
    UI_WHEN_CORRECTED,
    UI_WHEN_LOSSY, // a draft stands that the target did not choose
    UI_WHEN_NO_DRAFT,
    UI_WHEN_SLOWER, // the step took longer than plain decoding of its tokens, by n percent or more
    UI_WHEN_FASTER,
    UI_WHEN_END,
} ui_when;

typedef struct {
    ui_when when;
    int n;
    ls_from source;
    char *say;
    ui_panel look; // that panel gets the keys; UI_NO_PANEL: as it is
    bool go_on;    // without waiting
    uint32_t from; // not before this step
} ui_note;

struct ui_demo {
    char *title;
    ui_note *notes;
    size_t n_notes;
    double pace; // seconds a step
    char *rival; // a way to decode that answers the prompt too when it is over; NULL: none
};

bool ui_note_applies(const ui_note *n, const ls_step *step); // of a step; not for start and end

// ---- playing, in the screen's state
void ui_demo_begin(ui_state *s, const ui_demo *d); // before anything else happens
void ui_demo_on_start(ui_state *s);
void ui_demo_on_step(ui_state *s, const ls_step *step);
void ui_demo_on_end(ui_state *s);
bool ui_demo_go_on(ui_state *s);       // the user has read; false: nothing waits
bool ui_demo_hold(ui_state *s);        // stops its pace, or lets it go on; false: there is none
bool ui_demo_plays(const ui_state *s); // step after step, until there is something to look at
// True when the next step is due; then the demo asks for it.
bool ui_demo_is_due(ui_state *s, uint64_t now_ns);
int ui_demo_wait_ms(const ui_state *s, uint64_t now_ns); // until it is; -1: no step is waited for
const ui_note *ui_demo_note(const ui_state *s);          // that is shown; NULL: none
