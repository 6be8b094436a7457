// Training of one-vs-rest linear classifiers over sparse points, by dual coordinate descent.
#pragma once

#include <cstdint>
#include <functional>

#include "../kernels/kernel_table.h"

namespace sparsenet {

struct DualRules {
  int64_t max_epochs;
  float tolerance;  // stop when no point violates optimality by more
  uint64_t seed;
};

// Visits the points order[0, active) once, at a stride. Points that violate optimality by more than `rest` move to the
// front; returns their number. alpha (n, width) are the dual variables of all points.
using VisitPoints = std::function<int64_t(int32_t* order, int64_t active, float rest, float stride, float* alpha,
                                          float* violation)>;

// Makes passes over n points until no point violates optimality by more than the tolerance. Returns their number. The
// seed is that of this block of labels, whose slacks of negatives are negative_slack[0, width).
int32_t dual_passes(int64_t n, int64_t width, const float* negative_slack, DualRules rules, const VisitPoints& visit);

// Trains one block of `width` labels; weight is (n_features + 1, width). Returns the number of passes.
int32_t dual_train_block(const DualProblem& problem, int64_t n, int64_t width, DualRules rules, float* weight);

// Trains `n_blocks` blocks of `width` labels. `problem` describes the first block, but has the slacks of all labels.
// weight (n_blocks, n_features + 1, width) holds the starting point on entry; epochs is (n_blocks,). Blocks are
// independent, and each is one task.
void dual_train(DualProblem problem, int64_t n, int64_t width, int64_t n_blocks, DualRules rules, float* weight,
                int32_t* epochs, int threads);

}  // namespace sparsenet
