// `tune` finds the fastest method, number of rows and knobs for the user's prompts on this machine. Two runs are
// recorded: plain decoding for the texts, and wide trees for the target's predictions beside the texts. On these
// recordings, many variants are simulated with the measured costs. The best ones are run, and the fastest becomes a
// configuration file.
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/comparison.h"
#include "decode/simulate.h"
#include "report/report.h"
#include "spec/sizing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 80, FINALISTS = 5, OF_ONE_METHOD = 2 };

typedef struct {
    char word[WORD];
    const ls_method *method;
    double ms_per_token; // simulated
} simulated;

typedef struct {
    const ls_command_line *line;
    ls_options base; // with one seed for all runs
    ls_comparison k;
    ls_cost_curve costs;
    ls_recording **turns; // by the suite's numbers; NULL: the turn did not fit the context
    simulated *simulated;
    size_t n_simulated;
} tuning;

// ---- recording

static ls_recording **recording_of(const tuning *t, size_t turn) { // a turn of the conversation that runs
    return &t->turns[t->k.suite.items[t->k.b.done].first + turn];
}

static void begin_text(void *ud, const ls_runner *run, double prefill_ms) {
    (void)prefill_ms;
    const ls_ids *context = &ls_session_conversation(run->session)->context;
    *recording_of(ud, ls_runner_turns(run) - 1) =
        ls_recording_new(context->p, context->n, run->model->engine->n_context);
}

static void add_text(void *ud, const ls_step *step) {
    ls_recording_add(*recording_of(ud, step->turn), step);
}

static void add_rows(void *ud, const ls_step *step) {
    ls_recording *r = *recording_of(ud, step->turn);
    if (r) ls_recording_more(r, (size_t)step->output_pos, step);
}

// Runs the list on all prompts and leaves the sessions open.
static ls_code run(tuning *t, const char *list, ls_err *err) {
    ls_code code = ls_variants_read(&t->k.c, &t->k.n, "tune", list, &t->base, err);
    if (!code) code = ls_comparison_open(&t->k, err);
    return code ? code : ls_comparison_run(&t->k, err);
}

static ls_code record(tuning *t, ls_err *err) {
    const ls_run_sink text = {begin_text, add_text, NULL, t}, rows = {NULL, add_rows, NULL, t};
    t->turns = ls_calloc(t->k.suite.n_turns, sizeof *t->turns);
    t->k.also = &text;
    ls_code code = run(t, "plain", err);
    if (t->k.sessions && t->k.sessions[0]) t->costs = *ls_session_costs(t->k.sessions[0]);
    ls_comparison_close(&t->k);
    if (code) return code;
    t->k.also = &rows;
    code = run(t, "logitspec:32", err);
    ls_comparison_close(&t->k);
    t->k.also = NULL;
    return code;
}

// ---- simulating

static ls_code simulate_variant(tuning *t, const char *word, ls_err *err) {
    ls_variant c;
    ls_simulator *s = NULL;
    ls_code code = ls_variant_read(&c, word, &t->base, err);
    if (code) return code;
    const ls_model *m = &t->k.model;
    const ls_eos_set ends = ls_vocab_ends(m->vocab);
    const ls_draft_setup place = {
        .tokenizer = m->name, .n_vocab = m->engine->n_vocab, .tokenizer_id = ls_vocab_id(m->vocab), .ends = &ends};
    ls_simulated total = {0};
    if (!(code = ls_simulator_new(&s, &c.setup.s.decode, &place, &t->costs, err))) {
        for (size_t i = 0; i < t->k.suite.n_turns; i++)
            if (t->turns[i]) ls_simulate(s, t->turns[i], &total);
        if (total.emitted) {
            t->simulated = ls_grown(t->simulated, t->n_simulated, sizeof *t->simulated);
            simulated *w = &t->simulated[t->n_simulated++];
            snprintf(w->word, sizeof w->word, "%s", c.label);
            w->method = c.method;
            w->ms_per_token = (total.cost_ms + total.draft_us / 1e3) / (double)total.emitted;
        }
    }
    ls_simulator_free(s);
    ls_variant_free(&c);
    return code;
}

