// Statistics of the viewed turn up to the viewed step. Every ratio names its denominator.
#include "ui/panels.h"
#include "ui/quiz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HISTORY = 512, BAR = 8 }; // BAR: cells of a bar

typedef struct {
    ui_panel_view *v;
    int row;
} out;

static ui_pen next_line(out *o, const char *label) {
    ui_pen p = ui_pen_at(o->v->canvas, o->v->area, o->row++, UI_LABEL);
    int col = p.col;
    ui_print(&p, "%s", label);
    ui_pad(&p, col + 10);
    ui_end_clause(&p);
    p.role = UI_TEXT;
    return p;
}

static void number(ui_pen *p, const char *before, const char *value, const char *after) {
    p->role = UI_TEXT;
    ui_print(p, "%s", before);
    p->role = UI_NUMBER;
    ui_print(p, "%s", value);
    p->role = UI_TEXT;
    ui_print(p, "%s", after);
}

// The last steps of the viewed turn up to the viewed one.
typedef struct {
    double emitted[HISTORY], ms[HISTORY];
    double most_emitted, most_ms;
    size_t n;
} past;

static void remember(past *p, const ui_state *s, size_t n_most) {
    const size_t view = ui_viewed_index(s);
    size_t first = ui_turn_of(s, view)->first_step;
    if (view + 1 - first > n_most) first = view + 1 - n_most;
    p->n = 0;
    p->most_emitted = p->most_ms = 0;
    for (size_t i = first; i < view + !ui_quiz_hides(s); i++, p->n++) {
        const ls_step *step = ui_step(s, i);
        p->emitted[p->n] = step->n_emitted;
        p->ms[p->n] = step->t_total_us / 1e3;
        p->most_emitted = fmax(p->most_emitted, p->emitted[p->n]);
        p->most_ms = fmax(p->most_ms, p->ms[p->n]);
    }
}

static void emitted_line(out *o, const ls_stats *st, const ls_step *step, const past *before) {
    ui_pen p = next_line(o, "emitted");
    const int cells = o->v->area.cols - 10 - 42;
    p.role = UI_BAR;
    ui_spark(&p, cells > 8 ? (cells < HISTORY ? cells : HISTORY) : 8, before->emitted, before->n,
             fmax(4, before->most_emitted));
    char a[16], b[16];
    snprintf(a, sizeof a, "%d", step->n_emitted);
    snprintf(b, sizeof b, "%.2f", ls_stats_mat(st));
    if (!ui_quiz_hides(o->v->state)) number(&p, " now ", a, ",");
    ui_end_clause(&p);
    if (st->steps) number(&p, " mean ", b, " tokens/step (MAT)");
}

static void draft_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "drafts");
    char a[64];
    snprintf(a, sizeof a, "%llu of %llu", (unsigned long long)st->accepted, (unsigned long long)st->drafted);
    number(&p, "", a, " accepted");
    ui_end_clause(&p);
    if (st->drafted) ui_print(&p, " (%.0f%%)", 100.0 * (double)st->accepted / (double)st->drafted);
    ui_end_clause(&p);
    if (ls_stats_repeats(st)) {
        snprintf(a, sizeof a, "%.0f%%", 100.0 * (double)st->repeats.n / (double)st->repeats.of);
        number(&p, ", ", a, " copied from this answer");
        ui_end_clause(&p);
    }
    snprintf(a, sizeof a, "%llu of %llu", (unsigned long long)st->steps_with_accept,
             (unsigned long long)st->steps_with_draft);
    number(&p, "; useful in ", a, " steps with drafts");
    ui_end_clause(&p);
}

static void legend(ui_pen *p, const char *text) { // names the denominator of the numbers after it
    p->role = UI_DIM;
    ui_print(p, "%s  ", text);
    p->role = UI_TEXT;
}

static void share(ui_pen *p, int cells, uint64_t n, uint64_t of) {
    p->role = UI_BAR;
    ui_print(p, " ");
    if (cells > 0) ui_bar(p, cells, (double)n / (double)of);
    p->role = UI_TEXT;
    ui_print(p, "%llu  ", (unsigned long long)n);
    ui_end_clause(p);
}

// The paper's idea, measured on this text: how often the next-next token was among the last logits, and how many of the
// guesses were accepted.
static void next_next_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "next-next");
    const ls_ratio right = st->from[LS_FROM_LAST_LOGIT];
    const bool narrow = o->v->area.cols < 100;
    char n[64];
    if (!st->next_next) {
        legend(&p, "in the top of the last logits: no data yet");
        return;
    }
    p.role = UI_DIM;
    ui_print(&p, narrow ? "in the last logits' top 8: " : "token in the top 8 of the last logits: ");
    snprintf(n, sizeof n, "%llu", (unsigned long long)ls_stats_next_next_below(st, 8));
    number(&p, "", n, "");
    ui_print(&p, " of %llu step%s", (unsigned long long)st->next_next, ls_plural(st->next_next));
    snprintf(n, sizeof n, "%llu", (unsigned long long)ls_stats_next_next_below(st, LS_MAX_TOP));
    number(&p, ", in the top 64: ", n, "");
    ui_end_clause(&p);
    snprintf(n, sizeof n, "%llu of %llu", (unsigned long long)right.n, (unsigned long long)right.of);
    if (right.of) number(&p, narrow ? "; guesses right " : "; guesses accepted: ", n, "");
    ui_end_clause(&p);
}

