#include "ui/state.h"
#include "base/system.h"

#include <math.h>
#include <stdlib.h>

enum { SLICE_MS = 10 };
static const double LITTLE = 0.02; // of a step

static size_t end_of(const ui_state *s, const ui_turn *t) { // of its tokens in the context
    const ls_turn *said = ui_said(&s->run, t);
    const ls_step *last = said->n_steps ? ui_step(s, t->first_step + said->n_steps - 1) : NULL;
    return last ? (size_t)(last->context_len + last->n_emitted - (last->finish == LS_FINISH_EOS))
                : ls_turn_output_at(said);
}

// The first turn whose context was not changed later: a chat template may rewrite earlier turns.
static size_t first_turn(const ui_state *s) {
    size_t t = s->run.dialog->n_turns ? s->run.dialog->n_turns - 1 : 0;
    while (t > 0 && s->run.dialog->turns[t].kept >= end_of(s, &s->run.turns[t - 1])) t--;
    return t;
}

static void start(ui_state *s) {
    ui_shadows *w = &s->shadows;
    if (!w->ways && s->given.ways) w->ways = s->given.ways(s->given.ud, &w->n_ways);
    if (w->work || !s->run.dialog->n_turns || !s->run.has_header || !w->n_ways) return;
    w->work = ls_shadows_new(w->ways, w->n_ways, &s->run.header);
    w->turn = first_turn(s);
}

void ui_shadows_forget(ui_state *s, size_t turn) {
    ui_shadows *w = &s->shadows;
    if (turn > w->turn) return;
    ls_shadows_free(w->work);
    *w = (ui_shadows){.ways = w->ways, .n_ways = w->n_ways, .chosen = w->chosen, .always = w->always};
}

static bool begin(ui_state *s) {
    ui_shadows *w = &s->shadows;
    const ui_turn *t = &s->run.turns[w->turn];
    const ls_ids *context = &s->run.dialog->context;
    const size_t n = ls_turn_output_at(ui_said(&s->run, t));
    for (size_t i = 0; i < n && !w->refused; i++)
        if (i >= context->n || context->p[i] < 0) w->refused = "the recording lacks the text before this answer";
    if (w->refused) return false;
    ls_shadows_begin(w->work, context->p, n);
    w->begun = true;
    w->real = (ls_stats){0};
    w->ended = false;
    w->step = t->first_step;
    return true;
}

// Adds the new steps of the turn. False: this conversation cannot be simulated.
static bool feed(ui_state *s) {
    ui_shadows *w = &s->shadows;
    if (!w->begun && !begin(s)) return false;
    const ui_turn *t = &s->run.turns[w->turn];
    for (; w->step < t->first_step + ui_said(&s->run, t)->n_steps; w->step++) {
        const ls_step *step = ui_step(s, w->step);
        if (ls_step_lossy(step, NULL)) {
            w->refused = "this answer is LOSSY: other methods would have continued a different text";
            return false;
        }
        ls_shadows_add(w->work, step);
        ls_stats_add(&w->real, step);
    }
    if (!w->ended && (ui_said(&s->run, t)->finish || w->turn + 1 < s->run.dialog->n_turns)) {
        ls_shadows_end(w->work);
        w->ended = true;
    }
    return true;
}

static bool is_open(const ui_state *s) {
    for (int i = 0; i < s->over.n; i++)
        if (s->over.open[i] == UI_SHADOWS) return true;
    return false;
}

double ui_shadows_share(const ui_state *s) {
    const ui_shadows *w = &s->shadows;
    return w->work ? ls_shadows_us_per_step(w->work) / ls_per(w->real.total_us, w->real.steps) : (double)NAN;
}

bool ui_shadows_may(const ui_state *s) {
    const bool decodes = !s->given.recording && s->run.state != LS_STATE_PAUSED && s->run.state != LS_STATE_IDLE;
    return !decodes || s->shadows.always ||
           !(ui_shadows_share(s) > LITTLE); // NAN, not known yet: a first slice measures it
}

ui_shadows_progress ui_shadows_work(ui_state *s) {
    if (!is_open(s) || !ui_shadows_may(s)) return UI_SHADOWS_STILL;
    start(s);
    ui_shadows *w = &s->shadows;
    if (!w->work || w->refused) return UI_SHADOWS_STILL;
    const uint64_t until = ls_now_ns() + SLICE_MS * 1000000ull;
    const size_t turn = w->turn, step = w->step;
    const bool begun = w->begun, ended = w->ended;
    while (w->turn < s->run.dialog->n_turns && feed(s)) {
        if (!ls_shadows_work(w->work, until)) return UI_SHADOWS_MORE;
        if (!w->ended || w->turn + 1 == s->run.dialog->n_turns) break;
        w->turn++;
        w->begun = false;
    }
    const bool same = turn == w->turn && step == w->step && begun == w->begun && ended == w->ended && !w->refused;
    return same ? UI_SHADOWS_STILL : UI_SHADOWS_NEW;
}

const ls_shadows *ui_shadows_of(const ui_state *s, const ui_turn **turn, const char **why) {
    const ui_shadows *w = &s->shadows;
    const bool there = w->begun && w->turn < s->run.dialog->n_turns;
    *why = w->refused                              ? w->refused
           : s->shadows.ways && !s->shadows.n_ways ? "this configuration has no method that can be simulated"
           : !s->run.dialog->n_turns               ? "no answer yet"
           : !there                                ? "waiting for a pause in decoding (u: run now)"
                                                   : NULL;
    *turn = there ? &s->run.turns[w->turn] : NULL;
    return there && !*why ? w->work : NULL;
}
