// The same prompts by several methods, in turn, on one engine: are the outputs equal, and what does each method gain?
#include "base/buf.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "run/stats.h"
#include "run/suite.h"
#include "spec/drafter.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONTENDERS = 16, RESAMPLES = 2000 };

// One method with its tree size, and its memory: what a drafter learns on one prompt it keeps for the next.
typedef struct {
    char label[64]; // NAME or NAME:BUDGET
    const ls_method *method;
    int32_t budget;
    ls_session *session;
} contender;

typedef struct {
    ls_stats stats;
    double prefill_ms, ar_us; // ar_us: plain decoding's time for the same tokens; 0: not known
    ls_ids output;
    long first_difference; // from the first contender's output; -1: equal
    ls_finish finish;
} result;

typedef struct {
    const ls_command_line *line;
    ls_run_setup setup;
    ls_model model;
    ls_suite suite;
    contender c[MAX_CONTENDERS];
    int n;
    long ar;         // the contender that decodes plainly; -1: none
    result *results; // [prompt][contender]
    size_t done;     // prompts
    ls_gauge gauge;
} comparison;

static result *result_of(const comparison *k, size_t prompt, int method) {
    return &k->results[prompt * (size_t)k->n + (size_t)method];
}

static ls_code parse_methods(comparison *k, const char *list, ls_err *err) {
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, ",");
        contender *c = &k->c[k->n];
        if (k->n == MAX_CONTENDERS) return ls_fail(err, LS_E_USAGE, "--methods: at most %d methods", MAX_CONTENDERS);
        if (!n || n >= sizeof c->label)
            return ls_fail(err, LS_E_USAGE, "--methods: NAME[:ROWS] separated by commas, not '%.60s'", list);
        snprintf(c->label, sizeof c->label, "%.*s", (int)n, p);
        char name[64], *colon, *end;
        snprintf(name, sizeof name, "%s", c->label);
        if ((colon = strchr(name, ':'))) {
            *colon = 0;
            const long rows = strtol(colon + 1, &end, 10);
            if (!colon[1] || *end || rows < 1 || rows > LS_TREE_MAX)
                return ls_fail(err, LS_E_USAGE, "--methods: '%.60s' asks for trees of 1 to %d rows", c->label,
                               LS_TREE_MAX);
            c->budget = (int32_t)rows;
        } else c->budget = k->setup.s.decode.budget;
        if (!(c->method = ls_method_find(name)))
            return ls_fail(err, LS_E_USAGE, "--methods: unknown method '%.60s' (%s)", name, ls_method_names);
        if (!c->method->drafts && k->ar < 0) k->ar = k->n;
        k->n++;
        p += n + (p[n] == ',');
    }
    return k->n ? LS_OK : ls_fail(err, LS_E_USAGE, "--methods names no method");
}

static ls_code open_sessions(comparison *k, ls_err *err) {
    for (int i = 0; i < k->n; i++) {
        ls_decode_options o = k->setup.s.decode;
        o.method = k->c[i].method->name;
        o.budget = k->c[i].budget;
        ls_code code = ls_session_new(&k->c[i].session, &k->model, &o, err);
        if (!code) code = ls_session_calibrate(k->c[i].session, ls_gauge_show, &k->gauge, err);
        if (code) return code;
    }
    return LS_OK;
}

static ls_code run_one(const ls_ids *prompt, contender *c, result *r, ls_err *err) {
    ls_session_reset(c->session);
    ls_code code = ls_session_begin(c->session, prompt->p, (int32_t)prompt->n, NULL, NULL, &r->prefill_ms, err);
    ls_step *step = ls_malloc(sizeof *step);
    while (!code && !r->finish) {
        if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
        else if (!(code = ls_session_step(c->session, step, err))) {
            ls_stats_add(&r->stats, step);
            r->finish = step->finish;
        }
    }
    free(step);
    ls_ids_add(&r->output, ls_session_output(c->session)->p, ls_session_output(c->session)->n);
    return code;
}

