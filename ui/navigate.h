// The view: moves to a step, to a token of it or to a node of its tree; and the message line.
#pragma once
#include "ui/state.h"

// The message line: a note, or an error.
void ui_say(ui_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ui_say_error(ui_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ui_focus(ui_state *s, ui_panel p);           // gives it the focus
void ui_open(ui_state *s, ui_panel p, bool open); // opens or closes Inspect or Compare
void ui_look_at(ui_state *s, int64_t step);       // or at the nearest that exists; follows the newest
// Goes to the next step (by: 1) or the previous one (-1) in which that happened, or says that there is none.
typedef enum { UI_FIND_REJECTION, UI_FIND_LOSSY } ui_find;
void ui_jump(ui_state *s, ui_find what, int by);
void ui_jump_extreme(ui_state *s, int sign); // to the best (1) or worst (-1) step; then to the next in that order
void ui_look_for(ui_state *s,
                 int by); // finds s->sought forwards (1) or back (-1), in the panel's rows or in the output
// Chooses a row of Logits, Drafts or Tree; the other panels then show its node.
void ui_choose_row(ui_state *s, ui_panel p, int row);
void ui_move_row(ui_state *s, ui_panel p, int by); // Logits, Drafts
void ui_move_node(ui_state *s, int by);            // up and down as the Tree panel lists them
void ui_move_deeper(ui_state *s, bool deeper);     // to the first child, or to the parent
void ui_move_token(ui_state *s, int by);           // to the next token of the output, and the step that made it
