// Statistics of the viewed turn up to the viewed step. Every ratio names its denominator.
#include "ui/panels.h"
#include "base/err.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define N "%" PRIu64

enum { HISTORY = 512, BAR = 8, LABEL = 10 }; // BAR, LABEL: cells

// The last values that fit, one cell each, scaled to `max`; in ASCII as digits (+ for ten or more).
static void spark(ui_pen *p, int cells, const double *values, size_t n, double max) {
    static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t from = n > (size_t)cells ? n - (size_t)cells : 0;
    int start = p->col;
    for (size_t i = from; i < n; i++) {
        double v = values[i];
        if (p->canvas->ascii) {
            if (v >= 10) ui_print(p, "+");
            else ui_print(p, "%d", (int)v);
        } else ui_print(p, "%s", levels[max > 0 ? (int)fmin(7, fmax(0, ceil(v / max * 8) - 1)) : 0]);
    }
    ui_pad(p, start + cells);
}

// The last values that fit as bars over the rectangle's whole height: two a cell, four steps high (braille); in ASCII
// one a cell. Few values get wide bars.
static void graph(ui_canvas *c, ui_rect r, const double *values, size_t n, double max) {
    static const uint8_t dots[2][5] = {{0, 0x40, 0x44, 0x46, 0x47}, {0, 0x80, 0xA0, 0xB0, 0xB8}}; // 0..4 from below
    enum { WIDEST = 6 };
    const int a_cell = c->ascii ? 1 : 2, steps = c->ascii ? 2 : 4;
    const size_t room = (size_t)(r.cols * a_cell), from = n > room ? n - room : 0;
    const size_t wide = n && n < room ? (room / n > WIDEST ? WIDEST : room / n) : 1, end = (n - from) * wide;
    for (int row = 0; row < r.rows; row++) {
        ui_pen p = ui_pen_at(c, r, row, UI_BAR);
        for (size_t i = 0; i < end; i += (size_t)a_cell) {
            int units[2] = {0, 0}; // filled steps of the columns of this cell, from below
            for (size_t k = 0; k < (size_t)a_cell && i + k < end; k++) {
                const double high = max > 0 ? values[from + (i + k) / wide] / max * r.rows * steps : 0;
                const int over = (int)lround(fmin(high, 1e6)) - (r.rows - 1 - row) * steps;
                units[k] = over < 0 ? 0 : over > steps ? steps : over;
            }
            const int code = 0x2800 + dots[0][units[0]] + dots[1][units[1]];
            if (c->ascii || code == 0x2800) ui_print(&p, "%c", " :#"[units[0]]);
            else ui_print(&p, "%c%c%c", 0xE0 | code >> 12, 0x80 | (code >> 6 & 63), 0x80 | (code & 63));
        }
    }
}

// legend: names the denominator of the numbers after it; NULL: none.
static ui_pen stats_line(ui_panel_view *v, const char *label, const char *legend) {
    ui_pen p = ui_next_line(v, UI_LABEL);
    ui_print(&p, "%s", label);
    ui_pad(&p, v->area.col + LABEL);
    ui_end_clause(&p);
    p.role = UI_DIM;
    if (legend) ui_print(&p, "%s  ", legend);
    p.role = UI_TEXT;
    return p;
}

// The last steps of the viewed turn up to the viewed one.
typedef struct {
    double emitted[HISTORY], ms[HISTORY];
    double most_emitted, most_ms;
    size_t n;
} past;

static void remember(past *p, const ui_state *s, size_t n_most) {
    const size_t view = ui_viewed_index(s);
    size_t first = ui_turn_of(&s->run, view)->first_step;
    if (view + 1 - first > n_most) first = view + 1 - n_most;
    p->n = 0;
    p->most_emitted = p->most_ms = 0;
    for (size_t i = first; i < view + !ui_quiz_hides(s); i++, p->n++) {
        const ls_step *step = s->run.steps[i];
        p->emitted[p->n] = step->n_emitted;
        p->ms[p->n] = step->t_total_us / 1e3;
        p->most_emitted = fmax(p->most_emitted, p->emitted[p->n]);
        p->most_ms = fmax(p->most_ms, p->ms[p->n]);
    }
}

