// Fits what the tuned drafter starts from (src/spec/rates_prior.inc): decodes a suite, and fits the weights to the
// candidates after all accepted rows, from the present weights on. fit_priors SUITE ROWS TOKENS [odd] >rates_prior.inc.
// ROWS: sizes of trees, such as 8,16,64; prompts have them in turn. odd: only prompts whose question_id is odd (the
// rest is for measuring).
//
// Priors are about ranks, shares and lengths only, not about tokens: what was learnt of a token counts as given. What
// was hardly seen keeps nearly its old weight.
#include "base/mem.h"
#include "base/rng.h"
#include "decode/session.h"
#include "decode/suite.h"
#include "decode/conversation.h"
#include "spec/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20 };
static const double FIRST_STEP = 0.05;

typedef struct { // the candidates after one accepted row
    size_t first;
    int32_t n, came;
} place;

static struct {
    ls_child *trials;
    place *places;
    size_t n_trials, n_places, room, room_places;
    void (*learn)(ls_drafter *d, const ls_draft_result *r);
} all;

static void keep(void *ud, const ls_child *trials, int32_t n, int32_t came) {
    (void)ud;
    if (all.n_trials + (size_t)n > all.room) {
        all.room = 2 * all.room + LS_SEARCH_CHILDREN;
        all.trials = ls_realloc(all.trials, all.room * sizeof *all.trials);
    }
    if (all.n_places == all.room_places) {
        all.room_places = 2 * all.room_places + 1024;
        all.places = ls_realloc(all.places, all.room_places * sizeof *all.places);
    }
    memcpy(all.trials + all.n_trials, trials, (size_t)n * sizeof *trials);
    all.places[all.n_places++] = (place){all.n_trials, n, came};
    all.n_trials += (size_t)n;
}

static void keep_and_learn(ls_drafter *d, const ls_draft_result *r) {
    ls_search_trials(ls_search_of((const ls_searcher *)d, r->state), r->tree, keep, NULL);
    all.learn(d, r);
}

static ls_code decode(size_t *prompts, char **argv, bool odd, ls_err *err) {
    ls_suite suite;
    ls_model model;
    ls_session *s;
    const ls_model_options mo = {.name = "default", .engine = {.device = "cpu", .dtype = "auto"}};
    ls_decode_options o = {.method = "logitspec", .max_tokens = atoi(argv[3]), .sampling = {.top_p = 1}};
    const char *rows = argv[2];
    o.max_rows = atoi(rows);
    ls_code code = ls_suite_read(&suite, argv[1], true, err);
    if (code || (code = ls_model_load(&model, &mo, err)) || (code = ls_session_new(&s, &model, &o, err))) return code;
    ls_drafter *d = (ls_drafter *)ls_session_drafter(s);
    all.learn = d->learn;
    d->learn = keep_and_learn;
    ls_step *step = ls_step_new();
    for (size_t i = 0; i < suite.n; i++) {
        const ls_buf *turn = &suite.items[i].turns[0];
        ls_ids ids = {0};
        if (odd && atoi(suite.items[i].name) % 2 == 0) continue;
        o.max_rows = atoi(rows);
        rows = strchr(rows, ',') ? strchr(rows, ',') + 1 : argv[2];
        if ((code = ls_session_set(s, &o, err))) return code;
        ls_session_reset(s);
        if ((code = ls_prompt_encode(&model, LS_FORMAT_AUTO, NULL, turn->p, turn->n, &ids, err)) ||
            (code = ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, err)))
            return code;
        do {
            if ((code = ls_session_step(s, step, err))) return code;
        } while (!step->finish);
        ls_ids_free(&ids);
        if (++*prompts % 10 == 0) fprintf(stderr, "%zu prompts\n", *prompts);
    }
    ls_step_free(step);
    return LS_OK;
}

// Sets the probabilities of a place's candidates.
static void estimate(const ls_rates *r, const place *at) {
    double sum = 1, odds[LS_SEARCH_CHILDREN];
    for (int32_t i = 0; i < at->n; i++) {
        const ls_child *t = &all.trials[at->first + (size_t)i];
        sum += odds[i] = ls_rate_odds(r, t->view, t->bias);
    }
    for (int32_t i = 0; i < at->n; i++) all.trials[at->first + (size_t)i].p = (float)(odds[i] / sum);
}

static double loss(const ls_rates *r) { // mean of a place, in nats
    double sum = 0;
    for (size_t k = 0; k < all.n_places; k++) {
        const place *at = &all.places[k];
        double right = 1;
        estimate(r, at);
        for (int32_t i = 0; i < at->n; i++) right -= (double)all.trials[at->first + (size_t)i].p;
        for (int32_t i = 0; i < at->n; i++)
            if (all.trials[at->first + (size_t)i].token == at->came)
                right = (double)all.trials[at->first + (size_t)i].p;
        sum -= log(right > 1e-12 ? right : 1e-12);
    }
    return sum / (double)all.n_places;
}

static void shuffle(uint64_t round) {
    for (size_t i = all.n_places; i > 1; i--) {
        const size_t j = (size_t)(ls_uniform_at(round, i) * (double)i);
        const place t = all.places[i - 1];
        all.places[i - 1] = all.places[j];
        all.places[j] = t;
    }
}

int main(int argc, char **argv) {
    ls_err err = {0};
    size_t prompts = 0;
    ls_rates r;
    if (argc < 4) {
        fprintf(stderr, "usage: fit_priors SUITE ROWS TOKENS [odd]\n");
        return 2;
    }
    if (decode(&prompts, argv, argc > 4, &err)) goto failed;
    ls_rates_init(&r);
    fprintf(stderr, "%zu candidates at %zu places, loss %.4f", all.n_trials, all.n_places, loss(&r));
    for (int round = 0; round < ROUNDS; round++) {
        shuffle((uint64_t)round);
        for (size_t k = 0; k < all.n_places; k++) {
            estimate(&r, &all.places[k]);
            for (int32_t i = 0; i < all.places[k].n; i++) {
                const ls_child *t = &all.trials[all.places[k].first + (size_t)i];
                ls_rates_learn(&r, t->view, (t->token == all.places[k].came) - (double)t->p, FIRST_STEP / (1 + round));
            }
        }
    }
    fprintf(stderr, ", then %.4f\n", loss(&r));
    printf("// What estimates begin with (rates.h). Written by tests/bench/fit_priors.c from %zu prompts, %s rows,\n"
           "// %s new tokens: %zu candidates at %zu places.\n",
           prompts, argv[2], argv[3], all.n_trials, all.n_places);
    for (int k = 0; k < LS_RATE_KEYS; k++)
        printf("%.3ff,%s", (double)r.weight[k], k % 12 == 11 || k + 1 == LS_RATE_KEYS ? "\n" : " ");
    return 0;
failed:
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
