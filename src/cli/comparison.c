#include "cli/comparison.h"
#include "base/file.h"
#include "base/system.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- one conversation

typedef struct {
    ls_result *result;
    ls_cost_curve window; // of the model
} work;

// So that r->gaps has one for each token of r->output: a turn's end is no part of the output.
static void align_gaps(ls_result *r) {
    const size_t want = r->output.n * sizeof(double);
    for (const double unknown = NAN; r->gaps.n < want;) ls_buf_add(&r->gaps, &unknown, sizeof unknown);
    r->gaps.n = want;
}

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    ls_result *r = ((const work *)ud)->result;
    (void)run;
    align_gaps(r);
    r->prefill_ms += prefill_ms;
    r->turn = ls_realloc(r->turn, (r->turns + 1) * sizeof *r->turn);
    r->turn[r->turns++] = (ls_result_turn){.prefill_ms = prefill_ms};
}

static void on_step(void *ud, const ls_step *step) {
    const work *w = ud;
    ls_result *r = w->result;
    ls_stats_add(&r->stats, step);
    if (step->forward) // behind a sliding window, what is read of the context
        r->stats.context -= (uint64_t)(step->context_len - lround(ls_cost_seen(&w->window, step->context_len)));
    ls_ids_push(&r->lengths, step->n_emitted);
    for (int k = 0; k < step->n_emitted; k++) {
        const double gap = ls_step_gap(step, k);
        ls_buf_add(&r->gaps, &gap, sizeof gap);
    }
}

static ls_code run_turn(ls_runner *run, size_t turn, const ls_suite_item *item, ls_result *r, ls_err *err) {
    const ls_buf *said = &item->turns[turn];
    ls_code code = ls_runner_begin(run, turn, (ls_str){said->p, said->n}, item->system, NULL, err);
    if (code && turn && run->full) { // no room: the conversation ends
        r->finish = LS_FINISH_CONTEXT;
        return LS_OK;
    }
    while (!code && ls_runner_active(run))
        code = ls_interrupted ? ls_fail(err, LS_E_CANCELLED, "interrupted") : ls_runner_step(run, err);
    if (code) return code;
    const ls_ids *out = ls_session_output(run->session);
    const ls_buf *text = ls_session_text(run->session);
    ls_result_turn *t = &r->turn[r->turns - 1];
    t->text = ls_strndup(text->n ? text->p : "", text->n);
    t->n = text->n;
    t->steps = run->stats.steps;
    t->emitted = run->stats.emitted;
    t->decode_ms = run->stats.total_us / 1e3;
    r->finish = ls_runner_finish(run);
    ls_ids_add(&r->output, out->p, out->n);
    return LS_OK;
}

ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_run_sink *also, ls_result *r, ls_err *err) {
    work w = {.result = r};
    ls_costs_window(&w.window, m->engine);
    ls_runner run = {.session = s, .model = m, .setup = setup, .sinks[0] = {on_begin, on_step, NULL, &w}, .n_sinks = 1};
    ls_code code = LS_OK;
    if (also) run.sinks[run.n_sinks++] = *also;
    ls_session_reset(s);
    for (size_t turn = 0; turn < item->n_turns && !code && r->turns == turn; turn++)
        code = run_turn(&run, turn, item, r, err);
    ls_runner_free(&run);
    return code;
}

// ---- all of them

static ls_guarantee guarantee_of(const ls_comparison *k, int variant) {
    return ls_decode_guarantee(&k->c[variant].setup.s.decode);
}

ls_code ls_comparison_prompts(ls_comparison *k, const ls_command_line *c, ls_err *err) {
    if (c->suite && (c->prompt || c->prompt_file))
        return ls_fail(err, LS_E_USAGE, "--suite and --prompt cannot be combined");
    if (c->suite) return ls_suite_read(&k->suite, c->suite, true, err);
    ls_buf prompt = {0};
    const ls_code code = ls_read_prompt(c, true, &prompt, err);
    if (!code) {
        ls_suite_add(&k->suite, "1", "");
        ls_suite_add_turn(&k->suite, prompt.p, prompt.n);
    }
    ls_buf_free(&prompt);
    return code;
}

