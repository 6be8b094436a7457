// The dense matrix product.
#pragma once

#include <cstdint>

#include "../kernels/kernel_table.h"

namespace sparsenet {

struct MatmulShape {
  int64_t m, n, depth;
  bool transpose_a, transpose_b;
  bool bfloat16;  // round both operands to bfloat16; sums stay in float32
};

// out (m, n) = op(a) x op(b). The sums of row i begin with start[i], or with 0 if `start` is null.
void matmul(Operand a, Operand b, MatmulShape shape, const float* start, float* out, int threads);

}  // namespace sparsenet
