// Training of one-vs-rest linear classifiers over sparse points, by dual coordinate descent.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernel_table.h"

namespace sparsenet {

struct DualRules {
  int64_t max_epochs;
  float tolerance;  // stop when no point violates optimality by more
  uint64_t seed;
};

// The dual variables (n, width) at the start, for labels with these slacks of negatives.
std::vector<float> initial_alpha(int64_t n, int64_t width, const float* negative_slack);

// The order in which the passes of a training visit n points. A pass visits the active points; points that violate
// optimality by at most `rest` drop out, until a pass over all points ends the training.
class DualPasses {
 public:
  DualPasses(int64_t n, DualRules rules);

  // Starts a pass: shuffles the active points. Returns false if the training is at its end.
  bool start();
  // Ends a pass after which the first `n_active` points are active; `violation` is the largest one of the pass.
  void end(int64_t n_active, float violation);

  int32_t* order() { return order_.data(); }
  int64_t active() const { return active_; }
  float rest() const { return rules_.tolerance / 2; }
  float stride() const;
  int32_t count() const { return count_; }

 private:
  DualRules rules_;
  std::vector<int32_t> order_;
  int64_t n_, active_;
  int32_t count_ = 0, in_a_row_ = 0;
  bool all_ = true, ended_;
};

// The training of one block of `width` labels; weight is (n_features + 1, width). The labels are visited in groups of
// equal size, which may run at the same time. The weights are the same, bit for bit, for any number of groups: a point
// rests if it rests for all of them, and nothing else connects labels. Narrow groups take more time in all.
class DualBlock {
 public:
  DualBlock(const DualProblem& problem, int64_t n, int64_t width, int64_t n_groups, DualRules rules, float* weight);
  DualBlock(DualBlock&&) = default;

  // Trains on the calling thread alone; returns the number of passes.
  int32_t train();

  // Starts a pass. Returns false if the training is at its end.
  bool start_pass() { return passes_.start(); }
  // Visits the active points for the labels of a group.
  void visit(int64_t group);
  // Ends a pass that all groups have made.
  void end_pass();
  // Writes the weights after the last pass.
  void finish();

 private:
  struct Group {
    DualProblem problem;
    std::vector<float> own_weight, alpha;
    std::vector<int32_t> own_order;
    float* weight = nullptr;
    int32_t* order = nullptr;
    int64_t kept = 0;
    float violation = 0;
  };

  // Moves points that are active for some group to the front, and returns their number.
  int64_t merge_orders();

  int64_t n_, width_, lanes_;
  float* weight_;
  std::vector<Group> groups_;
  DualPasses passes_;
  std::vector<bool> is_active_;
};

// Trains `n_blocks` blocks of `width` labels. `problem` describes the first block, but has the slacks of all labels.
// weight (n_blocks, n_features + 1, width) holds the starting point on entry; epochs is (n_blocks,). Blocks are
// independent, and each is one task.
void dual_train(DualProblem problem, int64_t n, int64_t width, int64_t n_blocks, DualRules rules, float* weight,
                int32_t* epochs, int threads);

}  // namespace sparsenet