// Enters methods and prompts into the results.
static void list(ls_comparison *k) {
    ls_bench *b = &k->b;
    b->n = k->n;
    b->planned = b->n_prompts = k->suite.n;
    b->max_tokens = k->c[0].setup.s.decode.max_tokens;
    b->repeat = k->repeat > 1 ? k->repeat : 1;
    b->methods = ls_calloc((size_t)k->n, sizeof *b->methods);
    b->prompts = ls_calloc(k->suite.n, sizeof *b->prompts);
    for (int i = 0; i < k->n; i++) {
        ls_bench_method *m = &b->methods[i];
        snprintf(m->label, sizeof m->label, "%s", k->c[i].label);
        snprintf(m->guarantee, sizeof m->guarantee, "%s", ls_guarantee_name(guarantee_of(k, i)));
        m->plain = !k->c[i].method->drafter;
        if (!*b->judged && guarantee_of(k, i) == LS_SAME_TEXT) snprintf(b->judged, sizeof b->judged, "%s", m->label);
        if (m->plain) snprintf(b->against, sizeof b->against, "plain");
    }
    if (!*b->against) snprintf(b->against, sizeof b->against, "single-row forwards");
    for (size_t p = 0; p < k->suite.n; p++) {
        const ls_suite_item *item = &k->suite.items[p];
        ls_bench_prompt *to = &b->prompts[p];
        char sum[65];
        ls_buf text = {0};
        ls_suite_text(item, &text);
        ls_sha256_hex(text.p, text.n, sum);
        ls_buf_free(&text);
        *to = (ls_bench_prompt){
            .name = ls_strdup(item->name), .category = ls_strdup(item->category), .task = ls_strdup(item->task)};
        snprintf(to->text, sizeof to->text, "%.16s", sum);
    }
    ls_bench_begin(b);
}

ls_code ls_comparison_open(ls_comparison *k, ls_err *err) {
    ls_code code = LS_OK;
    k->sessions = ls_calloc((size_t)k->n, sizeof *k->sessions);
    list(k);
    if (!k->model.engine) {
        ls_model_options model = k->c[0].setup.s.model;
        ls_gauge_watch(&model.engine);
        code = ls_model_load(&k->model, &model, err);
    }
    if (!code) k->b.exact = k->model.engine->exact;
    for (int i = 0; i < k->n && !code; i++) {
        if ((code = ls_session_new(&k->sessions[i], &k->model, &k->c[i].setup.s.decode, err))) break;
        code = ls_session_calibrate(k->sessions[i], LS_COSTS_MEASURED, ls_gauge_show, NULL, err);
    }
    return code;
}

void ls_comparison_close(ls_comparison *k) {
    for (int i = 0; k->sessions && i < k->n; i++) ls_session_free(k->sessions[i]);
    free(k->sessions);
    ls_bench_free(&k->b);
    ls_variants_free(k->c, k->n);
    k->sessions = NULL;
    k->c = NULL;
    k->n = 0;
}

void ls_comparison_free(ls_comparison *k) {
    ls_comparison_close(k);
    ls_suite_free(&k->suite);
    ls_model_free(&k->model);
}

// The text of a token of the output; "": the output has ended there.
static void token_text(const ls_comparison *k, const ls_ids *output, size_t at, char *out, size_t size) {
    ls_buf text = {0};
    size_t n = 0;
    const char *bytes = at < output->n ? ls_vocab_bytes(k->model.vocab, output->p[at], &n) : "";
    ls_sanitize_line(&text, bytes, n);
    size_t fits = text.n < size ? text.n : size - 1;
    while (fits && fits < text.n && (text.p[fits] & 0xC0) == 0x80) fits--; // a character stays whole
    if (fits) memcpy(out, text.p, fits);
    out[fits] = 0;
    ls_buf_free(&text);
}