// The same by rank; if the line has no room for all ranks, the last ranks are one part.
static void next_next_ranks(out *o, const ls_stats *st) {
    enum { PART = 20, LAST = LS_MAX_TOP - 1 }; // cells of a part
    ui_pen p = next_line(o, "its rank");
    const uint64_t beyond = st->next_next_rank[LS_MAX_TOP];
    uint64_t left = st->next_next - beyond;
    legend(&p, "steps by rank of the next-next token:");
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
static void miss_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "missed");
    const uint64_t n = ls_stats_misses(st);
    char whole[64];
    snprintf(whole, sizeof whole, "of %llu paths:", (unsigned long long)n);
    legend(&p, whole);
    for (int m = 1; m < LS_MISS_COUNT; m++)
        if (st->misses[m]) {
            ui_print(&p, "%s %llu  ", ls_misses[m].label, (unsigned long long)st->misses[m]);
            ui_end_clause(&p);
        }
}

// The cost of missed tokens: steps that emitted nothing else.
static void miss_costs(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "lost");
    legend(&p, "steps that emitted only the missed token:");
    for (int m = 1; m < LS_MISS_COUNT; m++)
        if (st->miss_steps[m]) {
            ui_print(&p, "%s %llu (%.0f ms)  ", ls_misses[m].label, (unsigned long long)st->miss_steps[m],
                     st->miss_us[m] / 1e3);
            ui_end_clause(&p);
        }
}

// What the previewed lossy rule would have done here.
static void preview_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "preview");
    const int rule = o->v->state->preview;
    char n[32];
    legend(&p, ls_accept_at(rule)->name);
    snprintf(n, sizeof n, "%llu of %llu", (unsigned long long)st->would_steps[rule],
             (unsigned long long)st->rejections);
    number(&p, "would accept ", n, " rejected drafts: ");
    snprintf(n, sizeof n, "%llu", (unsigned long long)st->would_tokens[rule]);
    number(&p, "", n, " more tokens");
    ui_end_clause(&p);
    ui_print(&p, "; MAT with them ");
    snprintf(n, sizeof n, "%.2f", ls_per((double)(st->emitted + st->would_tokens[rule]), st->steps));
    number(&p, "", n, "");
    ui_end_clause(&p);
}

static void source_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "by source");
    legend(&p, "accepted/verified:");
    for (int f = 1; f < LS_FROM_COUNT; f++)
        if (st->from[f].of) {
            ui_print(&p, "%s %llu/%llu  ", ls_from_label((ls_from)f), (unsigned long long)st->from[f].n,
                     (unsigned long long)st->from[f].of);
            ui_end_clause(&p);
        }
}

static void speed_line(out *o, const ls_stats *st, const ls_step *step) {
    ui_pen p = next_line(o, "speed");
    char a[32], b[32];
    snprintf(a, sizeof a, "%.1f", ls_stats_tokens_per_s(st));
    number(&p, "", a, " tok/s");
    ui_end_clause(&p);
    if (ls_stats_speedup(st) > 0) {
        const int sign = ls_stats_speedup_sign(st);
        snprintf(a, sizeof a, "%.1f", ls_stats_ar_tokens_per_s(st));
        if (st->ar_timed) snprintf(b, sizeof b, " (%d timed in this run): ", st->ar_timed);
        else snprintf(b, sizeof b, " (timed in this run): ");
        number(&p, "; plain ", a, b);
        p.role = sign > 0 ? UI_GOOD : sign < 0 ? UI_BAD : UI_NUMBER;
        ui_print(&p, "%s%s, %s", p.canvas->ascii ? "x" : "×", ls_stats_speedup_text(st, p.canvas->ascii).s,
                 ls_stats_speedup_verdict(st));
        ui_end_clause(&p);
        p.role = UI_DIM;
        if (step->budget <= 1) ui_print(&p, "; no draft is worth its cost now");
        else { // tokens that plain decoding emits in the time of a step
            const double even = ls_per(st->total_us, st->steps) / ls_per(st->ar_us, st->ar_forwards);
            ui_print(&p, "; break-even MAT %.2f", even);
        }
    } else {
        p.role = UI_DIM;
        ui_print(&p, "; plain decoding not measured yet");
    }
    ui_end_clause(&p);
}

