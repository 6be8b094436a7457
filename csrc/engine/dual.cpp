#include "dual.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "../core/split_mix.h"
#include "../core/stopping.h"
#include "../core/threads.h"

namespace sparsenet {
namespace {

// Each swap draws a number from 0 to i. Its bias of at most (i + 1) / 2^64 does not matter here.
void shuffle(int32_t* order, int64_t count, uint64_t& random) {
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(order[i], order[scrambled(random += kGolden) % static_cast<uint64_t>(i + 1)]);
}

// Consecutive passes over the active points alone; after them the other points are checked again. On a held-out part of
// reddit-titles, ten passes reach an accuracy of 28.9 % with a limit of 4, and 28.3 % in half the time with a limit
// of 9.
constexpr int32_t kMaxShortPasses = 4;

// A label with at least this slack is padding, which no point moves. Its dual variables start at their optimum:
// otherwise every point would violate it until an adjacent label moves, and passes would not end.
constexpr float kPadding = 1e29f;

// The last few passes take shrinking strides. With full strides the points visited last dominate: for one text with 600
// labels "a" and 400 labels "b", one model in four predicted "b".
constexpr int64_t kMaxShortStrides = 4;

float stride_of(int64_t epoch, int64_t max_epochs) {
  const int64_t full = max_epochs - std::min(kMaxShortStrides, max_epochs / 2);
  return epoch < full ? 1.0f : 1.0f / static_cast<float>(2 + epoch - full);
}

}  // namespace

std::vector<float> initial_alpha(int64_t n, int64_t width, const float* negative_slack) {
  std::vector<float> alpha(n * width, 0.0f);
  for (int64_t c = 0; c < width; ++c)
    for (int64_t i = 0; negative_slack[c] >= kPadding && i < n; ++i) alpha[i * width + c] = 1 / negative_slack[c];
  return alpha;
}

DualPasses::DualPasses(int64_t n, DualRules rules) : rules_(rules), order_(n), n_(n), active_(n), ended_(n == 0) {
  std::iota(order_.begin(), order_.end(), 0);
}

float DualPasses::stride() const { return stride_of(count_, rules_.max_epochs); }

bool DualPasses::start() {
  if (ended_ || count_ >= rules_.max_epochs) return false;
  stop_point();
  all_ = active_ == n_;
  in_a_row_ = all_ ? 0 : in_a_row_ + 1;
  shuffle(order_.data(), active_, rules_.seed);
  return true;
}

void DualPasses::end(int64_t n_active, float violation) {
  ++count_;
  // With many labels most points are within the tolerance after one pass, and drop out.
  active_ = n_active;
  if (violation > rules_.tolerance && active_ > 0 && in_a_row_ < kMaxShortPasses) return;
  ended_ = all_ && violation <= rules_.tolerance;
  active_ = n_;  // check the inactive points against the current weights
}

DualBlock::DualBlock(const DualProblem& problem, int64_t n, int64_t width, int64_t n_groups, DualRules rules,
                     float* weight)
    : n_(n),
      width_(width),
      lanes_(width / n_groups),
      weight_(weight),
      groups_(n_groups),
      passes_(n, {rules.max_epochs, rules.tolerance, rules.seed + static_cast<uint64_t>(problem.first_label)}) {
  for (int64_t g = 0; g < n_groups; ++g) {
    Group& own = groups_[g];
    own.problem = problem;
    own.problem.first_label += g * lanes_;
    own.problem.positive_slack += g * lanes_;
    own.problem.negative_slack += g * lanes_;
    own.alpha = initial_alpha(n, lanes_, own.problem.negative_slack);
    own.weight = weight;
    own.order = passes_.order();
    if (n_groups == 1) continue;
    own.own_weight.resize((problem.n_features + 1) * lanes_);
    for (int64_t f = 0; f <= problem.n_features; ++f)
      std::copy_n(weight + f * width + g * lanes_, lanes_, own.own_weight.data() + f * lanes_);
    own.weight = own.own_weight.data();
    own.own_order.resize(n);
    own.order = own.own_order.data();
  }
}

void DualBlock::visit(int64_t group) {
  Group& own = groups_[group];
  if (own.order != passes_.order()) std::copy_n(passes_.order(), passes_.active(), own.order);
  own.kept = kernels().dual_epoch(own.problem, lanes_, passes_.active(), own.order, passes_.rest(), passes_.stride(),
                                  own.weight, own.alpha.data(), &own.violation);
}

void DualBlock::end_pass() {
  float violation = 0;
  for (const Group& own : groups_) violation = std::max(violation, own.violation);
  passes_.end(groups_.size() == 1 ? groups_[0].kept : merge_orders(), violation);
}

int64_t DualBlock::merge_orders() {
  is_active_.assign(n_, false);
  for (const Group& own : groups_)
    for (int64_t at = 0; at < own.kept; ++at) is_active_[own.order[at]] = true;
  int32_t* order = passes_.order();
  int64_t kept = 0;
  for (int64_t at = 0; at < passes_.active(); ++at) {
    const bool is_active = is_active_[order[at]];
    std::swap(order[at], order[kept]);
    kept += is_active;
  }
  return kept;
}

void DualBlock::finish() {
  for (size_t g = 0; groups_.size() > 1 && g < groups_.size(); ++g)
    for (int64_t f = 0; f <= groups_[g].problem.n_features; ++f)
      std::copy_n(groups_[g].weight + f * lanes_, lanes_, weight_ + f * width_ + g * lanes_);
}

int32_t DualBlock::train() {
  while (start_pass()) {
    for (int64_t group = 0; group < static_cast<int64_t>(groups_.size()); ++group) visit(group);
    end_pass();
  }
  finish();
  return passes_.count();
}

void dual_train(DualProblem problem, int64_t n, int64_t width, int64_t n_blocks, DualRules rules, float* weight,
                int32_t* epochs, int threads) {
  parallel_for(n_blocks, threads, [&](int64_t block) {
    DualProblem own = problem;
    own.first_label += block * width;
    own.positive_slack += block * width;
    own.negative_slack += block * width;
    epochs[block] = DualBlock(own, n, width, 1, rules, weight + block * (problem.n_features + 1) * width).train();
  });
}

}  // namespace sparsenet
