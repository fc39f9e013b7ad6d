// The race with another method on the same prompt: the recorded times of both on one clock, and whether the texts are
// equal.
#include "ui/panels.h"
#include "base/mem.h"
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 16 };

static ui_pen race_line(ui_panel_view *v, const char *label) {
    ui_pen p = ui_next_line(v, UI_LABEL);
    const int col = p.col, end = p.end;
    p.end = col + LABEL - 1 < end ? col + LABEL - 1 : end;
    ui_print(&p, "%s", label);
    p.end = end;
    ui_pad(&p, col + LABEL);
    p.role = UI_TEXT;
    return p;
}

// How far an answer had come after some steps.
typedef struct {
    double us;
    int32_t tokens, forwards;
} point;

static point *course_of(const ls_step *const *steps, size_t n) { // [n + 1]: after no step, after one, ...
    point *at = ls_calloc(n + 1, sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[i + 1] = (point){at[i].us + steps[i]->t_total_us, at[i].tokens + steps[i]->n_emitted,
                            at[i].forwards + steps[i]->forward};
    return at;
}

static ls_ids text_of(const ls_step *const *steps, size_t n) {
    ls_ids text = {0};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < steps[i]->n_emitted; k++) ls_ids_push(&text, steps[i]->tree.nodes[steps[i]->path[k]].token);
    return text;
}

// Tokens that were emitted `us` after the first of n steps began.
static int32_t tokens_at(const point *at, size_t n, double us) {
    while (n && at[n].us > us) n--;
    return at[n].tokens;
}

// The time at which there were that many tokens; NAN: not yet.
static double time_of(const point *at, size_t n, int32_t tokens) {
    for (size_t i = 1; i <= n; i++)
        if (at[i].tokens >= tokens) return at[i].us;
    return (double)NAN;
}

// tokens: those emitted until `us`, or all if it is done; share: filled part of the bar, 0 to 1.
static void lane(ui_panel_view *v, const char *name, int32_t tokens, double share, double us, bool done, ui_role role) {
    ui_pen p = race_line(v, name);
    const int room = v->area.cols - LABEL - 26;
    ui_bar(ui_as(&p, role), room > 4 ? room : 4, share);
    ui_print(ui_as(&p, UI_TEXT), " %5d token%s %s %.2f s", tokens, ls_plural(tokens), done ? "in" : "at", us / 1e6);
}

// A token of the turn's output, its probability there, and how near the second best was.
typedef struct {
    int32_t id;
    double p, gap;
} choice;

static choice choice_of(const ls_step *step, int k) {
    const ls_node *n = &step->tree.nodes[step->path[k]];
    const ls_top_entry *top = k ? step->tree.nodes[n->parent].top : step->top;
    const float lse = k ? step->tree.nodes[n->parent].lse : step->top_lse;
    const bool known = (k || step->n_top > 1) && top[0].id >= 0 && top[1].id >= 0 && !isnan(lse);
    return (choice){n->token, (double)n->p,
                    known ? ui_prob(top[0].logit, lse) - ui_prob(top[1].logit, lse) : (double)NAN};
}

static void equality(ui_panel_view *v, const ui_turn *t, int32_t mine) {
    const ui_state *s = v->state;
    const ui_rival *r = &s->run.rival;
    ls_ids text = text_of(r->steps, r->n_steps);
    const int32_t theirs = (int32_t)text.n, n = mine < theirs ? mine : theirs;
    int32_t same = 0;
    double closest = 2;
    int32_t at = 0;
    choice c = {0};
    bool equal = true;
    for (size_t i = t->first_step; i < t->first_step + ui_said(&s->run, t)->n_steps && equal && same < n; i++) {
        const ls_step *step = s->run.steps[i];
        for (int k = 0; k < step->n_emitted && equal && same < n; k++) {
            c = choice_of(step, k);
            equal = c.id == text.p[same];
            if (equal && c.gap < closest) closest = c.gap, at = same;
            same += equal;
        }
    }
    const int32_t other = same < n ? text.p[same] : -1;
    ls_ids_free(&text);
    ui_pen p = race_line(v, "text");
    if (same < n) {
        ui_print(ui_as(&p, UI_BAD), "differs from token %d on: ", same);
        ui_print(ui_as(&p, UI_TEXT), "%s ", t->method);
        ui_draw_token(&p, s, c.id);
        ui_print(&p, ", %s ", r->method);
        ui_draw_token(&p, s, other);
        ui_end_clause(&p);
        ui_draw_prob(&p, "; p", c.p);
        ui_end_clause(&p);
        if (!isnan(c.gap)) ui_clause(&p, ", %.3f above the second token", c.gap);
        return;
    }
    ui_print(ui_as(&p, UI_GOOD), "the same, %d of %d tokens%s", same, r->done && theirs > mine ? theirs : mine,
             r->done ? "" : " so far");
    if (closest > 1) return;
    p = race_line(v, "closest choice");
    ui_print(&p, "token %d: p %.3f above the second token", at, closest);
}

static void add_tokens(const ui_state *s, const int32_t *ids, size_t n, ls_buf *text) {
    for (size_t i = 0; i < n; i++) ui_add_token(s, ids[i], text);
}

