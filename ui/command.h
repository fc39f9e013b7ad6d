// The line that the user types at the bottom: a command (':'), a text to look for ('/'), a filter of rows ('\\').
#pragma once
#include "ui/state.h"

// Commands that take an argument; those without one are the names of actions.
typedef struct {
    const char *name, *argument, *help;             // name: with the blank behind it
    void (*run)(ui_state *s, const char *argument); // NULL: sends this request to the source
    ls_command_kind request;
    bool verbatim; // blanks before the argument belong to it
} ui_verb;
extern const ui_verb ui_verbs[]; // ends with a NULL name

bool ui_is_command(const char *line); // ":" and a known command, without a newline
bool ui_line_key(ui_state *s, int key, ui_action a);
void ui_line_leave(ui_state *s); // closes the line without running it
