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
  bool start_pass();
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

  // Moves points that are active for some group to the front.
  void merge_orders();

  int64_t n_, width_, lanes_;
  DualRules rules_;
  float* weight_;
  std::vector<Group> groups_;
  std::vector<int32_t> order_;
  std::vector<bool> is_active_;
  uint64_t random_;
  int64_t active_;
  int32_t epoch_ = 0, in_a_row_ = 0;
  bool all_ = true, ended_;
};

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
