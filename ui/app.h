// The screen as a program: a source of events in, keys in, frames out, until the user leaves.
#pragma once
#include "source/source.h"
#include "ui/state.h"
#include "ui/canvas.h"

#include <stdbool.h>

typedef struct {
    ui_given given;
    const ui_theme *theme, *light; // light: used if the terminal reports a light background; NULL: never
    bool color, mouse, ambiguous_wide;
    bool clipboard;             // copies go to the terminal (OSC 52), if it supports them
    int fps;                    // frames a second at most; 0: as many as ever
    bool ascii;                 // draw with ASCII only (always where the terminal shows no UTF-8)
    const char *prompt;         // sent at once; NULL: none
    const ui_setting *settings; // that can change while it runs; ends with a NULL key; may be NULL
    const char *history;        // file of earlier prompts; NULL: none
    const ui_demo *demo;        // played; NULL: none
} ui_options;

// Takes the source: restores the terminal, then closes the source. Sets *exit_code, the program's. LS_E_IO: there is no
// terminal to use; the source is closed then too.
ls_code ui_run(ls_source *source, const ui_options *o, int *exit_code, ls_err *err);

// ---- what every way to run the screen shares

void ui_begin(ui_state *s, const ui_options *o);    // a fresh state, as the options say
void ui_send_asked(ui_state *s, ls_source *source); // what waits in the outbox; refusals become messages

// What is shown: the conversation, or a stop of the guided tour. The tour shows recorded demos, one after another, and
// then the conversation again.
typedef struct {
    const ui_options *options; // borrowed
    ls_source *source;         // owned
    ui_state state;
    ui_canvas canvas;
    const ui_theme *theme;
    ls_source *waiting; // the conversation, during the tour; NULL: no tour is shown
    ui_state conversation;
} ui_screen;

void ui_screen_open(ui_screen *s, ls_source *source, const ui_options *o, const ui_theme *t, bool utf8);
void ui_screen_draw(ui_screen *s, int rows, int cols); // on its canvas
// Begins, continues or leaves the tour as the state requests it. True: something else is shown now.
bool ui_screen_follow(ui_screen *s);
// Writes the display into the file that `:save-display` named, and says so. False: none was named.
bool ui_screen_save(ui_screen *s);
// LS_E_BACKEND and the reason if the conversation's source failed.
ls_code ui_failure(const ui_screen *s, ls_err *err);
int ui_screen_close(ui_screen *s); // returns the exit code