static void time_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "time");
    double n = st->steps ? (double)st->steps : 1, ms = st->total_us / n / 1e3;
    const double forwards = (st->device_us > 0 ? st->device_us : st->forward_us) + st->draft_forward_us + st->wait_us,
                 host = st->total_us - forwards;
    ui_print(&p, "%.2f ms/step: forward %.2f ", ms, st->forward_us / n / 1e3);
    if (st->device_us > 0) ui_print(&p, "(GPU %.2f) ", st->device_us / n / 1e3);
    if (st->comm_us > 0)
        ui_print(&p, "(compute %.2f + other ranks %.2f) ", (st->forward_us - st->comm_us) / n / 1e3,
                 st->comm_us / n / 1e3);
    p.role = UI_BAR;
    ui_bar(&p, o->v->area.cols >= 110 ? 20 : 8, st->total_us > 0 ? st->forward_us / st->total_us : 0);
    p.role = UI_TEXT;
    ui_print(&p, " %.0f%%", st->total_us > 0 ? 100 * st->forward_us / st->total_us : 0);
    ui_end_clause(&p);
    if (ls_stats_waited(st) > LS_BUSY) {
        p.role = UI_BAD;
        ui_print(&p, ", busy machine: waited %.0f%% for a CPU", 100 * ls_stats_waited(st));
        ui_end_clause(&p);
        p.role = UI_TEXT;
    }
    ui_print(&p, ", draft %.3f", st->draft_us / n / 1e3);
    ui_end_clause(&p);
    if (st->draft_forwards || st->ahead_forwards) { // of the draft model
        ui_print(&p, " (%.1f forwards %.3f", (double)st->draft_forwards / n, st->draft_forward_us / n / 1e3);
        if (st->ahead_forwards)
            ui_print(&p, "; %.1f ahead, waited %.3f", (double)st->ahead_forwards / n, st->wait_us / n / 1e3);
        ui_print(&p, ")");
        ui_end_clause(&p);
    }
    if (st->probes) {
        ui_print(&p, ", %.1f probe rows (%llu of %llu choices changed)", (double)st->probes / n,
                 (unsigned long long)st->judged_otherwise, (unsigned long long)st->judged);
        ui_end_clause(&p);
    }
    ui_print(&p, ", verify %.3f", st->verify_us / n / 1e3);
    ui_end_clause(&p);
    ui_print(&p, ", commit %.3f", st->commit_us / n / 1e3);
    ui_end_clause(&p);
    ui_print(&p, "; host %.1f%%", st->total_us > 0 ? 100 * host / st->total_us : 0);
    ui_end_clause(&p);
}

static void depth_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "by depth");
    legend(&p, "of steps with a draft there:");
    for (int d = 1; d < LS_STATS_DEPTHS && st->depth[d].of; d++) {
        ui_print(&p, "%sd%d %llu/%llu", d > 1 ? "  " : "", d, (unsigned long long)st->depth[d].n,
                 (unsigned long long)st->depth[d].of);
        ui_end_clause(&p);
    }
}

static void rank_line(out *o, const ls_stats *st) {
    ui_pen p = next_line(o, "by rank");
    int shown = 0;
    legend(&p, "accepted/branches of that rank:");
    for (int r = 0; r < LS_STATS_RANKS; r++) {
        if (!st->rank[r].of) continue;
        ui_print(&p, "%s#%d %llu/%llu", shown++ ? "  " : "", r, (unsigned long long)st->rank[r].n,
                 (unsigned long long)st->rank[r].of);
        ui_end_clause(&p);
    }
    if (!shown) ui_print(&p, "none yet");
}

// All lengths: their bars are as long as the line has room for.
static void length_line(out *o, const ls_stats *st) {
    enum { WITHOUT_BAR = 7 }; // cells of a length, its number of steps and blanks
    ui_pen p = next_line(o, "lengths");
    int lengths = 0;
    for (int i = 1; i <= LS_STATS_HIST; i++) lengths += st->by_emitted[i] > 0;
    legend(&p, "steps by tokens emitted:");
    const int room = lengths ? (p.end - p.col) / lengths - WITHOUT_BAR : 0;
    for (int i = 1; i <= LS_STATS_HIST; i++) {
        if (!st->by_emitted[i]) continue;
        ui_print(&p, "%d", i);
        share(&p, room < BAR ? room : BAR, st->by_emitted[i], st->steps);
    }
}

