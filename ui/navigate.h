// Where the user looks: which step, which token of it, which node of its tree; and the line that says why not.
#pragma once
#include "ui/state.h"

void ui_say(ui_state *s, const char *text, bool is_error);
void ui_focus(ui_state *s, ui_panel p);           // it has the keys
void ui_open(ui_state *s, ui_panel p, bool open); // Inspect or Compare; what is closed has no keys
void ui_look_at(ui_state *s, int64_t step);       // the nearest that there is; the newest is followed
void ui_move(ui_state *s, int64_t by);            // steps
// To a step that was looked for; negative: there is none, and `none` says so.
void ui_jump(ui_state *s, int64_t step, const char *none);
void ui_jump_extreme(ui_state *s, int sign); // the best (1) or worst (-1) step; again: the next in that order
void ui_look_for(ui_state *s, int by);       // s->sought, on (1) or back (-1): in the rows of the panel or the output
// A row of Logits, Drafts or Tree becomes the one that the other panels speak of.
void ui_choose_row(ui_state *s, ui_panel p, int row);
void ui_move_node(ui_state *s, int by);        // up and down as the Tree panel lists them
void ui_move_deeper(ui_state *s, bool deeper); // to the first child, or to the parent
void ui_move_token(ui_state *s, int by);       // to the next token of the output, and the step that made it
