// Growing a tree: 2-means puts labels with similar points next to each other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/sparse_sum.h"
#include "../core/split_mix.h"
#include "../core/threads.h"
#include "../core/top_k.h"
#include "tree.h"

namespace sparsenet {
namespace {

constexpr int64_t kRowsAtATime = 256;

float inverse_length(const SparseSum& sum) {
  double squares = 0;
  for (const int32_t feature : sum) squares += static_cast<double>(sum[feature]) * sum[feature];
  return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0;
}

float dot(const SparseSum& sum, const Csr& rows, int64_t row) {
  float total = 0;
  for (int64_t j = rows.indptr[row]; j < rows.indptr[row + 1]; ++j) total += rows.data[j] * sum[rows.indices[j]];
  return total;
}

// The two centroids of a set, and for each row how much closer it is to the left one.
struct Sides {
  SparseSum left, right;
  std::vector<ScoredLabel> closeness;

  explicit Sides(int64_t n_features) : left(n_features), right(n_features) {}

  // Moves the `n_left` rows closest to the left centroid to the front of `order`. Returns false if they are there
  // already.
  bool divide(const Csr& rows, int32_t* order, int64_t n, int64_t n_left, int threads) {
    const float to_left = inverse_length(left), to_right = inverse_length(right);
    closeness.resize(n);
    parallel_blocks(n, kRowsAtATime, threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        closeness[i] = {dot(left, rows, order[i]) * to_left - dot(right, rows, order[i]) * to_right, order[i]};
    });
    const ScoredLabel& last = *std::min_element(closeness.begin(), closeness.begin() + n_left, worse);
    const ScoredLabel& first = *std::max_element(closeness.begin() + n_left, closeness.end(), worse);
    if (better(last, first)) return false;
    std::nth_element(closeness.begin(), closeness.begin() + n_left, closeness.end(), better);
    for (int64_t i = 0; i < n; ++i) order[i] = closeness[i].label;
    // The order must not depend on the library's nth_element.
    std::sort(order, order + n_left);
    std::sort(order + n_left, order + n);
    return true;
  }

  void update_centroids(const Csr& rows, const int32_t* order, int64_t n, int64_t n_left, int threads) {
    parallel_for(2, threads, [&](int64_t side) {
      SparseSum& sum = side == 0 ? left : right;
      sum.clear();
      for (int64_t i = side == 0 ? 0 : n_left; i < (side == 0 ? n_left : n); ++i) sum.add(rows, order[i]);
    });
  }

  static bool worse(const ScoredLabel& a, const ScoredLabel& b) { return better(b, a); }
};

void split_set(const Csr& rows, Sides& sides, int32_t* order, int64_t n, int64_t n_left, uint64_t random,
               int64_t max_rounds, int threads) {
  if (n_left <= 0 || n_left >= n) return;
  const int64_t one = static_cast<int64_t>(random % static_cast<uint64_t>(n));
  const int64_t other = (one + 1 + static_cast<int64_t>((random >> 32) % static_cast<uint64_t>(n - 1))) % n;
  sides.left.clear();
  sides.right.clear();
  sides.left.add(rows, order[one]);
  sides.right.add(rows, order[other]);
  for (int64_t round = 0; round < max_rounds && sides.divide(rows, order, n, n_left, threads); ++round)
    sides.update_centroids(rows, order, n, n_left, threads);
}
}  // namespace

void split_sets(Csr rows, int64_t n_features, const int64_t* starts, const int64_t* left, int64_t n_sets, uint64_t seed,
                int64_t max_rounds, int32_t* order, int threads) {
  // One task per thread, each with every `workers`-th set, because centroids are as long as the number of features.
  // With more threads than sets, all threads share one set after the other.
  const int64_t workers = threads > n_sets ? 1 : threads;
  parallel_for(workers, threads, [&](int64_t worker) {
    Sides sides(n_features);
    for (int64_t b = worker; b < n_sets; b += workers)
      split_set(rows, sides, order + starts[b], starts[b + 1] - starts[b], left[b], split_mix(seed + b), max_rounds,
                threads);
  });
}

}  // namespace sparsenet
