// The race with another method on the same prompt: the recorded times of both on one clock, and whether the texts are
// equal.
#include "ui/panels.h"
#include "ui/words.h"
#include "base/mem.h"
#include "base/err.h"

#include <math.h>
#include <stdio.h>
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

// How an answer came about: after each step the time that had passed, and the tokens until then.
typedef struct {
    double *us;
    int32_t *tokens;
    size_t n;
} course;

static course course_of(const ui_state *s, const ui_turn *t) {
    course c = {ls_calloc(t->n_steps + 1, sizeof *c.us), ls_calloc(t->n_steps + 1, sizeof *c.tokens), t->n_steps};
    for (size_t i = 0; i < c.n; i++) {
        c.us[i] = (i ? c.us[i - 1] : 0) + ui_step(s, t->first_step + i)->t_total_us;
        c.tokens[i] = (i ? c.tokens[i - 1] : 0) + ui_step(s, t->first_step + i)->n_emitted;
    }
    return c;
}

// Tokens that were emitted `us` after the first step began.
static int32_t tokens_at(const course *c, double us) {
    int32_t n = 0;
    for (size_t i = 0; i < c->n && c->us[i] <= us; i++) n = c->tokens[i];
    return n;
}

// The time at which there were that many tokens; NAN: not yet.
static double time_of(const course *c, int32_t tokens) {
    for (size_t i = 0; i < c->n; i++)
        if (c->tokens[i] >= tokens) return c->us[i];
    return (double)NAN;
}

// tokens: those emitted until `us`, or all if it is done; share: filled part of the bar, 0 to 1.
static void lane(ui_panel_view *v, const char *name, int32_t tokens, double share, double us, bool done, ui_role role) {
    ui_pen p = race_line(v, name);
    const int room = v->area.cols - LABEL - 26;
    p.role = role;
    ui_bar(&p, room > 4 ? room : 4, share);
    p.role = UI_TEXT;
    ui_print(&p, " %5d token%s %s %.2f s", tokens, ls_plural(tokens), done ? "in" : "at", us / 1e6);
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
    const int32_t n = mine < (int32_t)r->text.n ? mine : (int32_t)r->text.n;
    int32_t same = 0;
    double closest = 2;
    int32_t at = 0;
    choice c = {0};
    bool equal = true;
    for (size_t i = t->first_step; i < t->first_step + t->n_steps && equal && same < n; i++) {
        const ls_step *step = ui_step(s, i);
        for (int k = 0; k < step->n_emitted && equal && same < n; k++) {
            c = choice_of(step, k);
            equal = c.id == r->text.p[same];
            if (equal && c.gap < closest) closest = c.gap, at = same;
            same += equal;
        }
    }
    ui_pen p = race_line(v, "text");
    if (same < n) {
        p.role = UI_BAD;
        ui_print(&p, "differs from token %d on: ", same);
        p.role = UI_TEXT;
        ui_print(&p, "%s ", t->method);
        ui_draw_token(&p, s, c.id);
        ui_print(&p, ", %s ", r->method);
        ui_draw_token(&p, s, r->text.p[same]);
        ui_end_clause(&p);
        ui_draw_prob(&p, "; p", c.p);
        ui_end_clause(&p);
        if (!isnan(c.gap)) ui_clause(&p, ", %.3f above the second token", c.gap);
        return;
    }
    p.role = UI_GOOD;
    ui_print(&p, "the same, %d of %d tokens%s", same,
             r->done ? (mine > (int32_t)r->text.n ? mine : (int32_t)r->text.n) : mine, r->done ? "" : " so far");
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
    const int32_t answer = t->first_id + t->n_ids, end = answer + r->at,
                  from = end - BEFORE > answer - t->n_begun ? end - BEFORE : answer - t->n_begun;
    ls_buf text = {0};
    size_t n_lines;
    if ((size_t)end <= s->run.context.n) add_tokens(s, s->run.context.p + from, (size_t)(end - from), &text);
    const size_t chosen = text.n;
    add_tokens(s, r->begun.p, r->begun.n, &text);
    const size_t written = text.n;
    add_tokens(s, r->text.p, r->text.n, &text);
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
    ui_print(&p, "%zu token%s in %zu step%s", r->text.n, ls_plural(r->text.n), r->n_steps, ls_plural(r->n_steps));
    if (r->done) ui_print(&p, ", %s", r->finish ? ls_finish_name(r->finish) : "ended");
    if (r->done && ui_can_keep(s)) ui_print(&p, "; K: keep it");
    ui_right(v, "what if%s", r->done ? "" : ", running");
    free(lines);
    ls_buf_free(&text);
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
    if (r->forks) {
        draw_fork(v);
        return;
    }
    const ui_turn *t = &s->run.turns[r->turn];
    const course own = course_of(s, t), other = {r->us, r->tokens.p, r->n_steps};
    const size_t view = ui_viewed_end(s) - 1 - t->first_step,
                 n = view < own.n ? view + 1 : own.n; // steps up to the viewed one
    int32_t forwards = 0;
    for (size_t i = 0; i < n; i++) forwards += ui_step(s, t->first_step + i)->forward;
    const double us = n ? own.us[n - 1] : 0, all_us = own.n ? own.us[own.n - 1] : 0;
    const int32_t mine = n ? own.tokens[n - 1] : 0, all = own.n ? own.tokens[own.n - 1] : 0;
    const int32_t in_all = (int32_t)r->text.n, most = all > in_all ? all : in_all;
    const double their_us = time_of(&other, mine), their_end = r->n_steps ? r->us[r->n_steps - 1] : 0;
    // the clock is the time of the viewed step; after both have ended, the end of the faster one: only its bar is full
    const bool over = r->done && mine == all && us >= all_us;
    const double clock = over && their_end < us ? their_end : us;
    const bool they_ended = r->done && (over || their_end <= us);
    const double whole = most ? most : 1;
    const int32_t theirs = they_ended ? in_all : tokens_at(&other, us);
    lane(v, t->method, mine, tokens_at(&own, clock) / whole, us, mine == all, UI_GOOD);
    lane(v, r->method, theirs, tokens_at(&other, clock) / whole, they_ended ? their_end : us, they_ended, UI_BAR);
    equality(v, t, all);
    const bool timed = !isnan(their_us) && us > 0;
    ui_pen p = race_line(v, "time");
    if (timed) {
        ui_print(&p, "%d token%s: %s %.2f s, %s%.2f in this race", mine, ls_plural(mine), r->method, their_us / 1e6,
                 ui_times(v->canvas), their_us / us);
        ui_end_clause(&p); // the method's name is the user's
        if (!strcmp(r->method, "plain")) ui_clause(&p, " (Stats: against plain steps that were timed one by one)");
    } else
        ui_print(&p, "%s has %zu token%s%s", r->method, r->text.n, ls_plural(r->text.n),
                 r->done ? " in total" : " so far");
    p = race_line(v, "forwards");
    ui_print(&p, "%s %d%s, %s %zu%s", t->method, forwards, mine == all ? "" : " so far", r->method, r->forwards,
             r->done ? "" : " so far");
    if (timed && r->done) ui_right(v, "%s%.2f against %.40s", ui_times(v->canvas), their_us / us, r->method);
    else ui_right(v, "against %.40s%s", r->method, r->done ? "" : ", running");
    free(own.us);
    free(own.tokens);
}
