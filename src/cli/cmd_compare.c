// The same prompts by several methods, in turn, on one engine: are the outputs equal, and what does each method gain?
#include "base/jsonw.h"
#include "base/visible.h"
#include "cli/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void table(const ls_comparison *k, ls_buf *out) {
    const ls_engine *b = k->model.engine;
    const int width = ls_contenders_width(k->c, k->n);
    size_t turns = 0;
    for (size_t p = 0; p < k->done; p++) turns += ls_comparison_result(k, p, 0)->turns;
    char more[40] = "";
    if (turns > k->done) snprintf(more, sizeof more, ", %zu turns", turns);
    ls_visible_row(out, "%s, %s on %s, %d threads (%s); %zu prompts%s, at most %d new tokens", k->model.name, b->dtype,
                   b->device, b->threads, b->kernel, k->done, more, k->c[0].setup.s.decode.max_tokens);
    ls_buf_fmt(out, "\n%-*s %6s %17s %9s %8s %15s %9s %9s  %s\n", width, "method", "MAT", "accepted/verified",
               "tokens/s", "speedup", "95%", "draft", "host", "output");
    for (int i = 0; i < k->n; i++) {
        const ls_total t = ls_comparison_total(k, i, NULL);
        char interval[40] = "", rate[40], speedup[LS_TOTAL_BYTES];
        if (isfinite(t.low)) snprintf(interval, sizeof interval, "%.2f - %.2f", t.low, t.high);
        snprintf(rate, sizeof rate, "%llu/%llu", (unsigned long long)t.accepted, (unsigned long long)t.drafted);
        ls_visible_fmt(out, "%-*s %6.2f %17s %9.1f %8s %15s %6.0f us %6.0f us  ", width, k->c[i].label,
                       ls_per((double)t.emitted, t.steps), rate,
                       t.decode_us > 0 ? 1e6 * (double)t.emitted / t.decode_us : 0, ls_total_speedup_text(speedup, &t),
                       interval, ls_per(t.draft_us, t.forwards), ls_per(t.host_us, t.forwards));
        const ls_promise promise = ls_comparison_promise(k, i);
        if (promise == LS_PROMISE_ODDS) ls_buf_str(out, "same odds, another draw: ");
        if (promise == LS_PROMISE_NONE)
            ls_buf_fmt(out, "LOSSY: %llu of %llu tokens not the target's choice, ", (unsigned long long)t.loose,
                       (unsigned long long)t.emitted);
        if (t.different)
            ls_buf_fmt(out, "DIFFERS in %llu of %llu\n", (unsigned long long)t.different,
                       (unsigned long long)t.prompts);
        else
            ls_buf_str(out, i == k->reference  ? "reference\n"
                            : k->reference < 0 ? "no exact method to compare\n"
                                               : "equal\n");
    }
    ls_buf_str(out, k->ar >= 0 ? "\nspeedup: against `ar`, run here on the same prompts in turn"
                               : "\nspeedup: against single-row forwards timed in the same runs");
    ls_buf_str(out, "; 95%: resampling prompts; draft and host: a step with a forward\n");
    ls_comparison_tell_busy(k, out);
    const char **names = ls_comparison_categories(k);
    if (names[0] && names[1]) {
        ls_buf_fmt(out, "\n%-*s", width, "MAT, speedup");
        for (int c = 0; names[c]; c++) ls_visible_fmt(out, " %15.15s", names[c]);
        ls_buf_char(out, '\n');
        for (int i = 0; i < k->n; i++) {
            ls_visible_fmt(out, "%-*s", width, k->c[i].label);
            for (int c = 0; names[c]; c++) {
                const ls_total t = ls_comparison_total(k, i, names[c]);
                char cell[40];
                snprintf(cell, sizeof cell, "%.2f  x%.2f", ls_per((double)t.emitted, t.steps), ls_total_speedup(&t));
                ls_buf_fmt(out, " %15s", cell);
            }
            ls_buf_char(out, '\n');
        }
    }
    free(names);
}

static void write_total(ls_jsonw *w, const ls_total *t) {
    ls_jw_field_u64(w, "prompts", t->prompts);
    ls_jw_field_u64(w, "turns", t->turns);
    ls_jw_field_u64(w, "emitted", t->emitted);
    ls_jw_field_u64(w, "steps", t->steps);
    ls_jw_field_num(w, "mat", ls_per((double)t->emitted, t->steps), 6);
    ls_jw_field_u64(w, "draft_verified", t->drafted);
    ls_jw_field_u64(w, "draft_accepted", t->accepted);
    ls_jw_field_num(w, "decode_ms", t->decode_us / 1e3, 6);
    ls_jw_field_num(w, "prefill_ms", t->prefill_ms, 6);
    ls_jw_field_num(w, "tokens_per_s", t->decode_us > 0 ? 1e6 * (double)t->emitted / t->decode_us : NAN, 6);
    ls_jw_field_num(w, "speedup", ls_total_speedup(t), 6);
    ls_jw_field_num(w, "speedup_low", t->low, 6);
    ls_jw_field_num(w, "speedup_high", t->high, 6);
    ls_jw_field_num(w, "draft_us_per_step", ls_per(t->draft_us, t->forwards), 6);
    ls_jw_field_num(w, "host_us_per_step", ls_per(t->host_us, t->forwards), 6);
    ls_jw_field_u64(w, "different", t->different);
    ls_jw_field_u64(w, "tokens_not_chosen", t->loose);
}

