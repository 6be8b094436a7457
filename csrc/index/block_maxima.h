#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sparsenet {

// The maximum of each block of a long array of scores. The k-th largest of these maxima is a lower bound of the k best
// scores. Few scores exceed the bound, and most blocks contain none of them, so selection skips nearly everything.
class BlockMaxima {
 public:
  // `buffer` may serve one object at a time; it grows if `prepare` has not been called.
  BlockMaxima(const float* scores, int64_t n, int64_t k, std::vector<float>& buffer);
  // Makes the buffer large enough for n scores.
  static void prepare(int64_t n, std::vector<float>& buffer);
  // Returns whether there are enough blocks for a bound.
  static bool has_bound(int64_t n, int64_t k);
  // The k best scores all exceed the bound; minus infinity if there are too few blocks.
  float bound() const { return bound_; }
  // Calls visit(first, count) for each block with a score above the threshold; count is at most kMaxBlock.
  template <typename Visit>
  void each_above(float threshold, Visit visit) const {
    for (int64_t b = 0; b < count_; ++b)
      if (maxima_[b] > threshold) visit(b * block_, std::min(block_, n_ - b * block_));
  }
  static constexpr int64_t kMaxBlock = 1024;

 private:
  const float* maxima_;
  int64_t n_, block_, count_;
  float bound_;
};

}  // namespace sparsenet