static void emitted_line(ui_panel_view *v, const ls_stats *st, const ls_step *step, const past *before) {
    ui_pen p = stats_line(v, "emitted", NULL);
    const int cells = v->area.cols - LABEL - 42;
    spark(ui_as(&p, UI_BAR), cells > 8 ? (cells < HISTORY ? cells : HISTORY) : 8, before->emitted, before->n,
          fmax(4, before->most_emitted));
    p.role = UI_TEXT;
    if (!ui_quiz_hides(v->state)) ui_print_numbers(&p, " now {%d},", step->n_emitted);
    ui_end_clause(&p);
    if (st->steps) ui_print_numbers(&p, " mean {%.2f} tokens/step (MAT)", ls_stats_mat(st));
}

static void draft_line(ui_panel_view *v, const ls_stats *st) {
    ui_pen p = stats_line(v, "drafts", NULL);
    ui_clause(&p, "{" N " of " N "} accepted", st->accepted, st->drafted);
    if (st->drafted) ui_clause(&p, " (%.0f%%)", 100.0 * (double)st->accepted / (double)st->drafted);
    if (ls_stats_repeats(st))
        ui_clause(&p, ", {%.0f%%} copied from this answer", 100.0 * (double)st->repeats.n / (double)st->repeats.of);
    ui_clause(&p, "; useful in {" N " of " N "} steps with drafts", st->steps_with_accept, st->steps_with_draft);
}

static void share(ui_pen *p, int cells, uint64_t n, uint64_t of) {
    ui_print(ui_as(p, UI_BAR), " ");
    if (cells > 0) ui_bar(p, cells, (double)n / (double)of);
    ui_clause(ui_as(p, UI_TEXT), N "  ", n);
}

// The paper's idea, measured on this text: how often the next-next token was among the last logits, and how many of the
// guesses were accepted.
static void next_next_line(ui_panel_view *v, const ls_stats *st) {
    const ls_ratio right = st->from[LS_SOURCE_LAST_LOGIT];
    const bool narrow = v->area.cols < 100;
    ui_pen p = stats_line(v, "next-next", st->next_next ? NULL : "in the top of the last logits: no data yet");
    if (!st->next_next) return;
    ui_print(ui_as(&p, UI_DIM), narrow ? "in the last logits' top 8: " : "token in the top 8 of the last logits: ");
    ui_clause(ui_as(&p, UI_TEXT), "{" N "} of " N " step%s, in the top 64: {" N "}", ls_stats_next_next_below(st, 8),
              st->next_next, ls_plural(st->next_next), ls_stats_next_next_below(st, LS_MAX_TOP));
    if (right.of) ui_clause(&p, "; guesses %s {" N " of " N "}", narrow ? "right" : "accepted:", right.n, right.of);
}

// The same by rank; if the line has no room for all ranks, the last ranks are one part.
static void next_next_ranks(ui_panel_view *v, const ls_stats *st) {
    enum { PART = 20, LAST = LS_MAX_TOP - 1 }; // cells of a part
    ui_pen p = stats_line(v, "its rank", "steps by rank of the next-next token:");
    const uint64_t beyond = st->next_next_rank[LS_MAX_TOP];
    uint64_t left = st->next_next - beyond;
    for (int r = 0; r <= LAST && left; r++) {
        uint64_t n = st->next_next_rank[r];
        if (!n) continue;
        ui_print(&p, "%d", r);
        if (n < left && p.end - p.col < 3 * PART) {
            ui_print(&p, "-%d", LAST);
            n = left;
        }
        share(&p, BAR, n, st->next_next);
        left -= n;
    }
    if (!beyond) return;
    ui_print(&p, ">%d", LAST);
    share(&p, BAR, beyond, st->next_next);
}