static ls_code run_prompt(comparison *k, size_t at, ls_err *err) {
    const ls_suite_item *item = &k->suite.items[at];
    ls_ids prompt = {0};
    ls_code code = ls_prompt_encode(&k->model, k->setup.s.format, k->setup.s.system, true, item->prompt, item->n_prompt,
                                    &prompt, err);
    for (int j = 0; j < k->n && !code; j++) { // each method goes first equally often
        const int i = (int)((at + (size_t)j) % (size_t)k->n);
        code = run_one(&prompt, &k->c[i], result_of(k, at, i), err);
    }
    ls_ids_free(&prompt);
    const ls_ids *want = &result_of(k, at, 0)->output;
    for (int i = 0; i < k->n; i++) {
        result *r = result_of(k, at, i);
        const size_t both = r->output.n < want->n ? r->output.n : want->n;
        size_t same = 0;
        while (same < both && r->output.p[same] == want->p[same]) same++;
        r->first_difference = same == r->output.n && same == want->n ? -1 : (long)same;
        r->ar_us = k->ar >= 0 ? result_of(k, at, (int)k->ar)->stats.total_us : r->stats.ar_us;
    }
    return code;
}

// ---- totals

typedef struct {
    uint64_t prompts, emitted, steps, forwards, drafted, accepted, different;
    double decode_us, draft_us, forward_us, prefill_ms, ar_us, against_us;
    double low, high; // of the speedup: 95% interval by resampling prompts
} total;

static void add_to(total *t, const comparison *k, const result *r) {
    const ls_stats *st = &r->stats;
    t->prompts++;
    t->emitted += st->emitted;
    t->steps += st->steps;
    t->forwards += st->forwards;
    t->drafted += st->drafted;
    t->accepted += st->accepted;
    t->different += r->first_difference >= 0;
    t->decode_us += st->total_us;
    t->draft_us += st->draft_us;
    t->forward_us += st->forward_us;
    t->prefill_ms += r->prefill_ms;
    t->ar_us += r->ar_us;
    t->against_us += k->ar >= 0 ? st->total_us : st->ar_against_us;
}

