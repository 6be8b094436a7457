// Selection of the k best labels from a stream of scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace sparsenet {

struct ScoredLabel {
  float score;
  int32_t label;
};

// The order of results: the higher score first, ties to the smaller label. The order is total, so splitting labels into
// tiles and ranges cannot change a result. It is an object, not a function, so that library algorithms inline it.
struct Better {
  bool operator()(const ScoredLabel& a, const ScoredLabel& b) const {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
  }
};
inline constexpr Better better{};

// Replaces NaN by the lowest score, because an order needs comparable numbers.
inline float nan_to_lowest(float score) { return score == score ? score : -std::numeric_limits<float>::infinity(); }

// The k best labels so far. New candidates are appended, and the list is cut back to k whenever it reaches 2 k.
class TopK {
 public:
  void reset(int64_t k) {
    k_ = static_cast<size_t>(k);
    threshold_ = -std::numeric_limits<float>::infinity();
    entries_.clear();
    entries_.reserve(2 * k_);
  }
  // The caller may skip candidates that do not exceed this score.
  float threshold() const { return threshold_; }
  void set_threshold(float score) { threshold_ = score; }
  bool full() const { return entries_.size() >= k_; }
  void add(ScoredLabel candidate) {
    entries_.push_back(candidate);
    if (entries_.size() >= 2 * k_) cut();
  }
  void cut() {
    if (entries_.size() < k_) return;
    if (entries_.size() > k_) {
      std::nth_element(entries_.begin(), entries_.begin() + static_cast<int64_t>(k_) - 1, entries_.end(), better);
      entries_.resize(k_);
    }
    threshold_ = std::min_element(entries_.begin(), entries_.end(), [](const ScoredLabel& a, const ScoredLabel& b) {
                   return a.score < b.score;
                 })->score;
  }
  std::vector<ScoredLabel>& entries() { return entries_; }

 private:
  size_t k_ = 0;
  float threshold_ = 0;
  std::vector<ScoredLabel> entries_;
};

}  // namespace sparsenet
