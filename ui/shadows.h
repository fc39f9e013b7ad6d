// What every method would do on the conversation, while one decodes it: the state behind the Shadows view. Nothing is
// computed before the view is open.
#pragma once
#include "ui/state.h"

// Works for a moment where the view is open and may. To be called between frames. NEW: all is done, and there is something to
// draw since the last call; MORE: work is left.
typedef enum { UI_SHADOWS_STILL, UI_SHADOWS_NEW, UI_SHADOWS_MORE } ui_shadows_progress;
ui_shadows_progress ui_shadows_work(ui_state *s);
void ui_shadows_free(ui_shadows *w); // accepts NULL
// The conversation was forgotten from this turn on.
void ui_shadows_forget(ui_state *s, size_t turn);
// Their work on a step by the time that decoding it takes; NAN: not known yet.
double ui_shadows_share(const ui_state *s);
bool ui_shadows_may(const ui_state *s); // work now: not while it decodes, unless it costs little or the user wants it
const ls_stats *ui_shadows_real(const ui_state *s); // of the last turn, as far as the shadows have come
// *turn: the one that is told of, which comes behind the last where they wait. NULL: nothing can be told; *why says
// why.
const ls_shadows *ui_shadows_of(const ui_state *s, const ui_turn **turn, const char **why);