// "pld+ngram=2" and ":8" give "pld:8+ngram=2".
static ls_code simulate_sized(tuning *t, const char *word, const char *sizing, ls_err *err) {
    if (ls_interrupted) return ls_fail(err, LS_E_CANCELLED, "interrupted");
    const int name = (int)strcspn(word, "+");
    char *sized = ls_format("%.*s%s%s", name, word, sizing, word + name);
    const ls_code code = simulate_variant(t, sized, err);
    free(sized);
    return code;
}

static ls_code simulate_all(tuning *t, ls_err *err) {
    static const char usual[] = "logitspec,logitspec-paper,logit-only,retrieval-only,recycle,lookahead,pld,pld+ngram=2,"
                                "pld+tokens=4,suffix,suffix+min_p=0.02,suffix+factor=4,cacheback,cacheback+leader=1,"
                                "cacheback+leader=3,cacheback+length=1";
    static const int rows[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
    const char *methods = t->line->methods ? t->line->methods : usual;
    ls_variant *list = NULL;
    int n = 0;
    ls_code code = ls_variants_read(&list, &n, "--methods", methods, &t->base, err);
    for (int i = 0; i < n && !code; i++) {
        const char *word = list[i].label;
        ls_gauge_show(NULL, "simulating", (double)i / n);
        // a word with a sizing of its own, or a YAML file, is simulated unchanged
        if (strpbrk(word, ":/@") || strstr(word, ".y")) {
            code = simulate_variant(t, word, err);
            continue;
        }
        for (size_t k = 0; k < sizeof rows / sizeof *rows && !code; k++) {
            char *sizing = ls_format(":%d", rows[k]);
            code = simulate_sized(t, word, sizing, err);
            free(sizing);
        }
        const ls_sizing_rule *r;
        for (int k = 0; (r = ls_sizing_rule_at(k)) && !code; k++) {
            if (!r->cut || r->by_rows_alone) continue; // as the paper's rows; as auto: a simulation wakes no experts
            char *sizing = ls_format("/%s", r->is.name);
            code = simulate_sized(t, word, sizing, err);
            free(sizing);
        }
    }
    ls_variants_free(list, n);
    return code;
}

static int by_time(const void *a, const void *b) {
    const double x = ((const simulated *)a)->ms_per_token, y = ((const simulated *)b)->ms_per_token;
    return (x > y) - (x < y);
}

// The best by simulation, at most OF_ONE_METHOD of one method, and always plain decoding and the default.
static void choose_finalists(tuning *t, ls_buf *list) {
    if (t->n_simulated) qsort(t->simulated, t->n_simulated, sizeof *t->simulated, by_time);
    ls_buf_str(list, "plain,logitspec");
    for (size_t i = 0, taken = 0; i < t->n_simulated && taken < FINALISTS; i++) {
        int same = 0;
        for (size_t j = 0; j < i; j++) same += t->simulated[j].method == t->simulated[i].method;
        // logitspec/auto is the default, which is in the list
        if (same >= OF_ONE_METHOD || !strcmp(t->simulated[i].word, "logitspec/auto")) continue;
        ls_buf_fmt(list, ",%s", t->simulated[i].word);
        taken++;
    }
}

// ---- the winner

static double tokens_per_s(const ls_comparison *k, int i) {
    const ls_total t = ls_bench_total(&k->b, i, NULL);
    return t.decode_us > 0 ? ls_tokens_per_s(t.emitted, t.decode_us) : 0;
}

// Whether key[0..n) is the section of the knobs of `word`, a method or a rule such as "specdec++:0.8".
static bool is_section(const char *key, size_t n, const char *word) {
    return strcspn(word, ":") == n && !strncmp(key, word, n);
}

static void write_config(const tuning *t, int winner, ls_buf *out) {
    const ls_comparison *k = &t->k;
    const ls_variant *c = &k->c[winner];
    const ls_engine *b = k->model.engine;
    ls_sanitize_row(out, "# Written by logitspec tune %s. %s, %s on %s, %d thread%s; %zu prompt%s.", LS_VERSION,
                    k->model.name, b->dtype, b->device, b->threads, ls_plural(b->threads), k->b.done,
                    ls_plural(k->b.done));
    ls_buf_str(out, "# Measured, tokens per second:");
    for (int i = 0; i < k->n; i++) ls_sanitize_fmt(out, "%s %s %.0f", i ? "," : "", k->c[i].label, tokens_per_s(k, i));
    ls_buf_str(out, ".\n");
    if (k->b.disturbed)
        ls_buf_str(out, "# The machine was busy with other programs: run tune again when it is idle.\n");
    const char *section = "";
    for (int i = 0; i < ls_options_count(); i++) {
        const char *key = ls_options_key(i), *dot = strchr(key, '.');
        const size_t n = (size_t)(dot - key);
        const bool decides = !strcmp(key, "decode.method") || !strcmp(key, "decode.max_rows") ||
                             !strcmp(key, "decode.sizing") || is_section(key, n, c->method->name) ||
                             is_section(key, n, c->options.sizing);
        if (!decides) continue;
        if (strncmp(section, key, n + 1)) ls_buf_fmt(out, "%.*s:\n", (int)n, key);
        section = key;
        ls_buf_fmt(out, "  %s: ", dot + 1);
        ls_options_value(&c->options, i, out);
        ls_buf_char(out, '\n');
    }
}

// Names the winner, and the variants whose 95% interval of the speedup overlaps the winner's: the order is not
// significant.
static void say_winner(const tuning *t, int winner) {
    const ls_comparison *k = &t->k;
    const double low = ls_bench_total(&k->b, winner, NULL).low;
    ls_buf near = {0};
    for (int i = 0; i < k->n; i++) {
        const ls_total other = ls_bench_total(&k->b, i, NULL);
        const double high = isnan(other.high) ? ls_total_speedup(&other) : other.high; // plain decoding has no interval
        if (i != winner && !other.different && high >= low)
            ls_buf_fmt(&near, "%s%s", near.n ? ", " : "", k->c[i].label);
    }
    ls_say(0, "fastest: %s (%zu simulated, %d run)%s%s%s", k->c[winner].label, t->n_simulated, k->n,
           near.n ? "; no significant difference from: " : "", near.n ? near.p : "",
           isnan(low) && k->n > 1 ? "; a confidence interval needs at least 3 prompts" : "");
    ls_buf_free(&near);
}

static void conclude(const tuning *tuned, ls_buf *text) {
    const ls_comparison *k = &tuned->k;
    int winner = 0;
    ls_buf told = {0};
    ls_table t = {0};
    for (int i = 0; i < k->n; i++) {
        const ls_total total = ls_bench_total(&k->b, i, NULL);
        // a variant with other text than the reference is never the winner
        if (!total.different && tokens_per_s(k, i) > tokens_per_s(k, winner)) winner = i;
        char interval[40] = "";
        if (k->b.done >= 3) snprintf(interval, sizeof interval, "%.2f - %.2f", total.low, total.high);
        ls_table_row(&t);
        ls_put(&t, "run", NULL, -20, "%s", k->c[i].label);
        ls_put_number(&t, "MAT", NULL, 8, 2, ls_per((double)total.emitted, total.steps));
        ls_put_number(&t, "tokens/s", NULL, 10, 1, tokens_per_s(k, i));
        ls_put(&t, "speedup", NULL, 8, "%s", ls_total_speedup_text(&total).s);
        ls_put(&t, "95%", NULL, 0, "%s%s", interval, total.different ? "  DIFFERS" : "");
    }
    ls_table_show(&t, LS_FORM_TEXT, &told);
    ls_wrap(&told, 0, ls_columns(STDOUT_FILENO), 2);
    ls_print(&told);
    ls_bench_tell_busy(&k->b, &told);
    if (told.n) ls_say(0, "%.*s", (int)told.n - 1, told.p);
    ls_buf_free(&told);
    ls_say(0, "%s", "");
    say_winner(tuned, winner);
    write_config(tuned, winner, text);
    if (!tuned->line->out) ls_say(0, "%s", "");
}

// ---- --fit c2t: fits the weights of the sizing rule c2t to recordings. It reads every tree whose rows have estimates
// and fits the classifier to the accepted rows. Then it chooses the threshold with the most tokens per millisecond,
// computed from the recorded costs as if the trees had been cut at this threshold. Recordings with --sizing paper are
// best, because sizing by cost removes rows before they are recorded.

typedef struct {
    size_t first; // index of its first row
    int32_t n;    // drafted rows: the tree without its root
    int32_t context;
    size_t turn;
} fit_step;

typedef struct {
    ls_c2t_row *rows;
    int16_t *parents; // parent of each row, as an index of its tree
    size_t n_rows;
    fit_step *steps;
    size_t n_steps, accepted;
    ls_report of;
    bool mixed; // the recordings have several methods
} fitting;

static bool add_step(void *ud, const ls_step *s) {
    fitting *f = ud;
    const ls_tree *t = &s->tree;
    double path[LS_MAX_ROWS] = {1}, x[LS_MAX_ROWS][LS_C2T_FEATURES];
    if (!s->forward || !ls_step_described(s)) return false;
    for (int32_t i = 1; i < t->n; i++) {
        path[i] = path[t->nodes[i].parent] * (double)t->nodes[i].est_p;
        if (isnan(path[i])) return false; // the drafter had no estimates
    }
    ls_c2t_features(t, path, x);
    f->steps = ls_grown(f->steps, f->n_steps, sizeof *f->steps);
    f->steps[f->n_steps++] = (fit_step){f->n_rows, t->n - 1, s->context_len, f->of.n_turns - 1};
    for (int32_t i = 1; i < t->n; i++) {
        f->rows = ls_grown(f->rows, f->n_rows, sizeof *f->rows);
        f->parents = ls_grown(f->parents, f->n_rows, sizeof *f->parents);
        ls_c2t_row *row = &f->rows[f->n_rows];
        for (int k = 0; k < LS_C2T_FEATURES; k++) row->x[k] = (float)x[i][k];
        row->accepted = t->nodes[i].state == LS_NODE_ACCEPTED;
        f->accepted += row->accepted;
        f->parents[f->n_rows++] = t->nodes[i].parent;
    }
    return false;
}

static ls_code read_trace(fitting *f, const char *path, ls_err *err) {
    const size_t before = f->of.n_turns;
    ls_code code = ls_report_add(&f->of, path, add_step, f, err);
    for (size_t i = before; i < f->of.n_turns && !code; i++) {
        const ls_trace_header *h = &f->of.turns[i].header;
        f->mixed |= strcmp(h->run.method, f->of.turns[0].header.run.method) != 0;
        if (strcmp(h->acceptance, "exact"))
            code = ls_fail(err, LS_E_USAGE, "%s: recorded with the lossy acceptance %s; --fit needs exact outputs",
                           path, h->acceptance);
    }
    return code;
}

// Tokens per millisecond if the trees were cut at this threshold; 0: no costs were recorded. A row is kept if its
// parent is kept and its chance reaches the threshold; row 0, the root, always is.
static double speed(const fitting *f, const double *chances, double threshold) {
    double tokens = 0, ms = 0;
    for (size_t i = 0; i < f->n_steps; i++) {
        const fit_step *s = &f->steps[i];
        bool keep[LS_MAX_ROWS] = {true};
        int32_t rows = 1;
        tokens++;
        for (int32_t k = 1; k <= s->n; k++) {
            const size_t at = s->first + (size_t)k - 1;
            keep[k] = keep[f->parents[at]] && chances[at] >= threshold;
            rows += keep[k];
            tokens += keep[k] && f->rows[at].accepted;
        }
        ms += ls_cost_ms(&f->of.turns[s->turn].header.run.costs, rows, s->context);
    }
    return ms > 0 ? tokens / ms : 0;
}

// The fastest of a fixed list of thresholds; 0: no costs were recorded.
static double choose_threshold(const fitting *f, const double *weights) {
    static const double tried[] = {0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1,  0.12, 0.15,
                                   0.18, 0.2,  0.25, 0.3,  0.35, 0.4,  0.45, 0.5,  0.6};
    double *chances = ls_calloc(f->n_rows + 1, sizeof *chances), best = 0, most = 0;
    for (size_t i = 0; i < f->n_rows; i++) {
        double x[LS_C2T_FEATURES];
        for (int k = 0; k < LS_C2T_FEATURES; k++) x[k] = (double)f->rows[i].x[k];
        chances[i] = ls_c2t_chance(weights, x);
    }
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        const double now = speed(f, chances, tried[i]);
        if (now > most) most = now, best = tried[i];
    }
    free(chances);
    return best;
}

