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

// Draws the order of a pass: shuffles order[0, count). `seed` is that of the run, `n_drawn` the numbers drawn before;
// a shuffle draws one for each point but the last.
void shuffle_order(int32_t* order, int64_t count, uint64_t seed, int64_t n_drawn);

// A part of a pass, for points that are not all in memory: visits order[first, first + n), whose rows, squares, labels
// and dual variables are those of `problem` and `alpha`, in this order. Moves points that violate optimality by more
// than `rest` to order[kept ...], and returns the end of those. `violation` is the largest one of the part.
int64_t dual_pass(const DualProblem& problem, int64_t n, int64_t width, int32_t* order, int64_t first, int64_t kept,
                  float rest, float stride, float* weight, float* alpha, float* violation);

}  // namespace sparsenet
