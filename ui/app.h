// The screen as a program: a source of events in, keys in, frames out, until the user leaves.
#pragma once
#include "source/source.h"
#include "ui/state.h"
#include "ui/theme.h"

#include <stdbool.h>

typedef struct {
    const ui_theme *theme, *light; // light: used if the terminal reports a light background; NULL: never
    bool color, mouse, ambiguous_wide;
    bool clipboard;             // copies go to the terminal (OSC 52), if it supports them
    int fps;                    // frames a second at most; 0: as many as ever
    bool ascii;                 // draw with ASCII only (always where the terminal shows no UTF-8)
    bool recording;             // the source plays a recording: it takes no prompts
    const char *prompt;         // sent at once; NULL: none
    const ui_setting *settings; // that can change while it runs; ends with a NULL key; may be NULL
    const char *(*about)(const char *key, const char *value);                             // see ui_state
    ls_code (*save_settings)(const ui_setting *settings, int n, char *said, size_t size); // likewise
    // Returns the ways of decoding for Shadows; called when Shadows is first opened. The callee owns them. NULL: none.
    const ls_shadow_way *(*ways)(void *ud, int *n);
    // Opens stop i (from 0) of the guided tour; *of: the number of stops. NULL: err has the reason, or i is *of.
    ls_source *(*tour)(void *ud, int i, int *of, const ui_demo **demo, ls_err *err); // NULL: there is no tour
    void *ud;
    const char *const *words; // that commands complete to, besides actions; ends with NULL; may be NULL
    const char *history;      // file of earlier prompts; NULL: none
    const char *const *left; // conversations that earlier processes kept, the newest first, ends with NULL; may be NULL
    const char *keep;        // file that keeps this conversation for the next start; NULL: none
    const ui_demo *demo;     // played; NULL: none
} ui_options;

// ---- what every way to run the screen shares
void ui_begin(ui_state *s, const ui_options *o);       // a fresh state, as the options say
void ui_send_requests(ui_state *s, ls_source *source); // what waits in the outbox; refusals become messages

// Takes the source: restores the terminal, then closes the source. Sets *exit_code, the program's. LS_E_IO: there is no
// terminal to use; the source is closed then too.
ls_code ui_run(ls_source *source, const ui_options *o, int *exit_code, ls_err *err);

// ---- the guided tour: shows recorded demos, one after another, and then the conversation again

typedef struct {
    const ui_options *options; // borrowed
    ls_source **source;        // what the application shows: the conversation's, or a demo's while there is a tour
    ui_state *state;
    ls_source *waiting; // the conversation, meanwhile; NULL: no tour is shown
    ui_state conversation;
    int stop; // from 0
} ui_tour;

// Begins, continues or leaves the tour as the state requests it. True: something else is shown now.
bool ui_tour_follow(ui_tour *t);
void ui_tour_leave(ui_tour *t); // back to the conversation; without a tour, nothing