// Why paths ended.
static void miss_line(ui_panel_view *v, const ls_stats *st) {
    char whole[64];
    snprintf(whole, sizeof whole, "of " N " paths:", ls_stats_misses(st));
    ui_pen p = stats_line(v, "missed", whole);
    for (int m = 1; m < LS_MISS_COUNT; m++)
        if (st->misses[m]) ui_clause(&p, "%s " N "  ", ls_misses[m].label, st->misses[m]);
}

// The cost of missed tokens: steps that emitted nothing else.
static void miss_costs(ui_panel_view *v, const ls_stats *st) {
    ui_pen p = stats_line(v, "lost", "steps that emitted only the missed token:");
    for (int m = 1; m < LS_MISS_COUNT; m++)
        if (st->miss_steps[m])
            ui_clause(&p, "%s " N " (%.0f ms)  ", ls_misses[m].label, st->miss_steps[m], st->miss_us[m] / 1e3);
}

// What the previewed lossy rule would have done here.
static void preview_line(ui_panel_view *v, const ls_stats *st) {
    const int rule = v->state->view.preview;
    const uint64_t more = st->would_tokens[rule];
    ui_pen p = stats_line(v, "preview", ls_accept_at(rule)->name);
    ui_clause(&p, "would accept {" N " of " N "} rejected drafts: {" N "} more tokens", st->would_steps[rule],
              st->rejections, more);
    ui_clause(&p, "; MAT with them {%.2f}", ls_per((double)(st->emitted + more), st->steps));
}

static void source_line(ui_panel_view *v, const ls_stats *st) {
    ui_pen p = stats_line(v, "by source", "accepted/verified:");
    for (int f = 1; f < LS_SOURCE_COUNT; f++)
        if (st->from[f].of) ui_clause(&p, "%s " N "/" N "  ", ls_sources[f].label, st->from[f].n, st->from[f].of);
}

static void speed_line(ui_panel_view *v, const ls_stats *st, const ls_step *step) {
    ui_pen p = stats_line(v, "speed", NULL);
    ui_clause(&p, "{%.1f} tok/s", ls_stats_tokens_per_s(st));
    if (!(ls_stats_speedup(st) > 0)) {
        ui_clause(ui_as(&p, UI_DIM), "; plain decoding not measured yet");
        return;
    }
    const int sign = ls_stats_speedup_sign(st);
    ui_print_numbers(&p, "; plain {%.1f}", ls_stats_plain_tokens_per_s(st));
    if (st->plain_timed) ui_print(&p, " (%d timed in this run): ", st->plain_timed);
    else ui_print(&p, " (timed in this run): ");
    p.role = sign > 0 ? UI_GOOD : sign < 0 ? UI_BAD : UI_NUMBER;
    ui_clause(&p, "%s%s, %s", ui_times(p.canvas), ls_stats_speedup_text(st, p.canvas->ascii).s,
              ls_stats_speedup_verdict(st));
    p.role = UI_DIM;
    if (step->asked_rows <= 1) ui_clause(&p, "; no draft is worth its cost now");
    else ui_clause(&p, "; break-even MAT %.2f", ls_stats_break_even(st));
}

