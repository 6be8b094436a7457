#include "dual.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "../core/split_mix.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Returns a number from 0 to n - 1. The bias of at most n / 2^64 does not matter here.
  int64_t below(int64_t n) { return static_cast<int64_t>(scrambled(state_ += kGolden) % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

void shuffle(int32_t* order, int64_t count, Random& random) {
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
}

// Consecutive passes over the active points alone; after them the other points are checked again. On a held-out part of
// reddit-titles, ten passes reach an accuracy of 28.9 % with a limit of 4, and 28.3 % in half the time with a limit
// of 9.
constexpr int32_t kMaxShortPasses = 4;

// A label with at least this slack is padding, which no point moves. Its dual variables start at their optimum:
// otherwise every point would violate it until an adjacent label moves, and passes would not end.
constexpr float kPadding = 1e29f;

std::vector<float> initial_alpha(int64_t n, int64_t width, const float* slack) {
  std::vector<float> alpha(n * width, 0.0f);
  for (int64_t c = 0; c < width; ++c)
    for (int64_t i = 0; slack[c] >= kPadding && i < n; ++i) alpha[i * width + c] = 1 / slack[c];
  return alpha;
}

// The last few passes take shrinking strides. With full strides the points visited last dominate: for one text with 600
// labels "a" and 400 labels "b", one model in four predicted "b".
constexpr int64_t kMaxShortStrides = 4;

float stride_of(int64_t epoch, int64_t max_epochs) {
  const int64_t full = max_epochs - std::min(kMaxShortStrides, max_epochs / 2);
  return epoch < full ? 1.0f : 1.0f / static_cast<float>(2 + epoch - full);
}

}  // namespace

int32_t dual_passes(int64_t n, int64_t width, const float* negative_slack, DualRules rules, const VisitPoints& visit) {
  std::vector<float> alpha = initial_alpha(n, width, negative_slack);
  std::vector<int32_t> order(n);
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<int32_t>(i);
  Random random(rules.seed);
  int64_t active = n;
  int32_t epoch = 0, in_a_row = 0;
  while (epoch < rules.max_epochs && n > 0) {
    const bool all = active == n;
    in_a_row = all ? 0 : in_a_row + 1;
    shuffle(order.data(), active, random);
    float violation = 0;
    // With many labels most points are within the tolerance after one pass, and drop out.
    active = visit(order.data(), active, rules.tolerance / 2, stride_of(epoch, rules.max_epochs), alpha.data(),
                   &violation);
    ++epoch;
    if (violation > rules.tolerance && active > 0 && in_a_row < kMaxShortPasses) continue;
    if (all && violation <= rules.tolerance) break;
    active = n;  // check the inactive points against the current weights
  }
  return epoch;
}

int32_t dual_train_block(const DualProblem& problem, int64_t n, int64_t width, DualRules rules, float* weight) {
  rules.seed += static_cast<uint64_t>(problem.first_label);
  return dual_passes(n, width, problem.negative_slack, rules,
                     [&](int32_t* order, int64_t active, float rest, float stride, float* alpha, float* violation) {
                       return kernels().dual_epoch(problem, width, active, order, rest, stride, weight, alpha,
                                                   violation);
                     });
}

void dual_train(DualProblem problem, int64_t n, int64_t width, int64_t n_blocks, DualRules rules, float* weight,
                int32_t* epochs, int threads) {
  parallel_for(n_blocks, threads, [&](int64_t block) {
    DualProblem own = problem;
    own.first_label += block * width;
    own.positive_slack += block * width;
    own.negative_slack += block * width;
    epochs[block] = dual_train_block(own, n, width, rules, weight + block * (problem.n_features + 1) * width);
  });
}

}  // namespace sparsenet
