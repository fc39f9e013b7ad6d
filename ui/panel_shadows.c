// What every method would do on the conversation, while one decodes it, and the table of it.
#include "ui/panels.h"
#include "base/system.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SLICE_MS = 10 };
static const double LITTLE = 0.02; // of a step

static size_t end_of(const ui_state *s, const ui_turn *t) { // of its tokens in the context
    const ls_turn *said = ui_said(&s->run, t);
    const ls_step *last = said->n_steps ? s->run.steps[t->first_step + said->n_steps - 1] : NULL;
    return last ? (size_t)(last->context_len + last->n_emitted - (last->finish == LS_FINISH_EOS))
                : ls_turn_output_at(said);
}

// The first turn whose context was not changed later: a chat template may rewrite earlier turns.
static size_t first_turn(const ui_state *s) {
    size_t t = s->run.conversation->n_turns ? s->run.conversation->n_turns - 1 : 0;
    while (t > 0 && s->run.conversation->turns[t].kept >= end_of(s, &s->run.turns[t - 1])) t--;
    return t;
}

static void start(ui_state *s) {
    ui_shadows *w = &s->shadows;
    if (!w->variants && s->given.variants) w->variants = s->given.variants(s->given.ud, &w->n_variants);
    if (w->work || !s->run.conversation->n_turns || !s->run.has_header || !w->n_variants) return;
    w->work = ls_shadows_new(w->variants, w->n_variants, &s->run.header);
    w->turn = first_turn(s);
}

void ui_shadows_forget(ui_state *s, size_t turn) {
    ui_shadows *w = &s->shadows;
    if (turn > w->turn) return;
    ls_shadows_free(w->work);
    *w = (ui_shadows){.variants = w->variants, .n_variants = w->n_variants, .chosen = w->chosen, .always = w->always};
}