static ls_code conclude_fit(const fitting *f, const ls_command_line *c, ls_buf *text, ls_err *err) {
    double path_alone[LS_C2T_FEATURES] = {0, 1}, weights[LS_C2T_FEATURES];
    memcpy(weights, path_alone, sizeof weights);
    const ls_run *run = &f->of.turns[0].header.run;
    const ls_code code = ls_c2t_fit(f->rows, f->n_rows, weights, err);
    if (code) return code;
    const double before = ls_c2t_loss(f->rows, f->n_rows, path_alone), after = ls_c2t_loss(f->rows, f->n_rows, weights);
    ls_sanitize_row(text, "# Written by logitspec tune %s --fit c2t: %s, %s%s; %zu turns, %zu steps, %zu drafted rows,",
                    LS_VERSION, run->model, run->method, f->mixed ? " and other methods" : "", f->of.n_turns,
                    f->n_steps, f->n_rows);
    ls_buf_fmt(
        text,
        "# %zu of them accepted. Mean log loss per row: %.4f with path estimates alone, %.4f with these weights.\n",
        f->accepted, before, after);
    ls_sizing z;
    char rule[40];
    ls_sizing_read(&z, "", "c2t", NULL);
    const double threshold = choose_threshold(f, weights);
    if (threshold > 0) z.values[0] = threshold;
    ls_sizing_write(&z, rule, sizeof rule);
    ls_buf_str(text, "decode:\n");
    if (!f->mixed) ls_sanitize_row(text, "  method: %s", run->method);
    ls_buf_fmt(text, "  sizing: %s%s\nc2t:\n", rule,
               threshold > 0 ? "   # the fastest threshold by the recorded costs" : "");
    for (size_t i = 0; z.rule->knobs[i].key; i++)
        ls_buf_fmt(text, "  %s: %.6g\n", strchr(z.rule->knobs[i].key, '.') + 1, weights[i]);
    if (c->out)
        ls_say(0, "%zu drafted rows, %zu accepted: log loss per row from %.4f to %.4f", f->n_rows, f->accepted, before,
               after);
    return LS_OK;
}

