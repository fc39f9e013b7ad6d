// `diff A B` compares two recordings of the same prompt: where the texts diverge, and the steps and times by region.
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "report/markup.h"
#include "report/report.h"
#include "report/table.h"
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8, QUOTED = 48, REGIONS = 8 };

// The text between two adjacent positions where both methods began a step.
typedef struct {
    size_t from, to; // output positions
    int steps[2], accepted[2];
    double ms[2];
} stretch;

// Fills out with the stretches of the shared text (its first `same` tokens); returns their number.
static size_t stretches(const ls_report_turn *x[2], size_t same, stretch *out) {
    size_t n = 0, at[2] = {0, 0}, done[2] = {0, 0}; // steps taken, tokens emitted
    stretch now = {0};
    while (done[0] < same || done[1] < same) {
        const int k = done[0] <= done[1] ? 0 : 1; // advances the method that has emitted less
        if (at[k] == x[k]->n_steps) break;
        const ls_report_step *s = &x[k]->steps[at[k]++];
        now.steps[k]++;
        now.accepted[k] += s->n_emitted - 1;
        now.ms[k] += (double)s->total_us / 1e3;
        done[k] += (size_t)s->n_emitted;
        if (done[0] == done[1] && done[0] <= same) { // both are at a step border: the stretch ends
            now.to = done[0];
            out[n++] = now;
            now = (stretch){.from = now.to};
        }
    }
    return n;
}

static int by_difference(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    const int dx = abs(x->steps[0] - x->steps[1]), dy = abs(y->steps[0] - y->steps[1]);
    return dx != dy ? dy - dx : (x->from > y->from) - (x->from < y->from);
}

static void quote(const ls_report_turn *x, size_t from, size_t to, ls_buf *out) {
    ls_buf text = {0};
    for (size_t i = from; i < to && text.n < QUOTED; i++) ls_label_token(&text, x->tokens, x->text[i].draft.token);
    ls_sanitize_line(out, text.p, text.n);
    if (text.n >= QUOTED) ls_buf_str(out, "...");
    ls_buf_free(&text);
}

static void describe(const ls_report_turn *x, char name, ls_buf *out) {
    const ls_stats *st = &x->stats;
    ls_sanitize_row(
        out,
        "%c  %s: %s on %s, %s; %llu token%s in %llu step%s, MAT %.2f, %llu of %llu drafts accepted, %.1f ms "
        "(%.0f tokens/s)",
        name, x->file, x->header.run.model, x->header.run.device, x->header.run.method, (unsigned long long)st->emitted,
        ls_plural(st->emitted), (unsigned long long)st->steps, ls_plural(st->steps), ls_stats_mat(st),
        (unsigned long long)st->accepted, (unsigned long long)st->drafted, st->total_us / 1e3,
        ls_stats_tokens_per_s(st));
}

static stretch sum(const stretch *all, size_t n) {
    stretch total = n ? (stretch){.from = all[0].from, .to = all[n - 1].to} : (stretch){0};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            total.steps[k] += all[i].steps[k];
            total.accepted[k] += all[i].accepted[k];
            total.ms[k] += all[i].ms[k];
        }
    return total;
}

static void put_row(const ls_report_turn *x, const stretch *s, ls_table *t) {
    const double tokens = (double)(s->to - s->from);
    ls_buf text = {0};
    quote(x, s->from, s->to, &text);
    ls_table_row(t);
    ls_put(t, "output tokens", NULL, -13, "%zu-%zu", s->from, s->to - 1);
    ls_put_whole(t, "A steps", NULL, 8, s->steps[0]);
    ls_put_whole(t, "B steps", NULL, 8, s->steps[1]);
    ls_put_number(t, "A MAT", NULL, 6, 2, tokens / s->steps[0]);
    ls_put_number(t, "B MAT", NULL, 6, 2, tokens / s->steps[1]);
    ls_put_number(t, "A ms", NULL, 9, 2, s->ms[0]);
    ls_put_number(t, "B ms", NULL, 9, 2, s->ms[1]);
    ls_put(t, "text", NULL, 0, "%s", text.n ? text.p : "");
    ls_buf_free(&text);
}

static void show(const char *what, ls_table *t, ls_buf *out) {
    if (ls_table_rows(t)) ls_buf_fmt(out, "\n%s\n", what);
    ls_table_show(t, LS_FORM_TEXT, out);
}

