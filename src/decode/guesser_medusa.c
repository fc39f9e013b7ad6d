#include "decode/guesser_medusa.h"
#include "base/mem.h"
#include "base/system.h"
#include "decode/hidden.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    ls_guesser base;
    ls_trained *heads;
    ls_hidden *hidden;
} medusa;

static ls_code guess(ls_guesser *base, const int32_t *context, size_t n, int32_t k, int32_t *ids, float *p,
                     ls_err *err) {
    medusa *m = (medusa *)base;
    size_t at;
    ls_hidden_follow(m->hidden, context, n);
    const float *values = ls_hidden_values(m->hidden, n ? n - 1 : 0, n, &at);
    if (!values) return ls_fail(err, LS_E_RANGE, "the target's hidden state of the last token is not known");
    const uint64_t start = ls_now_ns();
    const ls_code code = ls_trained_guess(m->heads, values, k, ids, p, err);
    base->us = (double)(ls_now_ns() - start) / 1e3;
    ls_hidden_forget(m->hidden, n);
    return code;
}

static size_t bytes(const ls_guesser *base) {
    const medusa *m = (const medusa *)base;
    return sizeof *m + ls_hidden_bytes(m->hidden);
}

static void free_guesser(ls_guesser *base) {
    medusa *m = (medusa *)base;
    ls_hidden_free(m->hidden);
    ls_trained_free(m->heads);
    free(m);
}

ls_code ls_guesser_medusa(ls_guesser **out, ls_trained *heads, ls_timeline *target, ls_err *err) {
    *out = NULL;
    medusa *m = ls_calloc(1, sizeof *m);
    m->base = (ls_guesser){.n = heads->n_guesses, .guess = guess, .bytes = bytes, .free = free_guesser};
    snprintf(m->base.name, sizeof m->base.name, "%s", heads->name);
    m->heads = heads;
    ls_code code =
        heads->n_guesses ? LS_OK : ls_fail(err, LS_E_USAGE, "%s is an EAGLE head: use method eagle3", heads->name);
    if (!code) code = ls_hidden_new(&m->hidden, target, heads->takes, heads->n_takes, heads->n_values, err);
    if (code) free_guesser(&m->base);
    else *out = &m->base;
    return code;
}
