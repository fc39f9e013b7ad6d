// A step, and the draft under the cursor, as sentences.
#pragma once
#include "ui/panels.h"
#include "ui/state.h"

enum { UI_NGRAM = 8 };
// The n-gram that a branch matched, from its first token on: the last tokens before the continuation. Returns how many.
int ui_ngram(const ui_state *s, const ls_step *step, const ls_branch *b, int32_t ids[UI_NGRAM]);
// The text of tokens on one line, between quotes.
void ui_quote_tokens(const ui_canvas *c, const ui_state *s, const int32_t *ids, int n, ls_buf *out);
// One sentence about what a step did and why; the numbers behind tokens are probabilities.
void ui_narrate(const ui_canvas *c, const ui_state *s, const ls_step *step, ls_buf *out);
// "3@104 +20" in words: which n-gram matched where, and how much of what followed it there was drafted. False: there is
// no cursor on a draft, and nothing was appended.
bool ui_narrate_draft(const ui_canvas *c, const ui_state *s, const ls_step *step, ls_buf *out);

// ---- texts for other programs: the terminal's clipboard (by OSC 52), or a file

void ui_add_token(const ui_state *s, int32_t id, ls_buf *out); // appends its bytes; a special token's are left out
// Appends the tokens of a turn's answer; a quiz hides its end.
void ui_answer_text(const ui_state *s, const ui_turn *t, ls_buf *out);
// To a file, or to the clipboard (path NULL): the answer of the viewed turn; to the clipboard, in Logits, Drafts and
// Tree, what the cursor is on.
void ui_export_text(ui_state *s, const char *path);
void ui_export_step(ui_state *s, const char *path); // likewise the viewed step in words
