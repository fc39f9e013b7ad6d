// The panels. Each draws the inside of its box from the state, keeps its scroll position (in `drawn`) in range, and
// writes the text at the right of the box's title into `right`.
#pragma once
#include "ui/canvas.h"
#include "ui/state.h"

typedef struct {
    ui_canvas *canvas;
    const ui_state *state;
    ui_drawn *drawn;
    ui_rect area; // inside the box
    char *right;  // UI_RIGHT_BYTES
    int line;     // of the area: the next one to write, see ui_next_line
} ui_panel_view;

#define PANEL(place, name, ...) void ui_panel_##name(ui_panel_view *v);
#include "ui/panels.def"
#undef PANEL
void ui_panel_note(ui_panel_view *v);
void ui_panel_log(ui_panel_view *v);
void ui_panel_shadows(ui_panel_view *v);
void ui_panel_setup(ui_panel_view *v);
void ui_panel_help(ui_panel_view *v);

enum { UI_RIGHT_BYTES = 128 };

void ui_right(ui_panel_view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // appends to `right`
ui_pen ui_next_line(ui_panel_view *v, ui_role role);
void ui_dim_line(ui_panel_view *v, const char *text); // the next line
// The rows of a tree as the Tree panel lists them, from top to bottom: order[0 .. step->tree.n).
void ui_tree_order(const ls_step *step, int16_t *order);
// What an empty conversation offers: carries out an offer if the prompt is its number. False: it is a prompt.
bool ui_welcome_choose(ui_state *s, const char *prompt);
void ui_legend(ui_pen *p, const ui_state *s); // of the tokens' colours: as much as fits, whole words only
// Limits a scroll position so that the last of n lines stays in sight; returns the first line to draw.
int ui_scroll_top(int *scroll, int n_lines, int rows);
void ui_scroll_to(int *scroll, int line, int rows); // as little as brings that line in sight

// ---- what panels share

// One line of wrapped text: bytes from .. to - 1.
typedef struct {
    size_t from, to;
} ui_line;
// Breaks at newlines, and at blanks where a word does not fit. Owned by the caller.
ui_line *ui_wrap(const ui_canvas *c, const char *text, size_t n_text, int cols, size_t *n_lines);

// Draws text from the first row of the area on, wrapped. up: its end is drawn, so many lines from the last one, which
// it limits; NULL: its beginning. Returns the rows that it needs; they may be more than there are.
int ui_draw_wrapped(ui_canvas *c, ui_rect area, const char *text, ui_role role, int *up);
// As ui_print; what is between { and } is drawn as a number. The arguments have no braces.
void ui_print_numbers(ui_pen *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ui_clause(ui_pen *p, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // and ends the clause
void ui_print_to(ui_pen *p, int end, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); // ends before that column
const char *ui_times(const ui_canvas *c);  // the sign before a factor

void ui_bar(ui_pen *p, int cells, double fraction); // filled from the left, in eighths of a cell
// A token as one word: blanks visible, in ASCII between quotes; broken UTF-8 as <XX>.
bool ui_draw_token(ui_pen *p, const ui_state *s, int32_t id);
void ui_draw_token_in(ui_pen *p, const ui_state *s, int32_t id, int cells); // cut where it takes more cells
// Appends what ui_draw_token would draw.
void ui_token_text(const ui_canvas *c, const ui_state *s, int32_t id, ls_buf *out);
void ui_quote_token(const ui_canvas *c, const ui_state *s, int32_t id, ls_buf *out); // between quotes
// Where a branch under the root comes from: the letter of its first node's source (spec/sources.def).
const char *ui_branch_letter(const ls_step *step, const ls_branch *b);
// The branch that begins with this rank of the last logits (-1: behind the root); of several, the one with most
// accepted. NULL: none.
const ls_branch *ui_branch_of_rank(const ls_step *step, int rank);
// "3@104": n-gram length and position; "=3" where the place is outside this conversation; "-" without a match.
ls_short_text ui_match_text(int match_n, int32_t match_pos);
double ui_prob(float logit, float lse);
// Draws a text, and a probability in five cells: " .831", " 1.00", "<.001".
void ui_draw_prob(ui_pen *p, const char *before, double prob);
ui_role ui_outcome_role(ls_node_state s);

// ---- the rows of the panels that list a step: filter, order and search. A row contains a text if its token does
// (Logits), if the tokens of its branch do together (Drafts), or if the tokens from the root to the node do (Tree).
// Case is ignored.

void ui_add_sought(const ui_state *s, int32_t id, ls_buf *out); // the bytes of a token, NUL as a blank
bool ui_rows_in(ui_panel p);                                    // Logits, Drafts, Tree
// The rows of Logits (ranks) or Drafts (branches) of a step, from top to bottom; returns how many. rows has room for
// LS_MAX_ROWS.
int ui_rows_of(const ui_state *s, const ls_step *step, ui_panel p, int16_t *rows);
// Sets shown[0 .. step->tree.n) to the nodes that Tree shows: a filter keeps the root and the branches with its text.
void ui_rows_tree(const ui_state *s, const ls_step *step, bool *shown);
// The first of n rows to draw in so many lines: the scroll position, limited, and moved to the cursor if that moved. If
// the panel is not scrolled or sorted and the row `decided` (-1: none) is further down, it becomes the last line:
// `rows` is changed.
int ui_rows_top(ui_panel_view *v, ui_panel p, int16_t *rows, int n, int lines, int decided);
// The next (by: 1) or previous (-1) row of the viewed step with the text, from the last one found on, wrapping around:
// a rank, a branch or a node. -1: none.
int ui_rows_find(const ui_state *s, ui_panel p, const char *text, int by);
// Shows only the rows with the text; "": all.
void ui_rows_filter(ui_state *s, ui_panel p, const char *text);
// Sorts the panel by its next column, or the other way round. False: it has only one order.
bool ui_rows_sort(ui_state *s, ui_panel p, bool reverse);
// If the panel is filtered or sorted, replaces `right` (the text at the right of its title) with the filter and the
// order. n of `of` rows are shown.
void ui_rows_title(const ui_state *s, ui_panel p, int n, int of, char right[UI_RIGHT_BYTES]);

// ---- Help

// The next line (by: 1) or the previous one (-1) with the text that was sought last, whatever its case, wrapping
// around.
void ui_help_find(ui_state *s, int by);

// ---- words.c: a step, and the draft under the cursor, as sentences

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
