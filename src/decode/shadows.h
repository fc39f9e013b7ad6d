// Shadows: while one method decodes, others propose on the same text without a forward. Every exact method writes the
// same text, so what they would have accepted can be known; what the target's logits say is known where the method that
// decodes looked (decode/simulate.h counts how much that is). Work is done when it is asked for. For one thread.
#pragma once
#include "decode/simulate.h"

typedef struct {
    const char *label;
    ls_decode_options decode;
} ls_shadow_variant;

typedef struct {
    const char *label;
    const ls_method *method;
    ls_simulator *simulator; // NULL: refused
    ls_simulated total;      // of this turn so far
    bool done;               // up to the end of the known text
    char refusal[256];       // why it cannot be shadowed
} ls_shadow;

typedef struct ls_shadows ls_shadows;

// variants: borrowed, with all that they point to. run: the run that is observed.
ls_shadows *ls_shadows_new(const ls_shadow_variant *variants, int n, const ls_run *run);
void ls_shadows_free(ls_shadows *s); // accepts NULL
// A turn begins after these tokens. All work on the previous turn must be done.
void ls_shadows_begin(ls_shadows *s, const int32_t *context, size_t n);
void ls_shadows_add(ls_shadows *s, const ls_step *step);
void ls_shadows_end(ls_shadows *s); // no more steps will come in this turn
// Works until that time (base/system.h) at most, but one step of a method at least. True: nothing is left to do.
bool ls_shadows_work(ls_shadows *s, uint64_t until_ns);

const ls_shadow *ls_shadows_all(const ls_shadows *s, int *n); // borrowed, in the order of the variants; n may be NULL
double ls_shadows_us_per_step(const ls_shadows *s); // work for each step of the method that decodes; NAN: none yet
