// Whether a method became faster from one benchmark to another, prompt by prompt.
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/plural.h"
#include "base/rng.h"
#include "base/visible.h"
#include "report/bench.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };

typedef struct {
    double a_us, b_us; // for as many tokens
    const char *name;
} pair;

typedef struct {
    size_t n;
    double ratio, low, high; // of tokens/s, b over a; low and high: NAN below three prompts
    double a_mat, b_mat, a_rate, b_rate;
    bool same; // steps and tokens of every prompt
} change;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double ratio_of(const pair *p, size_t n, uint64_t draw, bool resample) {
    double a = 0, b = 0;
    for (size_t i = 0; i < n; i++) {
        const pair *one = &p[resample ? (size_t)(ls_uniform_at(1, draw * n + i) * (double)n) : i];
        a += one->a_us;
        b += one->b_us;
    }
    return a / b;
}

static change change_of(const ls_bench *a, int i, const ls_bench *b, int k) {
    pair *pairs = ls_calloc(a->done + 1, sizeof *pairs);
    change c = {.low = NAN, .high = NAN, .same = true};
    ls_total ta = {0}, tb = {0};
    for (size_t p = 0; p < a->done; p++)
        for (size_t q = 0; q < b->done; q++) {
            const ls_stats *x = &ls_bench_result(a, p, i)->stats, *y = &ls_bench_result(b, q, k)->stats;
            if (strcmp(a->prompts[p].name, b->prompts[q].name) || !x->emitted || !y->emitted) continue;
            pairs[c.n++] =
                (pair){x->total_us, y->total_us * (double)x->emitted / (double)y->emitted, a->prompts[p].name};
            c.same &= x->emitted == y->emitted && x->steps == y->steps;
            ta.emitted += x->emitted, ta.steps += x->steps, ta.decode_us += x->total_us;
            tb.emitted += y->emitted, tb.steps += y->steps, tb.decode_us += y->total_us;
            break;
        }
    c.ratio = ratio_of(pairs, c.n, 0, false);
    c.a_mat = ls_per((double)ta.emitted, ta.steps);
    c.b_mat = ls_per((double)tb.emitted, tb.steps);
    c.a_rate = 1e6 * (double)ta.emitted / ta.decode_us;
    c.b_rate = 1e6 * (double)tb.emitted / tb.decode_us;
    if (c.n >= 3) {
        double sample[RESAMPLES];
        for (int s = 0; s < RESAMPLES; s++) sample[s] = ratio_of(pairs, c.n, (uint64_t)s, true);
        qsort(sample, RESAMPLES, sizeof *sample, by_value);
        c.low = sample[RESAMPLES / 40];
        c.high = sample[RESAMPLES - 1 - RESAMPLES / 40];
    }
    free(pairs);
    return c;
}

static const char *verdict(const change *c) {
    if (isnan(c->low)) return "too few prompts to say";
    return c->low > 1 ? "faster" : c->high < 1 ? "slower" : "no difference that these prompts show";
}

static void write_json(const char *label, const change *c, ls_jsonw *w) {
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "method", label);
    ls_jw_field_u64(w, "prompts", c->n);
    ls_jw_field_num(w, "mat_a", c->a_mat, 6);
    ls_jw_field_num(w, "mat_b", c->b_mat, 6);
    ls_jw_field_num(w, "tokens_per_s_a", c->a_rate, 6);
    ls_jw_field_num(w, "tokens_per_s_b", c->b_rate, 6);
    ls_jw_field_num(w, "ratio", c->ratio, 6);
    ls_jw_field_num(w, "ratio_low", c->low, 6);
    ls_jw_field_num(w, "ratio_high", c->high, 6);
    ls_jw_field_bool(w, "same_steps", c->same);
    ls_jw_field_str(w, "verdict", verdict(c));
    ls_jw_close(w, '}');
}

static void write_text(const char *label, const change *c, ls_buf *out) {
    char interval[40] = "";
    if (isfinite(c->low)) snprintf(interval, sizeof interval, "%.3f - %.3f", c->low, c->high);
    ls_visible_row(out, "%-24s %7zu %6.2f %6.2f %9.1f %9.1f %7.3f %15s  %s%s", label, c->n, c->a_mat, c->b_mat,
                   c->a_rate, c->b_rate, c->ratio, interval, verdict(c), c->same ? "" : "; OTHER STEPS");
}

// What makes two measurements different before any method is.
static void tell_machines(const ls_manifest *a, const ls_manifest *b, ls_buf *out) {
    static const struct {
        const char *words;
        size_t at;
    } texts[] = {
#define TEXT(field, words) {words, offsetof(ls_manifest, field)},
#define NUMBER(field, words, unit)
#include "report/manifest.def"
#undef TEXT
#undef NUMBER
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *x = (const char *)a + texts[i].at, *y = (const char *)b + texts[i].at;
        if (strcmp(x, y))
            ls_visible_row(out, "%s: %s | %s", texts[i].words, *x ? x : "(not told)", *y ? y : "(not told)");
    }
    if (isfinite(a->read_gb_per_s) && isfinite(b->read_gb_per_s))
        ls_buf_fmt(out, "read bandwidth: %.1f | %.1f GB/s (x%.3f)\n", a->read_gb_per_s, b->read_gb_per_s,
                   b->read_gb_per_s / a->read_gb_per_s);
}

ls_code ls_bench_diff(const ls_bench *a, const ls_bench *b, ls_buf *out, bool json, ls_err *err) {
    ls_jsonw w = {.out = out};
    int methods = 0;
    size_t prompts = 0;
    if (json) {
        ls_jw_open(&w, '{');
        ls_jw_field_open(&w, "methods", '[');
    } else {
        tell_machines(&a->manifest, &b->manifest, out);
        ls_buf_fmt(out, "\n%-24s %7s %6s %6s %9s %9s %7s %15s\n", "method", "prompts", "MAT", "MAT", "tokens/s",
                   "tokens/s", "ratio", "95%");
    }
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            if (strcmp(a->methods[i].label, b->methods[k].label)) continue;
            const change c = change_of(a, i, b, k);
            methods++;
            if (!c.n) continue;
            prompts = c.n;
            if (json) write_json(a->methods[i].label, &c, &w);
            else write_text(a->methods[i].label, &c, out);
            break;
        }
    if (!methods || !prompts)
        return ls_fail(err, LS_E_RANGE, "the two have no %s in common", methods ? "prompt" : "method");
    if (json) {
        ls_jw_close(&w, ']');
        ls_jw_close(&w, '}');
        ls_buf_char(out, '\n');
    } else
        ls_buf_fmt(out,
                   "\nratio: tokens/s of the second over the first on the same %zu prompt%s; 95%%: resampling "
                   "prompts\n",
                   prompts, ls_plural(prompts));
    return LS_OK;
}
