// `diff A B`: two recordings of the same prompt: where the texts part, where one method was ahead, and what it was
// worth.
#include "base/mem.h"
#include "cli/recorded.h"
#include "run/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8, QUOTED = 48 };

typedef struct {
    ui_state s;
    const char *path;
    size_t n;      // steps of the first turn
    ls_ids output; // its tokens
    ls_ids prompt; // tokens before it
    ls_stats stats;
} side;

// Between two places where both methods began a step.
typedef struct {
    size_t from, to; // output positions
    int steps[2];
    double ms[2];
} stretch;

static ls_code load(side *x, const char *path, ls_err *err) {
    bool torn;
    x->path = path;
    const ls_code code = ls_recorded_load(&x->s, path, &torn, err);
    if (code) return code;
    if (torn) fprintf(stderr, "logitspec: %s: its last line was cut short and is left out\n", path);
    x->n = x->s.n_turns > 1 ? x->s.turns[1].first_step : x->s.n_steps;
    for (size_t i = 0; i < x->n; i++) {
        const ls_step *s = x->s.steps[i];
        ls_stats_add(&x->stats, s);
        for (int k = 0; k < s->n_emitted; k++) ls_ids_push(&x->output, s->nodes[s->path[k]].token);
    }
    ls_ids_add(&x->prompt, x->s.context.p, (size_t)x->s.steps[0]->context_len);
    return LS_OK;
}

static void unload(side *x) {
    ui_state_free(&x->s);
    ls_ids_free(&x->output);
    ls_ids_free(&x->prompt);
}

static size_t shared(const ls_ids *a, const ls_ids *b) {
    const size_t n = a->n < b->n ? a->n : b->n;
    size_t i = 0;
    while (i < n && a->p[i] == b->p[i]) i++;
    return i;
}

// Fills out with the stretches of the text that both share; returns how many.
static size_t stretches(const side x[2], size_t same, stretch *out) {
    size_t n = 0, at[2] = {0, 0}, done[2] = {0, 0}; // steps taken, tokens emitted
    stretch now = {0};
    while (done[0] < same || done[1] < same) {
        const int k = done[0] <= done[1] ? 0 : 1; // the one that is behind takes its next step
        if (at[k] == x[k].n) break;
        const ls_step *s = x[k].s.steps[at[k]++];
        now.steps[k]++;
        now.ms[k] += s->t_total_us / 1e3;
        done[k] += (size_t)s->n_emitted;
        if (done[0] == done[1] && done[0] <= same) {
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

static void quote(const side *x, size_t from, size_t to, ls_buf *out) {
    ls_buf text = {0};
    for (size_t i = from; i < to && text.n < QUOTED; i++) ls_recorded_token(&x->s, x->output.p[i], &text);
    ls_buf_fmt(out, "%s%s", text.n ? text.p : "", text.n >= QUOTED ? "..." : "");
    ls_buf_free(&text);
}

static void describe(const side *x, char name, ls_buf *out) {
    const ls_stats *st = &x->stats;
    ls_buf_fmt(out,
               "%c  %s: %s on %s, %s; %llu tokens in %llu steps, MAT %.2f, %llu of %llu drafts accepted, %.1f ms (%.0f "
               "tokens/s)\n",
               name, x->path, x->s.header.model, x->s.header.device, x->s.header.method,
               (unsigned long long)st->emitted, (unsigned long long)st->steps, ls_stats_mat(st),
               (unsigned long long)st->accepted, (unsigned long long)st->drafted, st->total_us / 1e3,
               ls_stats_tokens_per_s(st));
}

static void compare(const side x[2], ls_buf *out) {
    const size_t same = shared(&x[0].output, &x[1].output);
    describe(&x[0], 'A', out);
    describe(&x[1], 'B', out);
    if (x[0].output.n == same && x[1].output.n == same) ls_buf_fmt(out, "\nthe texts are equal, %zu tokens\n", same);
    else {
        ls_buf_fmt(out, "\nthe texts part at output token %zu: A ", same);
        for (int k = 0; k < 2; k++) {
            if (k) ls_buf_str(out, ", B ");
            if (same < x[k].output.n) quote(&x[k], same, same + 1, out);
            else ls_buf_str(out, "has ended");
        }
        ls_buf_char(out, '\n');
    }
    stretch *all = ls_calloc(same + 1, sizeof *all);
    const size_t n = stretches(x, same, all);
    size_t ahead[2] = {0, 0};
    double ms[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        if (all[i].steps[0] != all[i].steps[1]) ahead[all[i].steps[0] < all[i].steps[1] ? 0 : 1]++;
        ms[0] += all[i].ms[0];
        ms[1] += all[i].ms[1];
    }
    ls_buf_fmt(out,
               "both began a step at %zu common places; between them A took fewer steps %zu times, B %zu times\n"
               "time for the shared text: A %.1f ms, B %.1f ms (B / A %.2f)\n",
               n, ahead[0], ahead[1], ms[0], ms[1], ms[0] > 0 ? ms[1] / ms[0] : 0);
    qsort(all, n, sizeof *all, by_difference);
    if (n && all[0].steps[0] != all[0].steps[1])
        ls_buf_fmt(out, "\n%-13s %8s %8s %9s %9s  %s\n", "output tokens", "A steps", "B steps", "A ms", "B ms", "text");
    for (size_t i = 0; i < n && i < SHOWN && all[i].steps[0] != all[i].steps[1]; i++) {
        char range[40];
        snprintf(range, sizeof range, "%zu-%zu", all[i].from, all[i].to - 1);
        ls_buf_fmt(out, "%-13s %8d %8d %9.2f %9.2f  ", range, all[i].steps[0], all[i].steps[1], all[i].ms[0],
                   all[i].ms[1]);
        quote(&x[0], all[i].from, all[i].to, out);
        ls_buf_char(out, '\n');
    }
    free(all);
}

int ls_cmd_diff(const ls_command_line *c) {
    ls_err err = {0};
    side x[2] = {{.n = 0}, {.n = 0}};
    if (c->n_args != 2) {
        ls_fail(&err, LS_E_USAGE, "'logitspec diff A B' is expected: two files of --trace");
        return ls_complain(&err);
    }
    ui_state_init(&x[1].s); // freed in any case
    ls_code code = load(&x[0], c->args[0], &err);
    if (!code) {
        ui_state_free(&x[1].s);
        code = load(&x[1], c->args[1], &err);
    }
    if (!code && (x[0].prompt.n != x[1].prompt.n || shared(&x[0].prompt, &x[1].prompt) != x[0].prompt.n))
        code = ls_fail(&err, LS_E_USAGE, "%s and %s begin with other prompts: there is nothing to align", c->args[0],
                       c->args[1]);
    int status = LS_EXIT_OK;
    if (code) status = ls_complain(&err);
    else {
        ls_buf out = {0};
        compare(x, &out);
        if (!ls_print(&out)) status = LS_EXIT_FAILED;
    }
    unload(&x[0]);
    unload(&x[1]);
    return status;
}
