// `tune` finds the fastest method, number of rows and knobs for the user's prompts on this machine. Two runs are
// recorded: plain decoding for the texts, and wide trees for the target's predictions beside the texts. On these
// recordings, many ways are simulated with the measured costs. The best ones are run, and the fastest becomes a
// configuration file.
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/comparison.h"
#include "cli/tune_fit.h"
#include "decode/simulate.h"
#include "base/err.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WAYS = 1024, WORD = 80, FINALISTS = 5, OF_ONE_METHOD = 2 };

typedef struct {
    char word[WORD];
    const ls_method *method;
    double ms_per_token; // simulated
} way;

typedef struct {
    const ls_command_line *line;
    ls_options base; // with one seed for all runs
    ls_comparison k;
    ls_cost_curve costs;
    ls_recording **turns; // by the suite's numbers; NULL: the turn did not fit the context
    way ways[MAX_WAYS];
    int n_ways;
} tuning;

// ---- recording

static ls_recording **recording_of(const tuning *t, size_t turn) { // a turn of the conversation that runs
    return &t->turns[t->k.suite.items[t->k.b.done].first + turn];
}

static void begin_text(void *ud, const ls_runner *run, double prefill_ms) {
    (void)prefill_ms;
    const ls_ids *context = ls_session_context(run->session);
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
    ls_variant *c;
    int n;
    ls_code code = ls_variants_read(&c, &n, "tune", list, &t->base, err);
    if (!code) code = ls_comparison_open(&t->k, c, n, err);
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

// "pld+ngram=2" and ":8" give "pld:8+ngram=2".
static void with_sizing(char out[WORD], const char *word, const char *sizing) {
    const int name = (int)strcspn(word, "+");
    snprintf(out, WORD, "%.*s%s%s", name, word, sizing, word + name);
}

static ls_code simulate_way(tuning *t, const char *word, ls_err *err) {
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
        if (t->n_ways < MAX_WAYS && total.emitted) {
            way *w = &t->ways[t->n_ways++];
            snprintf(w->word, sizeof w->word, "%s", word);
            w->method = c.method;
            w->ms_per_token = (total.cost_ms + total.draft_us / 1e3) / (double)total.emitted;
        }
    }
    ls_simulator_free(s);
    ls_variant_free(&c);
    return code;
}

static ls_code simulate_all(tuning *t, ls_err *err) {
    static const char usual[] = "logitspec,logitspec-paper,logit-only,retrieval-only,recycle,lookahead,pld,pld+ngram=2,"
                                "pld+tokens=4,suffix,suffix+min_p=0.02,suffix+factor=4,cacheback,cacheback+leader=1,"
                                "cacheback+leader=3,cacheback+length=1";
    static const char *const sizings[] = {
        "/auto",          ":2",      ":3",   ":4",   ":6", ":8", ":12", ":16", ":24", ":32", ":64", "/specdec++",
        "/specdec++:0.9", "/adaedl", "/ddd", "/c2t", NULL};
    const char *methods = t->line->methods ? t->line->methods : usual;
    ls_variant *list = NULL;
    int n = 0;
    ls_code code = ls_variants_read(&list, &n, "--methods", methods, &t->base, err);
    for (int i = 0; i < n && !code; i++) {
        const char *word = list[i].label;
        ls_gauge_show(t->k.gauge, "simulating", (double)i / n);
        // a word with a sizing of its own, or a YAML file, is simulated unchanged
        if (strpbrk(word, ":/@") || strstr(word, ".y")) code = simulate_way(t, word, err);
        else
            for (const char *const *z = sizings; *z && !code; z++) {
                char sized[WORD];
                with_sizing(sized, word, *z);
                code = simulate_way(t, sized, err);
                if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
            }
    }
    ls_variants_free(list, n);
    return code;
}

static int by_time(const void *a, const void *b) {
    const double x = ((const way *)a)->ms_per_token, y = ((const way *)b)->ms_per_token;
    return (x > y) - (x < y);
}

// The best by simulation, at most OF_ONE_METHOD of one method, and always plain decoding and the default.
static void choose_finalists(tuning *t, ls_buf *list) {
    qsort(t->ways, (size_t)t->n_ways, sizeof *t->ways, by_time);
    ls_buf_str(list, "plain,logitspec");
    for (int i = 0, taken = 0; i < t->n_ways && taken < FINALISTS; i++) {
        int same = 0;
        for (int j = 0; j < i; j++) same += t->ways[j].method == t->ways[i].method;
        // logitspec/auto is the default, which is in the list
        if (same >= OF_ONE_METHOD || !strcmp(t->ways[i].word, "logitspec/auto")) continue;
        ls_buf_fmt(list, ",%s", t->ways[i].word);
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

// Names the winner, and the ways whose 95% interval of the speedup overlaps the winner's: the order is not significant.
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
    ls_say(0, "fastest: %s (%d simulated, %d run)%s%s%s", k->c[winner].label, t->n_ways, k->n,
           near.n ? "; no significant difference from: " : "", near.n ? near.p : "",
           isnan(low) && k->n > 1 ? "; a confidence interval needs at least 3 prompts" : "");
    ls_buf_free(&near);
}

static ls_code conclude(const tuning *tuned, ls_buf *text, ls_err *err) {
    const ls_comparison *k = &tuned->k;
    int winner = 0;
    ls_buf told = {0};
    ls_table t = {0};
    for (int i = 0; i < k->n; i++) {
        const ls_total total = ls_bench_total(&k->b, i, NULL);
        // a way with other text than the reference is never the winner
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
    ls_code code = LS_OK;
    write_config(tuned, winner, text);
    if (tuned->line->out) {
        code = ls_write_file(tuned->line->out, text, err);
        if (!code) ls_say(LS_COMMANDS, "use it: logitspec --config %s", tuned->line->out);
        ls_buf_clear(text);
    } else ls_say(0, "%s", "");
    return code;
}

ls_code ls_cmd_tune(const ls_command_line *c, ls_console *to, ls_err *err) {
    if (c->fit) return ls_tune_fit(c, to, err);
    if (c->n_args)
        return ls_fail(err, LS_E_USAGE, "'logitspec tune' takes prompts; for recordings such as %.80s, use --fit c2t",
                       c->args[0]);
    tuning *t = ls_calloc(1, sizeof *t);
    ls_buf finalists = {0};
    t->line = c;
    t->k.gauge = &to->gauge;
    ls_gauge_reads(&to->gauge);
    ls_options_copy(&t->base, &c->options);
    ls_settle_seed(&t->base);
    ls_code code = ls_comparison_prompts(&t->k, c, err);
    if (!code) code = record(t, err);
    if (!code) code = simulate_all(t, err);
    if (!code) {
        choose_finalists(t, &finalists);
        code = run(t, finalists.p, err);
    }
    ls_gauge_clear(&to->gauge);
    if (!code) code = conclude(t, &to->out, err);
    for (size_t i = 0; t->turns && i < t->k.suite.n_turns; i++) ls_recording_free(t->turns[i]);
    free(t->turns);
    ls_buf_free(&finalists);
    ls_options_free(&t->base);
    ls_comparison_free(&t->k);
    free(t);
    return code;
}
