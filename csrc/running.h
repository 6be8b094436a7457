// The best few of very many scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace sparsenet {

struct Best {
  float score;
  int32_t label;
};

// The order of results: the higher score first, then the smaller label. It is total, so how labels are split into
// tiles and ranges cannot show in the result. An object, not a function: the library's algorithms inline it.
struct Better {
  bool operator()(const Best& a, const Best& b) const {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
  }
};
inline constexpr Better better{};

// What is not a number comes last: an order needs numbers.
inline float ordered(float score) { return score == score ? score : -std::numeric_limits<float>::infinity(); }

// The k best seen so far. Candidates gather behind them and are cut back to k when there are as many again.
class Running {
 public:
  void reset(int64_t k) {
    k_ = static_cast<size_t>(k);
    threshold_ = -std::numeric_limits<float>::infinity();
    entries_.clear();
    entries_.reserve(2 * k_);
  }
  float threshold() const { return threshold_; }
  // What does not exceed this is not asked for.
  void start_above(float score) { threshold_ = score; }
  bool full() const { return entries_.size() >= k_; }
  void add(Best candidate) {
    entries_.push_back(candidate);
    if (entries_.size() >= 2 * k_) cut();
  }
  void cut() {
    if (entries_.size() < k_) return;
    if (entries_.size() > k_) {
      std::nth_element(entries_.begin(), entries_.begin() + static_cast<int64_t>(k_) - 1, entries_.end(), better);
      entries_.resize(k_);
    }
    threshold_ = std::min_element(entries_.begin(), entries_.end(), [](const Best& a, const Best& b) {
                   return a.score < b.score;
                 })->score;
  }
  std::vector<Best>& entries() { return entries_; }

 private:
  size_t k_ = 0;
  float threshold_ = 0;
  std::vector<Best> entries_;
};

// Tells of very many scores, before any is looked at, where the best of them are. The highest of each block is found
// first. As many of those as there are best scores to find bound them from below; so few other scores exceed that bound
// that they need no cutting back, and most blocks hold none.
class Maxima {
 public:
  // `room` is for one of these at a time; where it has not been prepared it grows.
  Maxima(const float* scores, int64_t n, int64_t k, std::vector<float>& room);
  // Room that is enough for so many scores.
  static void prepare(int64_t n, std::vector<float>& room);
  // Whether there are blocks enough for a bound.
  static bool tell(int64_t n, int64_t k);
  // The k best scores are all above this.
  float bound() const { return bound_; }
  // Calls visit(first, count) for each block that has a score above the threshold, of at most kLargest scores.
  template <typename Visit>
  void each_above(float threshold, Visit visit) const {
    for (int64_t b = 0; b < count_; ++b)
      if (highest_[b] > threshold) visit(b * block_, std::min(block_, n_ - b * block_));
  }
  static constexpr int64_t kLargest = 1024;

 private:
  const float* highest_;
  int64_t n_, block_, count_;
  float bound_;
};

}  // namespace sparsenet
