// Training of one-vs-rest linear classifiers over sparse points, by dual coordinate descent.
#pragma once

#include <cstdint>

#include "../kernels/kernel_table.h"

namespace sparsenet {

struct DualRules {
  int64_t max_epochs;
  float tolerance;  // stop when no point violates optimality by more
  uint64_t seed;
};

// Trains one block of `width` labels; weight is (n_features + 1, width). Returns the number of passes.
int32_t dual_train_block(const DualProblem& problem, int64_t n, int64_t width, DualRules rules, float* weight);

// Trains `n_blocks` blocks of `width` labels. `problem` describes the first block, but has the slacks of all labels.
// weight (n_blocks, n_features + 1, width) holds the starting point on entry; epochs is (n_blocks,). Blocks are
// independent, and each is one task.
void dual_train(DualProblem problem, int64_t n, int64_t width, int64_t n_blocks, DualRules rules, float* weight,
                int32_t* epochs, int threads);

}  // namespace sparsenet