static void time_line(ui_panel_view *v, const ls_stats *st) {
    ui_pen p = stats_line(v, "time", NULL);
    const double n = st->steps ? (double)st->steps : 1, us = n * 1e3; // us / this: ms a step
    const double forwards = (st->device_us > 0 ? st->device_us : st->forward_us) + st->draft_forward_us + st->wait_us;
    const double part = st->total_us > 0 ? st->forward_us / st->total_us : 0;
    ui_print(&p, "%.2f ms/step: forward %.2f ", st->total_us / us, st->forward_us / us);
    if (st->device_us > 0) ui_print(&p, "(GPU %.2f) ", st->device_us / us);
    if (st->comm_us > 0)
        ui_print(&p, "(compute %.2f + other ranks %.2f) ", (st->forward_us - st->comm_us) / us, st->comm_us / us);
    ui_bar(ui_as(&p, UI_BAR), v->area.cols >= 110 ? 20 : 8, part);
    ui_clause(ui_as(&p, UI_TEXT), " %.0f%%", 100 * part);
    if (ls_stats_waited(st) > LS_BUSY)
        ui_clause(ui_as(&p, UI_BAD), ", busy machine: waited %.0f%% for a CPU", 100 * ls_stats_waited(st));
    ui_clause(ui_as(&p, UI_TEXT), ", draft %.3f", st->draft_us / us);
    if (st->draft_forwards || st->ahead_forwards) { // of the draft model
        ui_print(&p, " (%.1f forwards %.3f", (double)st->draft_forwards / n, st->draft_forward_us / us);
        if (st->ahead_forwards)
            ui_print(&p, "; %.1f ahead, waited %.3f", (double)st->ahead_forwards / n, st->wait_us / us);
        ui_clause(&p, ")");
    }
    if (st->probes)
        ui_clause(&p, ", %.1f probe rows (" N " of " N " choices changed)", (double)st->probes / n,
                  st->judged_otherwise, st->judged);
    ui_clause(&p, ", verify %.3f", st->verify_us / us);
    ui_clause(&p, ", commit %.3f", st->commit_us / us);
    ui_clause(&p, "; host %.1f%%", st->total_us > 0 ? 100 * (st->total_us - forwards) / st->total_us : 0);
}

// Of a mixture: what a forward reads depends on the experts that its rows take.
static void expert_line(ui_panel_view *v, const ls_stats *st) {
    const ls_run *r = &v->state->run.header;
    const ls_ratio took = ls_stats_experts(st);
    if (!took.of || !r->n_mixtures) return;
    const double mean = ls_per((double)took.n, took.of), one = r->n_mixtures * r->n_experts_used;
    ui_pen p = stats_line(v, "experts", NULL);
    ui_clause(&p, "{%.1f} of %d a forward (one row takes %.0f)", mean, r->n_mixtures * r->n_experts, one);
    ui_clause(&p, ": {x%.1f}", mean / one);
    ui_clause(&p, "; {%.1f} of %d a layer", mean / r->n_mixtures, r->n_experts);
    if (r->expert_bytes > 0) ui_clause(&p, "; {%.1f} MB", mean * (double)r->expert_bytes / 1e6);
    if (r->costs.expert_ms > 0) ui_clause(&p, ", {%.3f} ms each", r->costs.expert_ms);
    if (st->experts_kept.of)
        ui_clause(&p, "; {%.1f%%} were in memory", 100 * ls_per((double)st->experts_kept.n, st->experts_kept.of));
}

static void depth_line(ui_panel_view *v, const ls_stats *st) {
    ui_pen p = stats_line(v, "by depth", "of steps with a draft there:");
    for (int d = 1; d < LS_STATS_DEPTHS && st->depth[d].of; d++)
        ui_clause(&p, "%sd%d " N "/" N, d > 1 ? "  " : "", d, st->depth[d].n, st->depth[d].of);
}

static void rank_line(ui_panel_view *v, const ls_stats *st) {
    ui_pen p = stats_line(v, "by rank", "accepted/branches of that rank:");
    int shown = 0;
    for (int r = 0; r < LS_STATS_RANKS; r++)
        if (st->rank[r].of) ui_clause(&p, "%s#%d " N "/" N, shown++ ? "  " : "", r, st->rank[r].n, st->rank[r].of);
    if (!shown) ui_print(&p, "none yet");
}

// All lengths: their bars are as long as the line has room for.
static void length_line(ui_panel_view *v, const ls_stats *st) {
    enum { WITHOUT_BAR = 7 }; // cells of a length, its number of steps and blanks
    ui_pen p = stats_line(v, "lengths", "steps by tokens emitted:");
    int lengths = 0;
    for (int i = 1; i <= LS_STATS_HIST; i++) lengths += st->by_emitted[i] > 0;
    const int room = lengths ? (p.end - p.col) / lengths - WITHOUT_BAR : 0;
    for (int i = 1; i <= LS_STATS_HIST; i++) {
        if (!st->by_emitted[i]) continue;
        ui_print(&p, "%d", i);
        share(&p, room < BAR ? room : BAR, st->by_emitted[i], st->steps);
    }
}

