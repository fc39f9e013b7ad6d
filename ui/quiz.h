// The quiz, for teaching: the tree of a step is shown as it was before its verification, the class says which draft is
// the last that the target accepts, then the verification is shown. Steps without drafts ask nothing.
#pragma once
#include "ui/state.h"

void ui_quiz_toggle(ui_state *s);
bool ui_quiz_hides(const ui_state *s);          // what came of the viewed step
size_t ui_quiz_first_hidden(const ui_state *s); // step that is not to be seen whole; SIZE_MAX: none
void ui_quiz_answer(ui_state *s);               // the draft under the cursor; the root: none is accepted
// The step as it was before its verification, in the state's own room.
const ls_step *ui_quiz_masked(const ui_state *s, const ls_step *step);
void ui_quiz_question(const ui_state *s, ls_buf *out); // a line of text, with the score
