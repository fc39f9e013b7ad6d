// What rows cost, and the number of rows with the most expected tokens per millisecond.
//
// Costs come from timed forwards of this machine (costs/costs.h): T(rows, context) = base(rows) + slope *
// ls_cost_context_rows(rows) * (context - the context of the measurement), corrected by the steps themselves.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_COST_SIZES = 12 };
extern const int32_t ls_cost_rows[LS_COST_SIZES]; // 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64

typedef struct {
    double base_ms[LS_COST_SIZES]; // forward of that many rows at cost_context; 0: not measured
    int32_t cost_context;
    double slope_ms;   // of each of many rows per context token beyond cost_context
    double prefill_ms; // a prompt's token, read without its logits; 0: not measured
    double beside_ms;  // what a step spends beside its forward, whatever its rows (a second model's forwards)
    int32_t beside_rows; // rows of a forward behind those of a tree with drafts (a probe: decode/reflect.h)
    bool given; // by the user, not measured: steps do not correct it, so that trees are the same in every run
} ls_cost_curve;

// From the times of some numbers of rows, in rising order; straight lines between them, in proportion beyond.
void ls_cost_of_points(ls_cost_curve *z, const int32_t *rows, const double *ms, size_t n);
// Curves with a name: the trees of another machine.
typedef struct {
    const char *name, *points, *about;
} ls_cost_preset;
extern const ls_cost_preset ls_cost_presets[]; // ends with a NULL name
#define LS_COST_CHOICES "auto|free|h200"       // "auto", and their names
// "auto": a zero curve, to be measured; else a name, or ROWS:MS,... from one row on. LS_E_USAGE; what: for the message.
ls_code ls_cost_read(ls_cost_curve *z, const char *what, const char *text, ls_err *err);

// As many of many rows cost for a token of context what these cost: its keys and values are read once for all rows, and
// each row multiplies them.
double ls_cost_context_rows(int32_t rows);
double ls_cost_ms(const ls_cost_curve *z, int32_t rows, int32_t context); // interpolated; 0 if not measured
// path[0..n): chances that the rows' whole paths are right, best first; path[0] is the root's and 1. Returns how many
// of them to verify: 1 where no draft pays, n where nothing was measured. *rate: expected tokens per millisecond then, 0
// where nothing was measured; may be NULL.
int32_t ls_cost_choose(const ls_cost_curve *z, const double *path, int32_t n, int32_t context, double *rate);
// Whether a row of this chance could be worth its cost behind n others, or open the way to rows that are. False ends
// the search for candidates.
bool ls_cost_may_pay(const ls_cost_curve *z, double path, int32_t n, int32_t context);
// A forward of n_rows rows took ms: the cost of that size follows it by a part of the deviation, those of other sizes
// the less the farther they are. Nothing changes where the curve was given.
void ls_cost_observe(ls_cost_curve *z, int32_t n_rows, int32_t context, double ms);