// The cost of n rows as a multiple of one row: a tree of n rows is faster if the step emits more tokens than that.
static void cost_line(ui_panel_view *v, bool runs) {
    const ls_cost_curve *costs = &v->state->run.header.costs;
    const double *ms = costs->base_ms;
    if (ms[0] <= 0) return;
    ui_pen p = stats_line(v, "forward", NULL);
    // the curve that sizes trees: steps of this run may take other times
    ui_print_numbers(&p, "1 row {%.2f ms}%s", ms[0],
                     costs->given ? " (decode.costs); "
                     : runs       ? " (timed before); "
                                  : "; ");
    double x = 0;
    int rows = 0;
    const bool narrow = v->area.cols < 150;
    for (int i = 1; i < LS_COST_SIZES; i++) {
        const int n = ls_cost_rows[i];
        if (narrow && n != 4 && n != 8 && n != 16 && n != 64) continue;
        x = ms[i] / ms[0];
        ui_clause(&p, "%s%d%s x%.1f", rows ? ", " : "", n, rows ? "" : " rows", x);
        rows = n;
    }
    ui_clause(ui_as(&p, UI_DIM), "%s", rows ? " of one row" : "");
    if (rows) ui_clause(&p, ": %d rows break even at %.1f tokens/step", rows, x);
}

// Fills what is left of a large panel with one bar for each step.
static void graphs(ui_panel_view *v, const ls_stats *st, const past *b) {
    const ui_rect area = v->area;
    const int high = (area.rows - v->line - 2) / 2;
    if (high < 3 || !b->n) return;
    for (int which = 0; which < 2; which++) {
        const double *values = which ? b->ms : b->emitted, most = which ? b->most_ms : b->most_emitted;
        ui_pen p = stats_line(v, which ? "ms/step" : "tokens/step", NULL);
        ui_clause(&p, " now {%.*f}, highest {%.*f}", which, values[b->n - 1], which, most);
        if (which && st->plain_forwards)
            ui_clause(&p, "; a plain step takes %.1f (measured here)", ls_per(st->plain_us, st->plain_forwards) / 1e3);
        ui_clause(ui_as(&p, UI_DIM), "; one bar is one step");
        graph(v->canvas, (ui_rect){area.row + v->line, area.col, high, area.cols}, values, b->n, most);
        v->line += high;
    }
}

void ui_panel_stats(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ls_step *step = ui_viewed(s);
    if (!step) {
        if (s->run.has_header) cost_line(v, false);
        else ui_dim_line(v, "acceptance and speed");
        return;
    }
    const ls_stats *st = ui_stats(s, &v->drawn->statistics);
    past b;
    const size_t fits = (size_t)v->area.cols * 2;
    remember(&b, s, fits < HISTORY ? fits : HISTORY);
    emitted_line(v, st, step, &b);
    draft_line(v, st);
    next_next_line(v, st); // always: the smallest panel has three lines, and the title bar has the speed
    if (s->view.preview) preview_line(v, st);
    const bool loses = ls_stats_speedup_sign(st) < 0; // then the costs explain it, also where there is little room
    speed_line(v, st, step);
    time_line(v, st);
    expert_line(v, st);
    if (loses) cost_line(v, true);
    source_line(v, st);
    if (ls_stats_misses(st)) miss_line(v, st);
    depth_line(v, st);
    length_line(v, st);
    if (!loses) cost_line(v, true);
    rank_line(v, st);
    if (v->area.rows >= 24) {
        next_next_ranks(v, st);
        miss_costs(v, st);
    }
    graphs(v, st, &b);
    ui_right(v, N " step%s", st->steps, ls_plural(st->steps));
    if (st->forwards != st->steps) // an answer may end with a step of the root alone
        ui_right(v, " (" N " forward%s)", st->forwards, ls_plural(st->forwards));
    if (st->forwards)
        ui_right(v, ", %.1f rows on average", (double)(st->drafted + st->forwards) / (double)st->forwards);
    ui_right(v, ", %d n-gram%s", step->pool_size, ls_plural(step->pool_size));
}