static void judge(ls_comparison *k, size_t at) {
    const ls_result *plain = k->b.plain < 0 ? NULL : ls_bench_result(&k->b, at, k->b.plain),
                    *reference = k->b.reference < 0 ? NULL : ls_bench_result(&k->b, at, k->b.reference);
    for (int i = 0; i < k->n; i++) {
        ls_result *r = ls_bench_result(&k->b, at, i);
        ls_result_judge(r, plain, reference);
        for (int of = 0; of < 2 && r->first_difference >= 0; of++)
            token_text(k, of ? &r->output : &reference->output, (size_t)r->first_difference, r->tokens[of],
                       sizeof r->tokens[of]);
    }
}

static ls_code run_once(ls_comparison *k, size_t at, ls_err *err) {
    ls_code code = LS_OK;
    for (int j = 0; j < k->n && !code; j++) {
        const int i = (int)((at + (size_t)j) % (size_t)k->n); // each variant goes first equally often
        code = ls_item_run(k->sessions[i], &k->model, &k->c[0].setup.s, &k->suite.items[at], k->also,
                           ls_bench_result(&k->b, at, i), err);
    }
    if (!code) judge(k, at);
    return code;
}

static double noise_of(const ls_comparison *k, size_t at) {
    double most = 0;
    for (int i = 0; i < k->n; i++) most = fmax(most, ls_result_noise(ls_bench_result(&k->b, at, i)));
    return most;
}

// Restores the state of the drafters before the prompt. False: the state of a drafter was too large to copy.
static bool rewind_all(ls_comparison *k, const ls_buf *before) {
    bool known = true;
    for (int i = 0; i < k->n; i++) known &= ls_session_restore(k->sessions[i], &before[i]);
    return known;
}

static void move(ls_result *to, ls_result *from) {
    ls_result_free(to);
    *to = *from;
    *from = (ls_result){0};
}

// Runs the prompt until no other program disturbs it, at most three times. best gets the least disturbed run, *least
// its noise, the largest of its variants (ls_result_noise). again: the drafters have learned from this prompt and must
// be restored first. LS_E_UNSUPPORTED: they cannot.
static ls_code run_until_idle(ls_comparison *k, size_t at, const ls_buf *before, bool again, ls_result *best,
                              double *least, ls_err *err) {
    enum { ATTEMPTS = 3 };
    ls_result *results = ls_bench_result(&k->b, at, 0);
    *least = INFINITY;
    for (int attempt = 0; attempt < ATTEMPTS && !(*least <= LS_BUSY); attempt++, again = true) {
        if (again && (k->also || !rewind_all(k, before))) break;
        if (attempt) ls_gauge_show(NULL, "the machine is busy: repeating the prompt", (double)at / (double)k->suite.n);
        const ls_code code = run_once(k, at, err);
        if (code) return code;
        const double noise = noise_of(k, at);
        for (int i = 0; i < k->n; i++) {
            if (noise < *least) move(&best[i], &results[i]);
            else ls_result_free(&results[i]);
        }
        *least = fmin(*least, noise);
    }
    return isinf(*least) ? ls_fail(err, LS_E_UNSUPPORTED,
                                   "--repeat: the state of a drafter is too large to restore (over 256 MiB)")
                         : LS_OK;
}

static int by_time(const void *a, const void *b) {
    const double x = ((const ls_result *)a)->stats.total_us, y = ((const ls_result *)b)->stats.total_us;
    return (x > y) - (x < y);
}

// The run with the median time becomes the result of each variant. runs: [k->b.repeat][variant], freed here.
static void take_medians(ls_comparison *k, size_t at, ls_result *runs) {
    const size_t n = (size_t)k->b.repeat;
    ls_result *of = ls_calloc(n, sizeof *of);
    for (int i = 0; i < k->n; i++) {
        for (size_t r = 0; r < n; r++) of[r] = runs[r * (size_t)k->n + (size_t)i];
        qsort(of, n, sizeof *of, by_time);
        ls_result *median = &of[n / 2];
        // spread: range of the times, relative to the median
        if (n > 1) median->spread = (of[n - 1].stats.total_us - of[0].stats.total_us) / median->stats.total_us;
        move(ls_bench_result(&k->b, at, i), median);
        for (size_t r = 0; r < n; r++) ls_result_free(&of[r]);
    }
    free(of);
    judge(k, at);
}

