#include "cli/comparison.h"
#include "base/mem.h"
#include "cli/item_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ls_result *ls_comparison_result(const ls_comparison *k, size_t prompt, int contender) {
    return &k->results[prompt * (size_t)k->n + (size_t)contender];
}

ls_promise ls_comparison_promise(const ls_comparison *k, int contender) {
    const ls_decode_options *o = &k->c[contender].setup.s.decode;
    return ls_accept_promise(&o->accept, o->sampling.temperature);
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
    k->done = k->disturbed = 0;
    k->sessions = ls_calloc((size_t)n, sizeof *k->sessions);
    k->results = ls_calloc(k->suite.n * (size_t)n, sizeof *k->results);
    for (int i = n - 1; i >= 0; i--) {
        if (!c[i].method->make) k->ar = i;
        if (ls_comparison_promise(k, i) == LS_PROMISE_TEXT) k->reference = i;
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

typedef struct {
    const ls_comparison *k;
    size_t first; // turns of the items before this one
} telling;

static void tell_begin(void *ud, const ls_turn_begun *t) {
    const telling *w = ud;
    w->k->on_begin(w->k->ud, w->first + t->turn, t->context);
}

static void tell_step(void *ud, size_t turn, const ls_step *step) {
    const telling *w = ud;
    w->k->on_step(w->k->ud, w->first + turn, step);
}

static ls_code run_one(ls_comparison *k, size_t at, int i, ls_err *err) {
    const ls_suite_item *item = &k->suite.items[at];
    telling to = {k, item->first};
    const ls_item_listener listener = {
        .begin = k->on_begin ? tell_begin : NULL, .step = k->on_step ? tell_step : NULL, .ud = &to};
    return ls_item_run(k->sessions[i], &k->model, &k->c[0].setup.s, item, &listener, ls_comparison_result(k, at, i),
                       err);
}

static ls_code run_once(ls_comparison *k, size_t at, ls_err *err) {
    ls_code code = LS_OK;
    for (int j = 0; j < k->n && !code; j++) // each contender goes first equally often
        code = run_one(k, at, (int)((at + (size_t)j) % (size_t)k->n), err);
    if (code) return code;
    for (int i = 0; i < k->n; i++)
        ls_result_judge(ls_comparison_result(k, at, i), k->ar < 0 ? NULL : ls_comparison_result(k, at, k->ar),
                        k->reference < 0 ? NULL : ls_comparison_result(k, at, k->reference));
    return LS_OK;
}

static double noise_of(const ls_comparison *k, size_t at) {
    double most = 0;
    for (int i = 0; i < k->n; i++) most = fmax(most, ls_result_noise(ls_comparison_result(k, at, i)));
    return most;
}

// Puts the drafters back to where they were before the prompt. False: one of them cannot be.
static bool rewind_all(ls_comparison *k, const ls_buf *before) {
    bool known = true;
    for (int i = 0; i < k->n; i++) known &= ls_session_return(k->sessions[i], &before[i]);
    return known;
}

// The results of the quietest run so far stay in best; *least: how noisy it was.
static void keep_quieter(ls_comparison *k, size_t at, ls_result *best, double *least) {
    ls_result *results = ls_comparison_result(k, at, 0);
    const double noise = noise_of(k, at);
    for (int i = 0; i < k->n; i++) {
        ls_ids_free(noise < *least ? &best[i].output : &results[i].output);
        if (noise < *least) best[i] = results[i];
        results[i] = (ls_result){0};
    }
    *least = fmin(*least, noise);
}

static ls_code run_prompt(ls_comparison *k, size_t at, ls_err *err) {
    enum { ATTEMPTS = 3 };
    const size_t n = (size_t)k->n;
    ls_result *results = ls_comparison_result(k, at, 0), *best = ls_calloc(n, sizeof *best);
    ls_buf *before = ls_calloc(n, sizeof *before);
    double least = INFINITY;
    ls_code code = LS_OK;
    for (size_t i = 0; i < n; i++) ls_session_remember(k->sessions[i], &before[i]);
    for (int attempt = 0; !code && attempt < ATTEMPTS && !(least <= LS_BUSY); attempt++) {
        if (attempt && (k->on_step || !rewind_all(k, before))) break;
        if (attempt) ls_gauge_show(k->gauge, "the machine is busy: once more", (double)at / (double)k->suite.n);
        if (!(code = run_once(k, at, err))) keep_quieter(k, at, best, &least);
    }
    for (size_t i = 0; i < n; i++) {
        ls_ids_free(code ? &best[i].output : &results[i].output);
        if (!code) results[i] = best[i];
        ls_buf_free(&before[i]);
    }
    if (!code) k->disturbed += least > LS_BUSY;
    free(best);
    free(before);
    return code;
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

void ls_comparison_tell_busy(const ls_comparison *k, ls_buf *out) {
    if (k->disturbed)
        ls_buf_fmt(out,
                   "busy: other programs used the processors in every run of %zu of %zu prompts: "
                   "the tokens are right, the times are not\n",
                   k->disturbed, k->done);
}

ls_total ls_comparison_total(const ls_comparison *k, int contender, const char *category) {
    const ls_result **members = ls_calloc(k->done + 1, sizeof *members);
    size_t n = 0;
    for (size_t p = 0; p < k->done; p++)
        if (!category || !strcmp(category, k->suite.items[p].category))
            members[n++] = ls_comparison_result(k, p, contender);
    const ls_total t = ls_total_of(members, n, true);
    free(members);
    return t;
}

const char **ls_comparison_categories(const ls_comparison *k) {
    const char **out = ls_calloc(k->done + 1, sizeof *out);
    for (size_t p = 0; p < k->done; p++) out[p] = k->suite.items[p].category;
    ls_suite_distinct(out, k->done);
    return out;
}