static void json(const ls_comparison *k, ls_buf *out) {
    ls_jsonw w = {.out = out};
    const ls_engine *b = k->model.engine;
    const char **names = ls_comparison_categories(k);
    ls_jw_open(&w, '{');
    ls_jw_field_str(&w, "model", k->model.name);
    ls_jw_field_str(&w, "sha256", k->model.sha256);
    ls_jw_field_str(&w, "device", b->device);
    ls_jw_field_str(&w, "dtype", b->dtype);
    ls_jw_field_str(&w, "kernel", b->kernel);
    ls_jw_field_int(&w, "threads", b->threads);
    ls_jw_field_bool(&w, "exact", b->exact);
    ls_jw_field_int(&w, "max_tokens", k->c[0].setup.s.decode.max_tokens);
    ls_jw_field_str(&w, "speedup_against", k->ar >= 0 ? "ar" : "single-row forwards");
    ls_jw_field_u64(&w, "disturbed_prompts", k->disturbed);
    bool equal = true; // all of the exact ones
    ls_jw_field_open(&w, "methods", '[');
    for (int i = 0; i < k->n; i++) {
        const ls_total t = ls_comparison_total(k, i, NULL);
        if (ls_comparison_promise(k, i) == LS_PROMISE_TEXT) equal &= !t.different;
        ls_jw_open(&w, '{');
        ls_jw_field_str(&w, "method", k->c[i].label);
        ls_jw_field_bool(&w, "lossy", ls_comparison_promise(k, i) == LS_PROMISE_NONE);
        ls_jw_field_str(&w, "promise", ls_promise_name(ls_comparison_promise(k, i)));
        write_total(&w, &t);
        ls_jw_field_open(&w, "categories", '[');
        for (int c = 0; names[c]; c++) {
            const ls_total part = ls_comparison_total(k, i, names[c]);
            ls_jw_open(&w, '{');
            ls_jw_field_str(&w, "category", names[c]);
            write_total(&w, &part);
            ls_jw_close(&w, '}');
        }
        ls_jw_close(&w, ']');
        ls_jw_close(&w, '}');
    }
    ls_jw_close(&w, ']');
    ls_jw_field_bool(&w, "equal", equal);
    ls_jw_field_open(&w, "runs", '[');
    for (size_t p = 0; p < k->done; p++)
        for (int i = 0; i < k->n; i++) {
            const ls_result *r = ls_comparison_result(k, p, i);
            ls_jw_open(&w, '{');
            ls_jw_field_str(&w, "prompt", k->suite.items[p].name);
            ls_jw_field_str(&w, "category", k->suite.items[p].category);
            ls_jw_field_str(&w, "method", k->c[i].label);
            ls_jw_field_u64(&w, "turns", r->turns);
            ls_jw_field_u64(&w, "emitted", r->stats.emitted);
            ls_jw_field_u64(&w, "steps", r->stats.steps);
            ls_jw_field_num(&w, "decode_ms", r->stats.total_us / 1e3, 6);
            ls_jw_field_num(&w, "prefill_ms", r->prefill_ms, 6);
            ls_jw_field_num(&w, "ar_ms", r->ar_us / 1e3, 6);
            ls_jw_field_str(&w, "finish_reason", ls_finish_name(r->finish));
            ls_jw_key(&w, "first_difference");
            if (r->first_difference < 0) ls_jw_null(&w);
            else ls_jw_int(&w, r->first_difference);
            ls_jw_close(&w, '}');
        }
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
    ls_buf_char(out, '\n');
    free(names);
}

static ls_code run_all(ls_comparison *k, const ls_command_line *c, ls_err *err) {
    const char *list = c->methods ? c->methods : "ar,logitspec,logitspec-paper";
    ls_options base; // one seed for all
    ls_contender *contenders;
    int n;
    ls_options_copy(&base, &c->options);
    ls_settle_seed(&base);
    ls_code code = ls_contenders_read(&contenders, &n, "--methods", list, &base, err);
    ls_options_free(&base);
    if (code) return code;
    k->c = contenders;
    k->n = n;
    if ((code = ls_comparison_prompts(k, c, err)) || (code = ls_comparison_open(k, contenders, n, err))) return code;
    return ls_comparison_run(k, err);
}

int ls_cmd_compare(const ls_command_line *c) {
    ls_err err = {0};
    ls_gauge gauge = ls_gauge_start(c->quiet || c->json);
    ls_comparison k = {.gauge = &gauge};
    ls_catch_signals();
    const ls_code code = run_all(&k, c, &err);
    ls_gauge_clear(&gauge);
    int status = LS_EXIT_OK;
    if (k.done) { // shows the results that are complete, even if an error ended the rest
        ls_buf out = {0};
        if (c->json) json(&k, &out);
        else table(&k, &out);
        if (!ls_print(&out)) status = LS_EXIT_FAILED;
    }
    if (code) status = ls_complain(&err);
    for (size_t p = 0; p < k.done && !status; p++)
        for (int i = 0; i < k.n; i++)
            if (k.model.engine->exact && ls_comparison_promise(&k, i) == LS_PROMISE_TEXT &&
                ls_comparison_result(&k, p, i)->first_difference >= 0)
                status = LS_EXIT_DIFFER;
    ls_comparison_free(&k);
    return status;
}
