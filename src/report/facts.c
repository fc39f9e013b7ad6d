#include "report/parts.h"
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ls_trace_header *header(const ls_report *r, const ls_report_group *g) {
    return &r->turns[g->first_turn].header;
}

static void experts(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    const ls_run *run = &header(r, g)->run;
    const ls_ratio took = ls_stats_experts(&g->stats);
    if (!took.of || !run->n_mixtures) ls_buf_char(out, '-');
    else
        ls_buf_fmt(out, "%.1f of %d (%d)", (double)took.n / (double)took.of, run->n_mixtures * run->n_experts,
                   run->n_mixtures * run->n_experts_used);
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

static void count(ls_buf *out, uint64_t n) {
    ls_buf_fmt(out, "%llu", (unsigned long long)n);
}

static void where(const ls_trace_header *h, ls_buf *out) {
    ls_buf_fmt(out, "%s, %s, %d thread%s, %s", h->run.device, h->run.dtype, h->run.threads, ls_plural(h->run.threads),
               h->run.kernel);
}

static void guarantee(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    if (g->guarantee == LS_LOSSY)
        ls_buf_fmt(out, "LOSSY (%s): the text may differ from plain decoding's", header(r, g)->acceptance);
    else if (g->guarantee == LS_SAME_DISTRIBUTION)
        ls_buf_fmt(out, "same distribution as plain decoding (%s), but other samples", header(r, g)->acceptance);
    else
        ls_buf_str(out, header(r, g)->run.exact ? "exact: the tokens of plain decoding"
                                                : "not exact: logits depend on the number of rows");
}

static void speedup(const ls_report_group *g, ls_buf *out) {
    const ls_stats *st = &g->stats;
    ls_buf_str(out, st->plain_against_us > 0 ? ls_stats_speedup_text(st, false).s : "-");
}

static void percent(ls_buf *out, double share) {
    if (isfinite(share)) ls_buf_fmt(out, "%.1f%%", 100 * share);
    else ls_buf_char(out, '-');
}

static double most_waited(const ls_report *r) {
    double most = 0;
    for (size_t g = 0; g < r->n_groups; g++) most = fmax(most, ls_stats_waited(&r->groups[g].stats));
    return most;
}

void ls_report_busy(const ls_report *r, ls_buf *out) {
    if (most_waited(r) > LS_BUSY)
        ls_buf_fmt(out,
                   "The machine was busy with other work: the program's threads waited %s%.0f%% of their time for a "
                   "CPU. Times and speedups would differ on an idle machine.",
                   r->n_groups > 1 ? "up to " : "", 100 * most_waited(r));
}

static void missed(const ls_report_group *g, ls_miss m, ls_buf *out) {
    part(out, g->stats.misses[m], ls_stats_misses(&g->stats));
    if (g->stats.misses[m])
        ls_buf_fmt(out, " (%llu: %.0f ms)", (unsigned long long)g->stats.miss_steps[m], g->stats.miss_us[m] / 1e3);
}

static void would(const ls_report_group *g, ls_buf *out) {
    const ls_stats *st = &g->stats;
    if (!st->rejections) ls_buf_char(out, '-');
    else ls_buf_fmt(out, "of %llu: ", (unsigned long long)st->rejections);
    for (int i = 1; st->rejections && i < LS_ACCEPT_COUNT; i++) {
        const ls_accept rule = ls_accept_usual(i);
        if (ls_accept_previews(&rule))
            ls_buf_fmt(out, "%s%s %llu (+%llu)", i > 1 ? ", " : "", ls_accept_at(i)->name,
                       (unsigned long long)st->would_steps[i], (unsigned long long)st->would_tokens[i]);
    }
}

static void equal(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    if (g == r->groups) ls_buf_str(out, "reference");
    else if (g->shared) ls_buf_fmt(out, "%zu of %zu", g->equal, g->shared);
    else ls_buf_char(out, '-');
}

static void over_first(const ls_report *r, const ls_report_group *g, ls_buf *out) {
    if (g == r->groups) ls_buf_char(out, '1');
    else number(out, 3, g->shared_us > 0 ? g->first_us / g->shared_us : NAN);
}

// Whether the group has the fact; out not NULL: appends its value.
#define FACT(id, name, of, applies, writes)                                                                            \
    static bool fact_##id(const ls_report *r, const ls_report_group *g, ls_buf *out) {                                 \
        (void)r, (void)g;                                                                                              \
        if (out) writes;                                                                                               \
        return applies;                                                                                                \
    }
#include "report/facts.def"

static const struct {
    const char *name, *of;
    bool (*write)(const ls_report *r, const ls_report_group *g, ls_buf *out);
} facts[] = {
#define FACT(id, name, of, applies, writes) {name, of, fact_##id},
#include "report/facts.def"
};

ls_table ls_facts_table(const ls_report *r, bool of) {
    ls_table t = {0};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        bool any = false;
        for (size_t g = 0; g < r->n_groups; g++) any |= facts[i].write(r, &r->groups[g], NULL);
        if (!any) continue;
        ls_table_row(&t);
        ls_put(&t, "", NULL, 0, "%s", facts[i].name);
        for (size_t g = 0; g < r->n_groups; g++) {
            ls_buf value = {0};
            facts[i].write(r, &r->groups[g], &value);
            ls_put(&t, r->groups[g].label, NULL, 0, "%s", value.n ? value.p : "");
            ls_buf_free(&value);
        }
        ls_put(&t, of ? "" : NULL, NULL, 0, "%s", facts[i].of);
    }
    return t;
}

static void put_setting(const ls_report *r, const char *key, bool differing, ls_table *t) {
    const char *first = ls_trace_config(header(r, &r->groups[0]), key);
    bool differ = false;
    for (size_t g = 1; g < r->n_groups; g++)
        differ |= strcmp(ls_trace_config(header(r, &r->groups[g]), key), first) != 0;
    if (differ != differing) return;
    ls_table_row(t);
    ls_put(t, differing ? "differs" : "", NULL, 0, "%s", key);
    for (size_t g = 0; g < (differing ? r->n_groups : 1); g++)
        ls_put(t, differing ? r->groups[g].label : "", NULL, 0, "%s", ls_trace_config(header(r, &r->groups[g]), key));
}

ls_table ls_settings_table(const ls_report *r, bool differing) {
    ls_table t = {0};
    for (size_t g = 0; g < r->n_groups; g++) {
        for (const char *k = NULL, *v; ls_trace_next_setting(&header(r, &r->groups[g])->config, &k, &v);) {
            bool known = false; // from an earlier group
            for (size_t i = 0; i < ls_table_rows(&t); i++) known |= !strcmp(t.cells[i * t.n_columns].text, k);
            if (!known) put_setting(r, k, differing, &t);
        }
    }
    return t;
}
