#include "cli/lab_plan.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 1 }; // if the options have none
// PROMPT_MS: ms for all runs of one prompt: 8 min / 12, which leaves a reserve of the 10 min in lab_plan.h.
enum { TOKENS_LOW = 16, TOKENS_HIGH = 64, PROMPT_MS = 8 * 60 * 1000 / 12, PROMPT_TOKENS = 60 };

static const struct {
    ls_lab_place place;
    const char *word;
    double temperature;
} runs[] = {
#define RUN(use, series, x, label, word, temperature) {{LS_LAB_##use, series, label, x}, word, temperature},
#include "cli/lab_runs.def"
};

static void place_main(ls_lab_index *x, const char *word) {
    ls_lab_place p = {.use = LS_LAB_MAIN, .x = (double)x->n_runs};
    snprintf(p.label, sizeof p.label, "%s", word);
    ls_lab_index_place(x, word, 0, &p);
}

static ls_code read_words(ls_lab_plan *p, const ls_options *base, ls_err *err) {
    ls_code code = LS_OK;
    p->c = ls_calloc(p->index.n_runs, sizeof *p->c);
    for (size_t i = 0; i < p->index.n_runs && !code; i++) {
        ls_options o;
        char temperature[32];
        ls_options_copy(&o, base);
        snprintf(temperature, sizeof temperature, "%g", p->index.runs[i].temperature);
        code = ls_options_set(&o, "decode.temperature", temperature, "the plan of the lab", err);
        if (!code) code = ls_variant_read(&p->c[i], p->index.runs[i].word, &o, err);
        if (!code) p->n++;
        ls_options_free(&o);
    }
    return code;
}

ls_code ls_lab_plan_make(ls_lab_plan *p, const char *methods, const ls_options *options, int32_t tokens, ls_err *err) {
    ls_variant *list;
    ls_options base;
    int n;
    *p = (ls_lab_plan){.index = {.max_tokens = tokens}};
    ls_options_copy(&base, options);
    if (!base.seed.set) base.seed = (ls_opt_SEED){true, SEED}; // fixed, so that another call can continue the lab
    base.max_tokens = tokens;
    ls_options_start_cold(&base, true);
    ls_code code = ls_variants_read(&list, &n, "--methods", methods ? methods : "all", &base, err);
    if (!code) {
        place_main(&p->index, "plain");
        for (int i = 0; i < n; i++)
            if (strcmp(list[i].label, "plain")) place_main(&p->index, list[i].label);
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
            ls_lab_index_place(&p->index, runs[i].word, runs[i].temperature, &runs[i].place);
        code = read_words(p, &base, err);
        ls_variants_free(list, n);
    }
    ls_options_free(&base);
    if (code) ls_lab_plan_free(p);
    return code;
}

int32_t ls_lab_plan_tokens(const ls_lab_plan *p, const ls_cost_curve *costs) {
    enum { SIZED = 4 };          // assumed mean rows of a tree with sizing by cost
    const double mat = 1.4;      // a low assumption: the first tokens of an answer have few matches
    double token = 0, fixed = 0; // ms, summed over all runs: per output token, per prompt (prefill)
    for (size_t i = 0; i < p->n; i++) {
        const ls_method *m = p->c[i].method;
        const int32_t max_rows = p->c[i].setup.s.decode.max_rows;
        const int32_t rows = max_rows ? max_rows : !m->drafter ? 1 : m->sized ? SIZED : m->rows;
        token += ls_cost_ms(costs, rows, costs->cost_context) / (m->drafter ? mat : 1);
        fixed += costs->prefill_ms * PROMPT_TOKENS;
    }
    const double tokens = token > 0 ? (PROMPT_MS - fixed) / token : TOKENS_HIGH;
    return tokens < TOKENS_LOW ? TOKENS_LOW : tokens > TOKENS_HIGH ? TOKENS_HIGH : (int32_t)tokens;
}

void ls_lab_plan_free(ls_lab_plan *p) {
    for (size_t i = 0; i < p->n; i++) ls_variant_free(&p->c[i]);
    free(p->c);
    ls_lab_index_free(&p->index);
    *p = (ls_lab_plan){0};
}
