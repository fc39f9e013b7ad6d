// A second model beside the target, loaded once and shared by all drafters that use it.
#pragma once
#include "engine/load.h"

// The request for a second model.
typedef struct {
    const char *name;    // as for ls_model_load; NULL or "": the target's own file
    const char *weights; // format of its weights in memory; "auto": as in the file
    const char *device;  // "auto": the target's
    int32_t threads;     // 0: as for the target
} ls_second_want;

// Loads it, or returns the model that an equal request loaded before. Its tokenizer must equal the target's: the
// message of LS_E_UNSUPPORTED has the first token that differs. Only special tokens at the end may differ; then
// *differs is the first of them (otherwise -1), and the second model must not be given this token or later ones. Owned
// by the target's ls_model until ls_model_free; an unused one is freed when another is loaded.
ls_code ls_second_model_get(ls_model *target, const ls_second_want *want, ls_model **out, int32_t *differs,
                            ls_err *err);
void ls_second_models_free(ls_model *target);                  // frees all; called by ls_model_free
void ls_second_model_done(ls_model *target, ls_model *second); // releases one use