static double speedup(const total *t) {
    return t->ar_us > 0 && t->against_us > 0 ? t->ar_us / t->against_us : NAN;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Over the prompts of a category (NULL: all).
static total total_of(const comparison *k, int method, const char *category) {
    total t = {0};
    size_t *members = ls_malloc((k->done + 1) * sizeof *members), n = 0;
    for (size_t p = 0; p < k->done; p++)
        if (!category || !strcmp(category, k->suite.items[p].category)) members[n++] = p;
    for (size_t i = 0; i < n; i++) add_to(&t, k, result_of(k, members[i], method));
    t.low = t.high = NAN;
    if (n >= 3) {
        double *sample = ls_malloc(RESAMPLES * sizeof *sample);
        for (int s = 0; s < RESAMPLES; s++) {
            total one = {0};
            for (size_t i = 0; i < n; i++)
                add_to(&one, k,
                       result_of(k, members[(size_t)(ls_uniform_at(1, (uint64_t)s * n + i) * (double)n)], method));
            sample[s] = speedup(&one);
        }
        qsort(sample, RESAMPLES, sizeof *sample, by_value);
        t.low = sample[RESAMPLES / 40];
        t.high = sample[RESAMPLES - 1 - RESAMPLES / 40];
        free(sample);
    }
    free(members);
    return t;
}

// The categories in order of appearance, NULL-terminated; owned by the caller, the names borrowed.
static const char **categories(const comparison *k) {
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

// ---- output

static double per(double a, uint64_t b) {
    return b ? a / (double)b : NAN;
}

static void table(const comparison *k, ls_buf *out) {
    const ls_backend *b = k->model.backend;
    ls_buf_fmt(out, "%s, %s on %s, %d threads (%s); %zu prompts, at most %d new tokens\n\n", k->model.name, b->dtype,
               b->device, b->threads, b->kernel, k->done, k->setup.s.decode.max_tokens);
    ls_buf_fmt(out, "%-20s %6s %17s %9s %8s %15s %9s %9s  %s\n", "method", "MAT", "accepted/verified", "tokens/s",
               "speedup", "95%", "draft", "host", "output");
    for (int i = 0; i < k->n; i++) {
        const total t = total_of(k, i, NULL);
        char interval[40] = "", rate[40];
        if (isfinite(t.low)) snprintf(interval, sizeof interval, "%.2f - %.2f", t.low, t.high);
        snprintf(rate, sizeof rate, "%llu/%llu", (unsigned long long)t.accepted, (unsigned long long)t.drafted);
        ls_buf_fmt(out, "%-20s %6.2f %17s %9.1f %8.2f %15s %6.0f us %6.0f us  ", k->c[i].label,
                   per((double)t.emitted, t.steps), rate, t.decode_us > 0 ? 1e6 * (double)t.emitted / t.decode_us : 0,
                   speedup(&t), interval, per(t.draft_us, t.forwards), per(t.decode_us - t.forward_us, t.forwards));
        if (t.different)
            ls_buf_fmt(out, "DIFFERS in %llu of %llu\n", (unsigned long long)t.different,
                       (unsigned long long)t.prompts);
        else ls_buf_str(out, i ? "equal\n" : "reference\n");
    }
    ls_buf_str(out, k->ar >= 0 ? "\nspeedup: against `ar`, run here on the same prompts in turn"
                               : "\nspeedup: against single-row forwards timed in the same runs");
    ls_buf_str(out, "; 95%: resampling prompts; draft and host: a step with a forward\n");
    const char **names = categories(k);
    if (names[0] && names[1]) {
        ls_buf_fmt(out, "\n%-20s", "MAT, speedup");
        for (int c = 0; names[c]; c++) ls_buf_fmt(out, " %15.15s", names[c]);
        ls_buf_char(out, '\n');
        for (int i = 0; i < k->n; i++) {
            ls_buf_fmt(out, "%-20s", k->c[i].label);
            for (int c = 0; names[c]; c++) {
                const total t = total_of(k, i, names[c]);
                char cell[40];
                snprintf(cell, sizeof cell, "%.2f  x%.2f", per((double)t.emitted, t.steps), speedup(&t));
                ls_buf_fmt(out, " %15s", cell);
            }
            ls_buf_char(out, '\n');
        }
    }
    free(names);
}

static void key_num(ls_jsonw *w, const char *key, double v) {
    ls_jw_key(w, key);
    ls_jw_num(w, v, 6);
}

static void key_int(ls_jsonw *w, const char *key, uint64_t v) {
    ls_jw_key(w, key);
    ls_jw_u64(w, v);
}

static void write_total(ls_jsonw *w, const total *t) {
    key_int(w, "prompts", t->prompts);
    key_int(w, "emitted", t->emitted);
    key_int(w, "steps", t->steps);
    key_num(w, "mat", per((double)t->emitted, t->steps));
    key_int(w, "draft_verified", t->drafted);
    key_int(w, "draft_accepted", t->accepted);
    key_num(w, "decode_ms", t->decode_us / 1e3);
    key_num(w, "prefill_ms", t->prefill_ms);
    key_num(w, "tokens_per_s", t->decode_us > 0 ? 1e6 * (double)t->emitted / t->decode_us : NAN);
    key_num(w, "speedup", speedup(t));
    key_num(w, "speedup_low", t->low);
    key_num(w, "speedup_high", t->high);
    key_num(w, "draft_us_per_step", per(t->draft_us, t->forwards));
    key_num(w, "host_us_per_step", per(t->decode_us - t->forward_us, t->forwards));
    key_int(w, "different", t->different);
}

static void json(const comparison *k, ls_buf *out) {
    ls_jsonw w = {.out = out};
    const ls_backend *b = k->model.backend;
    const char **names = categories(k);
    ls_jw_open(&w, '{');
    ls_jw_key(&w, "model"), ls_jw_str(&w, k->model.name);
    ls_jw_key(&w, "sha256"), ls_jw_str(&w, k->model.sha256);
    ls_jw_key(&w, "device"), ls_jw_str(&w, b->device);
    ls_jw_key(&w, "dtype"), ls_jw_str(&w, b->dtype);
    ls_jw_key(&w, "kernel"), ls_jw_str(&w, b->kernel);
    ls_jw_key(&w, "threads"), ls_jw_int(&w, b->threads);
    ls_jw_key(&w, "exact"), ls_jw_bool(&w, b->exact);
    ls_jw_key(&w, "max_tokens"), ls_jw_int(&w, k->setup.s.decode.max_tokens);
    ls_jw_key(&w, "speedup_against"), ls_jw_str(&w, k->ar >= 0 ? "ar" : "single-row forwards");
    bool equal = true;
    ls_jw_key(&w, "methods"), ls_jw_open(&w, '[');
    for (int i = 0; i < k->n; i++) {
        const total t = total_of(k, i, NULL);
        equal &= !t.different;
        ls_jw_open(&w, '{');
        ls_jw_key(&w, "method"), ls_jw_str(&w, k->c[i].label);
        write_total(&w, &t);
        ls_jw_key(&w, "categories"), ls_jw_open(&w, '[');
        for (int c = 0; names[c]; c++) {
            const total part = total_of(k, i, names[c]);
            ls_jw_open(&w, '{');
            ls_jw_key(&w, "category"), ls_jw_str(&w, names[c]);
            write_total(&w, &part);
            ls_jw_close(&w, '}');
        }
        ls_jw_close(&w, ']');
        ls_jw_close(&w, '}');
    }
    ls_jw_close(&w, ']');
    ls_jw_key(&w, "equal"), ls_jw_bool(&w, equal);
    ls_jw_key(&w, "runs"), ls_jw_open(&w, '[');
    for (size_t p = 0; p < k->done; p++)
        for (int i = 0; i < k->n; i++) {
            const result *r = result_of(k, p, i);
            ls_jw_open(&w, '{');
            ls_jw_key(&w, "prompt"), ls_jw_str(&w, k->suite.items[p].name);
            ls_jw_key(&w, "category"), ls_jw_str(&w, k->suite.items[p].category);
            ls_jw_key(&w, "method"), ls_jw_str(&w, k->c[i].label);
            key_int(&w, "emitted", r->stats.emitted);
            key_int(&w, "steps", r->stats.steps);
            key_num(&w, "decode_ms", r->stats.total_us / 1e3);
            key_num(&w, "prefill_ms", r->prefill_ms);
            key_num(&w, "ar_ms", r->ar_us / 1e3);
            ls_jw_key(&w, "finish_reason"), ls_jw_str(&w, ls_finish_name(r->finish));
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

static ls_code run_all(comparison *k, ls_err *err) {
    const ls_command_line *c = k->line;
    ls_code code = parse_methods(k, c->methods ? c->methods : "ar,logitspec,logitspec-paper", err);
    if (code) return code;
    if (c->suite && (c->prompt || c->prompt_file))
        return ls_fail(err, LS_E_USAGE, "--suite and --prompt exclude each other");
    if (c->suite) code = ls_suite_read(&k->suite, c->suite, err);
    else {
        ls_buf prompt = {0};
        if (!(code = ls_read_prompt(c, true, &prompt, err))) ls_suite_add(&k->suite, "1", "", prompt.p, prompt.n);
        ls_buf_free(&prompt);
    }
    if (code || (code = ls_model_load(&k->model, &k->setup.s.model, err)) || (code = open_sessions(k, err)))
        return code;
    k->results = ls_calloc(k->suite.n * (size_t)k->n, sizeof *k->results);
    for (size_t p = 0; p < k->suite.n && !code; p++) {
        ls_gauge_show(&k->gauge, "comparing", (double)p / (double)k->suite.n);
        if ((code = run_prompt(k, p, err))) {
            if (code != LS_E_CANCELLED) ls_err_prefix(err, "prompt %s", k->suite.items[p].name);
        } else k->done++;
    }
    return code;
}

int ls_cmd_compare(const ls_command_line *c) {
    ls_err err = {0};
    comparison k = {.line = c, .ar = -1, .gauge = ls_gauge_start(c->quiet || c->json)};
    ls_catch_signals();
    ls_run_setup_init(&k.setup, &c->options);
    k.setup.s.model.backend.progress = ls_gauge_show;
    k.setup.s.model.backend.ud = &k.gauge;
    const ls_code code = run_all(&k, &err);
    ls_gauge_clear(&k.gauge);
    int status = LS_EXIT_OK;
    if (k.done) { // what was finished is worth showing, even if an error ended the rest
        ls_buf out = {0};
        if (c->json) json(&k, &out);
        else table(&k, &out);
        if (fwrite(out.p, 1, out.n, stdout) != out.n || fflush(stdout)) {
            fprintf(stderr, "logitspec: cannot write to standard output: %s\n", strerror(errno));
            status = LS_EXIT_FAILED;
        }
        ls_buf_free(&out);
    }
    if (code) status = ls_report(&err);
    for (size_t p = 0; p < k.done && !status; p++)
        for (int i = 0; i < k.n; i++)
            if (k.model.backend->exact && result_of(&k, p, i)->first_difference >= 0) status = LS_EXIT_DIFFER;
    for (size_t i = 0; k.results && i < k.suite.n * (size_t)k.n; i++) ls_ids_free(&k.results[i].output);
    free(k.results);
    for (int i = 0; i < k.n; i++) ls_session_free(k.c[i].session);
    ls_suite_free(&k.suite);
    ls_model_free(&k.model);
    ls_run_setup_free(&k.setup);
    return status;
}