static bool begin(ui_state *s) {
    ui_shadows *w = &s->shadows;
    const ui_turn *t = &s->run.turns[w->turn];
    const ls_ids *context = &s->run.conversation->context;
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
        const ls_step *step = s->run.steps[w->step];
        if (ls_step_lossy(step, NULL)) {
            w->refused = "this answer is LOSSY: other methods would have continued a different text";
            return false;
        }
        ls_shadows_add(w->work, step);
        ls_stats_add(&w->real, step);
    }
    if (!w->ended && (ui_said(&s->run, t)->finish || w->turn + 1 < s->run.conversation->n_turns)) {
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

// Simulation time over decoding time, per step; NAN: not known yet.
static double cost_share(const ui_state *s) {
    const ui_shadows *w = &s->shadows;
    return w->work ? ls_shadows_us_per_step(w->work) / ls_per(w->real.total_us, w->real.steps) : (double)NAN;
}

static bool may_work(const ui_state *s) { // now
    const bool decodes = !s->given.recording && s->run.state != LS_STATE_PAUSED && s->run.state != LS_STATE_IDLE;
    return !decodes || s->shadows.always || !(cost_share(s) > LITTLE); // NAN, not known yet: a first slice measures it
}

bool ui_shadows_work(ui_state *s) {
    if (!is_open(s) || !may_work(s)) return false;
    start(s);
    ui_shadows *w = &s->shadows;
    if (!w->work || w->refused) return false;
    const uint64_t until = ls_now_ns() + SLICE_MS * 1000000ull;
    const size_t turn = w->turn, step = w->step;
    const bool begun = w->begun, ended = w->ended;
    while (w->turn < s->run.conversation->n_turns && feed(s)) {
        if (!ls_shadows_work(w->work, until)) return true;
        if (!w->ended || w->turn + 1 == s->run.conversation->n_turns) break;
        w->turn++;
        w->begun = false;
    }
    return turn != w->turn || step != w->step || begun != w->begun || ended != w->ended || w->refused;
}

// Why there is no result; NULL: there is one, of the turn shadows.turn, which may be older than the last one.
static const char *why_none(const ui_state *s) {
    const ui_shadows *w = &s->shadows;
    return w->refused                      ? w->refused
           : w->variants && !w->n_variants ? "this configuration has no method that can be simulated"
           : !s->run.conversation->n_turns ? "no answer yet"
           : !w->begun || w->turn >= s->run.conversation->n_turns ? "waiting for a pause in decoding (u: run now)"
                                                                  : NULL;
}

// ---- the table

// A row of the table, simulated or measured.
typedef struct {
    double mat, speed, rows, draft_us, known; // known: share of the rows, 1: all; NAN: measured
    uint64_t accepted, drafted;
} line;

static line line_of(const ls_simulated *t, const ls_method *m) {
    const double known = ls_simulated_is_exact(t, m) ? 1 : ls_per((double)t->rows_known, t->rows);
    return (line){ls_per((double)t->emitted, t->steps),
                  ls_simulated_speedup(t),
                  ls_per((double)(t->drafted + t->forwards), t->forwards),
                  ls_per(t->draft_us, t->forwards),
                  known,
                  t->accepted,
                  t->drafted};
}

static line real_line(const ls_stats *st) {
    return (line){ls_stats_mat(st),
                  ls_stats_speedup(st) > 0 ? ls_stats_speedup(st) : (double)NAN,
                  ls_per((double)(st->drafted + st->forwards), st->forwards),
                  ls_per(st->draft_us, st->forwards),
                  (double)NAN,
                  st->accepted,
                  st->drafted};
}

static void draw_variant(ui_pen *p, int col, const line *l) {
    const bool guess = l->known < 1;
    ui_print(ui_as(ui_pad(p, col + 28), UI_NUMBER), "%s%.2f", !guess ? " " : p->canvas->ascii ? "~" : "≈", l->mat);
    ui_pad(ui_as(p, UI_TEXT), col + 36);
    if (isnan(l->speed)) ui_print(p, "-");
    else ui_print(p, "%s%.2f", ui_times(p->canvas), l->speed);
    ui_print_to(p, col + 54, "%" PRIu64 "/%" PRIu64, l->accepted, l->drafted);
    ui_print_to(p, col + 61, "%.1f", l->rows);
    ui_print_to(p, col + 70, "%.0f", l->draft_us);
    if (isnan(l->known)) ui_print_to(p, col + 77, "real");
    else if (!guess) ui_print_to(p, col + 77, "all");
    else ui_print_to(p, col + 77, "%.0f%%", 100 * l->known);
}

void ui_panel_shadows(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ls_shadows *w = s->shadows.work;
    const char *why = why_none(s);
    if (why) {
        ui_pen p = ui_next_line(v, UI_DIM);
        ui_print(&p, " %s", why);
        return;
    }
    const ui_turn *turn = &s->run.turns[s->shadows.turn];
    int n;
    const ls_shadow *all = ls_shadows_all(w, &n);
    ui_pen head = ui_pen_at(v->canvas, v->area, 0, UI_LABEL);
    ui_print(&head, " %-28s%-8s%-6s%11s%7s%9s%7s", "method", "MAT", "speed", "accepted", "rows", "draft us", "known");
    for (int i = 0; i < n && i + 1 < v->area.rows; i++) {
        const char *label = all[i].label, *refusal = all[i].simulator ? NULL : all[i].refusal;
        const bool decodes = !turn->switched && !strcmp(label, turn->method);
        ui_pen p = ui_pen_at(v->canvas, v->area, 1 + i, i == s->shadows.chosen ? UI_CURSOR : UI_LABEL);
        const int col = p.col;
        p.tag = i + 1;
        ui_print(&p, " %s%s", label, decodes ? " (active)" : "");
        ui_pad(ui_as(&p, UI_DIM), col + 29);
        const line l = decodes ? real_line(&s->shadows.real) : line_of(&all[i].total, all[i].method);
        if (refusal || !(l.mat > 0)) ui_print(&p, "%s", refusal ? refusal : "-");
        else draw_variant(&p, col, &l);
    }
    const double us = ls_shadows_us_per_step(w), share = cost_share(s);
    const char *when = s->shadows.always ? "always runs (u: above 2%, only in pauses)"
                       : may_work(s)     ? "above 2%, runs only in pauses (u: always)"
                                         : "waiting for a pause (u: run now)";
    v->line = v->area.rows > n + 4 ? n + 2 : n + 1;
    ui_pen p = ui_next_line(v, UI_DIM);
    if (isnan(us) || isnan(share)) ui_print(&p, " %s", when);
    else ui_print(&p, " cost: %.0f us per step, %.1f%%; %s", us, 100 * share, when);
    ui_dim_line(v, s->given.recording ? " speed: against plain decoding, by recorded costs and drafting timed here"
                                      : " Enter: use this method. speed: against plain decoding, by measured costs");
    ui_dim_line(v, " known: verified share of the rows that the method would learn from; all: exact; ≈: estimate");
    ui_right(v, "turn %td%s; a closes", turn - s->run.turns + 1,
             turn + 1 < s->run.turns + s->run.conversation->n_turns ? ", not up to date" : "");
}
