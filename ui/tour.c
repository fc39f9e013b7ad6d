#include "ui/tour.h"
#include "ui/navigate.h"

static void bring_back(ui_tour *t) {
    *t->state = t->conversation;
    *t->source = t->waiting;
    t->waiting = NULL;
}

static void close_stop(ui_tour *t) {
    (*t->source)->close(*t->source);
    ui_state_free(t->state);
}

void ui_tour_leave(ui_tour *t) {
    if (!t->waiting) return;
    const bool quit = t->state->quit;
    const int exit_code = t->state->exit_code;
    close_stop(t);
    bring_back(t);
    t->state->quit |= quit;
    if (quit) t->state->exit_code = exit_code;
}

// The conversation is set aside, or the stop before is closed.
static void show_stop(ui_tour *t, int stop) {
    ls_err err;
    ui_options o = *t->options;
    int of = 0;
    if (t->waiting) close_stop(t);
    else {
        t->waiting = *t->source;
        t->conversation = *t->state;
    }
    ls_source *source = o.tour(o.ud, stop, &of, &o.demo, &err);
    if (!source) {
        bring_back(t);
        if (stop < of) ui_say(t->state, err.msg, true); // else the one before was the last
        return;
    }
    t->stop = stop;
    *t->source = source;
    ui_state_init(t->state);
    o.recording = true;
    o.tour = NULL;
    o.prompt = o.history = o.keep = NULL;
    o.left = NULL;
    ui_begin(t->state, &o);
    t->state->clipboard = t->conversation.clipboard;
    t->state->ascii = t->conversation.ascii;
    t->state->brackets = t->conversation.brackets;
    t->state->tour_stop = stop + 1;
    t->state->tour_of = of;
}

bool ui_tour_follow(ui_tour *t) {
    ui_state *s = t->state;
    if (!t->waiting && s->want_tour) {
        s->want_tour = false;
        show_stop(t, 0);
    } else if (t->waiting && (s->quit || s->tour_go < 0)) ui_tour_leave(t);
    else if (t->waiting && s->tour_go) show_stop(t, t->stop + 1);
    else return false;
    return true;
}
