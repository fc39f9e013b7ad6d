#include "cli/comparison.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/dialog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };

ls_result *ls_comparison_result(const ls_comparison *k, size_t prompt, int contender) {
    return &k->results[prompt * (size_t)k->n + (size_t)contender];
}

bool ls_comparison_lossy(const ls_comparison *k, int contender) {
    return ls_accept_is_lossy(&k->c[contender].setup.s.decode.accept);
}

ls_code ls_comparison_prompts(ls_comparison *k, const ls_command_line *c, ls_err *err) {
    if (c->suite && (c->prompt || c->prompt_file))
        return ls_fail(err, LS_E_USAGE, "--suite and --prompt exclude each other");
    if (c->suite) return ls_suite_read(&k->suite, c->suite, err);
    ls_buf prompt = {0};
    const ls_code code = ls_read_prompt(c, true, &prompt, err);
    if (!code) {
        ls_suite_add(&k->suite, "1", "");
        ls_suite_add_turn(&k->suite, prompt.p, prompt.n);
    }
    ls_buf_free(&prompt);
    return code;
}

ls_code ls_comparison_open(ls_comparison *k, ls_contender *c, int n, ls_err *err) {
    ls_code code = LS_OK;
    k->c = c;
    k->n = n;
    k->ar = k->reference = -1;
    k->done = 0;
    k->sessions = ls_calloc((size_t)n, sizeof *k->sessions);
    k->results = ls_calloc(k->suite.n * (size_t)n, sizeof *k->results);
    for (int i = n - 1; i >= 0; i--) {
        if (!c[i].method->make) k->ar = i;
        if (!ls_comparison_lossy(k, i)) k->reference = i;
    }
    if (!k->model.engine) {
        ls_model_options model = c[0].setup.s.model;
        ls_gauge_watch(k->gauge, &model.engine);
        code = ls_model_load(&k->model, &model, err);
    }
    for (int i = 0; i < n && !code; i++) {
        if ((code = ls_session_new(&k->sessions[i], &k->model, &c[i].setup.s.decode, err))) break;
        code = ls_session_calibrate(k->sessions[i], ls_gauge_show, k->gauge, err);
    }
    return code;
}

void ls_comparison_close(ls_comparison *k) {
    for (int i = 0; k->sessions && i < k->n; i++) ls_session_free(k->sessions[i]);
    for (size_t i = 0; k->results && i < k->suite.n * (size_t)k->n; i++) ls_ids_free(&k->results[i].output);
    free(k->sessions);
    free(k->results);
    ls_contenders_free(k->c, k->n);
    k->sessions = NULL;
    k->results = NULL;
    k->c = NULL;
    k->n = 0;
}

void ls_comparison_free(ls_comparison *k) {
    ls_comparison_close(k);
    ls_suite_free(&k->suite);
    ls_model_free(&k->model);
}

static ls_code run_turn(const ls_comparison *k, size_t at, size_t turn, int i, ls_dialog *dialog, ls_step *step,
                        ls_err *err) {
    const ls_suite_item *item = &k->suite.items[at];
    const ls_suite_turn *said = &item->turns[turn];
    const ls_setup *setup = &k->c[0].setup.s;
    ls_session *s = k->sessions[i];
    ls_result *r = ls_comparison_result(k, at, i);
    ls_next_prompt p;
    double prefill_ms = 0;
    ls_code code =
        ls_dialog_prompt(dialog, &k->model, setup->format, setup->system, turn, said->text, said->n, &p, err);
    if (code) return code;
    if (turn && p.kept + p.ids.n + 1 >= (size_t)k->model.engine->n_context) { // the conversation does not go on
        r->finish = LS_FINISH_CONTEXT;
        ls_next_prompt_free(&p);
        return LS_OK;
    }
    code = ls_session_begin_at(s, (uint32_t)turn, p.kept, p.ids.p, (int32_t)p.ids.n, NULL, NULL, &prefill_ms, err);
    if (!code) {
        ls_dialog_begin(dialog, turn, said->text, said->n, &p);
        r->finish = LS_GOING;
        r->prefill_ms += prefill_ms;
        r->turns++;
        if (k->on_begin) k->on_begin(k->ud, item->first + turn, ls_session_context(s));
    }
    ls_next_prompt_free(&p);
    while (!code && !r->finish) {
        if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
        else if (!(code = ls_session_step(s, step, err))) {
            ls_stats_add(&r->stats, step);
            r->finish = step->finish;
            if (k->on_step) k->on_step(k->ud, item->first + turn, step);
        }
    }
    if (code) return code;
    const ls_ids *out = ls_session_output(s);
    ls_ids_add(&r->output, out->p, out->n);
    ls_dialog_answer(dialog, &k->model, ls_session_text(s), out->p, out->n - (r->finish == LS_FINISH_EOS));
    return LS_OK;
}

