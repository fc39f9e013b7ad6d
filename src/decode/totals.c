#include "decode/totals.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_result_free(ls_result *r) {
    for (size_t i = 0; r->turn && i < r->turns; i++) free(r->turn[i].text);
    free(r->turn);
    ls_ids_free(&r->output);
    ls_ids_free(&r->lengths);
    ls_buf_free(&r->gaps);
    *r = (ls_result){0};
}

double ls_result_noise(const ls_result *r) {
    const double speedup = r->against_us > 0 ? r->plain_us / r->against_us : 0;
    return ls_speedup_is_possible(speedup, r->stats.emitted, r->stats.steps) ? ls_stats_waited(&r->stats) : 1;
}

void ls_result_judge(ls_result *r, const ls_result *plain, const ls_result *reference) {
    r->plain_us = r->stats.plain_us;
    r->against_us = r->stats.plain_against_us;
    if (plain) { // scaled to as many tokens: a lossy text may be shorter or longer
        const ls_stats *st = &plain->stats;
        r->plain_us = st->emitted ? st->total_us * (double)r->stats.emitted / (double)st->emitted : 0;
        r->against_us = r->stats.total_us;
    }
    r->first_difference = -1;
    r->gap = NAN;
    if (!reference) return;
    const ls_ids *want = &reference->output;
    const size_t same = ls_ids_common(r->output.p, r->output.n, want->p, want->n);
    if (same == r->output.n && same == want->n) return;
    r->first_difference = (long)same;
    if (same < reference->gaps.n / sizeof r->gap)
        memcpy(&r->gap, reference->gaps.p + same * sizeof r->gap, sizeof r->gap);
}

static void add(ls_total *t, const ls_result *r) {
    const ls_stats *st = &r->stats;
    t->prompts++;
    t->turns += r->turns;
    t->emitted += st->emitted;
    t->steps += st->steps;
    t->forwards += st->forwards;
    t->context += st->context;
    t->drafted += st->drafted;
    t->accepted += st->accepted;
    t->different += r->first_difference >= 0;
    t->lossy += st->lossy;
    t->decode_us += st->total_us;
    t->draft_us += st->draft_us;
    t->host_us += st->total_us - st->forward_us - st->draft_forward_us - st->wait_us;
    t->forward_us += st->forward_us;
    t->verify_us += st->verify_us;
    t->commit_us += st->commit_us;
    t->prefill_ms += r->prefill_ms;
    if (st->total_us > 0) {
        t->rates += 1e6 * (double)st->emitted / st->total_us;
        t->rates_with_prompt += 1e6 * (double)st->emitted / (st->total_us + 1e3 * r->prefill_ms);
    }
    t->plain_us += r->plain_us;
    t->against_us += r->against_us;
}

double ls_total_speedup(const ls_total *t) {
    return t->plain_us > 0 && t->against_us > 0 ? t->plain_us / t->against_us : NAN;
}

bool ls_total_is_possible(const ls_total *t) {
    return ls_speedup_is_possible(ls_total_speedup(t), t->emitted, t->steps);
}

ls_short_text ls_total_speedup_text(const ls_total *t) {
    ls_short_text out = {"busy"};
    if (ls_total_is_possible(t)) snprintf(out.s, sizeof out.s, "%.2f", ls_total_speedup(t));
    return out;
}

void ls_interval(double *sample, double *low, double *high) {
    ls_sort(sample, LS_RESAMPLES);
    *low = sample[LS_RESAMPLES / 40];
    *high = sample[LS_RESAMPLES - 1 - LS_RESAMPLES / 40];
}

ls_total ls_total_of(const ls_result *const *results, size_t n, bool interval) {
    ls_total t = {0};
    for (size_t i = 0; i < n; i++) add(&t, results[i]);
    t.rates = ls_per(t.rates, n);
    t.rates_with_prompt = ls_per(t.rates_with_prompt, n);
    t.low = t.high = NAN;
    if (n < 3 || !interval) return t;
    double *sample = ls_malloc(LS_RESAMPLES * sizeof *sample);
    for (int s = 0; s < LS_RESAMPLES; s++) {
        ls_total one = {0}; // of its sums only those of the speedup
        for (size_t i = 0; i < n; i++) {
            const ls_result *r = results[(size_t)(ls_uniform_at(1, (uint64_t)s * n + i) * (double)n)];
            one.plain_us += r->plain_us;
            one.against_us += r->against_us;
        }
        sample[s] = ls_total_speedup(&one);
    }
    ls_interval(sample, &t.low, &t.high);
    free(sample);
    return t;
}
