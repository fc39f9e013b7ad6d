// A trained head that runs beside a model and drafts from its hidden states (kinds: model/head.h). EAGLE reads pairs
// (a token and a hidden state) and grows trees; Medusa predicts the tokens of several positions at once. Used by one
// thread at a time.
#pragma once
#include "engine/library.h"
#include "model/head.h"

typedef struct {
    char name[64];   // display name: "EAGLE-3 head NAME"
    int32_t n_vocab; // of the model; predictions use its ids
    int32_t n_context;
    int32_t takes[LS_HEAD_TAKES], n_takes; // hidden states of the model that feed it, for ls_kv_cache.hidden
    int32_t n_values;                      // numbers of a row: n_takes times the model's width
    char base[96];                         // Medusa: name of the model that the heads were trained for; "": not known
    int32_t n_guesses;                     // Medusa: predicted positions after the next one; 0: EAGLE
    uint64_t weight_bytes;
    int32_t threads; // of the engine
    bool on_device;  // it runs on the engine's GPU
    char note[400];  // why it runs on the CPU beside a GPU, and what would help; "": it does not
    const lst_torch *lib;
    lst_head *head;
    lst_draft *draft; // NULL: Medusa
} ls_trained;

// Memory of the device that the head runs on, for n values: zeros. NULL: there is no room.
float *ls_trained_memory(ls_trained *t, size_t n);
void ls_trained_memory_free(ls_trained *t, float *p); // accepts NULL
// See lst_head_copy. False: it failed.
bool ls_trained_copy(ls_trained *t, float *to, const float *from, size_t n);

// EAGLE. See lst_draft_begin, lst_draft_grow, lst_draft_top and lst_draft_logits; LS_E_RANGE: the context is full.
ls_code ls_trained_begin(ls_trained *t, int32_t keep, int32_t at, const int32_t *tokens, const float *values, int32_t n,
                         const lst_sampling *s, lst_row *row, ls_err *err);
ls_code ls_trained_grow(ls_trained *t, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *s,
                        lst_row *rows, ls_err *err);
ls_code ls_trained_row_top(ls_trained *t, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err);
ls_code ls_trained_row_logits(ls_trained *t, int32_t row, float *logits, ls_err *err);
// Medusa. See lst_head_guess.
ls_code ls_trained_guess(ls_trained *t, const float *values, int32_t k, int32_t *ids, float *p, ls_err *err);
void ls_trained_free(ls_trained *t); // before its engine is closed

// Reads the head in that folder for the model of e, which ls_engine_open has opened. target: the model's
// checkpoint; a head without its own embedding and output head uses the target's. Used only during this call. Of opt,
// only device, progress and ud are used. The head runs on the engine's device if opt->device is not "cpu", libtorch can
// compute there and its memory has room; else on the CPU. LS_E_RANGE: the head is for another model; LS_E_BACKEND:
// there is no liblstorch.so.
ls_code ls_trained_open(ls_trained **out, ls_engine *e, const ls_checkpoint *target, const char *folder,
                        const ls_engine_options *opt, ls_err *err);
