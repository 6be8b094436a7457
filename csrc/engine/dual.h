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

// Shuffles order[0, count) for a pass of a run with this seed. Earlier shuffles drew `n_drawn` random numbers: one for
// each point but the last.
void shuffle_order(int32_t* order, int64_t count, uint64_t seed, int64_t n_drawn);

// A part of a pass, for points that are not all in memory: visits order[first, first + n). `problem` and `alpha` hold
// only these points, in this order. Moves points that violate optimality by more than `rest` to order[kept ...], and
// returns the end of them. `violation` is the largest violation of the part.
int64_t dual_pass(const DualProblem& problem, int64_t n, int64_t width, int32_t* order, int64_t first, int64_t kept,
                  float rest, float stride, float* weight, float* alpha, float* violation);

}  // namespace sparsenet
