// Fits what the tuned drafter starts from (src/spec/rates_prior.inc): decodes a suite, and fits the weights to the rows
// that were put to the test, from the present ones on. fit_priors SUITE ROWS TOKENS [odd] >rates_prior.inc. odd: only
// prompts whose question_id is odd (the rest is for measuring).
//
// Priors are about ranks, shares and lengths only, not about tokens. What was hardly seen keeps nearly its old weight.
#include "base/mem.h"
#include "base/rng.h"
#include "decode/session.h"
#include "decode/suite.h"
#include "decode/dialog.h"
#include "spec/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 40 };
static const double FIRST_STEP = 0.1;

typedef struct {
    int32_t note;
    bool right;
    double rest; // 1 + the odds of its siblings, when it was drafted
} trial;

typedef struct {
    trial *p;
    size_t n, room;
} trials;

static void gather(trials *all, const ls_tree *t, const ls_rates *r) {
    if (all->n + LS_MAX_ROWS > all->room) {
        all->room = 2 * all->room + LS_MAX_ROWS;
        all->p = ls_realloc(all->p, all->room * sizeof *all->p);
    }
    for (int32_t i = 1; i < t->n; i++)
        if (t->nodes[i].state != LS_NODE_NOT_REACHED && t->nodes[i].key >= 0)
            all->p[all->n++] = (trial){t->nodes[i].key, t->nodes[i].state == LS_NODE_ACCEPTED,
                                       ls_rate_odds(r, t->nodes[i].key) * (1 / (double)t->nodes[i].looked - 1)};
}

static ls_code decode(trials *all, size_t *prompts, char **argv, bool odd, ls_err *err) {
    ls_suite suite;
    ls_model model;
    ls_session *s;
    const ls_model_options mo = {.name = "default", .engine = {.device = "cpu", .dtype = "auto"}};
    const ls_decode_options o = {
        .method = "logitspec", .max_rows = atoi(argv[2]), .max_tokens = atoi(argv[3]), .sampling = {.top_p = 1}};
    ls_code code = ls_suite_read(&suite, argv[1], err);
    if (code || (code = ls_model_load(&model, &mo, err)) || (code = ls_session_new(&s, &model, &o, err))) return code;
    ls_step *step = ls_step_new();
    for (size_t i = 0; i < suite.n; i++) {
        const ls_suite_turn *turn = &suite.items[i].turns[0];
        ls_ids ids = {0};
        if (odd && atoi(suite.items[i].name) % 2 == 0) continue;
        ls_session_reset(s);
        if ((code = ls_prompt_encode(&model, LS_FORMAT_AUTO, NULL, turn->text, turn->n, &ids, err)) ||
            (code = ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, err)))
            return code;
        do {
            const ls_rates before = ((const ls_searcher *)ls_session_drafter(s))->e.rates;
            if ((code = ls_session_step(s, step, err))) return code;
            gather(all, &step->tree, &before);
        } while (!step->finish);
        ls_ids_free(&ids);
        if (++*prompts % 10 == 0) fprintf(stderr, "%zu prompts\n", *prompts);
    }
    ls_step_free(step);
    return LS_OK;
}

static double chance_of(const ls_rates *r, const trial *t) {
    const double odds = ls_rate_odds(r, t->note);
    return odds / (t->rest + odds);
}

static double loss(const trials *all, const ls_rates *r) { // mean, in nats
    double sum = 0;
    for (size_t i = 0; i < all->n; i++) {
        const double p = chance_of(r, &all->p[i]);
        sum -= log(all->p[i].right ? p : 1 - p);
    }
    return sum / (double)all->n;
}

static void shuffle(trials *all, uint64_t round) {
    for (size_t i = all->n; i > 1; i--) {
        const size_t j = (size_t)(ls_uniform_at(round, i) * (double)i);
        const trial t = all->p[i - 1];
        all->p[i - 1] = all->p[j];
        all->p[j] = t;
    }
}

int main(int argc, char **argv) {
    ls_err err = {0};
    trials all = {0};
    size_t prompts = 0;
    ls_rates r;
    if (argc < 4) {
        fprintf(stderr, "usage: fit_priors SUITE ROWS TOKENS [odd]\n");
        return 2;
    }
    if (decode(&all, &prompts, argv, argc > 4, &err)) goto failed;
    ls_rates_init(&r);
    fprintf(stderr, "%zu rows put to the test, loss %.4f", all.n, loss(&all, &r));
    for (int round = 0; round < ROUNDS; round++) {
        shuffle(&all, (uint64_t)round);
        for (size_t i = 0; i < all.n; i++)
            ls_rates_learn(&r, all.p[i].note, all.p[i].right - chance_of(&r, &all.p[i]), FIRST_STEP / (1 + round));
    }
    fprintf(stderr, ", then %.4f\n", loss(&all, &r));
    printf("// What estimates begin with (rates.h). Written by tests/bench/fit_priors.c from %zu prompts, %s rows,\n"
           "// %s new tokens: %zu rows put to the test.\n",
           prompts, argv[2], argv[3], all.n);
    for (int k = 0; k < LS_RATE_KEYS; k++)
        printf("%.3ff,%s", (double)r.weight[k], k % 12 == 11 || k + 1 == LS_RATE_KEYS ? "\n" : " ");
    return 0;
failed:
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