static ls_code run_one(const ls_comparison *k, size_t at, int i, ls_err *err) {
    ls_dialog *dialog = ls_dialog_new();
    ls_step *step = ls_malloc(sizeof *step);
    ls_code code = LS_OK;
    ls_session_reset(k->sessions[i]);
    const ls_result *r = ls_comparison_result(k, at, i);
    for (size_t turn = 0; turn < k->suite.items[at].n_turns && !code && r->turns == turn; turn++)
        code = run_turn(k, at, turn, i, dialog, step, err);
    free(step);
    ls_dialog_free(dialog);
    return code;
}

static ls_code run_prompt(ls_comparison *k, size_t at, ls_err *err) {
    ls_code code = LS_OK;
    for (int j = 0; j < k->n && !code; j++) // each contender goes first equally often
        code = run_one(k, at, (int)((at + (size_t)j) % (size_t)k->n), err);
    if (code) return code;
    for (int i = 0; i < k->n; i++) {
        ls_result *r = ls_comparison_result(k, at, i);
        r->ar_us = r->stats.ar_us;
        if (k->ar >= 0) { // scaled to as many tokens: a lossy text may be shorter or longer
            const ls_stats *ar = &ls_comparison_result(k, at, k->ar)->stats;
            r->ar_us = ar->emitted ? ar->total_us * (double)r->stats.emitted / (double)ar->emitted : 0;
        }
        r->first_difference = -1;
        if (k->reference < 0) continue;
        const ls_ids *want = &ls_comparison_result(k, at, k->reference)->output;
        const size_t both = r->output.n < want->n ? r->output.n : want->n;
        size_t same = 0;
        while (same < both && r->output.p[same] == want->p[same]) same++;
        if (same < r->output.n || same < want->n) r->first_difference = (long)same;
    }
    return LS_OK;
}

ls_code ls_comparison_run(ls_comparison *k, ls_err *err) {
    ls_code code = LS_OK;
    for (size_t p = 0; p < k->suite.n && !code; p++) {
        ls_gauge_show(k->gauge, "comparing", (double)p / (double)k->suite.n);
        if ((code = run_prompt(k, p, err))) {
            if (code != LS_E_CANCELLED) ls_err_prefix(err, "prompt %s", k->suite.items[p].name);
        } else k->done++;
    }
    return code;
}

static void add_to(ls_total *t, const ls_comparison *k, const ls_result *r) {
    const ls_stats *st = &r->stats;
    t->prompts++;
    t->turns += r->turns;
    t->emitted += st->emitted;
    t->steps += st->steps;
    t->forwards += st->forwards;
    t->drafted += st->drafted;
    t->accepted += st->accepted;
    t->different += r->first_difference >= 0;
    t->loose += st->loose;
    t->decode_us += st->total_us;
    t->draft_us += st->draft_us;
    t->forward_us += st->forward_us;
    t->prefill_ms += r->prefill_ms;
    t->ar_us += r->ar_us;
    t->against_us += k->ar >= 0 ? st->total_us : st->ar_against_us;
}

double ls_total_speedup(const ls_total *t) {
    return t->ar_us > 0 && t->against_us > 0 ? t->ar_us / t->against_us : NAN;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ls_total ls_comparison_total(const ls_comparison *k, int contender, const char *category) {
    ls_total t = {0};
    size_t *members = ls_malloc((k->done + 1) * sizeof *members), n = 0;
    for (size_t p = 0; p < k->done; p++)
        if (!category || !strcmp(category, k->suite.items[p].category)) members[n++] = p;
    for (size_t i = 0; i < n; i++) add_to(&t, k, ls_comparison_result(k, members[i], contender));
    t.low = t.high = NAN;
    if (n >= 3) {
        double *sample = ls_malloc(RESAMPLES * sizeof *sample);
        for (int s = 0; s < RESAMPLES; s++) {
            ls_total one = {0};
            for (size_t i = 0; i < n; i++)
                add_to(&one, k,
                       ls_comparison_result(k, members[(size_t)(ls_uniform_at(1, (uint64_t)s * n + i) * (double)n)],
                                            contender));
            sample[s] = ls_total_speedup(&one);
        }
        qsort(sample, RESAMPLES, sizeof *sample, by_value);
        t.low = sample[RESAMPLES / 40];
        t.high = sample[RESAMPLES - 1 - RESAMPLES / 40];
        free(sample);
    }
    free(members);
    return t;
}

const char **ls_comparison_categories(const ls_comparison *k) {
    const char **out = ls_calloc(k->done + 1, sizeof *out);
    size_t n = 0;
    for (size_t p = 0; p < k->done; p++) {
        const char *c = k->suite.items[p].category;
        size_t i = 0;
        while (i < n && strcmp(out[i], c)) i++;
        if (i == n && *c) out[n++] = c;
    }
    return out;
}
