// `models info --devices LIST`: what each of several ranks would hold of a model, and what a step would take, on paper.
#pragma once
#include "base/buf.h"
#include "base/jsonw.h"
#include "cli/device_model.h"
#include "model/checkpoint.h"

typedef struct {
    int32_t n;               // ranks; below 2: nobody shares, and the rest is not set
    bool on_gpus;            //
    uint64_t weights, token; // bytes of the largest part, and of a token's keys and values there
    int32_t rounds;          // exchanges of a step, one after the other
    double bytes_of_row;     // that a rank gets from the others
    const lsg_card *card;    // NULL: none was named
    double compute_ms[2];    // of the largest part on such a card, for 1 and for LS_PAPER_ROWS rows
} ls_shared;

// devices: as of --devices; card: as of --device-model, NULL: none.
ls_code ls_share_out(ls_shared *out, const ls_checkpoint *c, const char *devices, const char *card, ls_err *err);
// Lines of text, each begun by a line feed; nothing where nobody shares.
void ls_shared_text(const ls_shared *s, ls_buf *out);
void ls_shared_json(const ls_shared *s, ls_jsonw *w); // a field "shared"
// "43 MB"
void ls_bytes_text(ls_buf *out, double bytes);