// What-if, in the place of the race.
static void draw_fork(ui_panel_view *v) {
    enum { BEFORE = 12 };
    const ui_state *s = v->state;
    const ui_rival *r = &s->run.rival;
    const ui_turn *t = &s->run.turns[r->turn];
    const ls_ids *context = &s->run.conversation->context;
    const size_t begins = ui_said(&s->run, t)->answer_at, end = ls_turn_output_at(ui_said(&s->run, t)) + (size_t)r->at,
                 from = end > begins + BEFORE ? end - BEFORE : begins;
    ls_buf text = {0};
    size_t n_lines;
    if (end <= context->n) add_tokens(s, context->p + from, end - from, &text);
    const size_t chosen = text.n;
    add_tokens(s, r->begun.p, r->begun.n, &text);
    const size_t written = text.n;
    ls_ids answer = text_of(r->steps, r->n_steps);
    add_tokens(s, answer.p, answer.n, &text);
    ui_line *lines = ui_wrap(v->canvas, text.n ? text.p : "", text.n, v->area.cols, &n_lines);
    const size_t rows = (size_t)(v->area.rows > 1 ? v->area.rows - 1 : 1), top = n_lines > rows ? n_lines - rows : 0;
    for (size_t i = top; i < n_lines; i++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, (int)(i - top), UI_DIM);
        for (size_t at = lines[i].from; at < lines[i].to;) {
            const ui_glyph g = ui_next_glyph(v->canvas, text.p + at, lines[i].to - at);
            p.role = at < chosen ? UI_DIM : at < written ? UI_CURSOR : UI_TEXT;
            ui_draw(&p, text.p + at, g.n);
            at += g.n;
        }
    }
    ui_pen p = ui_pen_at(v->canvas, v->area, v->area.rows - 1, UI_LABEL);
    ui_print(&p, "%zu token%s in %zu step%s", answer.n, ls_plural(answer.n), r->n_steps, ls_plural(r->n_steps));
    if (r->done) ui_print(&p, ", %s", r->finish ? ls_finish_name(r->finish) : "ended");
    if (r->done && ui_can_keep(s)) ui_print(&p, "; K: keep it");
    ui_right(v, "what if%s", r->done ? "" : ", running");
    free(lines);
    ls_buf_free(&text);
    ls_ids_free(&answer);
}

void ui_panel_compare(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ui_rival *r = &s->run.rival;
    if (!r->known || !s->run.n_steps) {
        ui_dim_line(v, s->given.watches     ? "requests are not raced"
                       : s->given.recording ? "'logitspec replay A B' compares two recordings"
                                            : "c: race plain decoding on the last prompt");
        return;
    }
    if (r->begun.n) {
        draw_fork(v);
        return;
    }
    const ui_turn *t = &s->run.turns[r->turn];
    const size_t n_own = ui_said(&s->run, t)->n_steps;
    point *own = course_of(s->run.steps + t->first_step, n_own), *other = course_of(r->steps, r->n_steps);
    const size_t view = ui_viewed_end(s) - t->first_step, n = view && view < n_own ? view : n_own;
    const point now = own[n], end = own[n_own], their_end = other[r->n_steps]; // now: at the viewed step
    const int32_t most = end.tokens > their_end.tokens ? end.tokens : their_end.tokens;
    const double their_us = time_of(other, r->n_steps, now.tokens);
    // the clock is the time of the viewed step; after both have ended, the end of the faster one: only its bar is full
    const bool over = r->done && now.tokens == end.tokens && now.us >= end.us;
    const double clock = over && their_end.us < now.us ? their_end.us : now.us;
    const bool they_ended = r->done && (over || their_end.us <= now.us);
    const double whole = most ? most : 1;
    const int32_t theirs = they_ended ? their_end.tokens : tokens_at(other, r->n_steps, now.us);
    lane(v, t->method, now.tokens, tokens_at(own, n_own, clock) / whole, now.us, now.tokens == end.tokens, UI_GOOD);
    lane(v, r->method, theirs, tokens_at(other, r->n_steps, clock) / whole, they_ended ? their_end.us : now.us,
         they_ended, UI_BAR);
    equality(v, t, end.tokens);
    const bool timed = !isnan(their_us) && now.us > 0;
    ui_pen p = race_line(v, "time");
    if (timed) {
        ui_print(&p, "%d token%s: %s %.2f s, %s%.2f in this race", now.tokens, ls_plural(now.tokens), r->method,
                 their_us / 1e6, ui_times(v->canvas), their_us / now.us);
        ui_end_clause(&p); // the method's name is the user's
        if (!strcmp(r->method, "plain")) ui_clause(&p, " (Stats: against plain steps that were timed one by one)");
    } else
        ui_print(&p, "%s has %d token%s%s", r->method, their_end.tokens, ls_plural(their_end.tokens),
                 r->done ? " in total" : " so far");
    p = race_line(v, "forwards");
    ui_print(&p, "%s %d%s, %s %d%s", t->method, now.forwards, now.tokens == end.tokens ? "" : " so far", r->method,
             their_end.forwards, r->done ? "" : " so far");
    if (timed && r->done) ui_right(v, "%s%.2f against %.40s", ui_times(v->canvas), their_us / now.us, r->method);
    else ui_right(v, "against %.40s%s", r->method, r->done ? "" : ", running");
    free(own);
    free(other);
}
