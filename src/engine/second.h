// A second model beside the target: loaded once for all that draft with it.
#pragma once
#include "engine/load.h"

// How a second model is wanted.
typedef struct {
    const char *name;    // what ls_model_load takes; NULL or "": the target's own file
    const char *weights; // how its weights are kept; "auto": as the file has them
    const char *device;  // "auto": the target's
    int32_t threads;     // 0: as many as the target's
} ls_second_want;

// Loads it, or gives what was loaded so before. Its tokenizer must
// agree with the target's: LS_E_UNSUPPORTED names the first token that differs. Only special tokens at the end may;
// then *differs, the first of them (else -1), is one that it cannot be given. Owned by the target's ls_model, until
// ls_model_free; one that nobody uses goes when another comes.
ls_code ls_second_model_get(ls_model *target, const ls_second_want *want, ls_model **out, int32_t *differs,
                            ls_err *err);
void ls_second_models_free(ls_model *target);                  // all of them; ls_model_free does
void ls_second_model_done(ls_model *target, ls_model *second); // one user less
