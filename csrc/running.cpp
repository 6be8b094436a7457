#include "running.h"

#include <cmath>

#include "kernel_table.h"

namespace sparsenet {
namespace {

constexpr int64_t kSmallest = 16;    // scores of a block
constexpr int64_t kBlocksOfOne = 8;  // so many blocks for each score that is to be found

int64_t blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

}  // namespace

void Maxima::prepare(int64_t n, std::vector<float>& room) {
  const auto needed = static_cast<size_t>(2 * blocks(n, kSmallest));
  if (room.size() < needed) room.resize(needed);
}

bool Maxima::tell(int64_t n, int64_t k) { return k > 0 && blocks(n, kSmallest) >= k; }

Maxima::Maxima(const float* scores, int64_t n, int64_t k, std::vector<float>& room) : n_(n), block_(kSmallest) {
  while (block_ < kLargest && n > kBlocksOfOne * k * block_) block_ *= 2;
  count_ = blocks(n, block_);
  prepare(n, room);
  float* highest = room.data();
  float* sorted = highest + count_;
  kernels().maxima(scores, n, block_, highest);
  highest_ = highest;
  bound_ = -std::numeric_limits<float>::infinity();
  if (!tell(n, k)) return;
  std::copy(highest, highest + count_, sorted);
  std::nth_element(sorted, sorted + (k - 1), sorted + count_, [](float a, float b) { return a > b; });
  bound_ = std::nextafter(sorted[k - 1], bound_);  // what equals it may be one of the best
}

}  // namespace sparsenet
