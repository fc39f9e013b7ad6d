#include "ui/shadows.h"
#include "base/mem.h"
#include "base/system.h"

#include <math.h>
#include <stdlib.h>

enum { SLICE_MS = 10 };
static const double LITTLE = 0.02; // of a step

struct ui_shadows {
    ls_shadows *s;
    size_t turn, step; // the next ones to simulate
    bool begun, ended; // that turn
    ls_stats real;     // of it
    const char *why;
};

static int32_t end_of(const ui_state *s, const ui_turn *t) { // of its tokens in the context
    const ls_step *last = t->n_steps ? ui_step(s, t->first_step + t->n_steps - 1) : NULL;
    return last ? last->context_len + last->n_emitted - (last->finish == LS_FINISH_EOS) : t->first_id + t->n_ids;
}

// The first turn whose context was not changed later: a chat template may rewrite earlier turns.
static size_t first_turn(const ui_state *s) {
    size_t t = s->n_turns ? s->n_turns - 1 : 0;
    while (t > 0 && s->turns[t].first_id >= end_of(s, &s->turns[t - 1])) t--;
    return t;
}

static void start(ui_state *s) {
    ui_shadows *w = s->shadows;
    if (!w) w = s->shadows = ls_calloc(1, sizeof *w);
    if (!s->ways && s->make_ways) s->ways = s->make_ways(s->ways_ud, &s->n_ways);
    if (w->s || !s->n_turns || !s->has_header || !s->n_ways) return;
    w->s = ls_shadows_new(s->ways, s->n_ways, &s->header);
    w->turn = first_turn(s);
}

void ui_shadows_forget(ui_state *s, size_t turn) {
    ui_shadows *w = s->shadows;
    if (!w || turn > w->turn) return;
    ls_shadows_free(w->s);
    *w = (ui_shadows){0};
}

static bool begin(ui_state *s) {
    ui_shadows *w = s->shadows;
    const ui_turn *t = &s->turns[w->turn];
    const size_t n = (size_t)(t->first_id + t->n_ids);
    for (size_t i = 0; i < n && !w->why; i++)
        if (i >= s->context.n || s->context.p[i] < 0) w->why = "the recording lacks the text before this answer";
    if (w->why) return false;
    ls_shadows_begin(w->s, s->context.p, n);
    w->begun = true;
    w->real = (ls_stats){0};
    w->ended = false;
    w->step = t->first_step;
    return true;
}

// Adds the new steps of the turn. False: this conversation cannot be simulated.
static bool feed(ui_state *s) {
    ui_shadows *w = s->shadows;
    if (!w->begun && !begin(s)) return false;
    const ui_turn *t = &s->turns[w->turn];
    for (; w->step < t->first_step + t->n_steps; w->step++) {
        const ls_step *step = ui_step(s, w->step);
        if (ls_step_loose(step, NULL)) {
            w->why = "this answer is LOSSY: other methods would have continued a different text";
            return false;
        }
        ls_shadows_add(w->s, step);
        ls_stats_add(&w->real, step);
    }
    if (!w->ended && (t->finish || w->turn + 1 < s->n_turns)) {
        ls_shadows_end(w->s);
        w->ended = true;
    }
    return true;
}

static bool is_open(const ui_state *s) {
    for (int i = 0; i < s->n_overlays; i++)
        if (s->overlays[i] == UI_SHADOWS) return true;
    return false;
}

double ui_shadows_share(const ui_state *s) {
    const ui_shadows *w = s->shadows;
    return w && w->s ? ls_shadows_us_per_step(w->s) / ls_per(w->real.total_us, w->real.steps) : (double)NAN;
}

bool ui_shadows_may(const ui_state *s) {
    const bool decodes = !s->recording && s->run_state != LS_STATE_PAUSED && s->run_state != LS_STATE_IDLE;
    return !decodes || s->shadows_always ||
           !(ui_shadows_share(s) > LITTLE); // NAN, not known yet: a first slice measures it
}

ui_shadows_progress ui_shadows_work(ui_state *s) {
    if (!is_open(s) || !ui_shadows_may(s)) return UI_SHADOWS_STILL;
    start(s);
    ui_shadows *w = s->shadows;
    if (!w->s || w->why) return UI_SHADOWS_STILL;
    const uint64_t until = ls_now_ns() + SLICE_MS * 1000000ull;
    const size_t turn = w->turn, step = w->step;
    const bool begun = w->begun, ended = w->ended;
    while (w->turn < s->n_turns && feed(s)) {
        if (!ls_shadows_work(w->s, until)) return UI_SHADOWS_MORE;
        if (!w->ended || w->turn + 1 == s->n_turns) break;
        w->turn++;
        w->begun = false;
    }
    const bool same = turn == w->turn && step == w->step && begun == w->begun && ended == w->ended && !w->why;
    return same ? UI_SHADOWS_STILL : UI_SHADOWS_NEW;
}

const ls_shadows *ui_shadows_of(const ui_state *s, const ui_turn **turn, const char **why) {
    const ui_shadows *w = s->shadows;
    const bool there = w && w->begun && w->turn < s->n_turns;
    *why = w && w->why             ? w->why
           : s->ways && !s->n_ways ? "this configuration has no method that can be simulated"
           : !s->n_turns           ? "no answer yet"
           : !there                ? "waiting for a pause in decoding (u: run now)"
                                   : NULL;
    *turn = there ? &s->turns[w->turn] : NULL;
    return there && !*why ? w->s : NULL;
}

const ls_stats *ui_shadows_real(const ui_state *s) {
    return &s->shadows->real;
}

void ui_shadows_free(ui_shadows *w) {
    if (w) ls_shadows_free(w->s);
    free(w);
}