static ls_code fit_c2t(const ls_command_line *c, ls_console *to, ls_err *err) {
    fitting f = {0};
    ls_code code = LS_OK;
    if (strcmp(c->fit, "c2t")) return ls_fail(err, LS_E_USAGE, "--fit is '%.40s', expected c2t", c->fit);
    if (!c->n_args) return ls_fail(err, LS_E_USAGE, "usage: logitspec tune --fit c2t TRACE... (files of --trace)");
    ls_gauge_reads();
    for (int i = 0; i < c->n_args && !code; i++) code = read_trace(&f, c->args[i], err);
    if (!code && !f.n_rows)
        code =
            ls_fail(err, LS_E_RANGE,
                    "the traces have no drafts with estimates (traces of level steps and of method plain have none)");
    if (!code) ls_warn_of_gaps(&f.of.gaps, NULL);
    if (!code) code = conclude_fit(&f, c, &to->out, err);
    free(f.rows);
    free(f.parents);
    free(f.steps);
    ls_report_free(&f.of);
    return code;
}

// ---- the command

static ls_code find_fastest(const ls_command_line *c, ls_console *to, ls_err *err) {
    if (c->n_args)
        return ls_fail(err, LS_E_USAGE, "'logitspec tune' takes prompts; for recordings such as %.80s, use --fit c2t",
                       c->args[0]);
    tuning t = {.line = c};
    ls_buf finalists = {0};
    ls_gauge_reads();
    ls_options_copy(&t.base, &c->options);
    ls_settle_seed(&t.base);
    ls_code code = ls_comparison_prompts(&t.k, c, err);
    if (!code) code = record(&t, err);
    if (!code) code = simulate_all(&t, err);
    if (!code) {
        choose_finalists(&t, &finalists);
        code = run(&t, finalists.p, err);
    }
    if (!code) conclude(&t, &to->out);
    for (size_t i = 0; t.turns && i < t.k.suite.n_turns; i++) ls_recording_free(t.turns[i]);
    free(t.turns);
    free(t.simulated);
    ls_buf_free(&finalists);
    ls_options_free(&t.base);
    ls_comparison_free(&t.k);
    return code;
}

ls_code ls_cmd_tune(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_code code = (c->fit ? fit_c2t : find_fastest)(c, to, err); // out gets a configuration file
    if (code || !c->out) return code;
    code = ls_write_file(c->out, &to->out, err);
    ls_buf_clear(&to->out);
    if (!code) ls_say(LS_COMMANDS, "use it: logitspec --config %s", c->out);
    return code;
}
