// Trained heads that draft for a target model from its hidden states: a folder with config.json and safetensors, or a
// GGUF file with an EAGLE-3 head.
//
// EAGLE-3 (arXiv 2503.01840), EAGLE and EAGLE-2 (2401.15077, 2406.16858; one format), Medusa (2401.10774), as their
// authors' programs publish them (SafeAILab/EAGLE, FasterDecoding/Medusa). Opening reads the configuration and the
// table of tensors, detects the kind of head, and checks every shape; tensors are read one by one.
#pragma once
#include "model/checkpoint.h"

typedef enum {
    LS_HEAD_EAGLE3, // three layers' values through fc; one decoder layer over [embedding, feature]; own output head
    LS_HEAD_EAGLE,  // fc over [embedding, feature]; one decoder layer; the target's output head
    LS_HEAD_MEDUSA, // a head for each of the next positions, over the target's last values
} ls_head_kind;

enum { LS_HEAD_TAKES = 3, LS_MEDUSA_HEADS = 16, LS_MEDUSA_BLOCKS = 8 };

typedef struct {
    ls_head_kind kind;
    const char *name;               // "EAGLE-3", "EAGLE", "Medusa"
    ls_hparams hparams;             // of EAGLE's layer; of Medusa n_embd and n_vocab only. n_vocab: of the target
    int32_t target_embd;            // width of the target's values
    int32_t n_draft;                // size of its output vocabulary
    int32_t *d2t;                   // [n_draft] their ids in the target's vocabulary; NULL: the same ids
    bool own_embedding, own_output; // else the target's
    int32_t n_heads, n_blocks;      // of Medusa: heads, and residual blocks of each
    char base[96];                  // of Medusa: name of the model that they were trained for; "": not known
    int32_t takes[LS_HEAD_TAKES], n_takes; // from config.json, as in lst_hidden; n_takes 0: not in config.json
    // Tensors by their published names, without a prefix ("midlayer.", "layers.0.", "model.", "medusa_head.").
    ls_checkpoint *weights;
} ls_head;

// Numbers of the target's hidden states of a row.
static inline int32_t ls_head_values(const ls_head *h) {
    return (h->kind == LS_HEAD_EAGLE3 ? LS_HEAD_TAKES : 1) * h->target_embd;
}

// folder: or a GGUF file. Errors begin with the folder or a file of it. LS_E_UNSUPPORTED: for example, the weights are
// a pickle; the message has the command that converts them.
ls_code ls_head_open(ls_head **out, const char *folder, ls_err *err);
void ls_head_close(ls_head *h); // accepts NULL

// Checks that the head fits a target of that shape; the message of LS_E_RANGE has both shapes. takes (*n_takes, at most
// LS_HEAD_TAKES): which of the target's hidden states feed the head, as in lst_hidden.
ls_code ls_head_fits(const ls_head *h, const ls_hparams *target, int32_t *takes, int32_t *n_takes, ls_err *err);
