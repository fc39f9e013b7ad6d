// The drafters' interface to a model that guesses by position: the best tokens of each position after the next one,
// independent of the tokens between. decode/guesser_medusa.h implements it.
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ls_guesser ls_guesser;
struct ls_guesser {
    char name[64]; // display name
    int32_t n;     // guessed positions; the first one is after the root
    // Gives the k best tokens of each position with their probabilities, best first, id -1: no more; ids and p are
    // [n][k]. The text is context[0..n_context); the guesses do not depend on the root, which follows it. LS_E_RANGE:
    // no hidden states of this text, so nothing is drafted in this step.
    ls_code (*guess)(ls_guesser *g, const int32_t *context, size_t n_context, int32_t k, int32_t *ids, float *p,
                     ls_err *err);
    double us; // time of the last guess
    size_t (*bytes)(const ls_guesser *g);
    void (*free)(ls_guesser *g);
};
