// A guided run: notes that appear when something happens for the first time, each with a pause to look. A demo is
// written as YAML (demos/README.md) and played live or from a recording; this is what the screen needs of it.
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
    UI_WHEN_MISSED,    // the path ended for that reason
    UI_WHEN_NEXT_NEXT, // the next-next token was among the best n of the last logits, and no draft
    UI_WHEN_SLOWER,    // the step took longer than plain decoding of its tokens, by n percent or more
    UI_WHEN_FASTER,
    UI_WHEN_END,
} ui_when;

typedef struct {
    ui_when when;
    int n;
    ls_draft_source source;
    ls_miss miss;
    char *say;
    ui_panel look; // this panel gets the focus; UI_NO_PANEL: the focus stays
    bool go_on;    // the run does not wait for the user
    uint32_t from; // not before this step
} ui_note;

struct ui_demo {
    char *title;
    ui_note *notes;
    size_t n_notes;
    double pace; // seconds a step
    bool quiz;   // trees are shown before their verification
    char *rival; // a variant that answers the same prompt at the end; NULL: none
};

// ---- playing, in the screen's state
void ui_demo_begin(ui_state *s, const ui_demo *d); // call it before anything else
// Shows the notes that apply to a step, or (step NULL) to the start or the end of the answer, and were not shown yet.
void ui_demo_on(ui_state *s, ui_when when, const ls_step *step);
bool ui_demo_go_on(ui_state *s);       // the user has read the note; false: no note waits
bool ui_demo_go_back(ui_state *s);     // to the note before; false: there is none
bool ui_demo_hold(ui_state *s);        // pauses the demo, or continues it; false: there is no demo to pause
bool ui_demo_plays(const ui_state *s); // it requests steps until a note appears
// True when the next step is due; then the demo asks for it.
bool ui_demo_is_due(ui_state *s, uint64_t now_ns);
int ui_demo_wait_ms(const ui_state *s, uint64_t now_ns); // until then; -1: the demo waits for no step
bool ui_demo_is_over(const ui_state *s);                 // its answer has ended, and every note was read
const ui_note *ui_demo_note(const ui_state *s);          // on the screen; NULL: none
