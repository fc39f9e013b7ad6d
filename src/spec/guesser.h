// A model that guesses by position, as drafters see it: the best tokens of each of the places behind the next one,
// whatever stands between. What runs it lives above this folder (decode/guesser_medusa.h).
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ls_guesser ls_guesser;
struct ls_guesser {
    char name[64]; // to show
    int32_t n;     // places that it guesses: the first one is behind the root
    // The text is context[0..n_context); the root, which follows it, is not asked for: the guesses are made beside it.
    // The k best tokens of each place with their probabilities, best first, id -1: no more; ids and p are [n][k].
    // LS_E_RANGE: nothing is known of this text, and nothing is drafted in this step.
    ls_code (*guess)(ls_guesser *g, const int32_t *context, size_t n_context, int32_t k, int32_t *ids, float *p,
                     ls_err *err);
    double us; // that the last guess took
    size_t (*bytes)(const ls_guesser *g);
    void (*free)(ls_guesser *g);
};
