// Whether a method became faster from one benchmark to another, prompt by prompt.
#include "base/json.h"
#include "base/mem.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "report/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A prompt's results.
typedef struct {
    const ls_result *a, *b;
} pair;

typedef struct {
    double value, low, high; // second benchmark / first; low and high: NAN below three prompts
} ratio;

typedef struct {
    size_t n;
    ratio rate, speedup; // of tokens/s; of the speedups over plain decoding: NAN where they are not known
    double a_mat, b_mat, a_rate, b_rate;
    bool same; // steps and tokens of every prompt
} change;

// Ratio of tokens/s, by times that are scaled to equal numbers of tokens; or of the speedups over plain decoding, which
// do not depend on the machine's speed.
static double ratio_of(const pair *p, size_t n, bool of_speedups, uint64_t draw, bool resample) {
    ls_total a = {0}, b = {0};
    for (size_t i = 0; i < n; i++) {
        const pair *one = &p[resample ? (size_t)(ls_uniform_at(1, draw * n + i) * (double)n) : i];
        const ls_stats *x = &one->a->stats, *y = &one->b->stats;
        a.decode_us += x->total_us, b.decode_us += y->total_us * (double)x->emitted / (double)y->emitted;
        a.plain_us += one->a->plain_us, a.against_us += one->a->against_us;
        b.plain_us += one->b->plain_us, b.against_us += one->b->against_us;
    }
    return of_speedups ? b.plain_us / b.against_us / (a.plain_us / a.against_us) : a.decode_us / b.decode_us;
}

static ratio judged(const pair *p, size_t n, bool of_speedups) {
    ratio r = {ratio_of(p, n, of_speedups, 0, false), NAN, NAN};
    if (n < 3) return r;
    double sample[LS_RESAMPLES];
    for (int s = 0; s < LS_RESAMPLES; s++) sample[s] = ratio_of(p, n, of_speedups, (uint64_t)s, true);
    ls_interval(sample, &r.low, &r.high);
    return r;
}

static change change_of(const ls_bench *a, int i, const ls_bench *b, int k) {
    pair *pairs = ls_calloc(a->done + 1, sizeof *pairs);
    change c = {.same = true};
    ls_total ta = {0}, tb = {0};
    for (size_t p = 0; p < a->done; p++)
        for (size_t q = 0; q < b->done; q++) {
            const ls_result *of_a = ls_bench_result(a, p, i), *of_b = ls_bench_result(b, q, k);
            const ls_stats *x = &of_a->stats, *y = &of_b->stats;
            if (strcmp(a->prompts[p].name, b->prompts[q].name) || strcmp(a->prompts[p].text, b->prompts[q].text) ||
                !x->emitted || !y->emitted)
                continue;
            pairs[c.n++] = (pair){of_a, of_b};
            c.same &= x->emitted == y->emitted && x->steps == y->steps;
            ta.emitted += x->emitted, ta.steps += x->steps, ta.decode_us += x->total_us;
            tb.emitted += y->emitted, tb.steps += y->steps, tb.decode_us += y->total_us;
            break;
        }
    c.rate = judged(pairs, c.n, false);
    c.speedup = strcmp(a->against, b->against) ? (ratio){NAN, NAN, NAN} : judged(pairs, c.n, true);
    c.a_mat = ls_per((double)ta.emitted, ta.steps);
    c.b_mat = ls_per((double)tb.emitted, tb.steps);
    c.a_rate = ls_tokens_per_s(ta.emitted, ta.decode_us);
    c.b_rate = ls_tokens_per_s(tb.emitted, tb.decode_us);
    free(pairs);
    return c;
}

static const char *verdict(const ratio *r) {
    if (isnan(r->low)) return isnan(r->value) ? "not known" : "too few prompts to say";
    return r->low > 1 ? "faster" : r->high < 1 ? "slower" : "no difference that these prompts show";
}

static void write_ratio(const char *key, const ratio *r, ls_jsonw *w) {
    ls_jw_field_open(w, key, '{');
    ls_jw_field_num(w, "ratio", r->value, 6);
    ls_jw_field_num(w, "low", r->low, 6);
    ls_jw_field_num(w, "high", r->high, 6);
    ls_jw_field_str(w, "verdict", verdict(r));
    ls_jw_close(w, '}');
}

static void put_ratio(ls_table *t, const char *head, const ratio *r) {
    if (isfinite(r->low)) ls_put(t, head, NULL, 23, "%.3f (%.3f - %.3f)", r->value, r->low, r->high);
    else ls_put_number(t, head, NULL, 23, 3, r->value);
}