// The cost of n rows as a multiple of one row: a tree of n rows is faster if the step emits more tokens than that.
static void cost_line(out *o, bool runs) {
    const double *ms = o->v->state->header.costs.base_ms;
    if (ms[0] <= 0) return;
    ui_pen p = next_line(o, "forward");
    char a[32];
    snprintf(a, sizeof a, "%.2f ms", ms[0]);
    // the curve that sizes trees: steps of this run may take other times
    number(&p, "1 row ", a, o->v->state->header.costs.given ? " (decode.costs); " : runs ? " (timed before); " : "; ");
    double x = 0;
    int rows = 0;
    const bool narrow = o->v->area.cols < 150;
    for (int i = 1; i < LS_COST_SIZES; i++) {
        const int n = ls_cost_rows[i];
        if (narrow && n != 4 && n != 8 && n != 16 && n != 64) continue;
        x = ms[i] / ms[0];
        ui_print(&p, "%s%d%s x%.1f", rows ? ", " : "", n, rows ? "" : " rows", x);
        ui_end_clause(&p);
        rows = n;
    }
    p.role = UI_DIM;
    if (rows) ui_print(&p, " of one row");
    ui_end_clause(&p);
    if (rows) ui_print(&p, ": %d rows break even at %.1f tokens/step", rows, x);
    ui_end_clause(&p);
}

// Fills what is left of a large panel with one bar for each step.
static void graphs(out *o, const ls_stats *st, const past *b) {
    const ui_rect area = o->v->area;
    const int high = (area.rows - o->row - 2) / 2;
    char a[32], most[32];
    if (high < 3 || !b->n) return;
    for (int which = 0; which < 2; which++) {
        ui_pen p = next_line(o, which ? "ms/step" : "tokens/step");
        snprintf(a, sizeof a, which ? "%.1f" : "%.0f", which ? b->ms[b->n - 1] : b->emitted[b->n - 1]);
        snprintf(most, sizeof most, which ? "%.1f" : "%.0f", which ? b->most_ms : b->most_emitted);
        number(&p, " now ", a, "");
        number(&p, ", highest ", most, "");
        ui_end_clause(&p);
        if (which && st->ar_forwards)
            ui_print(&p, "; a plain step takes %.1f (measured here)", ls_per(st->ar_us, st->ar_forwards) / 1e3);
        ui_end_clause(&p);
        p.role = UI_DIM;
        ui_print(&p, "; one bar is one step");
        ui_end_clause(&p);
        ui_graph(o->v->canvas, (ui_rect){area.row + o->row, area.col, high, area.cols}, which ? b->ms : b->emitted,
                 b->n, which ? b->most_ms : b->most_emitted);
        o->row += high;
    }
}

void ui_panel_stats(ui_panel_view *v) {
    ui_state *s = v->state;
    const ls_step *step = ui_viewed(s);
    out o = {v, 0};
    if (!step) {
        if (s->has_header) cost_line(&o, false);
        else {
            ui_pen p = ui_pen_at(v->canvas, v->area, 0, UI_DIM);
            ui_print(&p, "acceptance and speed");
        }
        return;
    }
    const ls_stats *st = ui_stats(s);
    past b;
    const size_t fits = (size_t)v->area.cols * 2;
    remember(&b, s, fits < HISTORY ? fits : HISTORY);
    emitted_line(&o, st, step, &b);
    draft_line(&o, st);
    next_next_line(&o, st); // always: the smallest panel has three lines, and the title bar has the speed
    if (s->preview) preview_line(&o, st);
    const int rows = v->area.rows;
    if (o.row < rows) speed_line(&o, st, step);
    if (o.row < rows) time_line(&o, st);
    const bool loses = ls_stats_speedup_sign(st) < 0; // then the costs explain it, also where there is little room
    if (loses && o.row < rows) cost_line(&o, true);
    if (o.row < rows) source_line(&o, st);
    if (o.row < rows && ls_stats_misses(st)) miss_line(&o, st);
    if (o.row < rows) depth_line(&o, st);
    if (o.row < rows) length_line(&o, st);
    if (!loses && o.row < rows) cost_line(&o, true);
    if (o.row < rows) rank_line(&o, st);
    if (rows >= 24) {
        next_next_ranks(&o, st);
        miss_costs(&o, st);
    }
    graphs(&o, st, &b);
    int n = snprintf(v->right, UI_RIGHT_BYTES, "%llu step%s", (unsigned long long)st->steps, ls_plural(st->steps));
    if (st->forwards != st->steps) // an answer may end with a step of the root alone
        n += snprintf(v->right + n, (size_t)(UI_RIGHT_BYTES - n), " (%llu forward%s)", (unsigned long long)st->forwards,
                      ls_plural(st->forwards));
    if (st->forwards)
        n += snprintf(v->right + n, (size_t)(UI_RIGHT_BYTES - n), ", %.1f rows on average",
                      (double)(st->drafted + st->forwards) / (double)st->forwards);
    snprintf(v->right + n, (size_t)(UI_RIGHT_BYTES - n), ", %d n-gram%s", step->pool_size, ls_plural(step->pool_size));
}
