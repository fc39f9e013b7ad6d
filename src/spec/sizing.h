// Tree sizing by measured cost: the budget with the most expected tokens per millisecond.
//
// Expected tokens are learned online. A drafter orders its rows so that a smaller budget's tree is a prefix, so one
// verified tree says exactly what every smaller budget would have emitted. Costs come from timed forwards of this
// machine: T(rows, context) = base(rows) + slope * rows * context, with the slope learned from the steps themselves.
#pragma once
#include <stdint.h>

enum { LS_SIZES = 9 };
extern const int32_t ls_size_rows[LS_SIZES]; // 1, 2, 4, 8, 16, 24, 32, 48, 64

typedef struct {
    double base_ms[LS_SIZES]; // forward of that many rows at cost_context; 0: not measured
    int32_t cost_context;
    double slope_ms;                            // per row and context token beyond cost_context
    double emitted[LS_SIZES], weight[LS_SIZES]; // decayed sums: tokens emitted with this budget, and steps
    uint64_t steps;
    int32_t last_size;
} ls_sizing;

void ls_sizing_init(ls_sizing *z);                                           // priors only; costs are to be filled in
double ls_sizing_cost_ms(const ls_sizing *z, int32_t rows, int32_t context); // interpolated; 0 if not measured
double ls_sizing_expected(const ls_sizing *z, int i_size);                   // tokens a step with that budget
int32_t ls_sizing_choose(ls_sizing *z, int32_t context);                     // rows, root included
// A step verified n_rows rows and accepted path[0..n_path) (row indices); its forward took ms.
void ls_sizing_observe(ls_sizing *z, int32_t n_rows, const int32_t *path, int32_t n_path, int32_t context, double ms);
