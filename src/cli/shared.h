// `models info --devices LIST`: estimates of the memory of each rank and of the time of a step.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "cli/device_model.h"
#include "model/checkpoint.h"

typedef struct {
    int32_t n; // ranks; below 2: not shared, and the other fields are not set
    bool on_gpus;
    uint64_t weights, token; // bytes of the largest part, and of its KV cache per token
    int32_t rounds;          // sequential exchanges of a step
    double bytes_of_row;     // bytes per row that a rank receives from the others
    const lsg_card *card;    // NULL: no --device-model
    double compute_ms[2];    // of the largest part on this card, for 1 and for LS_PAPER_ROWS rows
} ls_shared;

// devices: the value of --devices; card: that of --device-model, or NULL.
ls_code ls_share_out(ls_shared *out, const ls_checkpoint *c, const char *devices, const char *card, ls_err *err);
// Appends lines of text, each after a line feed; nothing if the model is not shared.
void ls_shared_text(const ls_shared *s, ls_buf *out);
void ls_shared_json(const ls_shared *s, ls_jsonw *w); // a field "shared"
// "43 MB"
void ls_bytes_text(ls_buf *out, double bytes);
