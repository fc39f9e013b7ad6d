#include "report/bench.h"
#include "base/err.h"
#include "base/mem.h"
#include "decode/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ls_bench_begin(ls_bench *b) {
    b->results = ls_calloc(b->n_prompts * (size_t)b->n, sizeof *b->results);
    b->plain = b->reference = -1;
    for (int i = b->n - 1; i >= 0; i--) {
        if (b->methods[i].plain) b->plain = i;
        if (!strcmp(b->methods[i].label, b->judged)) b->reference = i;
    }
}

void ls_bench_free(ls_bench *b) {
    for (size_t i = 0; b->results && i < b->n_prompts * (size_t)b->n; i++) ls_result_free(&b->results[i]);
    for (size_t p = 0; b->prompts && p < b->n_prompts; p++) {
        free(b->prompts[p].name);
        free(b->prompts[p].category);
        free(b->prompts[p].task);
    }
    free(b->results);
    free(b->prompts);
    free(b->methods);
    for (size_t i = 0; i < b->n_left_out; i++) free(b->left_out[i]);
    free(b->left_out);
    ls_ids_free(&b->resumed);
    *b = (ls_bench){0};
}

ls_bench ls_bench_view(const ls_bench *b, const int *methods, int n) {
    ls_bench view = *b;
    view.n = n;
    view.methods = ls_calloc((size_t)n, sizeof *view.methods);
    for (int i = 0; i < n; i++) view.methods[i] = b->methods[methods[i]];
    ls_bench_begin(&view);
    for (size_t p = 0; p < b->done; p++)
        for (int i = 0; i < n; i++) *ls_bench_result(&view, p, i) = *ls_bench_result(b, p, methods[i]);
    return view;
}

void ls_bench_view_free(ls_bench *view) {
    free(view->methods);
    free(view->results);
}

void ls_bench_leave_out(ls_bench *b, const char *why) {
    for (size_t i = 0; i < b->n_left_out; i++)
        if (!strcmp(b->left_out[i], why)) return; // an earlier run said so
    b->left_out = ls_realloc(b->left_out, (b->n_left_out + 1) * sizeof *b->left_out);
    b->left_out[b->n_left_out++] = ls_strdup(why);
}

ls_result *ls_bench_result(const ls_bench *b, size_t prompt, int method) {
    return &b->results[prompt * (size_t)b->n + (size_t)method];
}

// A task is Spec-Bench's; the prompts of mt_bench have a category of their own, too.
static bool is_of(const ls_bench_prompt *p, const char *category) {
    return !category || !strcmp(category, p->task) || !strcmp(category, p->category);
}

static bool is_there(const ls_bench *b, size_t prompt, int method) {
    return ls_bench_result(b, prompt, method)->turns > 0 &&
           (b->plain < 0 || ls_bench_result(b, prompt, b->plain)->turns > 0);
}

static ls_total total(const ls_bench *b, int method, const char *category, bool interval) {
    const ls_result **members = ls_calloc(b->done + 1, sizeof *members);
    size_t n = 0;
    for (size_t p = 0; p < b->done; p++)
        if (is_of(&b->prompts[p], category) && is_there(b, p, method)) members[n++] = ls_bench_result(b, p, method);
    const ls_total t = ls_total_of(members, n, interval);
    free(members);
    return t;
}

ls_total ls_bench_total(const ls_bench *b, int method, const char *category) {
    return total(b, method, category, true);
}

const char **ls_bench_categories(const ls_bench *b) {
    const char **out = ls_calloc(2 * b->done + 1, sizeof *out);
    for (size_t p = 0; p < b->done; p++) {
        out[2 * p] = b->prompts[p].task;
        out[2 * p + 1] = b->prompts[p].category;
    }
    ls_suite_distinct(out, 2 * b->done);
    return out;
}

ls_bench_speedups ls_bench_over_plain(const ls_bench *b, const ls_total *t, const char *category) {
    if (b->plain < 0) return (ls_bench_speedups){NAN, NAN, NAN};
    const ls_total plain = total(b, b->plain, category, false);
    const double tokens = ls_per((double)t->emitted, plain.emitted); // a lossy text may be shorter or longer
    return (ls_bench_speedups){(tokens * plain.decode_us / 1e3 + plain.prefill_ms) /
                                   (t->decode_us / 1e3 + t->prefill_ms),
                               t->rates_with_prompt / plain.rates_with_prompt, t->rates / plain.rates};
}

double ls_bench_of_limit(const ls_bench *b, const ls_total *t) {
    const ls_manifest *m = &b->manifest;
    const double mb = (double)t->forwards * m->weight_mb + (double)t->context * m->kv_kb / 1e3;
    return mb * 1e3 / m->read_gb_per_s / t->decode_us;
}

double ls_tokens_per_s(uint64_t tokens, double us) {
    return us > 0 ? 1e6 * (double)tokens / us : NAN;
}

bool ls_bench_equal(const ls_bench *b) {
    bool equal = true;
    for (size_t p = 0; p < b->done; p++)
        for (int i = 0; i < b->n; i++)
            equal &= strcmp(b->methods[i].guarantee, "text") != 0 || ls_bench_result(b, p, i)->first_difference < 0;
    return equal;
}

void ls_bench_tell_busy(const ls_bench *b, ls_buf *out) {
    if (b->disturbed)
        ls_buf_fmt(out,
                   "busy: other programs used the processors during %zu of %zu prompt%s: "
                   "the tokens are correct, but the times are not reliable\n",
                   b->disturbed, b->done, ls_plural(b->done));
}
