#include "cli/lab_plan.h"
#include "base/mem.h"
#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 64, SEED = 1 }; // where nothing else is asked for

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

static bool is_shipped(const char *origin) {
    char *shipped = ls_data_path("configs/default.yaml");
    const bool is = !strcmp(origin, "default") || !strncmp(origin, shipped, strlen(shipped));
    free(shipped);
    return is;
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
        if (!code) code = ls_contender_read(&p->c[i], p->index.runs[i].word, &o, err);
        if (!code) p->n++;
        ls_options_free(&o);
    }
    return code;
}

ls_code ls_lab_plan_make(ls_lab_plan *p, const char *methods, const ls_options *options, ls_err *err) {
    ls_contender *list;
    ls_options base;
    int n;
    *p = (ls_lab_plan){0};
    ls_options_copy(&base, options);
    if (!base.seed.set) base.seed = (ls_opt_SEED){true, SEED}; // another call must be able to go on
    if (is_shipped(base.origin[LS_OPT_max_tokens])) base.max_tokens = TOKENS;
    ls_code code = ls_contenders_read(&list, &n, "--methods", methods ? methods : "all", &base, err);
    if (!code) {
        place_main(&p->index, "ar");
        for (int i = 0; i < n; i++)
            if (strcmp(list[i].label, "ar")) place_main(&p->index, list[i].label);
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
            ls_lab_index_place(&p->index, runs[i].word, runs[i].temperature, &runs[i].place);
        code = read_words(p, &base, err);
        ls_contenders_free(list, n);
    }
    ls_options_free(&base);
    if (code) ls_lab_plan_free(p);
    return code;
}

void ls_lab_plan_free(ls_lab_plan *p) {
    for (size_t i = 0; i < p->n; i++) ls_contender_free(&p->c[i]);
    free(p->c);
    ls_lab_index_free(&p->index);
    *p = (ls_lab_plan){0};
}