// Cuts the text into parts of about the same number of tokens, at places where both methods began a step.
static ls_table regions(const ls_report_turn *x, const stretch *all, size_t n) {
    const size_t tokens = n ? all[n - 1].to : 0;
    ls_table t = {0};
    for (size_t first = 0, i = 0, part = 1; i < n; i++) {
        if (all[i].to * REGIONS < tokens * part) continue;
        const stretch s = sum(all + first, i + 1 - first);
        put_row(x, &s, &t);
        first = i + 1;
        while (all[i].to * REGIONS >= tokens * part) part++;
    }
    return t;
}

static ls_table differences(const ls_report_turn *x, stretch *all, size_t n) {
    ls_table t = {0};
    qsort(all, n, sizeof *all, by_difference);
    for (size_t i = 0; i < n && i < SHOWN && all[i].steps[0] != all[i].steps[1]; i++) put_row(x, &all[i], &t);
    return t;
}

static void compare(const ls_report_turn *x[2], ls_buf *out) {
    const size_t same = ls_report_same_text(x[0], x[1]);
    describe(x[0], 'A', out);
    describe(x[1], 'B', out);
    const int columns = ls_columns(STDOUT_FILENO);
    const size_t words = ls_wrap(out, 0, columns, 3);
    if (x[0]->n_text == same && x[1]->n_text == same)
        ls_buf_fmt(out, "\nthe texts are equal, %zu token%s\n", same, ls_plural(same));
    else {
        ls_buf_fmt(out, "\nthe texts differ from output token %zu on: A ", same);
        for (int k = 0; k < 2; k++) {
            if (k) ls_buf_str(out, ", B ");
            if (same >= x[k]->n_text) ls_buf_str(out, "has ended");
            else {
                quote(x[k], same, same + 1, out);
                if (!isnan(x[k]->text[same].p)) ls_buf_fmt(out, " (p %.3f)", (double)x[k]->text[same].p);
            }
        }
        ls_buf_char(out, '\n');
    }
    stretch *all = ls_calloc(same + 1, sizeof *all);
    const size_t n = stretches(x, same, all);
    size_t ahead[2] = {0, 0}, alone[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        if (all[i].steps[0] != all[i].steps[1]) ahead[all[i].steps[0] < all[i].steps[1] ? 0 : 1]++;
        for (int k = 0; k < 2; k++) alone[k] += all[i].accepted[k] && !all[i].accepted[1 - k];
    }
    const stretch total = sum(all, n);
    ls_buf_fmt(out,
               "steps of both methods begin at %zu common positions; between two of them, A took fewer steps %zu "
               "times, B %zu times;\nonly A had accepted drafts %zu times, only B %zu times\n"
               "time for the shared text: A %.1f ms, B %.1f ms (B / A %.2f)\n",
               n, ahead[0], ahead[1], alone[0], alone[1], total.ms[0], total.ms[1],
               total.ms[0] > 0 ? total.ms[1] / total.ms[0] : 0);
    const size_t tables = ls_wrap(out, words, columns, 0);
    ls_table parts = regions(x[0], all, n), largest = differences(x[0], all, n);
    show("by region", &parts, out);
    show("largest differences", &largest, out);
    ls_wrap(out, tables, columns, 67);
    free(all);
}

static ls_code load(ls_report *r, const ls_command_line *c, const ls_report_turn *x[2], ls_err *err) {
    size_t first[2];
    for (int k = 0; k < 2; k++) {
        r->gaps = (ls_trace_gaps){0};
        first[k] = r->n_turns;
        const ls_code code = ls_report_add(r, c->args[k], NULL, NULL, err);
        if (code) return code;
        if (r->n_turns == first[k] || !r->turns[first[k]].n_steps)
            return ls_fail(err, LS_E_RANGE, "%s: the trace has no steps", c->args[k]);
        ls_warn_of_gaps(&r->gaps, c->args[k]);
    }
    for (int k = 0; k < 2; k++) x[k] = &r->turns[first[k]]; // ls_report_add moves the turns
    const ls_ids *a = &x[0]->header.prompt, *b = &x[1]->header.prompt;
    if (a->n != b->n || memcmp(a->p, b->p, a->n * sizeof *a->p))
        return ls_fail(err, LS_E_USAGE, "%s and %s have different prompts", c->args[0], c->args[1]);
    return LS_OK;
}

ls_code ls_cmd_diff(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_report r = {0};
    const ls_report_turn *x[2];
    if (c->n_args != 2) return ls_fail(err, LS_E_USAGE, "usage: logitspec diff A B (two files of --trace)");
    ls_gauge_reads();
    const ls_code code = load(&r, c, x, err);
    if (!code) compare(x, &to->out);
    ls_report_free(&r);
    return code;
}