static ls_code run_prompt(ls_comparison *k, size_t at, ls_err *err) {
    const size_t n = (size_t)k->n;
    ls_result *runs = ls_calloc(n * (size_t)k->b.repeat, sizeof *runs);
    ls_buf *before = ls_calloc(n, sizeof *before);
    bool disturbed = false;
    ls_code code = LS_OK;
    for (size_t i = 0; i < n; i++) ls_session_snapshot(k->sessions[i], &before[i]);
    for (int r = 0; r < k->b.repeat && !code; r++) {
        double least;
        code = run_until_idle(k, at, before, r > 0, &runs[(size_t)r * n], &least, err);
        disturbed |= least > LS_BUSY;
    }
    if (!code) {
        take_medians(k, at, runs);
        k->b.disturbed += disturbed;
    } else {
        for (size_t i = 0; i < n * (size_t)k->b.repeat; i++) ls_result_free(&runs[i]);
        // some drafters may have learned from the prompt that is skipped
        if (code == LS_E_RANGE && k->lenient) rewind_all(k, before);
    }
    for (size_t i = 0; i < n; i++) ls_buf_free(&before[i]);
    free(runs);
    free(before);
    return code;
}

// "comparing, 4 min left"; the estimate is the mean time per prompt, known after the first one.
static void tell_progress(ls_comparison *k, size_t first, uint64_t start) {
    char stage[80] = "comparing";
    const size_t done = k->b.done - first, left = k->suite.n - k->b.done;
    const double s = done ? (double)(ls_now_ns() - start) / 1e9 / (double)done * (double)left : 0;
    if (done && s < 90) snprintf(stage, sizeof stage, "comparing, %.0f s left", ceil(s));
    else if (done) snprintf(stage, sizeof stage, "comparing, %.0f min left", ceil(s / 60));
    ls_gauge_show(NULL, stage, (double)k->b.done / (double)k->suite.n);
}

// Skips a prompt that does not fit the context: lists it in the results and removes it from the suite.
static void skip_prompt(ls_comparison *k, size_t at, ls_err *err) {
    ls_bench *b = &k->b;
    ls_err_prefix(err, "prompt %s", k->suite.items[at].name);
    ls_bench_leave_out(b, err->msg);
    *err = (ls_err){0};
    for (int i = 0; i < k->n; i++) ls_result_free(ls_bench_result(b, at, i));
    free(b->prompts[at].name);
    free(b->prompts[at].category);
    free(b->prompts[at].task);
    b->n_prompts--;
    b->planned--;
    memmove(&b->prompts[at], &b->prompts[at + 1], (b->n_prompts - at) * sizeof *b->prompts);
    ls_suite_drop(&k->suite, at);
}

static ls_code save(const ls_comparison *k, ls_err *err) {
    ls_buf out = {0};
    ls_bench_json(&k->b, &out);
    const ls_code code = ls_write_file(k->file, &out, err);
    ls_buf_free(&out);
    return code;
}

ls_code ls_comparison_run(ls_comparison *k, ls_err *err) {
    ls_code code = LS_OK;
    const size_t first = k->b.done; // prompts before `first` are results of an earlier run
    const uint64_t start = ls_now_ns();
    while (k->b.done < k->suite.n && !code) {
        const size_t at = k->b.done;
        tell_progress(k, first, start);
        code = run_prompt(k, at, err);
        if (code == LS_E_RANGE && k->lenient) {
            skip_prompt(k, at, err);
            code = LS_OK;
        } else if (code && code != LS_E_CANCELLED) ls_err_prefix(err, "prompt %s", k->suite.items[at].name);
        else if (!code) {
            if (first && k->b.done == first) ls_ids_push(&k->b.resumed, (int32_t)first);
            k->b.done++;
        }
        if (!code && k->file) code = save(k, err);
    }
    return code;
}