static void put_change(ls_table *t, const char *label, const change *c) {
    ls_table_row(t);
    ls_put(t, "method", "method", -24, "%s", label);
    ls_put_whole(t, NULL, "prompts", 0, (int64_t)c->n);
    ls_put_number(t, "MAT A", "mat_a", 6, 2, c->a_mat);
    ls_put_number(t, "MAT B", "mat_b", 6, 2, c->b_mat);
    ls_put_number(t, "A", "tokens_per_s_a", 9, 1, c->a_rate);
    ls_put_number(t, "B", "tokens_per_s_b", 9, 1, c->b_rate);
    put_ratio(t, "tokens/s, ratio (95%)", &c->rate);
    put_ratio(t, "speedup, ratio (95%)", &c->speedup);
    ls_put(t, "verdict", NULL, 0, "%s%s", verdict(isfinite(c->speedup.value) ? &c->speedup : &c->rate),
           c->same ? "" : "; other steps");
    ls_put_flag(t, "same_steps", c->same);
}

static void tell_texts(const char *words, const char *a, const char *b, ls_buf *out) {
    if (strcmp(a, b)) ls_sanitize_row(out, "%s: %s | %s", words, *a ? a : "(unknown)", *b ? b : "(unknown)");
}

// Differences of the machines, models and settings, which affect every method.
static void tell_machines(const ls_manifest *a, const ls_manifest *b, ls_buf *out) {
#define TEXT(field, words) tell_texts(words, a->field, b->field, out);
#define NUMBER(field, words, unit)
#include "report/manifest.def"
    if (fabs(a->threads - b->threads) > 0) ls_buf_fmt(out, "threads: %.0f | %.0f\n", a->threads, b->threads);
    if (isfinite(a->read_gb_per_s) && isfinite(b->read_gb_per_s))
        ls_buf_fmt(out, "read bandwidth: %.1f | %.1f GB/s (x%.3f)\n", a->read_gb_per_s, b->read_gb_per_s,
                   b->read_gb_per_s / a->read_gb_per_s);
}

// The common methods; *prompts: of the last one.
static ls_code find_changes(const ls_bench *a, const ls_bench *b, change *changes, ls_table *t, size_t *prompts,
                            ls_err *err) {
    int methods = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            if (strcmp(a->methods[i].label, b->methods[k].label)) continue;
            const change c = change_of(a, i, b, k);
            methods++;
            if (!c.n) continue;
            *changes++ = c;
            put_change(t, a->methods[i].label, &c);
            *prompts = c.n;
            break;
        }
    if (*prompts) return LS_OK;
    return ls_fail(err, LS_E_RANGE, "the two benchmarks have no %s in common", methods ? "prompt" : "method");
}

static void write_json(const ls_bench *a, const ls_bench *b, const change *changes, const ls_table *t, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    ls_jw_key(&w, "a");
    ls_manifest_json(&a->manifest, &w);
    ls_jw_key(&w, "b");
    ls_manifest_json(&b->manifest, &w);
    ls_jw_field_open(&w, "methods", '[');
    for (size_t r = 0; r < ls_table_rows(t); r++) {
        ls_jw_open(&w, '{');
        ls_table_fields(t, r, &w);
        write_ratio("tokens_per_s", &changes[r].rate, &w);
        write_ratio("speedup", &changes[r].speedup, &w);
        ls_jw_close(&w, '}');
    }
    ls_jw_close(&w, ']');
    ls_jw_end(&w);
}

static void write_text(const ls_bench *a, const ls_bench *b, size_t prompts, const ls_table *t, ls_buf *out) {
    tell_machines(&a->manifest, &b->manifest, out);
    if (a->max_tokens != b->max_tokens) ls_buf_fmt(out, "new tokens at most: %d | %d\n", a->max_tokens, b->max_tokens);
    if (a->repeat != b->repeat) ls_buf_fmt(out, "runs of each prompt: %d | %d\n", a->repeat, b->repeat);
    if (a->disturbed || b->disturbed)
        ls_buf_fmt(out, "prompts disturbed by other programs: %zu | %zu\n", a->disturbed, b->disturbed);
    ls_buf_char(out, '\n');
    ls_table_text(t, out);
    ls_buf_fmt(out,
               "\nratio: second / first on the same %zu prompt%s; 95%%: interval by resampling prompts. A speedup is "
               "relative to plain decoding in the same run, so it does not depend on the machine's speed. The verdict "
               "uses the speedup; without one it uses tokens/s.\n",
               prompts, ls_plural(prompts));
}

ls_code ls_bench_diff(const ls_bench *a, const ls_bench *b, ls_buf *out, bool json, ls_err *err) {
    change *changes = ls_calloc((size_t)a->n, sizeof *changes);
    ls_table t = {0};
    size_t prompts = 0;
    const ls_code code = find_changes(a, b, changes, &t, &prompts, err);
    if (!code && json) write_json(a, b, changes, &t, out);
    else if (!code) write_text(a, b, prompts, &t, out);
    ls_table_free(&t);
    free(changes);
    return code;
}
