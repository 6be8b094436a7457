// Training of one-vs-rest linear classifiers over sparse points.
#pragma once

#include <cstdint>

#include "kernel_table.h"

namespace sparsenet {

struct DualRules {
  int64_t most_epochs;
  float tolerance;  // stop a block when no point violates optimality by more
  uint64_t seed;
};

// One block of `width` labels; weight (n_features + 1, width). Returns how many passes it took.
int32_t dual_train_block(const DualProblem& problem, int64_t n, int64_t width, DualRules rules, float* weight);

// `problem` describes the first block of `width` labels, with slacks for all; weight (n_blocks, n_features + 1, width),
// where the search starts from, on entry. Blocks are independent of each other, and each is the work of one task.
// epochs (n_blocks,).
void dual_train(DualProblem problem, int64_t n, int64_t width, int64_t n_blocks, DualRules rules, float* weight,
                int32_t* epochs, int threads);

}  // namespace sparsenet
