#include "dual.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "../core/split_mix.h"
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

DualBlock::DualBlock(const DualProblem& problem, int64_t n, int64_t width, int64_t n_groups, DualRules rules,
                     float* weight)
    : n_(n),
      width_(width),
      lanes_(width / n_groups),
      rules_(rules),
      weight_(weight),
      groups_(n_groups),
      order_(n),
      random_(rules.seed + static_cast<uint64_t>(problem.first_label)),
      active_(n),
      ended_(n == 0) {
  std::iota(order_.begin(), order_.end(), 0);
  for (int64_t g = 0; g < n_groups; ++g) {
    Group& own = groups_[g];
    own.problem = problem;
    own.problem.first_label += g * lanes_;
    own.problem.positive_slack += g * lanes_;
    own.problem.negative_slack += g * lanes_;
    own.alpha = initial_alpha(n, lanes_, own.problem.negative_slack);
    own.weight = weight;
    own.order = order_.data();
    if (n_groups == 1) continue;
    own.own_weight.resize((problem.n_features + 1) * lanes_);
    for (int64_t f = 0; f <= problem.n_features; ++f)
      std::copy_n(weight + f * width + g * lanes_, lanes_, own.own_weight.data() + f * lanes_);
    own.weight = own.own_weight.data();
    own.own_order.resize(n);
    own.order = own.own_order.data();
  }
}

bool DualBlock::start_pass() {
  if (ended_ || epoch_ >= rules_.max_epochs) return false;
  all_ = active_ == n_;
  in_a_row_ = all_ ? 0 : in_a_row_ + 1;
  shuffle(order_.data(), active_, random_);
  return true;
}

void DualBlock::visit(int64_t group) {
  Group& own = groups_[group];
  if (own.order != order_.data()) std::copy_n(order_.data(), active_, own.order);
  own.kept = kernels().dual_epoch(own.problem, lanes_, active_, own.order, rules_.tolerance / 2,
                                  stride_of(epoch_, rules_.max_epochs), own.weight, own.alpha.data(), &own.violation);
}

void DualBlock::end_pass() {
  float violation = 0;
  for (const Group& own : groups_) violation = std::max(violation, own.violation);
  // With many labels most points are within the tolerance after one pass, and drop out.
  if (groups_.size() == 1)
    active_ = groups_[0].kept;
  else
    merge_orders();
  ++epoch_;
  if (violation > rules_.tolerance && active_ > 0 && in_a_row_ < kMaxShortPasses) return;
  ended_ = all_ && violation <= rules_.tolerance;
  active_ = n_;  // check the inactive points against the current weights
}

void DualBlock::merge_orders() {
  is_active_.assign(n_, false);
  for (const Group& own : groups_)
    for (int64_t at = 0; at < own.kept; ++at) is_active_[own.order[at]] = true;
  int64_t kept = 0;
  for (int64_t at = 0; at < active_; ++at) {
    const bool is_active = is_active_[order_[at]];
    std::swap(order_[at], order_[kept]);
    kept += is_active;
  }
  active_ = kept;
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
  return epoch_;
}

void shuffle_order(int32_t* order, int64_t count, uint64_t seed, int64_t n_drawn) {
  uint64_t random = seed + static_cast<uint64_t>(n_drawn) * kGolden;
  shuffle(order, count, random);
}

int64_t dual_pass(const DualProblem& problem, int64_t n, int64_t width, int32_t* order, int64_t first, int64_t kept,
                  float rest, float stride, float* weight, float* alpha, float* violation) {
  std::vector<int32_t> local(n);
  for (int64_t i = 0; i < n; ++i) local[i] = static_cast<int32_t>(i);
  const int64_t active = kernels().dual_epoch(problem, width, n, local.data(), rest, stride, weight, alpha, violation);
  std::vector<bool> is_active(n);
  for (int64_t i = 0; i < active; ++i) is_active[local[i]] = true;
  for (int64_t i = 0; i < n; ++i) {
    std::swap(order[first + i], order[kept]);
    kept += is_active[i];
  }
  return kept;
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
