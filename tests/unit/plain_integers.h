// matmul_int and quantize of a level (kernels.h) number by number: every level gives these bits.
#pragma once
#include "compute/kernels/kernels.h"

void plain_matmul_int(const lsk_matrix *w, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                      int32_t rows, int32_t tile_begin, int32_t tile_end, void *scratch);
void plain_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride);
