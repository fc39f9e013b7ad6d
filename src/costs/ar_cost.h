// The current time of a plain decode step on this machine. It is not a constant: single-row forwards are timed in this
// process at the contexts being decoded.
#pragma once
#include "engine/engine.h"

enum { LS_AR_RECENT = 9 };

typedef struct {
    double us;                   // smoothed; 0: not measured yet
    int32_t at;                  // context length of the last measurement
    double timed[LS_AR_RECENT];  // the last single-row forwards, us
    uint64_t n_timed;            // of all
    double recent[LS_AR_RECENT]; // times of whole steps, with any number of rows
    uint64_t n_steps;
} ls_ar_cost;

// True when the context moved far enough from the last measurement (64 tokens).
bool ls_ar_due(const ls_ar_cost *a, int32_t context);
// Records that a whole step of one or more rows took step_us. A plain step cannot take longer, so if the timed forwards
// were disturbed, the median of the last steps replaces them.
void ls_ar_bound(ls_ar_cost *a, double step_us);
// The relative spread of the last timed forwards: half their range / their median, without the fastest and the slowest
// if there are six or more. 0: not measured yet.
double ls_ar_spread(const ls_ar_cost *a);
// Times three single-row forwards of `token` on top of the committed context (nothing is committed); keeps the
// median. host_us: time of a plain step outside the forward.
ls_code ls_ar_probe(ls_ar_cost *a, ls_timeline *timeline, int32_t token, const lst_sampling *s, double host_us,
                    ls_err *err);
