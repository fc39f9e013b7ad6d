// Fits what the tuned drafter starts from (src/spec/rates_prior.inc): decodes a suite and writes the counts that it
// learnt. fit_priors SUITE ROWS TOKENS [odd] >rates_prior.inc. odd: only prompts whose question_id is odd (the rest is
// for measuring).
//
// Priors hold ranks, shares and lengths only, no tokens. A kind that was hardly seen keeps nearly its old rate, which
// weighs OLD_TRIALS trials.
#include "engine/dialog.h"
#include "decode/session.h"
#include "decode/suite.h"
#include "spec/draft_logitspec.h"

#include <stdio.h>
#include <stdlib.h>

enum { OLD_TRIALS = 10 };

int main(int argc, char **argv) {
    ls_err err = {0};
    ls_suite suite;
    ls_model model;
    ls_session *s;
    if (argc < 4 || ls_suite_read(&suite, argv[1], &err)) {
        fprintf(stderr, "usage: fit_priors SUITE ROWS TOKENS [odd] %s\n", err.msg);
        return 2;
    }
    const ls_model_options mo = {.name = "default", .engine = {.device = "cpu", .dtype = "auto"}};
    const ls_decode_options o = {
        .method = "logitspec", .budget = atoi(argv[2]), .max_tokens = atoi(argv[3]), .sampling = {.top_p = 1}};
    if (ls_model_load(&model, &mo, &err) || ls_session_new(&s, &model, &o, &err)) goto failed;
    ls_step *step = malloc(sizeof *step);
    size_t prompts = 0;
    for (size_t i = 0; i < suite.n; i++) {
        if (argc > 4 && atoi(suite.items[i].name) % 2 == 0) continue;
        ls_ids ids = {0};
        ls_session_reset(s);
        if (ls_prompt_encode(&model, LS_FORMAT_AUTO, NULL, suite.items[i].turns[0].text,
                             suite.items[i].turns[0].n, &ids, &err) ||
            ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err))
            goto failed;
        do
            if (ls_session_step(s, step, &err)) goto failed;
        while (!step->finish);
        ls_ids_free(&ids);
        prompts++;
        if (prompts % 10 == 0) fprintf(stderr, "%zu prompts\n", prompts);
    }
    const ls_rates *r = ls_draft_logitspec_rates(ls_session_drafter(s));
    printf("// Chance of being right by kind of candidate (rates.h). Written by tests/bench/fit_priors.c from %zu "
           "prompts,\n"
           "// %s rows, %s new tokens.\n",
           prompts, argv[2], argv[3]);
    ls_rates old;
    ls_rates_init(&old);
    for (int k = 0; k < LS_RATE_KEYS; k++)
        printf("%.4f,%s",
               ((double)r->hits[k] + OLD_TRIALS * (double)old.hit[k] / (double)old.trial[k]) /
                   ((double)r->trials[k] + OLD_TRIALS),
               k % 12 == 11 || k + 1 == LS_RATE_KEYS ? "\n" : " ");
    return 0;
failed:
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
