// Why a step gained or lost: compares it with plain decoding and with the usual cost of its rows, and names the
// target's choice.
#include "base/mem.h"
#include "report/markup.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>

// The median time of the group's forwards with this number of rows; 0: the group has fewer than five.
static double usual_forward_us(const ls_report *r, size_t group, int rows) {
    enum { FEW = 5 };
    size_t n = 0;
    double *list = NULL;
    for (size_t i = 0; i < r->n_turns; i++) {
        const ls_report_turn *t = &r->turns[i];
        for (size_t k = 0; t->group == group && k < t->n_steps; k++) {
            if (t->steps[k].rows + t->steps[k].probes != rows || !t->steps[k].forward) continue;
            list = ls_grown(list, n, sizeof *list);
            list[n++] = (double)t->steps[k].forward_us;
        }
    }
    ls_sort(list, n);
    const double median = n < FEW ? 0 : list[n / 2];
    free(list);
    return median;
}

static void chance(float p, const char *what, ls_buf *out) {
    if (!isnan(p)) ls_buf_fmt(out, "%s%.2f", what, (double)p);
}

static void token(const ls_tokens *t, int32_t id, ls_buf *out) {
    ls_buf_str(out, "“");
    ls_label_token(out, t, id);
    ls_buf_str(out, "”");
}

// Appends the target's choice at the end of the path, and the most likely draft there.
static void where_it_ended(const ls_tokens *t, const ls_step *s, ls_buf *out) {
    const int at = s->path[s->n_path - 1];
    const ls_node *last = &s->tree.nodes[at], *tried = NULL;
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        if (n->parent == at && (!tried || n->est_p > tried->est_p)) tried = n;
    }
    if (last->target < 0) return;
    ls_buf_str(out, " After ");
    token(t, last->token, out);
    ls_buf_str(out, " the target chose ");
    token(t, last->target, out);
    chance(last->target_p, " with p ", out);
    if (!tried) {
        ls_buf_str(out, !ls_step_described(s) ? "." : "; nothing was drafted there.");
        return;
    }
    ls_buf_str(out, "; the draft was ");
    token(t, tried->token, out);
    chance(tried->est_p, ", estimated at ", out);
    chance(tried->p, ", with target p ", out);
    ls_buf_char(out, '.');
}

void ls_report_explain(const ls_report *r, const ls_report_tree *tree, ls_buf *out) {
    const ls_report_turn *t = &r->turns[tree->turn];
    const ls_step *s = tree->step;
    const int rows = ls_step_forwarded(s);
    const double ms = s->t_total_us / 1e3, usual = usual_forward_us(r, t->group, rows);
    if (!isnan(tree->gain_us))
        ls_buf_fmt(out, "%s %.2f ms against plain decoding: %.2f ms for %d token%s; plain decoding takes %.2f ms.",
                   tree->gain_us < 0 ? "Lost" : "Gained", fabs(tree->gain_us) / 1e3, ms, s->n_emitted,
                   ls_plural(s->n_emitted), ls_step_plain_us(s) * ls_plain_forwards(s) / 1e3);
    else ls_buf_fmt(out, "%.2f ms for %d token%s.", ms, s->n_emitted, ls_plural(s->n_emitted));
    if (!s->forward) {
        ls_buf_str(out, " The answer ended with the root, so there was no forward.");
        return;
    }
    if (usual > 0 && s->t_forward_us > 1.5 * usual)
        ls_buf_fmt(out, " The machine was busy: the forward took %.1f times the usual %.2f ms for %d row%s.",
                   s->t_forward_us / usual, usual / 1e3, rows, ls_plural(rows));
    else if (s->plain_us > 0 && s->rows > 1)
        ls_buf_fmt(out, " A step of %d rows took as long as %.1f plain steps.", rows,
                   s->t_total_us / ls_step_plain_us(s));
    if (s->t_draft_us > 0.2 * s->t_total_us)
        ls_buf_fmt(out, " Drafting took %.0f%% of the step.", 100 * s->t_draft_us / s->t_total_us);
    if (s->rows == 1) ls_buf_str(out, " The step had no draft.");
    else ls_buf_fmt(out, " %d of %d drafts were accepted.", ls_step_accepted(s), s->rows - 1);
    int changed;
    const int judged = ls_step_judged(s, &changed);
    if (s->probes)
        ls_buf_fmt(out, " A probe of %d rows checked %d choice%s and changed %d.", s->probes, judged, ls_plural(judged),
                   changed);
    where_it_ended(t->tokens, s, out);
    if (s->miss) ls_buf_fmt(out, " The target's choice was missed: %s.", ls_misses[s->miss].sentence);
}
