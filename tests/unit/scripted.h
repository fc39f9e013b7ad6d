// The scripted model of tests that drive sessions: its fixture, and turns that begin anew.
#pragma once
#include "decode/session.h"

static ls_model model;

static inline int load(void **state) {
    (void)state;
    return ls_model_load(&model, &(ls_model_options){.name = "script"}, NULL);
}

static inline int unload(void **state) {
    (void)state;
    ls_model_free(&model);
    return 0;
}

// Turn `turn` begins anew after the first `kept` tokens.
static inline ls_code begin_at(ls_session *s, size_t turn, size_t kept, const int32_t *ids, size_t n,
                               ls_progress progress) {
    ls_next_prompt p = {.kept = kept};
    ls_ids_add(&p.ids, ids, n);
    const ls_code code = ls_session_begin_at(s, turn, &p, progress, NULL, NULL, NULL);
    ls_next_prompt_free(&p);
    return code;
}
