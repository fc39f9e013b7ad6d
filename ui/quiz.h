// The quiz, for teaching: the tree of a step is shown as it was before its verification, the class says which draft is
// the last that the target accepts, then the verification is shown. Steps without drafts ask nothing.
#pragma once
#include "ui/state.h"

void ui_quiz_toggle(ui_state *s);
void ui_quiz_on_step(ui_state *s);              // after each new step: skips a step without a question
bool ui_quiz_hides(const ui_state *s);          // whether the outcome of the viewed step is hidden
size_t ui_quiz_first_hidden(const ui_state *s); // first step whose outcome is hidden; SIZE_MAX: none
void ui_quiz_answer(ui_state *s);               // the draft under the cursor; the root: none is accepted
bool ui_quiz_go_on(ui_state *s);                // leaves a shown answer; false: none is shown
// The last visible step: the one that is asked about or whose answer is shown; without a quiz the newest.
size_t ui_quiz_newest(const ui_state *s);
// The step as it was before its verification, in the state's own room.
const ls_step *ui_quiz_masked(const ui_state *s, const ls_step *step);
void ui_quiz_question(const ui_state *s, ls_buf *out); // a line of text, with the score
