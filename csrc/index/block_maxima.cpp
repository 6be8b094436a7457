#include "block_maxima.h"

#include <cmath>
#include <limits>

#include "../kernels/kernel_table.h"

namespace sparsenet {
namespace {

constexpr int64_t kMinBlock = 16;        // scores
constexpr int64_t kBlocksPerResult = 8;  // blocks wanted for each of the k best scores

int64_t count_blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

}  // namespace

void BlockMaxima::prepare(int64_t n, std::vector<float>& buffer) {
  const auto needed = static_cast<size_t>(2 * count_blocks(n, kMinBlock));
  if (buffer.size() < needed) buffer.resize(needed);
}

bool BlockMaxima::has_bound(int64_t n, int64_t k) { return k > 0 && count_blocks(n, kMinBlock) >= k; }

BlockMaxima::BlockMaxima(const float* scores, int64_t n, int64_t k, std::vector<float>& buffer)
    : n_(n), block_(kMinBlock), bound_(-std::numeric_limits<float>::infinity()) {
  while (block_ < kMaxBlock && n > kBlocksPerResult * k * block_) block_ *= 2;
  count_ = count_blocks(n, block_);
  prepare(n, buffer);
  float* maxima = buffer.data();
  float* sorted = maxima + count_;
  kernels().block_maxima(scores, n, block_, maxima);
  maxima_ = maxima;
  if (!has_bound(n, k)) return;
  std::copy(maxima, maxima + count_, sorted);
  std::nth_element(sorted, sorted + (k - 1), sorted + count_, [](float a, float b) { return a > b; });
  bound_ = std::nextafter(sorted[k - 1], bound_);  // a score equal to the maximum may be one of the k best
}

}  // namespace sparsenet
