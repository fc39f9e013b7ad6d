#include "report/facts.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ls_trace_header *header(const ls_report *r, const ls_report_group *g) {
    return &r->turns[g->first_turn].header;
}

static void number(ls_buf *out, int digits, double v) {
    if (isfinite(v)) ls_buf_fmt(out, "%.*f", digits, v);
    else ls_buf_char(out, '-');
}

static void part(ls_buf *out, uint64_t n, uint64_t of) {
    if (of)
        ls_buf_fmt(out, "%llu of %llu (%.1f%%)", (unsigned long long)n, (unsigned long long)of,
                   100 * (double)n / (double)of);
    else ls_buf_char(out, '-');
}

static void model(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    ls_buf_str(out, header(r, g)->model);
}
static void where(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    const ls_trace_header *h = header(r, g);
    ls_buf_fmt(out, "%s, %s, %d thread%s, %s", h->device, h->dtype, h->threads, h->threads == 1 ? "" : "s", h->kernel);
}
static void promise(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    if (g->lossy) ls_buf_fmt(out, "LOSSY (%s): not plain decoding's text", header(r, g)->acceptance);
    else
        ls_buf_str(out, g->exact ? "exact: plain decoding's text, bit for bit"
                                 : "not exact: rows may differ in their last bits");
}
static void turns(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    ls_buf_fmt(out, "%zu", g->n_turns);
}
static void tokens(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    ls_buf_fmt(out, "%llu", (unsigned long long)g->stats.emitted);
}
static void steps(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    ls_buf_fmt(out, "%llu", (unsigned long long)g->stats.steps);
}
static void mat(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 3, ls_per((double)g->stats.emitted, g->stats.steps));
}
static void rows(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 1, ls_per((double)(g->stats.drafted + g->stats.forwards), g->stats.forwards));
}
static void accepted(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    part(out, g->stats.accepted, g->stats.drafted);
}
static void helped(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    part(out, g->stats.steps_with_accept, g->stats.steps_with_draft);
}
static bool any_lossy(const ls_report *r) {
    bool any = false;
    for (size_t i = 0; i < r->n_groups; i++) any |= r->groups[i].lossy;
    return any;
}
static void loose(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    part(out, g->stats.loose, g->stats.emitted);
}
static void speed(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 1, g->stats.total_us > 0 ? ls_stats_tokens_per_s(&g->stats) : NAN);
}
static void plain_speed(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 1, g->stats.ar_us > 0 ? ls_stats_ar_tokens_per_s(&g->stats) : NAN);
}
static void speedup(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 3, g->stats.ar_against_us > 0 ? ls_stats_speedup(&g->stats) : NAN);
}
static void step_ms(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 3, ls_per(g->stats.total_us, g->stats.steps) / 1e3);
}
static void draft_us(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 0, ls_per(g->stats.draft_us, g->stats.steps));
}
static void prefill(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    (void)r;
    number(out, 1, ls_per(g->prefill_ms, g->n_turns));
}
static bool several(const ls_report *r) {
    return r->n_groups > 1;
}
static void equal(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    if (g == r->groups) ls_buf_str(out, "this one");
    else if (g->shared) ls_buf_fmt(out, "%zu of %zu", g->equal, g->shared);
    else ls_buf_char(out, '-');
}
static void over_first(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    if (g == r->groups) ls_buf_char(out, '1');
    else number(out, 3, g->shared_us > 0 ? g->first_us / g->shared_us : NAN);
}

const ls_fact ls_facts[] = {
    {"model", "", model, NULL},
    {"where", "device, arithmetic, threads, kernel", where, NULL},
    {"output", "", promise, NULL},
    {"turns", "prompts answered", turns, NULL},
    {"tokens", "emitted in these turns", tokens, NULL},
    {"steps", "decode steps, those without a draft included", steps, NULL},
    {"MAT", "tokens / steps; plain decoding: 1", mat, NULL},
    {"rows", "of a forward, root included", rows, NULL},
    {"drafts accepted", "of verified drafts; roots are no drafts", accepted, NULL},
    {"steps helped", "with an accepted draft, of those with a draft", helped, NULL},
    {"tokens let stand", "emitted though the target chose another, of all", loose, any_lossy},
    {"tokens/s", "tokens / decode time; without load and prompt", speed, NULL},
    {"plain tokens/s", "single-row forwards timed in the same runs", plain_speed, NULL},
    {"speedup", "over plain decoding, by these forwards", speedup, NULL},
    {"step, ms", "mean of all steps", step_ms, NULL},
    {"drafting, µs", "mean of all steps", draft_us, NULL},
    {"prompt, ms", "mean of the turns", prefill, NULL},
    {"same text", "as the first column's, of prompts that both finished", equal, several},
    {"faster", "than the first column: its decode time / this one's, on those prompts", over_first, several},
    {0},
};

void ls_settings(const ls_report *r, void (*row)(void *ud, const char *key, const char *const *values, bool differ),
                 void *ud) {
    const char **keys = NULL, **values = ls_calloc(r->n_groups, sizeof *values);
    size_t n = 0;
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_buf *c = &header(r, &r->groups[g])->config;
        for (const char *k = c->p; c->n && k < c->p + c->n; k += strlen(k) + 1, k += strlen(k) + 1) {
            bool known = false;
            for (size_t i = 0; i < n && !known; i++) known = !strcmp(keys[i], k);
            if (known) continue;
            keys = ls_realloc(keys, (n + 1) * sizeof *keys);
            keys[n++] = k;
        }
    }
    for (int differing = 1; differing >= 0; differing--)
        for (size_t i = 0; i < n; i++) {
            bool differ = false;
            for (size_t g = 0; g < r->n_groups; g++) {
                values[g] = ls_trace_config(header(r, &r->groups[g]), keys[i]);
                differ |= strcmp(values[g], values[0]) != 0;
            }
            if (differ == differing) row(ud, keys[i], values, differ);
        }
    free(keys);
    free(values);
}
