// What every method would do on the conversation, while one decodes it: the state behind the Shadows view. Nothing is
// computed before the view is open.
#pragma once
#include "ui/state.h"

// Works for one time slice if the view is open and ui_shadows_may. Call it between frames. NEW: all work is done, and
// results came since the last call; MORE: work is left.
typedef enum { UI_SHADOWS_STILL, UI_SHADOWS_NEW, UI_SHADOWS_MORE } ui_shadows_progress;
ui_shadows_progress ui_shadows_work(ui_state *s);
// The conversation was forgotten from this turn on.
void ui_shadows_forget(ui_state *s, size_t turn);
// Simulation time over decoding time, per step; NAN: not known yet.
double ui_shadows_share(const ui_state *s);
bool ui_shadows_may(const ui_state *s); // work now: during decoding only if it costs little or the user wants it
// *turn: the simulated turn; it may be older than the last one. NULL: there is no result, and *why is the reason.
const ls_shadows *ui_shadows_of(const ui_state *s, const ui_turn **turn, const char **why);
