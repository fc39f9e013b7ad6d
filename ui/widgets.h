// Small things that panels share.
#pragma once
#include "ui/canvas.h"
#include "ui/state.h"

// One line of wrapped text: bytes from .. to - 1.
typedef struct {
    size_t from, to;
} ui_line;
// Breaks at newlines, and at blanks where a word does not fit. Owned by the caller.
ui_line *ui_wrap(const ui_canvas *c, const char *text, size_t n_text, int cols, size_t *n_lines);

// One of several fields of a line.
typedef struct {
    char text[96];
    const char *tail; // what may follow it where there is room; NULL: nothing
    int weight;       // the lightest goes first
} ui_field;
// Draws fields side by side as far as they fit: tails go before fields, and each goes whole.
void ui_draw_fields(ui_pen *p, ui_field *fields, int n);

void ui_bar(ui_pen *p, int cells, double fraction); // filled from the left, in eighths of a cell
// The last values that fit, one cell each, scaled to `max`; in ASCII as digits (+ for ten or more).
void ui_spark(ui_pen *p, int cells, const double *values, size_t n, double max);
// The last values that fit as bars over the rectangle's whole height: two a cell, four steps high (braille); in ASCII
// one a cell. Few values get wide bars.
void ui_graph(ui_canvas *c, ui_rect r, const double *values, size_t n, double max);
// A token as one word: blanks visible, in ASCII between quotes; broken UTF-8 as <XX>.
bool ui_draw_token(ui_pen *p, const ui_state *s, int32_t id);
// Appends what ui_draw_token would draw.
void ui_token_text(const ui_canvas *c, const ui_state *s, int32_t id, ls_buf *out);
void ui_quote_token(const ui_canvas *c, const ui_state *s, int32_t id, ls_buf *out); // between quotes
// Where a branch under the root comes from, by its first node: "R" retrieved, "M" remembered, "H" history, "C" corpus,
// "W" window; a rank of the last logits has no letter.
const char *ui_branch_letter(const ls_step *step, const ls_branch *b);
// The branch that begins with this rank of the last logits (-1: behind the root); of several, the one with most
// accepted. NULL: none.
const ls_branch *ui_branch_of_rank(const ls_step *step, int rank);
// "3@104": n-gram length and position; "=3" where the place is outside this conversation; "-" without a match.
void ui_draw_match(ui_pen *p, int match_n, int32_t match_pos);
double ui_prob(float logit, float lse);
// Draws a probability in five cells: " .831", " 1.00", "<.001".
void ui_draw_prob(ui_pen *p, double prob);
ui_role ui_kind_role(ls_from_kind kind);
ui_role ui_from_role(ls_from from, bool corrected);
