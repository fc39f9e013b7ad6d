// The guided tour: shows recorded demos, one after another, and then the conversation again.
#pragma once
#include "ui/app.h"

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
