// The cost of rows, and the number of rows with the most expected tokens per millisecond.
//
// Costs come from timed forwards of this machine (engine/measured.h): T(rows, context) = base(rows) + slope *
// ls_cost_context_rows(rows) * (seen(context) - seen(the context of the measurement)), corrected by the steps
// themselves; seen: the tokens that a layer attends to, which are fewer behind a sliding window. A mixture of experts
// also reads the experts that its rows wake: T(rows, context, awake) = T(rows, context) + expert_ms * (awake
// - those that were awake in the measured forwards of that size).
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_COST_SIZES = 12 };
extern const int32_t ls_cost_rows[LS_COST_SIZES]; // 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64

typedef struct {
    double base_ms[LS_COST_SIZES]; // time of a forward of each size at cost_context; 0: not measured
    int32_t cost_context;
    double slope_ms; // per context token that a layer sees beyond those of cost_context, and per row, for many rows
    int32_t window;  // tokens that local layers see at most; 0: none is local
    double local;    // share of the local layers
    // Of a mixture; 0: none, or not measured. Experts are counted in all layers, each once a forward.
    double awake[LS_COST_SIZES];   // in the forwards that base_ms was measured with
    double mean_error, mean_other; // of steps: relative errors, and experts beside those of such forwards
    double expert_ms;              // time of one more
    double prefill_ms;             // prefill per token, without logits; 0: not measured
    double beside_ms;    // constant time of a step outside its forward (drafting, a draft model's forwards ...)
    int32_t beside_rows; // additional rows of a forward after a tree with drafts (a probe: decode/choose.h)
    bool given;          // set by the user, not measured: steps do not correct it, so that all runs have the same trees
} ls_cost_curve;

// Makes a curve from the times of some numbers of rows, in ascending order: linear between them, proportional above.
// awake: experts awake in these forwards, above the largest size the same; NULL: no mixture.
void ls_cost_of_points(ls_cost_curve *z, const int32_t *rows, const double *ms, const double *awake, size_t n);
// Named curves reproduce the trees of another machine: PRESET(name, points, help).
#define LS_COST_PRESETS(PRESET)                                                                                        \
    PRESET("free", "1:1,64:1", "64 rows take as long as one row")                                                      \
    PRESET("h200", "1:0.86,2:0.94,4:0.97,8:1.03,16:1.08,32:1.18,64:1.27",                                              \
           "times of the default model's forwards on an NVIDIA H200 (27 November 2026)")
#define LS_COST_CHOICE(name, points, help) "|" name
#define LS_COST_CHOICES "auto" LS_COST_PRESETS(LS_COST_CHOICE)
typedef struct {
    const char *name, *points, *about;
} ls_cost_preset;
extern const ls_cost_preset ls_cost_presets[]; // ends with a NULL name
// "auto": a zero curve, to be measured; otherwise a name, or ROWS:MS,... from one row on; of a mixture
// ROWS:MS:EXPERTS,...,expert:MS: the experts of these forwards, and the time of one. LS_E_USAGE. what: the name in the
// message.
ls_code ls_cost_read(ls_cost_curve *z, const char *what, const char *text, ls_err *err);
enum { LS_COST_TEXT = 320 }; // bytes of the longest text
// The curve in that form, without its slope; "" if nothing was measured. Read again, a given curve is the same curve.
void ls_cost_text(const ls_cost_curve *z, char out[LS_COST_TEXT]);

// Converts a number of rows to the factor of slope_ms: keys and values of a context token are read once for all rows,
// and each row multiplies them.
double ls_cost_context_rows(int32_t rows);
// Tokens of such a context that a layer sees, the mean of all layers.
double ls_cost_seen(const ls_cost_curve *z, int32_t context);
double ls_cost_ms(const ls_cost_curve *z, int32_t rows, int32_t context); // interpolated; 0 if not measured
// Experts awake in a forward of so many rows, if these are as different as those of the measurement.
double ls_cost_awake(const ls_cost_curve *z, int32_t rows);
// What a forward of so many rows takes more (or less, if negative) because that many experts are awake, ms.
double ls_cost_experts_ms(const ls_cost_curve *z, int32_t rows, double awake);
// path[0..n): acceptance probabilities of the rows' whole paths, best first; path[0] is the root's and 1. Returns how
// many rows to verify: 1 if no draft pays, n if nothing was measured. *rate (may be NULL): expected tokens per
// millisecond for that number; 0: nothing was measured.
int32_t ls_cost_choose(const ls_cost_curve *z, const double *path, int32_t n, int32_t context, double *rate);
// Whether a row with path probability `path` could be worth its cost after n other rows, or could lead to rows that
// are; of a mixture, if they wake no expert. False ends the search for candidates.
bool ls_cost_may_pay(const ls_cost_curve *z, double path, int32_t n, int32_t context);
// The largest time of an expert that the curve allows: so large that rows take no other time.
double ls_cost_most_expert_ms(const ls_cost_curve *z);
// Updates the curve after a forward of n_rows rows took ms: the cost of that size moves by a part of the deviation,
// other sizes move less with their distance. awake: experts that it woke; negative: no mixture, or not known. Changes
// nothing if the curve was given by the user.
void ls_cost_observe(ls_cost_curve *z, int32_t n_rows, int32_t context, double awake, double ms);
