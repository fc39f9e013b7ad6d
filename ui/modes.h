// What the user is doing: typing a line, reading Help, changing a prompt, looking at a panel. A table lists the modes
// from the topmost down with the keys, the Esc, the mouse and the drawing of each; a mode passes on what it does
// not take. Nothing else knows which mode comes first.
#pragma once
#include "ui/panels.h"
#include "ui/state.h"

// A frame: what is drawn into it, and its title.
typedef struct {
    const char *title;
    void (*draw)(ui_panel_view *v);
    const char *before_steps; // text before the first step; NULL: the panel draws without steps
} ui_frame;

// The line at the bottom.
typedef struct {
    char sign[24];
    const ui_edit *edit;
    const char *hint;    // shown while the line is empty
    bool active, cursor; // active: it takes the typed text; cursor: it shows the text cursor
} ui_bottom;

const ui_frame *ui_frame_on_top(const ui_state *s); // what covers the panels; NULL: nothing does
ui_bottom ui_bottom_of(const ui_state *s, const char *arrow);
void ui_toggle(ui_state *s, ui_overlay o); // closes it if it is on top, else puts it there
void ui_close(ui_state *s);                // the topmost that q can close; the program is the last
bool ui_may_quit(ui_state *s);             // false: requests would end, and the user was warned now
void ui_scroll(ui_state *s, int by);       // the topmost that scrolls, by lines
void ui_send_prompt(ui_state *s);          // what was typed, if it may be sent
void ui_to_prompt(ui_state *s);            // gives the focus to the prompt line and closes what covers the panels

// ---- the line that the user types at the bottom: a command (':'), a text to look for ('/'), a filter of rows ('\\')

// Commands that take an argument; those without one are the names of actions.
typedef struct {
    const char *name, *argument, *help;             // name: with the blank behind it
    void (*run)(ui_state *s, const char *argument); // NULL: gives this command to the source
    ls_command_kind asks;
    bool verbatim; // blanks before the argument belong to it
} ui_verb;
extern const ui_verb ui_verbs[]; // ends with a NULL name

bool ui_is_command(const char *line); // ":" and a known command, without a newline
// A key, and what it means in the mode that takes it.
typedef struct {
    int code;
    ui_action action;
} ui_press;
bool ui_line_key(ui_state *s, ui_press k);
void ui_line_leave(ui_state *s); // closes the line without running it
